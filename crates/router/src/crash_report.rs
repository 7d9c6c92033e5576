//! Describes the end of a component: its name and command, the cause, its last output, and a remedy.

use acp_wire::message::error_object;
use acp_wire::{Json, code};

use crate::event::Recovery;
use crate::seat::{Chain, Exit, ExitCause, Seat};

/// How many lines of the last output are in the crash report. The error data has all of them.
const QUOTED_LINES: usize = 3;

impl Chain {
    /// The crash report, as one line. `method` is the request that the component had to answer.
    pub fn crash_report(&self, seat: Seat, exit: &Exit, method: Option<&str>) -> String {
        let command = match self.component(seat) {
            Some(component) => format!(" (command: {})", component.command),
            None => String::new(),
        };
        let during = match method {
            Some(method) if !exit.names_the_request() => {
                format!(" while answering {method}")
            }
            _ => String::new(),
        };
        let output = &exit.last_output[exit.last_output.len().saturating_sub(QUOTED_LINES)..];
        let output = match output {
            [] => String::new(),
            lines => format!("; its last output: {:?}", lines.join(" | ")),
        };
        format!("{}{command} {}{during}{output}", self.describe(seat), exit.description())
    }

    /// The error for requests to a component that is gone.
    pub(crate) fn crash_error(&self, seat: Seat, exit: &Exit, method: Option<&str>) -> Json {
        self.crash_error_with(seat, exit, method, exit.remedy())
    }

    /// The error for requests to a component that is restarted or bypassed.
    pub(crate) fn recovery_error(
        &self,
        seat: Seat,
        exit: &Exit,
        method: Option<&str>,
        recovery: Recovery,
    ) -> Json {
        let consequence = match recovery {
            Recovery::Restart { .. } => "is being restarted",
            Recovery::Bypass => "is bypassed from now on",
        };
        let remedy = format!("it {} and {consequence}; send the request again", exit.verb());
        self.crash_error_with(seat, exit, method, &remedy)
    }

    fn crash_error_with(
        &self,
        seat: Seat,
        exit: &Exit,
        method: Option<&str>,
        remedy: &str,
    ) -> Json {
        let message = format!("{}; {remedy}", self.crash_report(seat, exit, method));
        let (status, signal) = match exit.cause {
            ExitCause::Status(status) => (Some(status), None),
            ExitCause::Signal(signal) => (None, Some(signal)),
            _ => (None, None),
        };
        let number = |number: i32| Json::trusted(number.to_string());
        let last_output: Vec<Json> = exit.last_output.iter().map(|it| Json::string(it)).collect();
        let data = Json::object([
            ("component", Some(Json::string(self.name(seat)))),
            ("command", self.component(seat).map(|it| Json::string(&it.command))),
            ("cause", Some(Json::string(&exit.description()))),
            ("status", status.map(number)),
            ("signal", signal.map(number)),
            ("lastWords", Some(Json::array(&last_output))),
            ("remedy", Some(Json::string(remedy))),
        ]);
        error_object(code::INTERNAL_ERROR, &message, Some(&data))
    }
}
