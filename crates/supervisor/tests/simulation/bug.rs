//! Faults to plant.

use supervisor::{Action, Event, Supervisor};

#[derive(Debug)]
pub struct Saboteur;

impl Saboteur {
    pub fn before(&mut self, event: Event, _supervisor: &Supervisor) -> Option<Event> {
        Some(event)
    }

    pub fn after(&mut self, _actions: &mut Vec<Action>, _supervisor: &Supervisor) {}
}
