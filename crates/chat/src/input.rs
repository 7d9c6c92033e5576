//! The input of a chat: the prompts of the command line, the lines of standard input, or a person.

use std::collections::VecDeque;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::mpsc::Receiver;

use crate::view::UserInput;

/// The source of input.
#[derive(Debug)]
pub enum Input {
    /// The prompts of the command line.
    Prompts(VecDeque<String>),
    /// Standard input, each line of which is a prompt.
    Lines(Lines<BufReader<Stdin>>),
    /// A person.
    Person(Receiver<UserInput>),
}

impl Input {
    /// The lines of standard input.
    pub fn lines() -> Input {
        Input::Lines(BufReader::new(tokio::io::stdin()).lines())
    }

    /// The next input. Cancel safe.
    pub(crate) async fn next(&mut self) -> UserInput {
        let line = match self {
            Input::Prompts(prompts) => prompts.pop_front(),
            Input::Lines(lines) => lines.next_line().await.ok().flatten(),
            Input::Person(inputs) => return inputs.recv().await.unwrap_or(UserInput::End),
        };
        line.map_or(UserInput::End, UserInput::Line)
    }

    /// Discards the rest of the input, unless it comes from a person.
    pub(crate) fn discard_rest(&mut self) {
        if !matches!(self, Input::Person(_)) {
            *self = Input::Prompts(VecDeque::new());
        }
    }
}
