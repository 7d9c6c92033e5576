//! Answers requests about the options of built-in components.

use acp_wire::Json;
use acp_wire::config::Operation;
use engine::Input;
use router::Seat;

use super::Shell;

impl Shell {
    /// Answers a request about the options of a component.
    pub(super) fn configure(
        &mut self,
        request: u64,
        seat: Seat,
        operation: Operation,
        values: &Json,
    ) {
        let spec = &self.config.components[seat.index() - 1];
        let answer = self.option_changes.configure((request, seat), spec, operation, values);
        self.inputs.push_back(Input::Configured { request, answer });
    }

    /// The next process of the component gets the options of this request.
    pub(super) fn apply_options(&mut self, request: u64) {
        let specs = &mut self.config.components;
        self.option_changes.apply(request, |seat| specs.get_mut(seat.index() - 1));
        self.plan_again();
    }

    /// Forgets the options of a request.
    pub(super) fn drop_options(&mut self, request: u64) {
        let specs = &mut self.config.components;
        self.option_changes.drop(request, |seat| specs.get_mut(seat.index() - 1));
        self.plan_again();
    }
}
