//! Outputs and thoughts that are shown in part, by number.

use serde_json::Value;

use crate::recent::{Recent, size_of};

/// The maximum number of folded parts that are kept.
const MAX: usize = 100;

/// A folded part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fold {
    Thought(String),
    ToolCall(Value),
}

/// The folded parts.
#[derive(Debug)]
pub(crate) struct Folds {
    count: usize,
    folds: Recent<usize, Fold>,
}

impl Default for Folds {
    fn default() -> Folds {
        Folds { count: 0, folds: Recent::new(MAX) }
    }
}

impl Folds {
    /// Adds a part, and returns its number.
    pub(crate) fn add(&mut self, fold: Fold) -> usize {
        self.count += 1;
        let size = match &fold {
            Fold::Thought(text) => text.len(),
            Fold::ToolCall(call) => size_of(call),
        };
        self.folds.push(self.count, fold, size);
        self.count
    }

    /// The part with this number, or the last one.
    pub(crate) fn find(&self, number: Option<usize>) -> Option<&Fold> {
        match number {
            None => self.folds.last(),
            Some(number) => self.folds.find(&number),
        }
    }
}
