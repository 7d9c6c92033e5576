//! Describes the end of a component: its name and command, the cause, the reason in its output, and a remedy.

use acp_wire::message::error_object;
use acp_wire::{Json, acp, code, printable};

use crate::event::Recovery;
use crate::excerpt::excerpt;
use crate::exit::{Exit, ExitCause};
use crate::seat::{Chain, Seat};

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
        let output = exit.quoted_reason();
        let greetings = match &exit.failed_greetings {
            Some(greetings) => format!("; it was greeted with {greetings}"),
            None => String::new(),
        };
        // An error of a component, and a name or a command of the user, may contain control characters.
        printable::one_line(&format!(
            "{}{command} {}{during}{output}{greetings}",
            self.describe(seat),
            exit.description()
        ))
    }

    /// The crash report with the remedy, as one line. `starting` means that the component had not answered `initialize`.
    pub fn crash_report_with_remedy(&self, seat: Seat, exit: &Exit, starting: bool) -> String {
        let report = format!("{}; {}", self.crash_report(seat, exit, None), exit.remedy());
        exit.kind(starting).tag(report)
    }

    /// The error for requests to a component that is gone. `starting` means that the component had not answered
    /// `initialize`.
    pub(crate) fn crash_error(
        &self,
        seat: Seat,
        exit: &Exit,
        method: Option<&str>,
        starting: bool,
    ) -> Json {
        self.crash_error_with(seat, exit, method, starting, &exit.remedy())
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
        self.crash_error_with(seat, exit, method, false, &remedy)
    }

    fn crash_error_with(
        &self,
        seat: Seat,
        exit: &Exit,
        method: Option<&str>,
        starting: bool,
        remedy: &str,
    ) -> Json {
        let kind = exit.kind(starting || method == Some(acp::INITIALIZE));
        let message = format!("{}; {remedy}", self.crash_report(seat, exit, method));
        let (status, signal) = match exit.cause {
            ExitCause::Status(status) => (Some(status), None),
            ExitCause::Signal(signal) => (None, Some(signal)),
            _ => (None, None),
        };
        let number = |number: i32| Json::trusted(number.to_string());
        let lines: Vec<Json> = exit.quoted_output().iter().map(|it| Json::string(it)).collect();
        let data = Json::object([
            ("component", Some(Json::string(self.name(seat)))),
            ("command", self.component(seat).map(|it| Json::string(&it.command))),
            ("cause", Some(Json::string(&exit.description()))),
            ("status", status.map(number)),
            ("signal", signal.map(number)),
            ("lastWords", Some(Json::array(&lines))),
            ("greetings", exit.failed_greetings.as_deref().map(Json::string)),
            ("remedy", Some(Json::string(remedy))),
            ("code", Some(Json::string(kind.code()))),
        ]);
        error_object(code::INTERNAL_ERROR, &kind.tag(message), Some(&data))
    }
}

impl Exit {
    /// The reason in the output of the component, as a part of a sentence about its end. Empty if there is no output.
    pub fn quoted_reason(&self) -> String {
        match excerpt(&self.last_output) {
            reason if reason.is_empty() => reason,
            reason => format!("; its last output: \"{reason}\""),
        }
    }
}
