//! The table of requests that are on their way to a component of this chain.

use std::collections::BTreeMap;

use acp_wire::config::Operation;
use acp_wire::{Id, Json};
use router::Seat;

/// The requests, by the number in their mark.
#[derive(Debug)]
pub(super) struct Routes {
    /// Identifies the chain in marks.
    chain: String,
    last: u64,
    open: BTreeMap<u64, Route>,
}

/// One request.
#[derive(Debug)]
pub(super) struct Route {
    /// The peer that has sent it first, and its id there.
    pub requester: (Seat, Id),
    /// The component that is meant.
    pub target: Seat,
    /// The name inside of a nested conductor.
    pub inner: Option<String>,
    pub operation: Operation,
    /// The peer that got it last.
    pub reached: Seat,
    pub progress: Progress,
}

/// How far a request has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// It has not reached the component that is meant.
    Travelling,
    /// The component has it, under this id.
    Delivered(Id),
    /// The conductor answers it (see [`super::managed`]).
    Managed(Managed),
}

/// A request that the conductor answers for a built-in component.
#[derive(Debug)]
pub(super) struct Managed {
    /// The id under which the router knows it.
    pub id: Id,
    /// The new options.
    pub values: Option<Json>,
    pub step: Step,
}

/// What happens next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The shell is asked, after the earlier requests for the component.
    Ask,
    /// The shell answers.
    Asked,
    /// The component is restarted when it is idle. Then this is the result.
    Restart(Json),
    /// The component was idle, and has been sent a request with this id that comes out behind everything that it
    /// received before. `is_late`: it has received more since then.
    Flushing { id: Id, result: Json, is_late: bool },
    /// That request has come out, and the component has received nothing since.
    Flushed(Json),
    /// The component is being restarted. Then this is the result.
    Restarting(Json),
    /// The request was answered.
    Done,
}

impl Progress {
    pub(super) fn managed(id: Id, values: Option<Json>) -> Progress {
        let values = values.as_ref().map(Json::detached);
        Progress::Managed(Managed { id, values, step: Step::Ask })
    }
}

impl Routes {
    pub(super) fn new(seed: u64) -> Routes {
        Routes { chain: format!("{seed:x}"), last: 0, open: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds a request. Returns its mark.
    pub(super) fn add(&mut self, route: Route) -> String {
        self.last += 1;
        self.open.insert(self.last, route);
        self.mark(self.last)
    }

    /// The mark of a request.
    pub(super) fn mark(&self, number: u64) -> String {
        format!("{}.{number}", self.chain)
    }

    /// The number in a mark of this chain.
    pub(super) fn number(&self, mark: &str) -> Option<u64> {
        mark.strip_prefix(&self.chain)?.strip_prefix('.')?.parse().ok()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Route> {
        self.open.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Route> {
        self.open.get_mut(&number)
    }

    pub(super) fn remove(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// The request that a component has under this id, because it is meant.
    pub(super) fn delivered_to(&self, seat: Seat, id: &Id) -> Option<&Route> {
        let is_delivered = |route: &&Route| match &route.progress {
            Progress::Delivered(delivered) => route.target == seat && delivered == id,
            _ => false,
        };
        self.open.values().find(is_delivered)
    }

    /// The request that a peer has sent with this id gets its answer now.
    pub(super) fn answered(&mut self, seat: Seat, id: &Id) {
        // Nearly always, the table is empty.
        if !self.open.is_empty() {
            self.open.retain(|_, it| it.is_restarting() || it.requester != (seat, id.clone()));
        }
    }

    /// Removes the requests of a peer that is gone. A component that was to be restarted must be idle once more.
    pub(super) fn on_component_down(&mut self, seat: Seat) {
        self.open.retain(|_, it| it.is_restarting() || it.requester.0 != seat);
        for managed in self.managed_by(seat) {
            if let Step::Flushing { result, .. } | Step::Flushed(result) = &managed.step {
                managed.step = Step::Restart(result.clone());
            }
        }
    }

    /// A component gets a message.
    pub(super) fn on_delivered(&mut self, seat: Seat) {
        for managed in self.managed_by(seat) {
            match &mut managed.step {
                Step::Flushing { is_late, .. } => *is_late = true,
                Step::Flushed(result) => managed.step = Step::Restart(result.clone()),
                _ => {}
            }
        }
    }

    /// A component has sent this request on, or answered it.
    pub(super) fn on_flushed(&mut self, seat: Seat, test: impl Fn(u64, &Id) -> bool) -> bool {
        for (number, route) in &mut self.open {
            if let Progress::Managed(managed) = &mut route.progress
                && route.target == seat
                && let Step::Flushing { id, result, is_late } = &managed.step
                && test(*number, id)
            {
                managed.step = match is_late {
                    true => Step::Restart(result.clone()),
                    false => Step::Flushed(result.clone()),
                };
                return true;
            }
        }
        false
    }

    fn managed_by(&mut self, seat: Seat) -> impl Iterator<Item = &mut Managed> {
        self.open.values_mut().filter(move |it| it.target == seat).filter_map(|route| {
            match &mut route.progress {
                Progress::Managed(managed) => Some(managed),
                _ => None,
            }
        })
    }

    /// The requests that the conductor answers, oldest first.
    pub(super) fn managed(&self) -> impl Iterator<Item = (u64, &Route, &Managed)> {
        self.open.iter().filter_map(|(number, route)| match &route.progress {
            Progress::Managed(managed) => Some((*number, route, managed)),
            _ => None,
        })
    }

    pub(super) fn managed_mut(&mut self, number: u64) -> Option<&mut Managed> {
        match &mut self.open.get_mut(&number)?.progress {
            Progress::Managed(managed) => Some(managed),
            _ => None,
        }
    }
}

impl Route {
    /// Whether its new options are in use already, so that the outcome of the restart matters in any case.
    fn is_restarting(&self) -> bool {
        matches!(&self.progress, Progress::Managed(Managed { step: Step::Restarting(_), .. }))
    }
}
