//! What must be true at the end of a story.

use mcp::ClientId;

use super::Play;
use crate::cast::*;

impl Play {
    /// Clients who are still there, and still want to know, have been answered.
    pub(super) fn check_clients(&mut self) {
        let here = |client_id: ClientId| {
            let on_line = |it: &Line| matches!(it, Line::Client(it) if *it == client_id);
            self.lines.iter().any(on_line) && !self.world.stage.hung_up.contains(&client_id)
        };
        for (name, line) in &self.asked {
            let waits = matches!(line, Line::Client(it) if here(*it));
            let answered = self.world.agent.outcomes.contains_key(name);
            if waits && !answered && !self.excused.contains(name) {
                self.world.stage.fail(&format!("a client was never answered {name}"));
            }
        }
    }

    pub(super) fn check(&mut self) {
        let world = &mut self.world;
        for (name, line) in &self.asked {
            let answered = world.agent.outcomes.contains_key(name);
            if !answered && matches!(line, Line::Native { .. }) {
                world.stage.fail(&format!("{name} was never answered"));
            }
        }
        assert!(self.connecting.is_empty(), "{:?}", self.connecting);
        for provider in &world.providers {
            for (name, answer) in &provider.asked {
                if answer.is_none() {
                    world.stage.fail(&format!("{} never heard of {name}", provider.who));
                }
            }
            if !provider.open.is_empty() {
                world.stage.fail(&format!("{} still has {:?}", provider.who, provider.open));
            }
            assert!(provider.owed.is_empty());
        }
        for name in &self.editor_asked {
            assert!(world.editor().answers.contains_key(name), "the editor never heard of {name}");
        }
        let strangers = world.editor().strangers.clone();
        if !strangers.is_empty() {
            world.stage.fail(&format!("the editor got messages for other servers: {strangers:?}"));
        }
        let dismissed = &world.agent.dismissed;
        if !self.mortal && dismissed.len() > self.refused_hellos {
            world.stage.fail(&format!("the agent was told that these are closed: {dismissed:?}"));
        }
        world.stage.quiet();
        world.stage.empty();
    }
}
