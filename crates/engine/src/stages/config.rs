//! The stage *config*: requests about the options of components (`_proxy/config`, see [`acp_wire::config`]).
//!
//! A request travels hop by hop toward the agent. The first conductor that sees it finds out which component is meant,
//! and marks the request with the number of a *route*. On the link to that component the request gets the member
//! `here`.
//!
//! | the request | what happens |
//! |---|---|
//! | names the conductor, or nobody | the conductor answers (`own`) |
//! | names an unknown component | the conductor answers with an error; a nested chain passes it on |
//! | is delivered to a component that is not meant | it passes |
//! | is delivered to the component that is meant | it gets the member `here` |
//! | is delivered to a built-in component that is meant | the shell answers, because it keeps the options (`managed`) |
//! | has come past the component that is meant | the conductor answers with an error |
//!
//! Only the editor's side may set options. So a request of a component that sets options is refused, and a request with
//! a mark must have come the whole way of its route, with the same operation.

mod managed;
mod own;
mod routes;

use std::collections::BTreeMap;

use acp_wire::config::{self, CONDUCTOR, CONFIG, ConfigRequest, Operation};
use acp_wire::{Call, ErrorKind, Id, Json, Message, Outcome, Side, code, suggestion};
use router::{Mode, Seat, SeatState};

use super::{Hop, Stage, StageResult, Stages};
use crate::input::About;
use routes::{Progress, Route, Routes};

/// The requests that are on their way, and what is known about the options of components.
#[derive(Debug)]
pub(super) struct Config {
    routes: Routes,
    /// Whether a component takes options, if that is known.
    takes_options: BTreeMap<Seat, bool>,
    /// The component that is being restarted with other options.
    restarting: Option<Seat>,
    about: About,
}

/// Whom a request means.
enum Target {
    /// The conductor.
    Conductor,
    /// The component in this seat, or if it is a nested conductor, a component inside of it.
    Component(Seat, Option<String>),
    /// Nobody in this chain.
    Unknown(String),
}

impl Config {
    /// `seed` is the number that identifies the chain.
    pub(super) fn new(seed: u64) -> Config {
        Config {
            routes: Routes::new(seed),
            takes_options: BTreeMap::new(),
            restarting: None,
            about: About::default(),
        }
    }

    /// How many requests are on their way, for tests.
    pub(super) fn open(&self) -> usize {
        self.routes.len()
    }

    /// A component has ended.
    pub(super) fn on_component_down(&mut self, seat: Seat) {
        self.routes.on_component_down(seat);
    }
}

impl Stages {
    pub(crate) fn set_about(&mut self, about: About) {
        self.config.about = about;
    }

    /// Handles a message from a peer.
    pub(super) fn config_arrived(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        match message {
            Message::Response { id, outcome, .. } => {
                self.config_answered(hop.seat, id, outcome);
                StageResult::Pass
            }
            Message::Request { id, call } if hop.toward == Side::Agent && call.is(CONFIG) => {
                match self.config_request(hop, id, call) {
                    None => StageResult::Pass,
                    Some(outcome) => {
                        let answer = Message::response(id.clone(), outcome);
                        let hop = Hop { toward: Side::Editor, ..hop };
                        self.send_from(Stage::Config, hop, answer);
                        StageResult::Taken
                    }
                }
            }
            _ => StageResult::Pass,
        }
    }

    /// Handles a request from a peer. Returns the answer of the conductor, if the request does not continue.
    fn config_request(&mut self, hop: Hop, id: &Id, call: &mut Call) -> Option<Outcome> {
        let from_outside = hop.seat == Seat::OUTER;
        let is_nested = self.router.chain().mode == Mode::Proxy;
        // The router refuses it.
        let is_refused = !self.router.has_started() || (from_outside && self.router.is_ending());
        let Some(request) = ConfigRequest::of(call).filter(|_| !is_refused) else {
            config::remove_here(call);
            return None;
        };
        let is_here = request.here && from_outside && is_nested;
        if let Some(route) = request.route.as_deref().filter(|_| !is_here) {
            match (self.config.routes.number(route), from_outside, is_nested) {
                (Some(number), false, _) => {
                    config::remove_here(call);
                    return self.config_in_transit(hop.seat, number, &request);
                }
                // It is on its way in another chain.
                (_, _, true) => {
                    config::remove_here(call);
                    return None;
                }
                (_, false, false) => {
                    return Some(refusal("the member `route` does not belong to this chain"));
                }
                (_, true, false) => {}
            }
        }
        config::remove_address(call);
        if request.operation == Operation::Set {
            if !from_outside {
                let name = self.router.chain().describe(hop.seat);
                return Some(refusal(&format!("only the editor can set options, not {name}")));
            }
            if request.values.is_none() {
                return Some(refusal("the member `values` with the new options is missing"));
            }
        }
        match self.find_target(request.component.as_deref()) {
            Target::Conductor => Some(self.configure_conductor(&request)),
            Target::Unknown(_) if is_nested && !is_here => None,
            Target::Unknown(name) => Some(self.unknown_component(&name)),
            Target::Component(target, inner) => {
                if let Some(why) = self.unreachable_target(hop.seat, target) {
                    return Some(no_receiver(&why));
                }
                let requester = (hop.seat, id.detached());
                let operation = request.operation;
                let route = Route {
                    requester,
                    target,
                    inner,
                    operation,
                    reached: hop.seat,
                    progress: Progress::Travelling,
                };
                config::set_route(call, &self.config.routes.add(route));
                None
            }
        }
    }

    /// Handles a request that a component passes on.
    fn config_in_transit(
        &mut self,
        from: Seat,
        number: u64,
        request: &ConfigRequest,
    ) -> Option<Outcome> {
        if self.config.routes.on_flushed(from, |it, _| it == number) {
            return Some(Outcome::Result(Json::EMPTY_OBJECT));
        }
        let Some(route) = self.config.routes.get(number) else {
            return Some(refusal("the request with this `route` was answered already"));
        };
        if route.reached != from || route.operation != request.operation {
            let name = self.router.chain().describe(from);
            return Some(refusal(&format!("{name} has not received this request")));
        }
        if route.target == from {
            let outcome = self.takes_none(from, route.inner.as_deref());
            if route.inner.is_none() {
                self.config.takes_options.insert(from, false);
            }
            return Some(outcome);
        }
        None
    }

    /// Handles a message to a peer.
    pub(super) fn config_delivered(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        self.config.routes.on_delivered(hop.seat);
        match message {
            Message::Response { id, .. } => {
                self.config.routes.answered(hop.seat, id);
                StageResult::Pass
            }
            Message::Request { id, call } if hop.toward == Side::Agent && call.is(CONFIG) => {
                let route = ConfigRequest::of(call).and_then(|it| it.route);
                let number = route.and_then(|it| self.config.routes.number(&it));
                let Some(number) = number else { return StageResult::Pass };
                let taken = match self.deliver_config(hop.seat, number, id, call) {
                    Ok(taken) => taken,
                    Err(outcome) => {
                        // The router waits for an answer of the receiver.
                        let answer = Message::response(id.clone(), outcome);
                        let hop = Hop { toward: Side::Editor, ..hop };
                        self.inject(Stage::Config, hop, answer);
                        true
                    }
                };
                if taken { StageResult::Taken } else { StageResult::Pass }
            }
            _ => StageResult::Pass,
        }
    }

    /// Handles a request with our mark on its way to a peer. Returns whether the conductor keeps it, or the answer.
    fn deliver_config(
        &mut self,
        to: Seat,
        number: u64,
        id: &Id,
        call: &mut Call,
    ) -> Result<bool, Outcome> {
        let values = ConfigRequest::of(call).and_then(|it| it.values);
        let (place, chain) = (self.place(to), self.router.chain());
        let answered = || refusal("the request with this `route` was answered already");
        let route = self.config.routes.get(number).ok_or_else(answered)?;
        let (target, inner) = (route.target, route.inner.clone());
        if to != target {
            if place.is_none_or(|place| Some(place) > self.place(target)) {
                let name = chain.describe(target);
                return Err(no_receiver(&format!("the request was routed around {name}")));
            }
            if let Some(route) = self.config.routes.get_mut(number) {
                route.reached = to;
            }
            return Ok(false);
        }
        if !matches!(route.progress, Progress::Travelling) {
            return Err(refusal("a component has passed this request on twice"));
        }
        let is_managed = chain.component(to).is_some_and(|it| it.managed);
        if is_managed && inner.is_some() {
            return Err(self.takes_none(to, inner.as_deref()));
        }
        if let Some(route) = self.config.routes.get_mut(number) {
            route.reached = to;
            route.progress = match is_managed {
                true => Progress::managed(id.detached(), values),
                false => Progress::Delivered(id.detached()),
            };
        }
        match is_managed {
            true => self.router.take_over(id),
            false => config::set_here(call, inner.as_deref()),
        }
        Ok(is_managed)
    }

    /// Handles the answer of a component that was asked about its own options.
    fn config_answered(&mut self, from: Seat, id: &Id, outcome: &mut Outcome) {
        self.config.routes.on_flushed(from, |_, flush| flush == id);
        let Some(route) = self.config.routes.delivered_to(from, id) else { return };
        let inner = route.inner.clone();
        let code = outcome.error_code();
        let takes_options = match (&mut *outcome, code) {
            (Outcome::Result(result), _) => {
                *outcome = Outcome::Result(config::without_secrets(result));
                true
            }
            (_, Some(code::METHOD_NOT_FOUND)) => false,
            _ => return,
        };
        if !takes_options {
            *outcome = self.takes_none(from, inner.as_deref());
        }
        if inner.is_none() {
            self.config.takes_options.insert(from, takes_options);
        }
    }

    fn find_target(&self, name: Option<&str>) -> Target {
        let Some(name) = name.filter(|name| *name != CONDUCTOR) else { return Target::Conductor };
        let chain = self.router.chain();
        if let Some(seat) = chain.seats().find(|seat| chain.name(*seat) == name) {
            return Target::Component(seat, None);
        }
        let inside = |seat: &Seat| name.strip_prefix(chain.name(*seat))?.strip_prefix('/');
        let longest = chain.seats().max_by_key(|seat| match inside(seat) {
            Some(_) => chain.name(*seat).len() + 1,
            None => 0,
        });
        match longest.and_then(|seat| Some((seat, inside(&seat)?))) {
            Some((seat, inner)) => Target::Component(seat, Some(inner.to_owned())),
            None => Target::Unknown(name.to_owned()),
        }
    }

    /// The position of a component, counted from the editor. `None` for the outer pipe.
    fn place(&self, seat: Seat) -> Option<usize> {
        self.router.chain().seats().position(|it| it == seat)
    }

    /// Why a request of this peer cannot reach a component.
    fn unreachable_target(&self, from: Seat, target: Seat) -> Option<String> {
        let name = self.router.chain().describe(target);
        if let Some(SeatState::Bypassed | SeatState::Closed) = self.router.state(target) {
            return Some(format!("{name} is no longer part of the chain"));
        }
        // The place of the outer pipe is `None`, which is before all others.
        (self.place(from) >= self.place(target)).then(|| {
            let from = self.router.chain().describe(from);
            format!(
                "{name} is not behind {from}, and requests about options travel toward the agent"
            )
        })
    }

    fn unknown_component(&self, name: &str) -> Outcome {
        let chain = self.router.chain();
        let names = || chain.seats().map(|seat| chain.name(seat)).chain([CONDUCTOR]);
        let all = names().collect::<Vec<_>>().join(", ");
        let hint = suggestion::closest(name, names());
        let hint = hint.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
        no_receiver(&format!("there is no component {name:?}; {hint}The components are {all}"))
    }

    /// The answer for a component that takes no options.
    fn takes_none(&self, seat: Seat, inner: Option<&str>) -> Outcome {
        let name = self.router.chain().describe(seat);
        no_receiver(&match inner {
            Some(inner) => {
                format!("{name} does not know a component {inner:?} inside of it")
            }
            None => format!("{name} takes no options while it runs"),
        })
    }
}

/// The request is wrong.
fn refusal(why: &str) -> Outcome {
    ErrorKind::InvalidOption.outcome(code::INVALID_PARAMS, format!("{CONFIG}: {why}"))
}

/// No component can answer the request.
fn no_receiver(why: &str) -> Outcome {
    ErrorKind::NoReceiver.outcome(code::INVALID_PARAMS, format!("{CONFIG}: {why}"))
}
