//! Which conductors are shown.

use std::process::Stdio;

use serde_json::Value;

use crate::{Nook, end, names, single};

#[test]
fn all_conductors_are_shown_or_the_one_that_is_asked_for() {
    let nook = Nook::new("two");
    let (first, _agent) = single(nook.test_chain());
    let (second, _other) = single(nook.test_chain());
    let mut pids = [first.conductor.pid(), second.conductor.pid()];
    let one = nook.status(&["--json", &pids[1].to_string()]);
    let one: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(one.as_array().map(Vec::len), Some(1), "{one}");
    assert_eq!(one[0]["pid"], pids[1]);
    let one = nook.status(&[&pids[0].to_string()]);
    let one = String::from_utf8(one.stdout).expect("UTF-8");
    assert!(one.starts_with(&format!("{}  agent", pids[0])) && one.lines().count() == 3, "{one}");

    pids.sort_unstable();
    let shown: Vec<Value> = nook.list().iter().map(|status| status["pid"].clone()).collect();
    assert_eq!(shown, pids.map(Value::from));
    let text = nook.text();
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    for (block, pid) in blocks.into_iter().zip(pids) {
        assert!(block.starts_with(&format!("{pid}  agent")), "{text}");
    }
}

#[test]
fn a_chain_inside_a_chain_is_shown_as_well() {
    let nook = Nook::new("nested");
    let setup = nook.test_chain();
    let components =
        [setup.subchain(&[setup.scripted_command("inner")]), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let components = chain.initialize(&["inner", "agent"]);
    let list = nook.list();
    assert_eq!(list.len(), 2, "{list:?}");
    let find = |mode: &str| list.iter().find(|it| it["mode"] == mode).expect(mode);
    let (outer, inner) = (find("agent"), find("proxy"));
    assert_eq!(outer["pid"], chain.conductor.pid());
    assert_eq!(outer["components"][0]["pid"], inner["pid"]);
    assert_eq!(outer["components"][1]["pid"], components[1].pid);
    assert_eq!(inner["components"][0]["pid"], components[0].pid);
    assert_eq!(inner["state"], "running");
}

#[test]
fn that_no_conductor_runs_is_no_mistake_but_to_ask_for_one_is() {
    let nook = Nook::new("none");
    assert_eq!(nook.text(), "No conductor is running.\n");
    assert!(nook.list().is_empty());
    for arguments in [&["4242"][..], &["--json", "4242"]] {
        let output = nook.status(arguments);
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("conductor: no conductor with process id 4242 "), "{said}");
        assert!(said.contains("`conductor status` lists"), "{said}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(nook.status(&["first"]).status.code(), Some(2));
    // To ask leaves nothing behind.
    assert_eq!((names(&nook.runtime).len(), names(&nook.temporary).len()), (0, 0));
}

#[test]
fn a_conductor_that_does_not_answer_is_told_apart_from_none() {
    let nook = Nook::new("stopped");
    let (chain, _agent) = single(nook.test_chain());
    let pid = chain.conductor.pid();
    chain.conductor.signal(libc::SIGSTOP);
    let told = format!("conductor: conductor {pid} does not answer; its process may be stopped\n");
    let ask = |arguments: &[&str]| {
        let mut command = nook.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    // Both at once: each is patient for a while.
    let asked = [ask(&["status"]), ask(&["status", &pid.to_string()])];
    let [all, one] = asked.map(|child| child.wait_with_output().expect("an end"));
    assert_eq!((all.status.code(), one.status.code()), (Some(0), Some(1)), "{all:?} {one:?}");
    assert_eq!(all.stdout, b"No conductor answered.\n");
    assert_eq!(one.stdout, b"");
    assert_eq!(String::from_utf8_lossy(&all.stderr), told);
    assert_eq!(String::from_utf8_lossy(&one.stderr), told);
    chain.conductor.signal(libc::SIGCONT);
    assert_eq!(nook.json()["pid"], pid);
}

#[test]
fn a_chain_may_do_without() {
    let nook = Nook::new("off");
    let (mut chain, agent) = single(nook.test_chain().option(&["--status", "off"]));
    assert_eq!((names(&nook.runtime).len(), names(&nook.temporary).len()), (0, 0));
    assert_eq!(nook.text(), "No conductor is running.\n");
    end(&mut chain, &mut [agent]);
    assert_eq!(chain.conductor.stderr(), "");
    let output = nook.command(&["agent", "--status", "perhaps", "x"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
