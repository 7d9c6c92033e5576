//! A small MCP client. It starts the servers and talks to them over their standard streams.

use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use acp_proxy::schema::{McpServer, McpServerStdio};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// The requested version of MCP. A server may answer with another one: the methods used here are the same.
const VERSION: &str = "2025-06-18";

/// How long a server may take to start and list its tools.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a server may take to exit after its input was closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of pages of `tools/list`.
const MAX_PAGES: usize = 20;

/// The MCP servers of a session. Every use waits until they are started.
#[derive(Clone, Default)]
pub(super) struct Servers(Arc<Mutex<Vec<Server>>>);

/// A server: running, or the reason why it is not.
struct Server {
    name: String,
    state: Result<RunningServer, String>,
}

struct RunningServer {
    tools: Vec<Tool>,
    process: ServerProcess,
}

/// A tool of a server.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) description: String,
}

/// The process of a server and its streams. Dropping it kills the process.
struct ServerProcess {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// The id of the open request.
    open_request: Option<u64>,
}

/// The result of a tool call.
#[derive(Debug)]
pub(super) struct ToolResult {
    pub(super) server: String,
    pub(super) text: String,
    pub(super) failed: bool,
}

impl Servers {
    /// Stops the current servers and starts the declared ones.
    pub(super) async fn start(&self, declared: Vec<Value>) {
        let mut servers = self.0.lock().await;
        stop_all(&mut servers).await;
        for declaration in declared {
            servers.push(Server::start(declaration).await);
        }
    }

    /// Stops all servers.
    pub(super) async fn stop(&self) {
        stop_all(&mut *self.0.lock().await).await;
    }

    /// Each server's name, and its tools or the reason why it does not run.
    pub(super) async fn list(&self) -> Vec<(String, Result<Vec<Tool>, String>)> {
        let servers = self.0.lock().await;
        let row = |it: &Server| {
            let tools = it.state.as_ref().map(|it| it.tools.clone()).map_err(Clone::clone);
            (it.name.clone(), tools)
        };
        servers.iter().map(row).collect()
    }

    /// Calls a tool. Without a server name, the first server that has the tool is used.
    pub(super) async fn call(
        &self,
        server: Option<&str>,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolResult, String> {
        let mut servers = self.0.lock().await;
        let named = |it: &&mut Server| server.is_none_or(|name| it.name == name);
        let has = |it: &RunningServer| it.tools.iter().any(|has| has.name == tool);
        let mut candidates = servers.iter_mut().filter(named);
        let found = candidates.find_map(|it| {
            let running = it.state.as_mut().ok().filter(|running| has(running))?;
            Some((it.name.clone(), running))
        });
        let Some((server, running)) = found else {
            return Err(match server {
                Some(server) => format!("there is no server {server} with a tool {tool}"),
                None => format!("no server has a tool {tool}"),
            });
        };
        let params = json!({ "name": tool, "arguments": arguments });
        let result = running.process.request("tools/call", params).await?;
        let failed = result["isError"] == true;
        Ok(ToolResult { server, text: text_of(&result), failed })
    }

    /// Cancels the open call, after its future was dropped.
    pub(super) async fn cancel_open_call(&self) {
        // While the servers are being started, there is no open call.
        let Ok(mut servers) = self.0.try_lock() else { return };
        for server in servers.iter_mut() {
            let Ok(running) = &mut server.state else { continue };
            if let Some(id) = running.process.open_request.take() {
                let params = json!({ "requestId": id, "reason": "cancelled by the user" });
                // A server that cannot be written to needs no cancellation.
                let _ = running.process.notify("notifications/cancelled", params).await;
            }
        }
    }
}

async fn stop_all(servers: &mut Vec<Server>) {
    for server in servers.drain(..) {
        if let Ok(running) = server.state {
            running.process.stop().await;
        }
    }
}

/// The text of a result. A result without text is shown as JSON.
fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { result.to_string() } else { texts.join("\n") }
}

impl Server {
    async fn start(declaration: Value) -> Server {
        let name = declaration["name"].as_str().unwrap_or("unknown").to_owned();
        let (name, state) = match serde_json::from_value(declaration) {
            Err(why) => (name, Err(format!("its declaration is not valid: {why}"))),
            Ok(McpServer::Stdio(server)) => {
                let started = timeout(START_TIMEOUT, RunningServer::start(&server)).await;
                let state = started.unwrap_or_else(|_| Err("it did not answer in time".into()));
                (server.name, state)
            }
            Ok(McpServer::Http(server)) => {
                (server.name, Err("the demo agent does not support HTTP".into()))
            }
            Ok(McpServer::Sse(server)) => {
                (server.name, Err("the demo agent does not support SSE".into()))
            }
            Ok(_) => (name, Err("the demo agent does not support this transport".into())),
        };
        Server { name, state }
    }
}

impl RunningServer {
    async fn start(server: &McpServerStdio) -> Result<RunningServer, String> {
        let mut process = ServerProcess::start(server)
            .map_err(|error| format!("it could not be started: {error}"))?;
        let greeting = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": "demo-agent", "version": env!("CARGO_PKG_VERSION") },
        });
        process.request("initialize", greeting).await?;
        process.notify("notifications/initialized", json!({})).await.map_err(write_failed)?;
        let mut tools = Vec::new();
        let mut params = json!({});
        for _ in 0..MAX_PAGES {
            let page = process.request("tools/list", params).await?;
            for tool in page["tools"].as_array().map(Vec::as_slice).unwrap_or_default() {
                let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
                tools.push(Tool { name: text("name"), description: text("description") });
            }
            match &page["nextCursor"] {
                Value::Null => break,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
        Ok(RunningServer { tools, process })
    }
}

fn write_failed(error: io::Error) -> String {
    format!("it cannot be written to: {error}")
}

impl ServerProcess {
    fn start(server: &McpServerStdio) -> io::Result<ServerProcess> {
        let mut child = Command::new(&server.command)
            .args(&server.args)
            .envs(server.env.iter().map(|it| (&it.name, &it.value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (input, output) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .ok_or_else(|| io::Error::other("its standard streams are missing"))?;
        let output = BufReader::new(output).lines();
        Ok(ServerProcess { child, input, output, last_id: 0, open_request: None })
    }

    /// Closes the standard input of the process and waits until it exits. Kills it after a timeout.
    async fn stop(self) {
        let ServerProcess { mut child, input, .. } = self;
        drop(input);
        if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
            // An error means that it has just exited.
            let _ = child.kill().await;
        }
    }

    async fn send(&mut self, message: Value) -> io::Result<()> {
        let line = format!("{message}\n");
        self.input.write_all(line.as_bytes()).await?;
        self.input.flush().await
    }

    async fn notify(&mut self, method: &str, params: Value) -> io::Result<()> {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await
    }

    /// Sends a request and waits for the answer. The future may be dropped: the next request skips a late answer.
    async fn request(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let id = self.last_id;
        self.open_request = Some(id);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(request).await.map_err(write_failed)?;
        loop {
            let line = self.output.next_line().await.map_err(|error| error.to_string())?;
            let line = line.ok_or("it has exited")?;
            // Some servers also print lines that are not JSON.
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if let Some(requested) = message["method"].as_str() {
                let Some(id) = message.get("id") else { continue };
                let answer = match requested {
                    "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                    _ => json!({ "jsonrpc": "2.0", "id": id, "error":
                        { "code": -32601, "message": "the demo agent does not support this method" } }),
                };
                self.send(answer).await.map_err(write_failed)?;
            } else if message["id"] == id {
                self.open_request = None;
                if let Some(result) = message.get("result") {
                    return Ok(result.clone());
                }
                let why = message["error"]["message"].as_str().unwrap_or("no reason given");
                return Err(format!("it answered {method} with an error: {why}"));
            }
        }
    }
}
