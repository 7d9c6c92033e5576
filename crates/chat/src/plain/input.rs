//! The lines of standard input, and the remarks while the chat waits.

use std::io::{BufRead, Read};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::{Options, Shared};
use crate::view::UserInput;

/// The maximum number of inputs that the conversation has not read.
const INPUTS: usize = 16;

/// The maximum length of a line.
const MAX_LINE: u64 = 16 * 1024 * 1024;

/// How often to check whether a remark is due.
const CHECK: Duration = Duration::from_secs(1);

/// Starts the threads that the options need.
pub(super) fn start(shared: &Arc<Shared>, options: &Options) -> Receiver<UserInput> {
    let (sender, receiver) = channel(INPUTS);
    if options.read_input {
        let reading = Arc::clone(shared);
        std::thread::spawn(move || read_lines(&reading, &sender));
    }
    if options.terminal {
        let waiting = Arc::clone(shared);
        std::thread::spawn(move || remark_while_waiting(&waiting));
    }
    receiver
}

/// Reads standard input until it ends.
fn read_lines(shared: &Shared, sender: &Sender<UserInput>) {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = (&mut stdin).take(MAX_LINE).read_until(b'\n', &mut line);
        let input = match read {
            Ok(0) | Err(_) => {
                shared.lock().end_of_input();
                UserInput::End
            }
            Ok(_) => {
                let line = String::from_utf8_lossy(&line);
                match shared.lock().entered(line.trim_end_matches(['\r', '\n'])) {
                    Some(input) => input,
                    None => continue,
                }
            }
        };
        let end = input == UserInput::End;
        if sender.blocking_send(input).is_err() || end {
            return;
        }
    }
}

/// Writes a remark from time to time while the chat waits.
fn remark_while_waiting(shared: &Shared) {
    let mut output = shared.lock();
    while !output.is_finished() {
        output.remark();
        output = if output.is_waiting() {
            let waited = shared.wake.wait_timeout(output, CHECK);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            shared.wake.wait(output).unwrap_or_else(PoisonError::into_inner)
        };
    }
}
