//! A small MCP client over the standard streams of programs that it starts.

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

/// The version of MCP that is asked for; a server may answer with another one, and little of what is
/// used here differs.
const VERSION: &str = "2025-06-18";

/// How long a server may take to start and list its tools.
const START: Duration = Duration::from_secs(10);

/// How long a server may take to end once its input is closed.
const END: Duration = Duration::from_secs(1);

/// How many pages of tools are read.
const MOST_PAGES: usize = 20;

/// The servers of one session. Whoever uses them waits until they are started.
#[derive(Clone, Default)]
pub struct Servers(Arc<Mutex<Vec<Server>>>);

/// One server: started, or not and why.
struct Server {
    name: String,
    state: Result<Running, String>,
}

struct Running {
    tools: Vec<Tool>,
    pipe: Pipe,
}

#[derive(Debug, Clone)]
pub struct Tool {
    pub name: String,
    pub description: String,
}

/// The process and its streams. Dropping it ends it.
struct Pipe {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// The question whose answer nobody has taken yet.
    open: Option<u64>,
}

/// What a tool gave back.
#[derive(Debug)]
pub struct Given {
    pub server: String,
    pub text: String,
    pub failed: bool,
}

impl Servers {
    /// Starts what is declared, in place of what was there before.
    pub async fn start(&self, declared: Vec<McpServer>) {
        let mut servers = self.0.lock().await;
        end_all(&mut servers).await;
        for declaration in declared {
            servers.push(Server::start(declaration).await);
        }
    }

    pub async fn end(&self) {
        end_all(&mut *self.0.lock().await).await;
    }

    /// Each server's name, and its tools or why it has none.
    pub async fn list(&self) -> Vec<(String, Result<Vec<Tool>, String>)> {
        let servers = self.0.lock().await;
        let row = |it: &Server| {
            let tools = it.state.as_ref().map(|it| it.tools.clone()).map_err(Clone::clone);
            (it.name.clone(), tools)
        };
        servers.iter().map(row).collect()
    }

    /// Calls a tool; of the first server that has it, where none is named.
    pub async fn call(
        &self,
        server: Option<&str>,
        tool: &str,
        arguments: &Value,
    ) -> Result<Given, String> {
        let mut servers = self.0.lock().await;
        let named = |it: &&mut Server| server.is_none_or(|name| it.name == name);
        let has = |it: &Running| it.tools.iter().any(|has| has.name == tool);
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
        let result = running.pipe.ask("tools/call", params).await?;
        let failed = result["isError"] == true;
        Ok(Given { server, text: text_of(&result), failed })
    }

    /// Tells the servers that an answer is not wanted any more, after a call was dropped.
    pub async fn give_up(&self) {
        // While they are being started nobody has asked anything.
        let Ok(mut servers) = self.0.try_lock() else { return };
        for server in servers.iter_mut() {
            let Ok(running) = &mut server.state else { continue };
            if let Some(id) = running.pipe.open.take() {
                let params = json!({ "requestId": id, "reason": "cancelled by the user" });
                // A server that does not listen any more does not work for us either.
                let _ = running.pipe.notify("notifications/cancelled", params).await;
            }
        }
    }
}

async fn end_all(servers: &mut Vec<Server>) {
    for server in servers.drain(..) {
        if let Ok(running) = server.state {
            running.pipe.end().await;
        }
    }
}

/// All text of a result, or the result itself where it has none.
fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    if texts.is_empty() { result.to_string() } else { texts.join("\n") }
}

impl Server {
    async fn start(declaration: McpServer) -> Server {
        let (name, state) = match declaration {
            McpServer::Stdio(server) => {
                let started = timeout(START, Running::start(&server)).await;
                let state = started.unwrap_or_else(|_| Err("it did not answer in time".into()));
                (server.name, state)
            }
            McpServer::Http(server) => (server.name, Err("the demo agent knows no HTTP".into())),
            McpServer::Sse(server) => (server.name, Err("the demo agent knows no SSE".into())),
            _ => ("unknown".into(), Err("the demo agent does not know this transport".into())),
        };
        Server { name, state }
    }
}

impl Running {
    async fn start(server: &McpServerStdio) -> Result<Running, String> {
        let mut pipe = Pipe::open(server).map_err(|error| format!("it does not start: {error}"))?;
        let greeting = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": { "name": "demo-agent", "version": env!("CARGO_PKG_VERSION") },
        });
        pipe.ask("initialize", greeting).await?;
        pipe.notify("notifications/initialized", json!({})).await.map_err(told)?;
        let mut tools = Vec::new();
        let mut params = json!({});
        for _ in 0..MOST_PAGES {
            let page = pipe.ask("tools/list", params).await?;
            for tool in page["tools"].as_array().map(Vec::as_slice).unwrap_or_default() {
                let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
                tools.push(Tool { name: text("name"), description: text("description") });
            }
            match &page["nextCursor"] {
                Value::Null => break,
                cursor => params = json!({ "cursor": cursor }),
            }
        }
        Ok(Running { tools, pipe })
    }
}

fn told(error: io::Error) -> String {
    format!("it does not listen: {error}")
}

impl Pipe {
    fn open(server: &McpServerStdio) -> io::Result<Pipe> {
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
            .ok_or_else(|| io::Error::other("it has no pipes"))?;
        let output = BufReader::new(output).lines();
        Ok(Pipe { child, input, output, last_id: 0, open: None })
    }

    /// Closes its input and waits for its end, but not long.
    async fn end(self) {
        let Pipe { mut child, input, .. } = self;
        drop(input);
        if timeout(END, child.wait()).await.is_err() {
            // It may have ended just now; and there is nobody to tell.
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

    /// Asks, and reads until the answer is there. May be dropped on the way: an answer that comes too
    /// late is skipped by whoever reads next.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.last_id += 1;
        let id = self.last_id;
        self.open = Some(id);
        let question = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(question).await.map_err(told)?;
        loop {
            let line = self.output.next_line().await.map_err(|error| error.to_string())?;
            let line = line.ok_or("it has ended")?;
            // Some servers print greetings, too.
            let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
            if let Some(asked) = message["method"].as_str() {
                let Some(id) = message.get("id") else { continue };
                let answer = match asked {
                    "ping" => json!({ "jsonrpc": "2.0", "id": id, "result": {} }),
                    _ => json!({ "jsonrpc": "2.0", "id": id, "error":
                        { "code": -32601, "message": "the demo agent offers its servers nothing" } }),
                };
                self.send(answer).await.map_err(told)?;
            } else if message["id"] == id {
                self.open = None;
                if let Some(result) = message.get("result") {
                    return Ok(result.clone());
                }
                let why = message["error"]["message"].as_str().unwrap_or("no reason given");
                return Err(format!("it answered {method} with an error: {why}"));
            }
        }
    }
}
