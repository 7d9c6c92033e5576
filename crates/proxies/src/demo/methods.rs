//! Answers all requests but prompts.

use std::path::Path;

use acp_proxy::{Agent, Call, Context, Error, Json, Result, to_json};
use serde_json::{Value, json};

use super::client::Client;
use super::options;
use super::session::{Session, Sessions};
use super::version;

/// The error code of a request that needs a login.
pub(super) const LOGIN_REQUIRED: i64 = -32000;

/// Answers a request, by its params.
type Handler = fn(&Sessions, &Value, &Context) -> Result<Value>;

/// Adds the handlers to an agent.
pub(super) fn add(agent: Agent, sessions: &Sessions, require_login: bool) -> Agent {
    let handlers: [(&str, Handler); 12] = [
        ("initialize", initialize),
        ("authenticate", log_in),
        ("auth/login", log_in),
        ("logout", log_out),
        ("auth/logout", log_out),
        ("session/new", new_session),
        ("session/load", load_session),
        ("session/resume", resume_session),
        ("session/list", list_sessions),
        ("session/set_mode", set_mode),
        ("session/set_config_option", set_option),
        ("session/delete", delete_session),
    ];
    let mut agent = agent;
    for (method, handle) in handlers {
        let sessions = sessions.clone();
        let needs_login = require_login && ["session/new", "session/load"].contains(&method);
        agent = agent.on_raw_request(method, async move |call: Call, context| {
            if needs_login && !sessions.table().is_logged_in {
                return Err(Error::new(LOGIN_REQUIRED, "Authentication required"));
            }
            to_json(&handle(&sessions, &params(&call), &context)?)
        });
    }
    let sessions = sessions.clone();
    agent.on_raw_request("session/close", async move |call: Call, _| {
        let params = params(&call);
        let session = sessions.table().sessions.remove(session_id(&params)?);
        if let Some(session) = session {
            session.servers.stop().await;
        }
        Ok(Json::EMPTY_OBJECT)
    })
}

/// The params of a request. Null if they cannot be read.
fn params(call: &Call) -> Value {
    let params = call.params.as_ref();
    params.and_then(|it| serde_json::from_str(it.as_str()).ok()).unwrap_or_default()
}

fn session_id(params: &Value) -> Result<&str> {
    params["sessionId"].as_str().ok_or_else(|| Error::invalid_params("the session id is missing"))
}

fn initialize(sessions: &Sessions, params: &Value, _: &Context) -> Result<Value> {
    let client = Client::new(params);
    sessions.table().client = client;
    let info = json!({
        "name": "demo-agent", "title": "Demo agent", "version": env!("CARGO_PKG_VERSION"),
    });
    let login_methods = options::login_methods(&client);
    Ok(match client.is_v2() {
        true => json!({
            "protocolVersion": 2,
            "info": info,
            "capabilities": {
                "session": {
                    "prompt": { "image": {}, "audio": {}, "embeddedContext": {} },
                    "mcp": { "stdio": {} },
                    "delete": {},
                    "resume": {},
                },
                "auth": { "logout": {} },
            },
            "authMethods": login_methods,
        }),
        false => json!({
            "protocolVersion": 1,
            "agentInfo": info,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": { "image": true, "audio": true, "embeddedContext": true },
                "mcpCapabilities": { "http": false, "sse": false },
                "sessionCapabilities": { "list": {}, "resume": {}, "close": {}, "delete": {} },
                "auth": { "logout": {} },
            },
            "authMethods": login_methods,
        }),
    })
}

fn log_in(sessions: &Sessions, params: &Value, _: &Context) -> Result<Value> {
    if params["methodId"] != options::LOGIN {
        let why = format!("there is no login method {}", params["methodId"]);
        return Err(Error::invalid_params(why));
    }
    sessions.table().is_logged_in = true;
    Ok(json!({}))
}

fn log_out(sessions: &Sessions, _: &Value, _: &Context) -> Result<Value> {
    sessions.table().is_logged_in = false;
    Ok(json!({}))
}

/// The directory of a request that sets up a session.
fn directory(params: &Value) -> std::path::PathBuf {
    params["cwd"].as_str().unwrap_or("/").into()
}

fn new_session(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    let id = sessions.create(directory(params));
    let mut answer = json!({ "sessionId": id });
    let rest = set_up(sessions, &id, params, context)?;
    if let (Some(answer), Value::Object(rest)) = (answer.as_object_mut(), rest) {
        answer.extend(rest);
    }
    Ok(answer)
}

fn load_session(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    let id = session_id(params)?;
    let history = sessions.history(id)?;
    sessions.with(id, |session| session.directory = directory(params))?;
    replay(context, id, history)?;
    set_up(sessions, id, params, context)
}

fn resume_session(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    let id = session_id(params)?;
    if !sessions.find_or_create(id, directory(params)) {
        context.log(format!("resumes session {id} of an earlier process, without its history"));
    }
    if params["replayFrom"].is_object() {
        replay(context, id, sessions.history(id)?)?;
    }
    set_up(sessions, id, params, context)
}

fn replay(context: &Context, id: &str, history: Vec<Value>) -> Result<()> {
    let editor = context.editor();
    for update in history {
        editor.notify_raw("session/update", json!({ "sessionId": id, "update": update }))?;
    }
    Ok(())
}

/// Starts the MCP servers of a session and announces its commands. Returns its modes and options.
fn set_up(sessions: &Sessions, id: &str, params: &Value, context: &Context) -> Result<Value> {
    let client = sessions.client();
    sessions.start_servers(context, id, &params["mcpServers"]);
    if let Some(update) = version::update(&client, options::commands_update(), "") {
        // The client may not know the session before the answer.
        notify_later(context, id, update);
    }
    let options = sessions.with(id, |session| session.options.clone())?;
    let config = options.config(&client);
    Ok(match client.is_v2() {
        true => json!({ "configOptions": config }),
        false => json!({ "modes": options.modes(), "configOptions": config }),
    })
}

fn list_sessions(sessions: &Sessions, params: &Value, _: &Context) -> Result<Value> {
    Ok(json!({ "sessions": sessions.list(params["cwd"].as_str().map(Path::new)) }))
}

fn delete_session(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    if let Some(Session { servers, .. }) = sessions.table().sessions.remove(session_id(params)?) {
        context.spawn(async move { servers.stop().await });
    }
    Ok(json!({}))
}

fn set_mode(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    let (id, mode) = (session_id(params)?, params["modeId"].as_str().unwrap_or_default());
    if !sessions.with(id, |session| session.options.set_mode(mode))? {
        return Err(Error::invalid_params(format!("there is no mode {mode}")));
    }
    let client = sessions.client();
    let config = sessions.with(id, |session| session.options.config(&client))?;
    let update = json!({ "sessionUpdate": "config_option_update", "configOptions": config });
    notify_later(context, id, update);
    Ok(json!({}))
}

fn set_option(sessions: &Sessions, params: &Value, context: &Context) -> Result<Value> {
    let (id, option) = (session_id(params)?, params["configId"].as_str().unwrap_or_default());
    let value = &params["value"];
    if !sessions.with(id, |session| session.options.set(option, value))? {
        return Err(Error::invalid_params(format!("there is no option {option} with {value}")));
    }
    let client = sessions.client();
    let options = sessions.with(id, |session| session.options.clone())?;
    if option == "mode" && !client.is_v2() {
        let update =
            json!({ "sessionUpdate": "current_mode_update", "currentModeId": options.mode });
        notify_later(context, id, update);
    }
    Ok(json!({ "configOptions": options.config(&client) }))
}

/// Sends an update after the answer to the current request.
fn notify_later(context: &Context, id: &str, update: Value) {
    let (editor, params) = (context.editor(), json!({ "sessionId": id, "update": update }));
    context.spawn(async move {
        // Fails only for values that are not JSON.
        let _ = editor.notify_raw("session/update", params);
    });
}
