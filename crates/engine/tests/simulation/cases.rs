//! The cases that are run.

use testkit::sim::op::Random;

use crate::case::{Case, Failure, FailureKind, Topology};
use crate::run;

/// The topologies of the enumerated cases. Together they have every kind of proxy, three generations, agents with different
/// capabilities, and an outer conductor.
pub const TOPOLOGIES: [&str; 5] = [
    "editor context:P5 provider:P4 agent+load",
    "editor guard:P3 holder:P5 agent+resume+native",
    "editor refuser:P4 provider:P5 agent+native",
    "editor swallower:P3 context:P5 agent",
    "outer provider:P5 guard:P4 agent+native",
];

/// Cases that have found a fault in the core. The comments describe these faults.
pub const REGRESSIONS: [&str; 28] = [
    // A proxy was bypassed during the first handshake: its successor was initialized twice.
    "editor context:P5 provider:P4 agent+load | short | bypass | die@8:1",
    // A component failed while a session was set up: some components knew the session, others did not.
    "editor context:P5 provider:P4 agent+load | short | restart | die@14:1",
    "editor context:P5 provider:P4 agent+load | short | restart | die@20:1",
    // `session/close` was routed past a failed component: its record kept the session.
    "editor context:P5 provider:P4 agent+load | turns | restart | die@208:1",
    "outer context:P4 agent | short | restart timeouts notices | die@36:1 shut@92:1",
    // A cancelled request without a requester stayed in the record.
    "editor context:P5 provider:P4 agent+load | tool | restart | die@30:3",
    "editor guard:P4 agent+load+native+never-stops | linger | restart end timeouts | die@192:1 die@73:1",
    // Two sessions that were set up at the same time got each other's answers.
    "editor guard:P4 refuser:P5 agent+load+native | linger | restart timeouts notices | die@12:1 shut@49:1",
    "outer guard:P5 refuser:P5 holder:P5 agent | linger | restart timeouts | stall@250:3 die@167:1",
    // A stalled proxy was not noticed while the agent waited for its tool.
    "editor context:P5 provider:P4 agent+load | tool | restart timeouts | stall@28:2",
    // A lost session kept its MCP servers.
    "editor refuser:P4 provider:P5 agent+native | tool | restart always notices | loop@3:3",
    // There was an output after the end of the chain.
    "editor provider:P5 agent+native | turns | restart timeouts notices order659552 | shut@61:2 die@43:1",
    // A component failed during its replay: its sessions were closed.
    "editor provider:P4 agent+load | short | restart end timeouts order24467 | die@18:1 stall@29:1",
    // A message about an orphaned or closed session was delivered later.
    "editor guard:P4 transparent:P3 agent+load+native | load | restart always timeouts | shut@75:1",
    "outer context:P4 holder:P5 agent+load+native | load | restart notices order914854 | die@80:2",
    "editor holder:P5 refuser:P5 agent+resume | turns | restart order280802 | die@44:2 shut@44:3",
    "editor provider:P5 holder:P5 agent+load | load | bypass notices order375360 | cancel@83:0 shut@101:1 cancel@94:0",
    "editor guard:P3 holder:P3 provider:P5 agent+resume | linger | restart notices order112458 | shut@40:1 shut@43:4 shut@14:1 die@70:3",
    // A component that ignored a cancellation was killed while it set up sessions.
    "outer context:P5 holder:P5 holder:P5 guard:P5 agent+load | linger | restart always timeouts | stall@50:3 die@40:1 die@53:1",
    // The first request of an MCP client was lost, and not sent again.
    "editor provider:P5 transparent:P5 agent | turns | restart end timeouts notices | stall@158:2 die@15:1 stall@209:2 die@123:2",
    "editor context:P3 provider:P5 agent+load | short | restart timeouts notices order274752 | die@108:2 stall@103:2",
    // An MCP client got a message after the end of the chain.
    "editor transparent:P5 counter:P5 transparent:P5 agent+load | turns | stop timeouts order425877 | stall@136:1 die@184:2 shut@147:4 die@216:4",
    // A session that was loaded twice had two servers, and the wrong one was restored.
    "outer transparent:P5 guard:P4 holder:P5 provider:P3 agent+load | load | restart timeouts notices order497840 | die@195:1 cancel@72:0 stall@23:4 stall@247:4",
    // An agent that waited for a component during its restart was considered stuck.
    "editor provider:P3 agent+native | turns | restart end timeouts notices | die@92:1 stall@104:1 cancel@79:0",
    // Requests of a replay and requests to close orphaned sessions were confused.
    "editor transparent:P4 transparent:P5 provider:P4 agent+native | short | restart always timeouts | shut@143:4 stall@155:2",
    "editor provider:P5 transparent:P5 refuser:P5 agent+resume+native | turns | restart order333601 | loop@39:3 die@158:3 die@189:1 loop@27:3",
    // An update that was routed past a proxy that drops barriers was overtaken by an answer that was routed past a
    // restarted component.
    "editor swallower:P3 context:P5 agent | usage | restart | die@38:1 die@63:2",
    // Two components were paused because of messages behind each other's barriers, and the barriers never expired
    // because the components were paused.
    "outer swallower:P3 transparent:P4 agent+native+ignores-cancel | usage | restart narrow | shut@201:1 loop@32:1 die@46:2 die@168:1",
];

pub fn failure(what: FailureKind, at: usize, seat: u16) -> Failure {
    Failure { what, at, seat }
}

fn seats(topology: &str) -> std::ops::RangeInclusive<u16> {
    1..=Topology::parse(topology).components() as u16
}

/// How many lines are transferred without failures.
///
/// # Panics
/// If the case does not pass.
pub fn length(topology: &str, scenario: &str, policy: &str) -> usize {
    let case = Case::new(topology, scenario, policy, &[]);
    run::run(&case, None).unwrap_or_else(|why| panic!("{why}\n{case}"))
}

/// One failure of each of these kinds at every line, for every component.
pub fn singles(topology: &str, scenario: &str, policy: &str, kinds: &[FailureKind]) -> Vec<Case> {
    let length = length(topology, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(topology) {
        for at in 0..=length {
            for what in kinds {
                cases.push(Case::new(topology, scenario, policy, &[failure(*what, at, seat)]));
            }
        }
    }
    cases
}

/// Two kills, at every pair of lines, for every pair of components. Both may be the same component. A restart transfers
/// some more lines, so the second kill may be that much later.
pub fn pairs(topology: &str, scenario: &str, policy: &str) -> Vec<Case> {
    const RESTART: usize = 16;
    let length = length(topology, scenario, policy);
    let mut cases = Vec::new();
    for (one, two) in seats(topology).flat_map(|one| seats(topology).map(move |two| (one, two))) {
        for first in 0..=length {
            for second in first..=length + RESTART {
                let failures =
                    [failure(FailureKind::Die, first, one), failure(FailureKind::Die, second, two)];
                cases.push(Case::new(topology, scenario, policy, &failures));
            }
        }
    }
    cases
}

/// A component crashes on the same line again after each restart.
pub fn loops(topology: &str, scenario: &str, policy: &str) -> Vec<Case> {
    let length = length(topology, scenario, policy);
    let mut cases = Vec::new();
    for seat in seats(topology) {
        for line in 1..=length / 2 {
            cases.push(Case::new(
                topology,
                scenario,
                policy,
                &[failure(FailureKind::Loop, line, seat)],
            ));
        }
    }
    cases
}

/// At every line, a component is killed, or the next endpoint for MCP clients cannot be opened, or both.
pub fn endpoint_failures(topology: &str, scenario: &str, policy: &str) -> Vec<Case> {
    let length = length(topology, scenario, policy);
    let mut cases = Vec::new();
    for at in 0..=length {
        let full = failure(FailureKind::Full, at, 0);
        cases.push(Case::new(topology, scenario, policy, &[full]));
        for seat in seats(topology) {
            let die = failure(FailureKind::Die, at, seat);
            cases.push(Case::new(topology, scenario, policy, &[die]));
            cases.push(Case::new(topology, scenario, policy, &[die, full]));
        }
    }
    cases
}

/// The editor cancels at every line, also soon after a component was killed.
pub fn cancels(
    topology: &str,
    agent_trait: &str,
    scenario: &str,
    policy: &str,
    apart: usize,
) -> Vec<Case> {
    let length = length(topology, scenario, policy);
    let topology = &format!("{topology}{agent_trait}");
    let mut cases = Vec::new();
    for what in [FailureKind::Cancel, FailureKind::CancelSession] {
        for at in 0..=length {
            cases.push(Case::new(topology, scenario, policy, &[failure(what, at, 0)]));
            for (seat, later) in seats(topology).flat_map(|it| (0..=apart).map(move |by| (it, by)))
            {
                let failures = [failure(FailureKind::Die, at, seat), failure(what, at + later, 0)];
                cases.push(Case::new(topology, scenario, policy, &failures));
            }
        }
    }
    cases
}

/// A random case: topology, script, policy, failures, and the order of lines.
pub fn random(seed: u64) -> Case {
    let mut random = Random::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(1));
    let pick = |random: &mut Random, from: &[&'static str]| from[random.below(from.len())];
    let outer = random.chance(5);
    let mut topology = vec![if outer { "outer" } else { "editor" }.to_owned()];
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
        topology.push(format!("{kind}:{}", pick(&mut random, &["P5", "P5", "P4", "P3"])));
    }
    let capabilities = ["", "+load", "+resume", "+native", "+load+native", "+resume+native"];
    let capability = pick(&mut random, &capabilities);
    let cancel_trait = match random.below(12) {
        0 => "+ignores-cancel",
        1 if !outer => "+never-stops",
        _ => "",
    };
    topology.push(format!("agent{capability}{cancel_trait}"));
    let loads = capability.contains("load");
    let scenarios =
        ["short", "usage", "tool", "turns", "linger", if loads { "load" } else { "tool" }];
    let scenario = match pick(&mut random, &scenarios) {
        // All other cases keep their numbers.
        "short" if seed % 2 == 1 => "panels",
        "usage" if seed % 2 == 1 => "options",
        scenario => scenario,
    };
    let policies = ["restart", "restart", "restart always", "bypass", "stop", "restart end"];
    let mut policy = pick(&mut random, &policies).to_owned();
    let count = (topology.len() - 2 + usize::from(!outer)) as u16;
    let mut failures = Vec::new();
    let mut timeouts = cancel_trait == "+never-stops";
    for _ in 0..random.below(5) {
        let at = random.below(260);
        let seat = 1 + random.below(count.into()) as u16;
        failures.push(match random.below(24) {
            0..=10 => failure(FailureKind::Die, at, seat),
            11..=14 => failure(FailureKind::Shut, at, seat),
            15..=17 => {
                timeouts = true;
                failure(FailureKind::Stall, at, seat)
            }
            18 => failure(FailureKind::Loop, 1 + at / 5, seat),
            19..=20 => failure(FailureKind::Cancel, at, 0),
            21..=22 => failure(FailureKind::CancelSession, at, 0),
            _ if random.chance(3) => failure(FailureKind::Stop, at, 0),
            _ => failure(FailureKind::Leave, at, 0),
        });
    }
    if timeouts || random.chance(4) {
        policy.push_str(" timeouts");
    }
    if random.chance(2) {
        policy.push_str(" notices");
    }
    if !random.chance(4) {
        policy.push_str(&format!(" order{}", random.below(1_000_000)));
    }
    if random.chance(3) {
        policy.push_str(" slow");
        if random.chance(3) {
            failures.push(failure(FailureKind::Full, random.below(120), 0));
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
        failures.push(failure(FailureKind::Absent, random.below(100), seat));
    }
    if random.chance(5) {
        let seat = 1 + random.below(count.into()) as u16;
        failures.push(failure(FailureKind::Reload, random.below(200), seat));
    }
    if random.chance(3) {
        // A proxy that exits on unknown greetings and also fails otherwise uses up its restarts too soon.
        let reactions = if failures.is_empty() { 3 } else { 2 };
        policy.push_str([" forwards", " refuses", " exits"][random.below(reactions)]);
    }
    Case::new(&topology.join(" "), scenario, &policy, &failures)
}
