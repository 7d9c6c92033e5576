//! A terminal (pty) with a program in it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::test_chain::wait_until;

/// The timeout of each step.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A terminal in which a program runs. Dropping it kills the program.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keys: File,
    shown: Receiver<Vec<u8>>,
    /// Output that was not waited for yet. Its last character may be incomplete.
    rest: Vec<u8>,
    program_end: OwnedFd,
}

impl Terminal {
    /// Starts a program in a terminal of 24 lines and 80 columns, which is an `xterm` unless the command sets `TERM`.
    /// Standard output goes to `stdout` if it is set.
    pub fn start(command: &mut Command, stdout: Option<Stdio>) -> Terminal {
        let (mut test_end, mut program_end) = (-1, -1);
        let mut size = winsize(24, 80);
        let null = std::ptr::null_mut();
        // SAFETY: fills in two descriptors, which are owned from here on.
        let (test_end, program_end) = unsafe {
            let opened =
                libc::openpty(&mut test_end, &mut program_end, null, null.cast(), &raw mut size);
            assert_eq!(opened, 0);
            (File::from_raw_fd(test_end), OwnedFd::from_raw_fd(program_end))
        };
        let stream = || Stdio::from(program_end.try_clone().expect("a descriptor"));
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        command.stdin(stream()).stderr(stream());
        command.stdout(stdout.unwrap_or_else(stream));
        // SAFETY: all calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY as _, 0);
                // Tests that a shell runs in the background ignore this signal, and so would the program.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        let (sender, shown) = channel();
        let mut screen = test_end.try_clone().expect("a descriptor");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keys: test_end, shown, rest: Vec::new(), program_end }
    }

    /// The process id of the program.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Waits until this is shown. Returns all output up to its end.
    pub fn wait_for(&mut self, wanted: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let found = self.rest.windows(wanted.len()).position(|it| it == wanted.as_bytes());
            if let Some(at) = found {
                let rest = self.rest.split_off(at + wanted.len());
                let shown = std::mem::replace(&mut self.rest, rest);
                return String::from_utf8_lossy(&shown).into_owned();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.shown.recv_timeout(left) else {
                panic!("{wanted:?} is not shown, but: {:?}", String::from_utf8_lossy(&self.rest));
            };
            self.rest.extend(bytes);
        }
    }

    /// The output that was received but not waited for.
    pub fn rest(&self) -> String {
        String::from_utf8_lossy(&self.rest).into_owned()
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        let size = winsize(rows, columns);
        // SAFETY: reads the size.
        let done = unsafe { libc::ioctl(self.program_end.as_raw_fd(), libc::TIOCSWINSZ, &size) };
        assert_eq!(done, 0);
    }

    /// Whether the terminal echoes input, as it does before a program changes its mode.
    pub fn echoes(&self) -> bool {
        let modes = rustix::termios::tcgetattr(&self.program_end).expect("a terminal");
        modes.local_modes.contains(rustix::termios::LocalModes::ECHO)
    }

    /// All of standard output, if it is a pipe.
    pub fn read_stdout(&mut self) -> String {
        let mut text = String::new();
        let stdout = self.child.stdout.as_mut().expect("a pipe");
        stdout.read_to_string(&mut text).expect("UTF-8");
        text
    }

    /// Waits until the program exits.
    pub fn wait(&mut self) -> ExitStatus {
        wait_until("the program ends", || self.child.try_wait().expect("wait"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn winsize(rows: u16, columns: u16) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}
