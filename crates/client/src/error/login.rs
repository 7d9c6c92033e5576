//! The login methods that an agent advertises in its answer to `initialize`.

use acp_wire::printable::one_line;
use serde_json::Value;

/// A login method of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The id, for the request `authenticate`.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// What the agent says about the method; may be empty.
    pub description: String,
    /// What the user has to do.
    pub how: LoginHow,
}

/// What a login method needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginHow {
    /// The client sends the request `authenticate`.
    Authenticate,
    /// The user runs a command in a terminal. The text is quoted for a shell.
    Terminal(String),
    /// The user sets environment variables and starts the agent again.
    Environment {
        /// The names of the variables.
        variables: Vec<String>,
        /// A page where the user gets the values; may be empty.
        link: String,
    },
}

/// The login methods in an answer to `initialize`, of ACP version 1 or 2. `command` is the command line of the agent,
/// quoted for a shell. All texts are safe to print.
pub fn logins(greeting: &Value, command: &str) -> Vec<Login> {
    let methods = greeting["authMethods"].as_array().map(Vec::as_slice).unwrap_or_default();
    methods.iter().filter_map(|method| login(method, command)).collect()
}

fn login(method: &Value, command: &str) -> Option<Login> {
    let text = |value: &Value| one_line(value.as_str().unwrap_or_default().trim());
    let id = ["id", "methodId"].iter().find_map(|it| method[*it].as_str())?;
    let terminal = &method["_meta"]["terminal-auth"];
    let how = match method["type"].as_str() {
        _ if terminal["command"].is_string() => {
            let program = quote(terminal["command"].as_str().unwrap_or_default());
            LoginHow::Terminal(terminal_command(terminal, &program))
        }
        Some("terminal") => {
            let command = if command.is_empty() { "AGENT" } else { command };
            LoginHow::Terminal(terminal_command(method, command))
        }
        Some("env_var") => {
            LoginHow::Environment { variables: variables(method), link: text(&method["link"]) }
        }
        _ => LoginHow::Authenticate,
    };
    let name = match text(&method["name"]) {
        name if name.is_empty() => one_line(id),
        name => name,
    };
    Some(Login { id: id.to_owned(), name, description: text(&method["description"]), how })
}

/// The command with the additional arguments and variables of a method.
fn terminal_command(method: &Value, command: &str) -> String {
    let pair = |name: &str, value: &Value| {
        format!("{}={}", one_line(name), quote(value.as_str().unwrap_or_default()))
    };
    let mut words: Vec<String> = match &method["env"] {
        Value::Object(members) => members.iter().map(|(name, value)| pair(name, value)).collect(),
        Value::Array(list) => list
            .iter()
            .map(|it| pair(it["name"].as_str().unwrap_or_default(), &it["value"]))
            .collect(),
        _ => Vec::new(),
    };
    words.push(one_line(command));
    let args = method["args"].as_array().map(Vec::as_slice).unwrap_or_default();
    words.extend(args.iter().filter_map(Value::as_str).map(quote));
    words.join(" ")
}

/// The names of the variables. The oldest form has one variable.
fn variables(method: &Value) -> Vec<String> {
    let vars = method["vars"].as_array().map(Vec::as_slice).unwrap_or_default();
    let vars = vars.iter().filter(|it| it["optional"] != true);
    let mut names: Vec<String> =
        vars.filter_map(|it| it["name"].as_str().or(it.as_str())).map(one_line).collect();
    names.extend(method["varName"].as_str().map(one_line));
    names
}

/// Quotes a word for a shell.
fn quote(word: &str) -> String {
    let word = one_line(word);
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./:=@%+,".contains(it);
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// What the user has to do for each login, one line each. The logins that the client performs share a line.
pub fn remedies(logins: &[Login]) -> Vec<String> {
    let is_request = |it: &&Login| it.how == LoginHow::Authenticate;
    let (requests, others): (Vec<&Login>, Vec<&Login>) = logins.iter().partition(is_request);
    let mut lines: Vec<String> = others.into_iter().map(Login::remedy).collect();
    match requests.as_slice() {
        [] => {}
        [only] => lines.push(only.remedy()),
        several => {
            let names: Vec<String> = several.iter().map(|it| it.title()).collect();
            lines.push(format!(
                "type /login in `conductor try`, or choose a login in your editor: {}",
                names.join("; ")
            ));
        }
    }
    lines
}

impl Login {
    /// The name, and the description in parentheses.
    fn title(&self) -> String {
        match self.description.as_str() {
            "" => self.name.clone(),
            description => format!("{} ({description})", self.name),
        }
    }

    /// What the user has to do, as one line.
    pub fn remedy(&self) -> String {
        let about = self.title();
        match &self.how {
            LoginHow::Terminal(command) => format!("{about}: run `{command}` in a terminal"),
            LoginHow::Environment { variables, link } => {
                let variables = match variables.is_empty() {
                    true => "its variables".to_owned(),
                    false => variables.join(" and "),
                };
                let link = if link.is_empty() { String::new() } else { format!(" (see {link})") };
                format!("{about}: set {variables} in the environment of the agent{link}")
            }
            LoginHow::Authenticate => {
                format!(
                    "{about}: choose this login in your editor, or type /login in `conductor try`"
                )
            }
        }
    }
}
