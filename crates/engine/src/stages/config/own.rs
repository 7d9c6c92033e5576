//! The options of the conductor itself.

use acp_wire::config::{CONDUCTOR, ConfigRequest, Operation};
use acp_wire::{Json, Outcome, suggestion};
use router::Role;

use super::refusal;
use crate::policy::{Rules, Timeouts};
use crate::stages::Stages;

/// The limits that can be changed. A limit is a number of seconds, or `"off"`.
const LIMITS: [&str; 3] = ["answer-limit", "prompt-limit", "cancel-limit"];

/// Whether the editor gets notices about failures.
const NOTICES: &str = "notices";

/// Settings that a reload can change.
const OF_FILE: [&str; 11] = [
    "chain",
    "components",
    "agent",
    "init-timeout",
    "grace",
    "on-crash",
    "restarts",
    "restart-delay",
    "updates",
    "dialect",
    "guard",
];

/// Settings that take effect only when a chain starts.
const FIXED: [&str; 7] =
    ["version", "max-line", "mcp-bridge", "status", "log", "log-file", "journal"];

/// The schema of the options that can be changed. The conductor also shows other values, which cannot.
const SCHEMA: &str = r#"{"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"conductor","type":"object","additionalProperties":false,"properties":{"answer-limit":{"description":"How many seconds a component may take to answer a request. Prompts and other long requests are exempt.","anyOf":[{"type":"number","exclusiveMinimum":0},{"const":"off"}]},"prompt-limit":{"description":"How many seconds a component may be silent during a prompt or another long request.","anyOf":[{"type":"number","exclusiveMinimum":0},{"const":"off"}]},"cancel-limit":{"description":"How many seconds a component may take to answer a cancelled request.","anyOf":[{"type":"number","exclusiveMinimum":0},{"const":"off"}]},"notices":{"description":"Whether the editor shows notices about failed components.","type":"boolean"}}}}"#;

impl Stages {
    /// Answers a request about the conductor.
    pub(super) fn configure_conductor(&mut self, request: &ConfigRequest) -> Outcome {
        match request.operation {
            Operation::Get => Outcome::Result(Json::object([("values", Some(self.own_values()))])),
            Operation::Schema => Outcome::Result(Json::trusted(SCHEMA)),
            Operation::Set => {
                let values = request.values.as_ref().map(Json::members).unwrap_or_default();
                match changed(&self.rules, &values) {
                    Ok((timeouts, notices)) => {
                        (self.rules.timeouts, self.rules.notify_editor) = (timeouts, notices);
                        Outcome::Result(Json::object([
                            ("values", Some(self.own_values())),
                            ("applied", Some(Json::string("now"))),
                        ]))
                    }
                    Err(why) => refusal(&why),
                }
            }
        }
    }

    fn own_values(&self) -> Json {
        let (about, chain) = (&self.config.about, self.router.chain());
        let components: Vec<Json> = chain
            .seats()
            .map(|seat| {
                let is_managed = chain.component(seat).is_some_and(|it| it.managed);
                let known = self.config.takes_options.get(&seat).copied();
                let role = match chain.role(seat) {
                    Role::Proxy => "proxy",
                    Role::Agent => "agent",
                };
                Json::object([
                    ("name", Some(Json::string(chain.name(seat)))),
                    ("role", Some(Json::string(role))),
                    ("options", is_managed.then_some(true).or(known).map(boolean)),
                ])
            })
            .collect();
        let Timeouts { answer, prompt, cancel } = self.rules.timeouts;
        Json::object([
            ("version", Some(Json::string(&about.version))),
            ("chain", about.chain.as_deref().map(Json::string)),
            ("components", Some(Json::array(&components))),
            (LIMITS[0], Some(limit(answer))),
            (LIMITS[1], Some(limit(prompt))),
            (LIMITS[2], Some(limit(cancel))),
            (NOTICES, Some(boolean(self.rules.notify_editor))),
            ("init-timeout", Some(seconds(chain.initialize_timeout))),
            ("grace", Some(seconds(chain.grace))),
        ])
    }
}

/// The timeouts and the notices after these changes, or what is wrong with them.
fn changed(rules: &Rules, values: &[(String, Json)]) -> Result<(Timeouts, bool), String> {
    let (mut timeouts, mut notices) = (rules.timeouts, rules.notify_editor);
    for (name, value) in values {
        let within = |why: String| format!("option `{name}`: {why}");
        match name.as_str() {
            "answer-limit" => timeouts.answer = read_limit(value).map_err(within)?,
            "prompt-limit" => timeouts.prompt = read_limit(value).map_err(within)?,
            "cancel-limit" => timeouts.cancel = read_limit(value).map_err(within)?,
            NOTICES => {
                notices = match value.as_str() {
                    "true" => true,
                    "false" => false,
                    _ => return Err(within(format!("{} is not true or false", short(value)))),
                }
            }
            name if OF_FILE.contains(&name) => {
                return Err(format!(
                    "option `{name}` cannot be changed by a message; change the configuration file and run \
                     `conductor reload`, or start the chain again"
                ));
            }
            name if FIXED.contains(&name) => {
                return Err(format!(
                    "option `{name}` cannot be changed while the chain runs; change the configuration or the \
                     command line, and start the chain again"
                ));
            }
            name => {
                let known = LIMITS.into_iter().chain([NOTICES]);
                let hint = suggestion::closest(name, known.clone());
                let hint = hint.map(|it| format!("did you mean `{it}`? ")).unwrap_or_default();
                let known: Vec<&str> = known.collect();
                return Err(format!(
                    "{CONDUCTOR} has no option `{name}`; {hint}The options that can be changed are {}",
                    known.join(", ")
                ));
            }
        }
    }
    Ok((timeouts, notices))
}

/// The longest limit, in seconds: a year.
const MAX_LIMIT: f64 = 365.0 * 24.0 * 3600.0;

/// Reads a limit: a number of seconds, or `"off"`.
fn read_limit(value: &Json) -> Result<Option<u64>, String> {
    if value.equals_text("off") {
        return Ok(None);
    }
    let seconds = value.as_str().parse::<f64>().ok();
    match seconds.filter(|seconds| (0.001..=MAX_LIMIT).contains(seconds)) {
        // The number fits: it is not larger than a year.
        Some(seconds) => Ok(Some((seconds * 1000.0) as u64)),
        None => Err(format!(
            "{} is not a number of seconds from 0.001 to 31536000, and not \"off\"",
            short(value)
        )),
    }
}

fn short(value: &Json) -> String {
    let text = value.as_str();
    let end = text.floor_char_boundary(60);
    format!("{}{}", &text[..end], if end < text.len() { "…" } else { "" })
}

fn boolean(value: bool) -> Json {
    if value { Json::TRUE } else { Json::trusted("false") }
}

fn limit(milliseconds: Option<u64>) -> Json {
    milliseconds.map_or_else(|| Json::string("off"), seconds)
}

/// A number of seconds. It has a fraction only if it needs one.
fn seconds(milliseconds: u64) -> Json {
    let (whole, rest) = (milliseconds / 1000, milliseconds % 1000);
    Json::trusted(match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{rest:03}").trim_end_matches('0').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_of_seconds_or_off() {
        let read = |text: &str| read_limit(&Json::trusted(text.to_owned()));
        assert_eq!(read("\"off\""), Ok(None));
        assert_eq!(read("30"), Ok(Some(30_000)));
        assert_eq!(read("1.5"), Ok(Some(1500)));
        for wrong in ["0", "-1", "1e30", "null", "\"30\"", "true", "[]", "\"of\"", "1e400"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let shown = [1500, 30_000, 20, 1].map(|it| seconds(it).as_str().to_owned());
        assert_eq!(shown, ["1.5", "30", "0.02", "0.001"]);
    }

    #[test]
    fn the_schema_names_the_options_that_can_be_changed() {
        let schema = Json::parse(SCHEMA).expect("JSON");
        let names = schema.at(&["schema", "properties"]).expect("properties").keys();
        assert_eq!(names, LIMITS.into_iter().chain([NOTICES]).collect::<Vec<_>>());
        let mut others = FIXED.iter().chain(&OF_FILE);
        assert!(others.all(|name| !names.contains(&(*name).to_owned())));
    }
}
