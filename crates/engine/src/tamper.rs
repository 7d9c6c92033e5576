//! Lets a test plant a fault between the links of a chain and the decisions of its core.
//!
//! A simulation proves something only if it fails when the core is wrong. So a test plants a wrong decision
//! at the one place that every event and every action passes. The program itself never does.

use crate::event::{Action, Event};
use crate::stages::Stages;

/// A planted fault.
pub trait Tamper: std::fmt::Debug + Send {
    /// Called before an event is decided. `None` drops the event.
    fn before(&mut self, event: Event, stages: &Stages) -> Option<Event>;

    /// Called after an event was decided, and before its actions are performed. The events that it returns are
    /// decided, too.
    fn after(&mut self, actions: &mut Vec<Action>, stages: &Stages) -> Vec<Event>;
}
