//! A shell in memory: it runs the core as the real shell does, but without processes, pipes and a clock.
//!
//! A test passes inputs and gets lines and outputs. Each line that the core writes counts as read by its peer at once.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::dialect::Generation;
use bytes::Bytes;
use engine::journal::Recorder;
use engine::{
    ComponentPolicy, Core, Facts, Input, KeptTelemetry, Line, LinkId, Observation, Output, Outputs,
    Rules, Setup, Watermarks,
};
use router::{Chain, Exit, ExitCause, Mode, Role, Seat, Time};

/// An effect of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A peer has read this line.
    Line { to: LinkId, line: Bytes },
    /// The core has put out this. [`Output::Tap`] is left out.
    Output(Output),
}

/// Changes the inputs of the core and their effects. A test injects faults with it.
pub trait Interceptor {
    /// Called before the core handles an input. The core handles the returned inputs instead.
    fn before(&mut self, input: Input) -> Vec<Input>;

    /// Called with all effects of the input.
    fn after(&mut self, effects: &mut Vec<Effect>);
}

/// Runs a core.
#[allow(missing_debug_implementations)] // an interceptor has none
pub struct Shell {
    core: Core,
    setup: Setup,
    out: Outputs,
    /// Outputs of the core that are not performed yet.
    todo: Vec<Output>,
    journal: Option<Recorder>,
    /// By seat: how often its component was started, as the core counts it.
    incarnations: Vec<u32>,
    interceptor: Option<Box<dyn Interceptor>>,
}

/// A chain whose proxies speak the current generation. It stops when a component fails, and has no MCP bridge.
pub fn setup(chain: Chain) -> Setup {
    let seats = (1..=chain.components.len() as u16).map(Seat);
    let facts = seats.map(|seat| Facts {
        generation: (chain.role(seat) == Role::Proxy).then_some(Generation::CURRENT),
        ..Facts::default()
    });
    Setup {
        facts: facts.collect(),
        rules: Rules {
            policies: vec![ComponentPolicy::STOP; chain.components.len()],
            timeouts: engine::Timeouts::default(),
            notify_editor: false,
            seed: 0,
        },
        bridge: None,
        nonce: "nonce".into(),
        nested: chain.mode == Mode::Proxy,
        forwards_telemetry: chain.mode == Mode::Proxy,
        about: engine::About::default(),
        kept_telemetry: KeptTelemetry::Of(Vec::new()),
        max_line: usize::MAX,
        watermarks: Watermarks::DEFAULT,
        tapped: true,
        start_notices: Vec::new(),
        chain,
    }
}

impl Shell {
    /// Runs a core with this setup.
    pub fn new(setup: Setup) -> Shell {
        let incarnations = vec![0; setup.chain.components.len() + 1];
        // The tap events give the order of lines to different peers.
        let setup = Setup { tapped: true, ..setup };
        Shell {
            core: Core::new(setup.clone()),
            setup,
            out: Outputs::default(),
            todo: Vec::new(),
            journal: None,
            incarnations,
            interceptor: None,
        }
    }

    /// Starts a journal. Must be called before the first input.
    pub fn record(&mut self) {
        self.journal = Some(Recorder::new(&self.setup));
    }

    /// The journal of all inputs and outputs so far. Empty without [`record`](Self::record).
    pub fn journal(&mut self) -> Vec<u8> {
        self.journal.as_mut().map(Recorder::take).unwrap_or_default()
    }

    /// Runs a core whose inputs and effects pass an interceptor.
    pub fn with_interceptor(setup: Setup, interceptor: Box<dyn Interceptor>) -> Shell {
        Shell { interceptor: Some(interceptor), ..Shell::new(setup) }
    }

    /// The setup that the chain began with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The core.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Handles a line from a peer.
    pub fn line(&mut self, now: Time, from: Seat, line: Bytes) -> Vec<Effect> {
        self.handle(now, Input::Line { link: LinkId::main(from), line: Line::Text(line) })
    }

    /// Handles the exit of a peer, or the end of one of its pipes.
    pub fn exit(&mut self, now: Time, seat: Seat, why: Exit) -> Vec<Effect> {
        let (link, incarnation) = (LinkId::main(seat), self.incarnations[seat.index()]);
        let inputs = match why.cause {
            ExitCause::NotStarted(why) => vec![Input::NotStarted { seat, incarnation, why }],
            ExitCause::ClosedOutput => vec![Input::OutputClosed { link, rest: None }],
            ExitCause::ClosedInput => vec![Input::InputClosed(link)],
            how => vec![
                Input::Stderr { seat, incarnation, lines: why.last_output },
                Input::OutputClosed { link, rest: None },
                Input::Exited { seat, incarnation, how },
            ],
        };
        inputs.into_iter().flat_map(|input| self.handle(now, input)).collect()
    }

    /// Handles the connection of the relay that an SCP proxy has started.
    pub fn join_relay(&mut self, now: Time, seat: Seat) -> Vec<Effect> {
        let incarnation = self.incarnations[seat.index()];
        self.handle(now, Input::RelayConnected { seat, incarnation })
    }

    /// Sends ticks until nothing is due at this time.
    ///
    /// # Panics
    /// If a deadline stays due after a thousand ticks.
    pub fn tick(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..1_000 {
            if self.core.deadline().is_none_or(|due| due > now) {
                return effects;
            }
            effects.extend(self.handle(now, Input::Tick));
        }
        panic!("a deadline at {now:?} stays due")
    }

    /// Handles any other input.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let inputs = match &mut self.interceptor {
            Some(interceptor) => interceptor.before(input),
            None => vec![input],
        };
        inputs.into_iter().for_each(|input| self.feed(now, input));
        let mut effects = self.effects(now);
        if let Some(interceptor) = &mut self.interceptor {
            interceptor.after(&mut effects);
        }
        effects
    }

    /// Passes an input to the core and collects the outputs.
    fn feed(&mut self, now: Time, input: Input) {
        if let Input::Reload(reload) = &input {
            self.incarnations.resize(reload.chain.components.len() + 1, 0);
        }
        self.journal.iter_mut().for_each(|it| it.input(now, &input));
        self.core.handle(now, input, &mut self.out);
        self.journal.iter_mut().for_each(|it| it.outputs(&self.out));
        self.todo.append(&mut self.out.list);
    }

    /// The effects of the pending outputs, in order. Lines have the order in which their messages were delivered. A line
    /// that a dialect has written by itself comes with the next line for that peer, or at the end.
    fn effects(&mut self, now: Time) -> Vec<Effect> {
        let mut lines = self.write_all(now);
        let mut effects = Vec::new();
        let mut next = |seat: Seat, effects: &mut Vec<Effect>| {
            for to in [LinkId::main(seat), LinkId::relay(seat)] {
                if let Some(line) = lines.get_mut(&to).and_then(VecDeque::pop_front) {
                    effects.push(Effect::Line { to, line });
                    return true;
                }
            }
            false
        };
        let list = std::mem::take(&mut self.todo);
        let seats = || (0..self.incarnations.len() as u16).map(Seat);
        for output in list {
            match output {
                Output::Tap(Observation::Delivered { seat, .. }) => {
                    next(seat, &mut effects);
                }
                Output::Tap(_) => {}
                // The queues are written before the chain finishes.
                Output::Finish(_) => {
                    seats().for_each(|seat| while next(seat, &mut effects) {});
                    effects.push(Effect::Output(output));
                }
                output => effects.push(Effect::Output(output)),
            }
        }
        seats().for_each(|seat| while next(seat, &mut effects) {});
        for effect in &effects {
            if let Effect::Output(Output::Start { seat, incarnation }) = effect {
                self.incarnations[seat.index()] = *incarnation;
            }
        }
        effects
    }

    /// Writes all queues and reports them as written.
    fn write_all(&mut self, now: Time) -> BTreeMap<LinkId, VecDeque<Bytes>> {
        let mut lines = BTreeMap::<LinkId, VecDeque<Bytes>>::new();
        let links = (0..self.incarnations.len() as u16).map(Seat);
        let links = links.flat_map(|seat| [LinkId::main(seat), LinkId::relay(seat)]);
        for link in links {
            let mut text = Vec::new();
            while let Some(queue) = self.out.queue(link).filter(|it| !it.is_empty()) {
                let (slices, count) = queue.slices();
                let bytes = slices[..count].concat();
                text.extend_from_slice(&bytes);
                self.feed(now, Input::Written { link, count: bytes.len() });
            }
            assert!(text.is_empty() || text.ends_with(b"\n"), "a line does not end: {text:?}");
            let new = text.split_inclusive(|&byte| byte == b'\n');
            let new = new.map(|line| Bytes::copy_from_slice(&line[..line.len() - 1]));
            lines.entry(link).or_default().extend(new);
        }
        lines
    }
}
