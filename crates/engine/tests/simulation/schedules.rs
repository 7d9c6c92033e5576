//! Which cases are played.

use testkit::sim::op::Random;

use crate::case::{Case, Cast, Fault, What};
use crate::run;

/// Who plays in the enumerated schedules. Between them: every kind of proxy, three generations, agents
/// that load, resume, or neither, with MCP over ACP and without, and a conductor above us.
pub const CASTS: [&str; 5] = [
    "editor context:P5 provider:P4 agent+load",
    "editor guard:P3 holder:P5 agent+resume+native",
    "editor refuser:P4 provider:P5 agent+native",
    "editor swallower:P3 context:P5 agent",
    "outer provider:P5 guard:P4 agent+native",
];

/// Cases that have found something.
pub const ONCE_BROKEN: [&str; 28] = [
    // Left out during the first handshake: the next one was initialized twice.
    "editor context:P5 provider:P4 agent+load | short | bypass | die@8:1",
    // A session that was being set up, or had just been, was half known.
    "editor context:P5 provider:P4 agent+load | short | restart | die@14:1",
    "editor context:P5 provider:P4 agent+load | short | restart | die@20:1",
    // A close that passed a dead component by left the session in its record.
    "editor context:P5 provider:P4 agent+load | turns | restart | die@208:1",
    "outer context:P4 agent | short | restart watch tell | die@36:1 shut@92:1",
    // A cancellation of what nobody waits for stayed.
    "editor context:P5 provider:P4 agent+load | tool | restart | die@30:3",
    "editor guard:P4 agent+load+native+stubborn | linger | restart end watch | die@192:1 die@73:1",
    // Two sessions that were set up at once got each other's answers.
    "editor guard:P4 refuser:P5 agent+load+native | linger | restart watch tell | die@12:1 shut@49:1",
    "outer guard:P5 refuser:P5 holder:P5 agent | linger | restart watch | stall@250:3 die@167:1",
    // A proxy that hung while the agent waited for its tool was not found out.
    "editor context:P5 provider:P4 agent+load | tool | restart watch | stall@28:2",
    // A session that the agent had lost kept its servers.
    "editor refuser:P4 provider:P5 agent+native | tool | restart always tell | loop@3:3",
    // Something was reported after the end.
    "editor provider:P5 agent+native | turns | restart watch tell order659552 | shut@61:2 die@43:1",
    // The sessions of one who died while it learnt were closed.
    "editor provider:P4 agent+load | short | restart end watch order24467 | die@18:1 stall@29:1",
    // What was on its way of a session that nobody has, or was closed, came later.
    "editor guard:P4 transparent:P3 agent+load+native | load | restart always watch | shut@75:1",
    "outer context:P4 holder:P5 agent+load+native | load | restart tell order914854 | die@80:2",
    "editor holder:P5 refuser:P5 agent+resume | turns | restart order280802 | die@44:2 shut@44:3",
    "editor provider:P5 holder:P5 agent+load | load | bypass tell order375360 | cancel@83:0 shut@101:1 cancel@94:0",
    "editor guard:P3 holder:P3 provider:P5 agent+resume | linger | restart tell order112458 | shut@40:1 shut@43:4 shut@14:1 die@70:3",
    // One who was given up for not stopping had sessions in its hands.
    "outer context:P5 holder:P5 holder:P5 guard:P5 agent+load | linger | restart always watch | stall@50:3 die@40:1 die@53:1",
    // The first words of an MCP client were lost on their way, and not said again.
    "editor provider:P5 transparent:P5 agent | turns | restart end watch tell | stall@158:2 die@15:1 stall@209:2 die@123:2",
    "editor context:P3 provider:P5 agent+load | short | restart watch tell order274752 | die@108:2 stall@103:2",
    // A client was told something after the end.
    "editor transparent:P5 counter:P5 transparent:P5 agent+load | turns | stop watch order425877 | stall@136:1 die@184:2 shut@147:4 die@216:4",
    // A session that was loaded twice had two servers, and the wrong one was revived.
    "outer transparent:P5 guard:P4 holder:P5 provider:P3 agent+load | load | restart watch tell order497840 | die@195:1 cancel@72:0 stall@23:4 stall@247:4",
    // An agent was blamed for waiting for one who was being restarted.
    "editor provider:P3 agent+native | turns | restart end watch tell | die@92:1 stall@104:1 cancel@79:0",
    // Lessons and closes of ours, mixed up.
    "editor transparent:P4 transparent:P5 provider:P4 agent+native | short | restart always watch | shut@143:4 stall@155:2",
    "editor provider:P5 transparent:P5 refuser:P5 agent+resume+native | turns | restart order333601 | loop@39:3 die@158:3 die@189:1 loop@27:3",
    // An update that goes around a proxy that swallows barriers was overtaken by an answer that had passed a
    // restarted component.
    "editor swallower:P3 context:P5 agent | usage | restart | die@38:1 die@63:2",
    // Two components were not read because of what waited behind each other's barriers, and the barriers never
    // expired because the components were not read.
    "outer swallower:P3 transparent:P4 agent+native+deaf | usage | restart narrow | shut@201:1 loop@32:1 die@46:2 die@168:1",
];

pub fn fault(what: What, at: usize, seat: u16) -> Fault {
    Fault { what, at, seat }
}

fn seats(cast: &str) -> std::ops::RangeInclusive<u16> {
    1..=Cast::parse(cast).components() as u16
}

/// How many lines move when nothing goes wrong.
///
/// # Panics
/// If something does.
pub fn length(cast: &str, scenario: &str, policy: &str) -> usize {
    let case = Case::new(cast, scenario, policy, &[]);
    run::play(&case, None).unwrap_or_else(|why| panic!("{why}\n{case}"))
}

/// One fault of these kinds at every line, for every component.
pub fn singles(cast: &str, scenario: &str, policy: &str, kinds: &[What]) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(cast) {
        for at in 0..=length {
            for what in kinds {
                cases.push(Case::new(cast, scenario, policy, &[fault(*what, at, seat)]));
            }
        }
    }
    cases
}

/// Two deaths, at every pair of lines, of every pair of components, the same one twice included.
/// A restart moves some more lines, so the second may be that much later.
pub fn pairs(cast: &str, scenario: &str, policy: &str) -> Vec<Case> {
    const RESTART: usize = 16;
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for (one, two) in seats(cast).flat_map(|one| seats(cast).map(move |two| (one, two))) {
        for first in 0..=length {
            for second in first..=length + RESTART {
                let faults = [fault(What::Die, first, one), fault(What::Die, second, two)];
                cases.push(Case::new(cast, scenario, policy, &faults));
            }
        }
    }
    cases
}

/// A component dies of the same line in each of its lives.
pub fn loops(cast: &str, scenario: &str, policy: &str) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(cast) {
        for line in 1..=length / 2 {
            cases.push(Case::new(cast, scenario, policy, &[fault(What::Loop, line, seat)]));
        }
    }
    cases
}

/// A shell that takes its time to open places for MCP clients: a component dies at every line, or the next
/// place cannot be opened, or both.
pub fn places(cast: &str, scenario: &str, policy: &str) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let mut cases = Vec::new();
    for at in 0..=length {
        let full = fault(What::Full, at, 0);
        cases.push(Case::new(cast, scenario, policy, &[full]));
        for seat in seats(cast) {
            let die = fault(What::Die, at, seat);
            cases.push(Case::new(cast, scenario, policy, &[die]));
            cases.push(Case::new(cast, scenario, policy, &[die, full]));
        }
    }
    cases
}

/// The editor cancels at every line, also soon after a component has died.
pub fn cancels(cast: &str, ears: &str, scenario: &str, policy: &str, apart: usize) -> Vec<Case> {
    let length = length(cast, scenario, policy);
    let cast = &format!("{cast}{ears}");
    let mut cases = Vec::new();
    for what in [What::Cancel, What::Halt] {
        for at in 0..=length {
            cases.push(Case::new(cast, scenario, policy, &[fault(what, at, 0)]));
            for (seat, later) in seats(cast).flat_map(|it| (0..=apart).map(move |by| (it, by))) {
                let faults = [fault(What::Die, at, seat), fault(what, at + later, 0)];
                cases.push(Case::new(cast, scenario, policy, &faults));
            }
        }
    }
    cases
}

/// Anything: who plays, what the editor does, what goes wrong when, in which order lines move.
pub fn random(seed: u64) -> Case {
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
    let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len())];
    let outer = random.chance(5);
    let mut cast = vec![if outer { "outer" } else { "editor" }.to_owned()];
    let mut provider = false;
    for _ in 0..random.below(4) + usize::from(outer) {
        let kinds =
            ["transparent", "context", "holder", "provider", "guard", "refuser", "swallower"];
        let mut kind = pick(&mut random, &kinds);
        if kind == "provider" {
            let another = std::mem::replace(&mut provider, true);
            kind =
                if another { "transparent" } else { pick(&mut random, &["provider", "counter"]) };
        }
        cast.push(format!("{kind}:{}", pick(&mut random, &["P5", "P5", "P4", "P3"])));
    }
    let natures = ["", "+load", "+resume", "+native", "+load+native", "+resume+native"];
    let nature = pick(&mut random, &natures);
    let ears = match random.below(12) {
        0 => "+deaf",
        1 if !outer => "+stubborn",
        _ => "",
    };
    cast.push(format!("agent{nature}{ears}"));
    let loads = nature.contains("load");
    let scenarios =
        ["short", "usage", "tool", "turns", "linger", if loads { "load" } else { "tool" }];
    let scenario = pick(&mut random, &scenarios);
    let policies = ["restart", "restart", "restart always", "bypass", "stop", "restart end"];
    let mut policy = pick(&mut random, &policies).to_owned();
    let count = (cast.len() - 2 + usize::from(!outer)) as u16;
    let mut faults = Vec::new();
    let mut watch = ears == "+stubborn";
    for _ in 0..random.below(5) {
        let at = random.below(260);
        let seat = 1 + random.below(count.into()) as u16;
        faults.push(match random.below(24) {
            0..=10 => fault(What::Die, at, seat),
            11..=14 => fault(What::Shut, at, seat),
            15..=17 => {
                watch = true;
                fault(What::Stall, at, seat)
            }
            18 => fault(What::Loop, 1 + at / 5, seat),
            19..=20 => fault(What::Cancel, at, 0),
            21..=22 => fault(What::Halt, at, 0),
            _ if random.chance(3) => fault(What::Stop, at, 0),
            _ => fault(What::Leave, at, 0),
        });
    }
    if watch || random.chance(4) {
        policy.push_str(" watch");
    }
    if random.chance(2) {
        policy.push_str(" tell");
    }
    if !random.chance(4) {
        policy.push_str(&format!(" order{}", random.below(1_000_000)));
    }
    if random.chance(3) {
        policy.push_str(" slow");
        if random.chance(3) {
            faults.push(fault(What::Full, random.below(120), 0));
        }
    }
    if random.chance(2) {
        policy.push_str(" split");
    }
    if random.chance(3) {
        policy.push_str(" narrow");
    }
    if random.chance(6) {
        let seat = 1 + random.below(count.into()) as u16;
        faults.push(fault(What::Absent, random.below(100), seat));
    }
    if random.chance(3) {
        // A proxy that dies of unknown greetings and of something else is soon given up.
        let reactions = if faults.is_empty() { 3 } else { 2 };
        policy.push_str([" passes", " refuses", " dies"][random.below(reactions)]);
    }
    Case::new(&cast.join(" "), scenario, &policy, &faults)
}
