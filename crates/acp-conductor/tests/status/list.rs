//! Which conductors `conductor status` shows.

use std::process::Stdio;

use serde_json::Value;

use crate::{TestDirectories, end, names, start_agent};

#[test]
fn all_conductors_are_shown_or_only_the_requested_one() {
    let directories = TestDirectories::new("two");
    let (first, _agent) = start_agent(directories.new_setup());
    let (second, _other) = start_agent(directories.new_setup());
    let mut pids = [first.conductor.pid(), second.conductor.pid()];
    let one = directories.status(&["--json", &pids[1].to_string()]);
    let one: Value = serde_json::from_slice(&one.stdout).expect("JSON");
    assert_eq!(one.as_array().map(Vec::len), Some(1), "{one}");
    assert_eq!(one[0]["pid"], pids[1]);
    let one = directories.status(&[&pids[0].to_string()]);
    let one = String::from_utf8(one.stdout).expect("UTF-8");
    assert!(one.starts_with(&format!("{}  agent", pids[0])) && one.lines().count() == 3, "{one}");

    pids.sort_unstable();
    let shown: Vec<Value> = directories.list().iter().map(|status| status["pid"].clone()).collect();
    assert_eq!(shown, pids.map(Value::from));
    let text = directories.text();
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.len(), 2, "{text}");
    for (block, pid) in blocks.into_iter().zip(pids) {
        assert!(block.starts_with(&format!("{pid}  agent")), "{text}");
    }
}

#[test]
fn a_nested_chain_is_shown_as_well() {
    let directories = TestDirectories::new("nested");
    let setup = directories.new_setup();
    let components =
        [setup.subchain(&[setup.scripted_command("inner")]), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let scripted = chain.initialize(&["inner", "agent"]);
    let list = directories.list();
    assert_eq!(list.len(), 2, "{list:?}");
    let find = |mode: &str| list.iter().find(|it| it["mode"] == mode).expect(mode);
    let (outer, inner) = (find("agent"), find("proxy"));
    assert_eq!(outer["pid"], chain.conductor.pid());
    assert_eq!(outer["components"][0]["pid"], inner["pid"]);
    assert_eq!(outer["components"][1]["pid"], scripted[1].pid);
    assert_eq!(inner["components"][0]["pid"], scripted[0].pid);
    assert_eq!(inner["state"], "running");
}

#[test]
fn a_missing_conductor_is_an_error_only_if_it_was_requested() {
    let directories = TestDirectories::new("none");
    assert_eq!(directories.text(), "No conductor is running.\n");
    assert!(directories.list().is_empty());
    for arguments in [&["4242"][..], &["--json", "4242"]] {
        let output = directories.status(arguments);
        let stderr = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.starts_with("conductor: no conductor with process id 4242 "), "{stderr}");
        assert!(stderr.contains("`conductor status` lists"), "{stderr}");
        assert!(output.stdout.is_empty());
    }
    assert_eq!(directories.status(&["first"]).status.code(), Some(2));
    // The command leaves no files behind.
    assert_eq!((names(&directories.runtime).len(), names(&directories.temporary).len()), (0, 0));
}

#[test]
fn a_conductor_that_does_not_answer_is_reported() {
    let directories = TestDirectories::new("stopped");
    let (chain, _agent) = start_agent(directories.new_setup());
    let pid = chain.conductor.pid();
    chain.conductor.signal(libc::SIGSTOP);
    let expected = format!(
        "conductor: conductor {pid} does not answer; its process may be stopped [more: conductor errors status-unavailable]\n"
    );
    let start = |arguments: &[&str]| {
        let mut command = directories.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    // Both at the same time, because each waits for a timeout.
    let children = [start(&["status"]), start(&["status", &pid.to_string()])];
    let [all, one] = children.map(|child| child.wait_with_output().expect("an end"));
    assert_eq!((all.status.code(), one.status.code()), (Some(0), Some(1)), "{all:?} {one:?}");
    assert_eq!(all.stdout, b"No conductor answered.\n");
    assert_eq!(one.stdout, b"");
    assert_eq!(String::from_utf8_lossy(&all.stderr), expected);
    assert_eq!(String::from_utf8_lossy(&one.stderr), expected);
    chain.conductor.signal(libc::SIGCONT);
    assert_eq!(directories.json()["pid"], pid);
}

#[test]
fn the_status_socket_can_be_turned_off() {
    let directories = TestDirectories::new("off");
    let (mut chain, agent) = start_agent(directories.new_setup().option(&["--status", "off"]));
    assert_eq!((names(&directories.runtime).len(), names(&directories.temporary).len()), (0, 0));
    assert_eq!(directories.text(), "No conductor is running.\n");
    end(&mut chain, &mut [agent]);
    assert_eq!(chain.conductor.whole_stderr(), "");
    let output =
        directories.command(&["agent", "--status", "perhaps", "x"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
}
