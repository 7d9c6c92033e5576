//! Outputs and thoughts that are shown in part, by number.

use std::collections::VecDeque;

use serde_json::Value;

/// The maximum number of folded parts that are kept.
const MAX: usize = 100;

/// A folded part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fold {
    Thought(String),
    ToolCall(Value),
}

/// The folded parts.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    count: usize,
    folds: VecDeque<(usize, Fold)>,
}

impl Folds {
    /// Adds a part, and returns its number.
    pub(crate) fn add(&mut self, fold: Fold) -> usize {
        self.count += 1;
        if self.folds.len() >= MAX {
            self.folds.pop_front();
        }
        self.folds.push_back((self.count, fold));
        self.count
    }

    /// The part with this number, or the last one.
    pub(crate) fn find(&self, number: Option<usize>) -> Option<(usize, Fold)> {
        match number {
            None => self.folds.back().cloned(),
            Some(number) => self.folds.iter().find(|(it, _)| *it == number).cloned(),
        }
    }
}
