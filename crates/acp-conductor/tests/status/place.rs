//! Where the sockets are, who can open them, and when they go.

use std::fs::{self, Metadata, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use testkit::test_chain::{binary, wait_until};

use crate::{Nook, PROGRAM, end, names, single, uid};

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

#[test]
fn only_the_user_can_open_the_socket() {
    let nook = Nook::new("modes");
    let (chain, _agent) = single(nook.test_chain());
    let directory = fs::symlink_metadata(nook.directory()).expect("a directory");
    assert_eq!((mode(&directory), directory.uid()), (0o700, uid()));
    let socket = fs::symlink_metadata(nook.socket(&chain.conductor)).expect("a socket");
    assert!(socket.file_type().is_socket());
    assert_eq!((mode(&socket), socket.uid()), (0o600, uid()));
    assert_eq!(names(&nook.directory()).len(), 1);
    assert_eq!(names(&nook.temporary), [""; 0]);
}

/// A chain must have its socket in the other directory, and be found there.
fn assert_falls_back(nook: &Nook) {
    let (mut chain, agent) = single(nook.test_chain());
    let directory = fs::symlink_metadata(nook.fallback()).expect("a directory");
    assert_eq!((mode(&directory), directory.uid()), (0o700, uid()));
    assert_eq!(names(&nook.fallback()), [format!("{}.sock", chain.conductor.pid())]);
    assert_eq!(nook.json()["pid"], chain.conductor.pid());
    end(&mut chain, &mut [agent]);
    assert_eq!(chain.conductor.stderr(), "");
    assert_eq!(names(&nook.fallback()), [""; 0]);
}

#[test]
fn a_directory_that_is_open_to_others_is_left_alone() {
    let nook = Nook::new("open");
    for open in [0o777, 0o750, 0o701] {
        let directory = nook.directory();
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, Permissions::from_mode(open)).expect("a mode");
        assert_falls_back(&nook);
        assert_eq!(mode(&fs::metadata(&directory).expect("it is there")), open);
        assert_eq!(names(&directory), [""; 0]);
        let output = nook.status(&[]);
        let said = String::from_utf8_lossy(&output.stderr);
        let flaw = format!(
            "cannot search {} for conductors: other users can access it",
            directory.display()
        );
        assert_eq!(said, format!("conductor: {flaw}\n"));
        fs::remove_dir(&directory).expect("it is empty");
    }
}

#[test]
fn a_directory_that_is_a_link_or_no_directory_is_left_alone() {
    let nook = Nook::new("link");
    let elsewhere = nook.root.join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).expect("a mode");
    symlink(&elsewhere, nook.directory()).expect("a link");
    assert_falls_back(&nook);
    assert_eq!(names(&elsewhere), [""; 0]);
    fs::remove_file(nook.directory()).expect("a link");
    fs::write(nook.directory(), "").expect("a file");
    assert_falls_back(&nook);
}

#[test]
fn a_directory_of_somebody_else_is_left_alone() {
    let nook = Nook::new("foreign");
    fs::create_dir(nook.directory()).expect("a directory");
    fs::set_permissions(nook.directory(), Permissions::from_mode(0o700)).expect("a mode");
    // Only root can give things away; for anybody else this is tested where tests run as root.
    if chown(nook.directory(), Some(12345), None).is_ok() {
        assert_falls_back(&nook);
        assert_eq!(names(&nook.directory()), [""; 0]);
    }
}

/// Nobody but root can see this from both sides; where tests run as somebody else, it is not tested.
#[test]
fn not_even_root_is_told_how_somebody_elses_chain_is() {
    const SOMEBODY: u32 = 12345;
    let nook = Nook::new("peer");
    let theirs = [&nook.runtime, &nook.temporary].into_iter();
    if theirs.into_iter().any(|it| chown(it, Some(SOMEBODY), None).is_err()) {
        return;
    }
    let mut command = nook.command(&["agent", "demo-agent"]);
    command.uid(SOMEBODY).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null());
    let Ok(mut child) = command.spawn() else { return };
    let socket = nook.directory().join(format!("{}.sock", child.id()));
    let mut client = wait_until("it listens", || UnixStream::connect(&socket).ok());
    let mut told = Vec::new();
    client.read_to_end(&mut told).expect("an end");
    assert_eq!(told, b"");
    let output = nook.status(&[]);
    assert_eq!(output.stdout, b"No conductor is running.\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("for conductors: it belongs to another user"), "{said}");
    let own = nook.command(&["status"]).uid(SOMEBODY).current_dir("/").output().expect("it starts");
    assert!(own.stdout.starts_with(child.id().to_string().as_bytes()), "{own:?}");
    drop(child.stdin.take());
    assert!(wait_until("it ends", || child.try_wait().expect("wait")).success());
}

#[test]
fn without_a_directory_for_it_the_socket_is_with_temporary_files() {
    let mut nook = Nook::new("fallback");
    // Not there; too long a name for a socket; no path from the root; nothing.
    let long = nook.root.join("l".repeat(90));
    fs::create_dir(&long).expect("a directory");
    for runtime in [nook.root.join("nowhere"), long.clone(), "run".into(), "".into()] {
        nook.runtime = runtime;
        assert_falls_back(&nook);
    }
    assert_eq!(names(&long), [""; 0]);
}

#[test]
fn a_chain_runs_without_a_place_for_its_socket() {
    let nook = Nook::new("nowhere");
    for directory in [nook.directory(), nook.fallback()] {
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("a mode");
    }
    let (mut chain, agent) = single(nook.test_chain());
    end(&mut chain, &mut [agent]);
    let said = chain.conductor.stderr();
    assert!(said.contains("WARN") && said.contains("other users can access it"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let output = nook.status(&["1"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no conductor with process id 1 "), "{said}");
    assert_eq!(said.matches("cannot search").count(), 2, "{said}");
}

// When they go.

#[test]
fn the_socket_goes_with_the_chain() {
    let nook = Nook::new("end");
    let (mut chain, agent) = single(nook.test_chain());
    assert!(nook.socket(&chain.conductor).exists());
    end(&mut chain, &mut [agent]);
    assert_eq!(names(&nook.directory()), [""; 0]);

    let (mut chain, mut agent) = single(nook.test_chain());
    chain.conductor.signal(libc::SIGTERM);
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(names(&nook.directory()), [""; 0]);

    let (mut chain, mut agent) = single(nook.test_chain().option(&["--on-crash", "stop"]));
    agent.exit(3);
    assert_eq!(chain.conductor.status(), 1);
    assert_eq!(names(&nook.directory()), [""; 0]);
}

#[test]
fn what_a_killed_conductor_left_is_cleaned_up() {
    let nook = Nook::new("stale");
    let (mut chain, _agent) = single(nook.test_chain());
    let socket = nook.socket(&chain.conductor);
    chain.conductor.signal(libc::SIGKILL);
    assert_eq!(chain.conductor.status(), 128 + libc::SIGKILL);
    assert!(socket.exists());
    // What is no socket of ours is none of our business.
    let other = nook.directory().join("7.sock");
    fs::write(&other, "").expect("a file");
    // Nor is one who only is asked for by another name.
    let output = nook.status(&["1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(socket.exists());
    assert_eq!(nook.text(), "No conductor is running.\n");
    assert_eq!(names(&nook.directory()), ["7.sock"]);
}

#[test]
fn a_socket_that_was_left_by_a_process_of_the_same_id_is_replaced() {
    let nook = Nook::new("same");
    fs::create_dir(nook.directory()).expect("a directory");
    fs::set_permissions(nook.directory(), Permissions::from_mode(0o700)).expect("a mode");
    // The shell becomes the conductor, whose id is known to it before.
    let agent = binary("stub_agent");
    let script = "touch \"$1/$$.sock\" \"$1/$$.new\"; exec \"$2\" agent \"$3\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(nook.directory()).arg(PROGRAM).arg(agent);
    command.envs(nook.variables()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("a shell");
    let status = wait_until("it can be asked", || nook.list().pop());
    assert_eq!(status["pid"], child.id());
    assert_eq!(names(&nook.directory()), [format!("{}.sock", child.id())]);
    drop(child.stdin.take());
    assert!(wait_until("it ends", || child.try_wait().expect("wait")).success());
    assert_eq!(names(&nook.directory()), [""; 0]);
}
