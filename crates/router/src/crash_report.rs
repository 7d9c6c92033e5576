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
        let mut data = ObjectWriter::default();
        data.text("component", self.name(seat));
        if let Some(component) = self.component(seat) {
            data.text("command", &component.command);
        }
        data.text("cause", &exit.description());
        match exit.cause {
            ExitCause::Status(status) => data.number("status", status.into()),
            ExitCause::Signal(signal) => data.number("signal", signal.into()),
            _ => {}
        }
        data.texts("lastWords", &exit.last_output);
        data.text("remedy", remedy);
        error_object(code::INTERNAL_ERROR, &message, Some(&data.finish()))
    }
}

/// Writes a JSON object.
#[derive(Default)]
struct ObjectWriter(Vec<u8>);

impl ObjectWriter {
    fn key(&mut self, key: &str) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        acp_wire::json::write_string(key, &mut self.0);
        self.0.push(b':');
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        acp_wire::json::write_string(value, &mut self.0);
    }

    fn number(&mut self, key: &str, value: i64) {
        self.key(key);
        self.0.extend_from_slice(value.to_string().as_bytes());
    }

    fn texts(&mut self, key: &str, values: &[String]) {
        self.key(key);
        self.0.push(b'[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            acp_wire::json::write_string(value, &mut self.0);
        }
        self.0.push(b']');
    }

    fn finish(mut self) -> Json {
        self.0.push(b'}');
        Json::trusted(self.0)
    }
}
