//! A case of the simulation, as one line of text: the topology, the script of the editor, the policy, and the failures.
//!
//! ```text
//! editor context:P5 provider:P4 agent+load | turns | restart | die@17:2 shut@40:1
//! ```
//!
//! | failure | |
//! |---|---|
//! | `die@17:2` | the component in seat 2 is killed when 17 lines have been transferred |
//! | `shut@17:2` | it closes its output, and keeps running |
//! | `stall@17:2` | it stops reading and writing, until it is killed |
//! | `loop@5:2` | it crashes on the fifth line that it reads, again after each restart |
//! | `cancel@17:0` | the editor cancels its last request |
//! | `halt@17:0` | the editor cancels the turn of its first session |
//! | `leave@17:0` | the editor closes its output |
//! | `stop@17:0` | the conductor gets the command to stop |
//! | `full@17:0` | the next endpoint for MCP clients cannot be opened |
//! | `absent@17:2` | the next start of seat 2 fails |
//! | `reload@17:2` | the chain gets another configuration, in which the component in seat 2 has changed |
//!
//! The policy may be followed by options:
//!
//! | option | |
//! |---|---|
//! | `notices` | the core sends notices to the editor |
//! | `timeouts` | the watchdog has timeouts |
//! | `slow` | the shell opens endpoints with a delay |
//! | `order7` | lines are transferred in a random order with seed 7 |
//! | `split` | lines are written in parts, and the exit of a process is reported apart from the end of its output |
//! | `narrow` | pipes and queues are small, so that links are paused |
//! | `always` | the agent is restarted even if it cannot resume its sessions |
//! | `end` | a component that is not restarted ends the chain |
//! | `forwards`, `refuses`, `exits` | the core has to detect the generation of each proxy; the word is what a proxy does with an unknown greeting |
//!
//! The agent may have traits: `+load`, `+resume` and `+native` are capabilities. With `+ignores-cancel` it finishes cancelled
//! turns. With `+never-stops` it does not even finish them.

use std::fmt;

use acp_wire::Generation;

use crate::agent::AgentTraits;
use crate::editor::EditorAction;
use crate::proxy::Kind;

/// A case. See the module documentation for its text form.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub topology: String,
    pub scenario: String,
    pub policy: String,
    pub failures: Vec<Failure>,
}

/// A failure of the environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub what: FailureKind,
    /// After how many lines it happens. For a loop: on which line of the component.
    pub at: usize,
    pub seat: u16,
}

/// The kinds of failures, in the order of the table above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    Die,
    Shut,
    Stall,
    Loop,
    Cancel,
    CancelSession,
    Leave,
    Stop,
    Full,
    Absent,
    Reload,
}

impl FailureKind {
    pub const ALL: [(&'static str, FailureKind); 11] = [
        ("die", FailureKind::Die),
        ("shut", FailureKind::Shut),
        ("stall", FailureKind::Stall),
        ("loop", FailureKind::Loop),
        ("cancel", FailureKind::Cancel),
        ("halt", FailureKind::CancelSession),
        ("leave", FailureKind::Leave),
        ("stop", FailureKind::Stop),
        ("full", FailureKind::Full),
        ("absent", FailureKind::Absent),
        ("reload", FailureKind::Reload),
    ];
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, _) =
            FailureKind::ALL.iter().find(|(_, what)| *what == self.what).expect("a name");
        write!(f, "{name}@{}:{}", self.at, self.seat)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failures: Vec<String> = self.failures.iter().map(Failure::to_string).collect();
        let failures = failures.join(" ");
        write!(f, "{} | {} | {} | {failures}", self.topology, self.scenario, self.policy)
    }
}

impl Case {
    pub fn new(topology: &str, scenario: &str, policy: &str, failures: &[Failure]) -> Case {
        Case {
            topology: topology.to_owned(),
            scenario: scenario.to_owned(),
            policy: policy.to_owned(),
            failures: failures.to_vec(),
        }
    }

    /// # Panics
    /// If the text is malformed.
    pub fn parse(text: &str) -> Case {
        let parts: Vec<&str> = text.split('|').map(str::trim).collect();
        let [topology, scenario, policy, failures] = parts[..] else {
            panic!("not a case: {text:?}")
        };
        let failure = |word: &str| {
            let (name, rest) = word.split_once('@')?;
            let (at, seat) = rest.split_once(':')?;
            let (_, what) = FailureKind::ALL.iter().find(|(it, _)| *it == name)?;
            Some(Failure { what: *what, at: at.parse().ok()?, seat: seat.parse().ok()? })
        };
        let failures: Option<Vec<Failure>> = failures.split_whitespace().map(failure).collect();
        Case::new(topology, scenario, policy, &failures.expect("failures"))
    }

    pub fn has(&self, option: &str) -> bool {
        self.policy.split_whitespace().any(|it| it == option)
    }

    /// The seed of the random order of lines. Without one, the oldest line goes first.
    pub fn order(&self) -> Option<u64> {
        self.policy.split_whitespace().find_map(|it| it.strip_prefix("order")?.parse().ok())
    }

    pub fn script(&self) -> Vec<EditorAction> {
        script(&self.scenario)
    }
}

/// The participants of a case.
#[derive(Debug, Clone)]
pub struct Topology {
    /// Whether the outer pipe is an editor. Otherwise it is a conductor, and the agent is behind it.
    pub editor: bool,
    pub proxies: Vec<(Kind, Generation)>,
    pub traits: AgentTraits,
}

impl Topology {
    /// # Panics
    /// If the text is malformed.
    pub fn parse(text: &str) -> Topology {
        let mut words: Vec<&str> = text.split_whitespace().collect();
        let editor = match words.remove(0) {
            "editor" => true,
            "outer" => false,
            other => panic!("a topology starts with 'editor' or 'outer', not {other:?}"),
        };
        let agent = words.pop().expect("an agent");
        let traits: Vec<&str> = agent.split('+').collect();
        assert_eq!(traits[0], "agent", "a topology ends with 'agent'");
        let proxies: Vec<(Kind, Generation)> = words
            .iter()
            .map(|word| {
                let (kind, dialect) = word.split_once(':').expect("a dialect");
                let (_, kind) = Kind::ALL.iter().find(|(name, _)| *name == kind).expect("a kind");
                (*kind, Generation::from_name(dialect).expect("a generation"))
            })
            .collect();
        let has = |name: &str| traits.contains(&name);
        let traits = AgentTraits {
            load: has("load"),
            resume: has("resume"),
            native: has("native"),
            ignores_cancel: has("ignores-cancel"),
            never_stops: has("never-stops"),
            guarded: proxies.iter().any(|(kind, _)| *kind == Kind::Guard),
        };
        Topology { editor, proxies, traits }
    }

    /// How many components there are.
    pub fn components(&self) -> usize {
        self.proxies.len() + usize::from(self.editor)
    }
}

fn prompt(slot: usize, plan: &str) -> EditorAction {
    EditorAction::Prompt { slot, plan: plan.to_owned(), must_succeed: false }
}

/// The script of a scenario.
///
/// # Panics
/// If there is no scenario of that name.
fn script(name: &str) -> Vec<EditorAction> {
    let start = [EditorAction::Initialize, EditorAction::Wait];
    let rest: Vec<EditorAction> = match name {
        // One session with one prompt.
        "short" => {
            vec![EditorAction::New(0), EditorAction::Wait, prompt(0, "uu"), EditorAction::Wait]
        }
        // Updates that older proxies cannot read, between those that they can.
        "usage" => vec![
            EditorAction::New(0),
            EditorAction::New(1),
            EditorAction::Wait,
            prompt(0, "uxxu"),
            prompt(1, "xpxu"),
            EditorAction::Wait,
            prompt(0, "xlux"),
            EditorAction::Wait,
        ],
        "tool" => {
            vec![EditorAction::New(0), EditorAction::Wait, prompt(0, "utu"), EditorAction::Wait]
        }
        // Two sessions, with most kinds of requests.
        "turns" => vec![
            EditorAction::New(0),
            EditorAction::Wait,
            prompt(0, "upu"),
            EditorAction::New(1),
            EditorAction::Wait,
            EditorAction::Mode(0),
            prompt(1, "utlu"),
            prompt(0, "uu"),
            EditorAction::Wait,
            prompt(1, "ulu"),
            EditorAction::WaitForUpdate(1),
            EditorAction::CancelSession(1),
            prompt(0, "ut"),
            EditorAction::Wait,
            EditorAction::Close(1),
            EditorAction::Wait,
            prompt(0, "u"),
            EditorAction::Wait,
        ],
        // The editor loads a session.
        "load" => vec![
            EditorAction::New(0),
            EditorAction::Wait,
            prompt(0, "uu"),
            EditorAction::Wait,
            EditorAction::Close(0),
            EditorAction::Wait,
            EditorAction::New(1),
            EditorAction::Load(0),
            EditorAction::Wait,
            prompt(1, "u"),
            prompt(0, "ut"),
            EditorAction::Wait,
        ],
        // Components are restarted with other options, while nothing may fail.
        "options" => vec![
            EditorAction::New(0),
            EditorAction::SetOptions(1),
            EditorAction::Wait,
            prompt(0, "upu"),
            EditorAction::SetOptions(2),
            EditorAction::SetOptions(1),
            EditorAction::New(1),
            prompt(0, "u"),
            EditorAction::SetOptions(2),
            EditorAction::Wait,
            prompt(0, "utlu"),
            EditorAction::SetOptions(1),
            EditorAction::SetOptions(9),
            EditorAction::Mode(0),
            EditorAction::Wait,
            prompt(1, "u"),
            prompt(0, "u"),
            EditorAction::Wait,
        ],
        // Each component shows a panel, all under the same id, and a person uses it.
        "panels" => vec![
            EditorAction::New(0),
            EditorAction::Wait,
            prompt(0, "usu"),
            EditorAction::Wait,
            prompt(0, "su"),
            EditorAction::Wait,
        ],
        // Long turns, for failures in the middle of them.
        "linger" => vec![
            EditorAction::New(0),
            EditorAction::New(1),
            EditorAction::Wait,
            prompt(0, "ululu"),
            prompt(1, "ulpu"),
            EditorAction::Wait,
            prompt(0, "ul"),
            EditorAction::WaitForUpdate(0),
            EditorAction::CancelRequest,
            EditorAction::Wait,
        ],
        other => panic!("there is no scenario {other:?}"),
    };
    start.into_iter().chain(rest).collect()
}
