//! Where the sockets are, which users may open them, and when they are removed.

use std::fs::{self, Metadata, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use testkit::test_chain::{binary, wait_until};

use crate::{PROGRAM, TestDirectories, end, names, start_agent, uid};

fn mode(found: &Metadata) -> u32 {
    found.mode() & 0o7777
}

#[test]
fn only_the_user_can_open_the_socket() {
    let directories = TestDirectories::new("modes");
    let (chain, _agent) = start_agent(directories.new_setup());
    let directory = fs::symlink_metadata(directories.sockets()).expect("a directory");
    assert_eq!((mode(&directory), directory.uid()), (0o700, uid()));
    let socket = fs::symlink_metadata(directories.socket(&chain.conductor)).expect("a socket");
    assert!(socket.file_type().is_socket());
    assert_eq!((mode(&socket), socket.uid()), (0o600, uid()));
    assert_eq!(names(&directories.sockets()).len(), 1);
    assert_eq!(names(&directories.temporary), [""; 0]);
}

/// The chain must have its socket in the fallback directory, and be found there.
fn assert_falls_back(directories: &TestDirectories) {
    let (mut chain, agent) = start_agent(directories.new_setup());
    let directory = fs::symlink_metadata(directories.fallback_sockets()).expect("a directory");
    assert_eq!((mode(&directory), directory.uid()), (0o700, uid()));
    assert_eq!(names(&directories.fallback_sockets()), [format!("{}.sock", chain.conductor.pid())]);
    assert_eq!(directories.json()["pid"], chain.conductor.pid());
    end(&mut chain, &mut [agent]);
    assert_eq!(chain.conductor.whole_stderr(), "");
    assert_eq!(names(&directories.fallback_sockets()), [""; 0]);
}

#[test]
fn a_directory_that_is_open_to_other_users_is_not_used() {
    let directories = TestDirectories::new("open");
    for open in [0o777, 0o750, 0o701] {
        let directory = directories.sockets();
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, Permissions::from_mode(open)).expect("a mode");
        assert_falls_back(&directories);
        assert_eq!(mode(&fs::metadata(&directory).expect("it exists")), open);
        assert_eq!(names(&directory), [""; 0]);
        let output = directories.status(&[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let flaw = format!(
            "cannot search {} for conductors: other users can access it",
            directory.display()
        );
        assert!(stderr.starts_with(&format!("conductor: {flaw} [more: ")), "{stderr}");
        fs::remove_dir(&directory).expect("it is empty");
    }
}

#[test]
fn a_link_or_a_file_is_not_used_as_the_directory() {
    let directories = TestDirectories::new("link");
    let elsewhere = directories.root.join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).expect("a mode");
    symlink(&elsewhere, directories.sockets()).expect("a link");
    assert_falls_back(&directories);
    assert_eq!(names(&elsewhere), [""; 0]);
    fs::remove_file(directories.sockets()).expect("a link");
    fs::write(directories.sockets(), "").expect("a file");
    assert_falls_back(&directories);
}

#[test]
fn a_directory_of_another_user_is_not_used() {
    let directories = TestDirectories::new("foreign");
    fs::create_dir(directories.sockets()).expect("a directory");
    fs::set_permissions(directories.sockets(), Permissions::from_mode(0o700)).expect("a mode");
    // Only root can change the owner. Run as another user, the test checks nothing.
    if chown(directories.sockets(), Some(12345), None).is_ok() {
        assert_falls_back(&directories);
        assert_eq!(names(&directories.sockets()), [""; 0]);
    }
}

/// Only root can see both sides. Run as another user, the test checks nothing.
#[test]
fn not_even_root_can_read_the_status_of_another_user() {
    const OTHER_USER: u32 = 12345;
    let directories = TestDirectories::new("peer");
    let theirs = [&directories.runtime, &directories.temporary].into_iter();
    if theirs.into_iter().any(|it| chown(it, Some(OTHER_USER), None).is_err()) {
        return;
    }
    let mut command = directories.command(&["agent", "demo-agent"]);
    // The home of the user is not that of root.
    command.env("HOME", &directories.runtime).uid(OTHER_USER).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let Ok(mut child) = command.spawn() else { return };
    let socket = directories.sockets().join(format!("{}.sock", child.id()));
    let mut client = wait_until("it listens", || UnixStream::connect(&socket).ok());
    let mut received = Vec::new();
    client.read_to_end(&mut received).expect("an end");
    assert_eq!(received, b"");
    let output = directories.status(&[]);
    assert_eq!(output.stdout, b"No conductor is running.\n");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("for conductors: it belongs to another user"), "{stderr}");
    let own = directories
        .command(&["status"])
        .env("HOME", &directories.runtime)
        .uid(OTHER_USER)
        .current_dir("/")
        .output()
        .expect("it starts");
    assert!(own.stdout.starts_with(child.id().to_string().as_bytes()), "{own:?}");
    drop(child.stdin.take());
    assert!(wait_until("it ends", || child.try_wait().expect("wait")).success());
}

#[test]
fn without_a_usable_runtime_directory_the_socket_is_in_the_temporary_directory() {
    let mut directories = TestDirectories::new("fallback");
    // It does not exist, is too long for a socket, is a relative path, or is empty.
    let long = directories.root.join("l".repeat(90));
    fs::create_dir(&long).expect("a directory");
    for runtime in [directories.root.join("nowhere"), long.clone(), "run".into(), "".into()] {
        directories.runtime = runtime;
        assert_falls_back(&directories);
    }
    assert_eq!(names(&long), [""; 0]);
}

#[test]
fn a_chain_runs_without_a_usable_directory_for_its_socket() {
    let directories = TestDirectories::new("nowhere");
    for directory in [directories.sockets(), directories.fallback_sockets()] {
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, Permissions::from_mode(0o777)).expect("a mode");
    }
    let (mut chain, agent) = start_agent(directories.new_setup());
    end(&mut chain, &mut [agent]);
    let stderr = chain.conductor.whole_stderr();
    assert!(stderr.contains("WARN") && stderr.contains("other users can access it"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let output = directories.status(&["1"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("no conductor with process id 1 "), "{stderr}");
    assert_eq!(stderr.matches("cannot search").count(), 2, "{stderr}");
}

// When the sockets are removed.

#[test]
fn the_socket_is_removed_with_the_chain() {
    let directories = TestDirectories::new("end");
    let (mut chain, agent) = start_agent(directories.new_setup());
    assert!(directories.socket(&chain.conductor).exists());
    end(&mut chain, &mut [agent]);
    assert_eq!(names(&directories.sockets()), [""; 0]);

    let (mut chain, mut agent) = start_agent(directories.new_setup());
    chain.conductor.signal(libc::SIGTERM);
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(names(&directories.sockets()), [""; 0]);

    let (mut chain, mut agent) =
        start_agent(directories.new_setup().option(&["--on-crash", "stop"]));
    agent.exit(3);
    assert_eq!(chain.conductor.status(), 1);
    assert_eq!(names(&directories.sockets()), [""; 0]);
}

#[test]
fn the_socket_of_a_killed_conductor_is_removed() {
    let directories = TestDirectories::new("stale");
    let (mut chain, _agent) = start_agent(directories.new_setup());
    let socket = directories.socket(&chain.conductor);
    chain.conductor.signal(libc::SIGKILL);
    assert_eq!(chain.conductor.status(), 128 + libc::SIGKILL);
    assert!(socket.exists());
    // Other files are not removed.
    let other = directories.sockets().join("7.sock");
    fs::write(&other, "").expect("a file");
    // Asking for another process does not remove the socket either.
    let output = directories.status(&["1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(socket.exists());
    assert_eq!(directories.text(), "No conductor is running.\n");
    assert_eq!(names(&directories.sockets()), ["7.sock"]);
}

#[test]
fn a_leftover_socket_of_the_same_process_id_is_replaced() {
    let directories = TestDirectories::new("same");
    fs::create_dir(directories.sockets()).expect("a directory");
    fs::set_permissions(directories.sockets(), Permissions::from_mode(0o700)).expect("a mode");
    // The shell becomes the conductor, so it knows the process id before.
    let agent = binary("stub_agent");
    let script = "touch \"$1/$$.sock\" \"$1/$$.sock.new\"; exec \"$2\" agent \"$3\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(directories.sockets()).arg(PROGRAM).arg(agent);
    command.envs(directories.variables()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("a shell");
    let status = wait_until("the status is available", || directories.list().pop());
    assert_eq!(status["pid"], child.id());
    assert_eq!(names(&directories.sockets()), [format!("{}.sock", child.id())]);
    drop(child.stdin.take());
    assert!(wait_until("it ends", || child.try_wait().expect("wait")).success());
    assert_eq!(names(&directories.sockets()), [""; 0]);
}
