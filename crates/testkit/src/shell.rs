//! A shell without processes, pipes and a clock: it drives the core as the real shell does, and a test plays all
//! peers.
//!
//! Inputs go in; lines and outputs come out. A peer reads what is written to it at once.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::dialect::Generation;
use bytes::Bytes;
use engine::journal::Recorder;
use engine::{
    ComponentPolicy, Core, Facts, Input, Line, Link, Observation, Output, Outputs, Rules, Setup,
    Watermarks,
};
use router::{Chain, Exit, ExitCause, Mode, Role, Seat, Time};

/// What came of an input.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// A peer has read this line.
    Line { to: Link, line: Bytes },
    /// The core wants this done. [`Output::Tap`] is left out.
    Output(Output),
}

/// Changes what goes into the core and what comes out of it. A test plants a fault with it.
pub trait Meddler {
    /// Called before an input is handled. What it gives is handled instead.
    fn before(&mut self, input: Input) -> Vec<Input>;

    /// Called with everything that came of the input.
    fn after(&mut self, effects: &mut Vec<Effect>);
}

#[allow(missing_debug_implementations)] // a meddler has nothing to show
pub struct Shell {
    core: Core,
    setup: Setup,
    out: Outputs,
    /// What the core wants done, and is not done yet.
    todo: Vec<Output>,
    journal: Option<Recorder>,
    /// By seat: how many components were there before.
    lives: Vec<u32>,
    meddler: Option<Box<dyn Meddler>>,
}

/// A chain whose proxies speak the current generation. It stops when a component fails, and has no MCP bridge.
pub fn setup(chain: Chain) -> Setup {
    let facts = chain.seats().map(|seat| Facts {
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
        max_line: usize::MAX,
        watermarks: Watermarks::DEFAULT,
        tapped: true,
        chain,
    }
}

impl Shell {
    pub fn new(setup: Setup) -> Shell {
        let lives = vec![0; setup.chain.components.len() + 1];
        // What is seen tells the order of lines for different peers.
        let setup = Setup { tapped: true, ..setup };
        Shell {
            core: Core::new(setup.clone()),
            setup,
            out: Outputs::default(),
            todo: Vec::new(),
            journal: None,
            lives,
            meddler: None,
        }
    }

    /// Writes a journal from now on. To be called before anything happens.
    pub fn record(&mut self) {
        self.journal = Some(Recorder::new(&self.setup));
    }

    /// The journal of everything that has happened, if it was wanted.
    pub fn journal(&mut self) -> Vec<u8> {
        self.journal.as_mut().map(Recorder::take).unwrap_or_default()
    }

    pub fn with_meddler(setup: Setup, meddler: Box<dyn Meddler>) -> Shell {
        Shell { meddler: Some(meddler), ..Shell::new(setup) }
    }

    pub fn core(&self) -> &Core {
        &self.core
    }

    /// A line has come from a peer.
    pub fn line(&mut self, now: Time, from: Seat, line: Bytes) -> Vec<Effect> {
        self.handle(now, Input::Line { link: Link::main(from), line: Line::Text(line) })
    }

    /// A peer has ended, or has closed one of its pipes.
    pub fn leave(&mut self, now: Time, seat: Seat, why: Exit) -> Vec<Effect> {
        let (link, life) = (Link::main(seat), self.lives[seat.index()]);
        let inputs = match why.cause {
            ExitCause::NotStarted(why) => vec![Input::NotStarted { seat, life, why }],
            ExitCause::ClosedOutput => vec![Input::OutputClosed { link, rest: None }],
            ExitCause::ClosedInput => vec![Input::InputClosed(link)],
            how => vec![
                Input::Stderr { seat, life, lines: why.last_output },
                Input::OutputClosed { link, rest: None },
                Input::Exited { seat, life, how },
            ],
        };
        inputs.into_iter().flat_map(|input| self.handle(now, input)).collect()
    }

    /// The relay that an SCP proxy has started connects.
    pub fn join_relay(&mut self, now: Time, seat: Seat) -> Vec<Effect> {
        let life = self.lives[seat.index()];
        self.handle(now, Input::RelayConnected { seat, life })
    }

    /// Time has passed.
    ///
    /// # Panics
    /// If what is due stays due.
    pub fn tick(&mut self, now: Time) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..1_000 {
            if self.core.deadline().is_none_or(|due| due > now) {
                return effects;
            }
            effects.extend(self.handle(now, Input::Tick));
        }
        panic!("what is due at {now:?} stays due")
    }

    /// Something else has happened.
    pub fn handle(&mut self, now: Time, input: Input) -> Vec<Effect> {
        let inputs = match &mut self.meddler {
            Some(meddler) => meddler.before(input),
            None => vec![input],
        };
        inputs.into_iter().for_each(|input| self.tell(now, input));
        let mut effects = self.effects(now);
        if let Some(meddler) = &mut self.meddler {
            meddler.after(&mut effects);
        }
        effects
    }

    /// Tells the core, and takes down what it wants done.
    fn tell(&mut self, now: Time, input: Input) {
        self.journal.iter_mut().for_each(|it| it.input(now, &input));
        self.core.handle(now, input, &mut self.out);
        self.journal.iter_mut().for_each(|it| it.outputs(&self.out));
        self.todo.append(&mut self.out.list);
    }

    /// What the core wants done, in order. Lines are in the order in which their messages were delivered. A line
    /// that a dialect has written by itself comes with the next line for that peer, or at the end.
    fn effects(&mut self, now: Time) -> Vec<Effect> {
        let mut lines = self.write_all(now);
        let mut effects = Vec::new();
        let mut next = |seat: Seat, effects: &mut Vec<Effect>| {
            for to in [Link::main(seat), Link::relay(seat)] {
                if let Some(line) = lines.get_mut(&to).and_then(VecDeque::pop_front) {
                    effects.push(Effect::Line { to, line });
                    return true;
                }
            }
            false
        };
        let list = std::mem::take(&mut self.todo);
        let seats = || (0..self.lives.len() as u16).map(Seat);
        for output in list {
            match output {
                Output::Tap(Observation::Delivered { seat, .. }) => {
                    next(seat, &mut effects);
                }
                Output::Tap(_) => {}
                // What is queued is written before the end.
                Output::Finish(_) => {
                    seats().for_each(|seat| while next(seat, &mut effects) {});
                    effects.push(Effect::Output(output));
                }
                output => effects.push(Effect::Output(output)),
            }
        }
        seats().for_each(|seat| while next(seat, &mut effects) {});
        for effect in &effects {
            if let Effect::Output(Output::Start { seat, life }) = effect {
                self.lives[seat.index()] = *life;
            }
        }
        effects
    }

    /// Writes all queues, and reports it.
    fn write_all(&mut self, now: Time) -> BTreeMap<Link, VecDeque<Bytes>> {
        let mut lines = BTreeMap::<Link, VecDeque<Bytes>>::new();
        let links = (0..self.lives.len() as u16).map(Seat);
        let links = links.flat_map(|seat| [Link::main(seat), Link::relay(seat)]);
        for link in links {
            let mut text = Vec::new();
            while let Some(queue) = self.out.queue(link).filter(|it| !it.is_empty()) {
                let (slices, count) = queue.slices();
                let part = slices[..count].concat();
                text.extend_from_slice(&part);
                self.tell(now, Input::Written { link, count: part.len() });
            }
            assert!(text.is_empty() || text.ends_with(b"\n"), "a line does not end: {text:?}");
            let new = text.split_inclusive(|&byte| byte == b'\n');
            let new = new.map(|line| Bytes::copy_from_slice(&line[..line.len() - 1]));
            lines.entry(link).or_default().extend(new);
        }
        lines
    }
}
