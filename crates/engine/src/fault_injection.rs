//! Lets a test inject faults between the links of a chain and the stages.
//!
//! A simulation proves something only if it fails when the core is wrong. So a test changes the inputs or outputs of
//! the stages, at the one place that all of them pass. The conductor itself never injects faults.

use crate::stage_io::{StageInput, StageOutput};
use crate::stages::Stages;

/// Changes the inputs and outputs of the stages, for a test.
pub trait FaultInjector: std::fmt::Debug + Send {
    /// Called before the stages handle an input. `None` drops the input.
    fn before(&mut self, input: StageInput, stages: &Stages) -> Option<StageInput>;

    /// Called after the stages have handled an input, before their outputs are performed. The stages then also
    /// handle the inputs that this method returns.
    fn after(&mut self, outputs: &mut Vec<StageOutput>, stages: &Stages) -> Vec<StageInput>;
}
