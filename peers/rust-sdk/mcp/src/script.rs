//! What the agent does when a prompt asks for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::v1::schema::McpServer;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::client::{Client, Failure};

type Said = agent_client_protocol::Result<()>;

pub struct Session {
    servers: Vec<McpServer>,
    per_call: bool,
    clients: Mutex<HashMap<String, Arc<Client>>>,
}

impl Session {
    pub fn new(servers: Vec<McpServer>, per_call: bool) -> Self {
        Self { servers, per_call, clients: Mutex::default() }
    }

    pub async fn connect_all(&self) -> Result<(), Failure> {
        for server in &self.servers {
            let client = self.client(described(server).0).await?;
            client.service.list_all_tools().await?;
            self.done_with(client).await;
        }
        Ok(())
    }

    pub async fn end(&self) {
        for (_, client) in self.clients.lock().await.drain() {
            if let Some(client) = Arc::into_inner(client) {
                client.end().await;
            }
        }
    }

    /// Answers one prompt with one text, after the texts of the call's progress.
    pub async fn play(
        &self,
        text: &str,
        say: &impl Fn(String) -> Said,
    ) -> agent_client_protocol::Result<String> {
        let mut words = text.splitn(4, ' ');
        let verb = words.next().unwrap_or_default();
        let name = words.next().unwrap_or_default();
        let tool = words.next().unwrap_or_default();
        let arguments = words.next().unwrap_or("{}");
        let answer = match verb {
            "servers" => Ok(self.servers.iter().map(described).map(server_entry).collect()),
            "tools" | "resources" | "prompts" | "instructions" | "call" | "cancel" => {
                self.with_client(verb, name, tool, arguments, say).await
            }
            _ => return Ok(format!("heard {text}")),
        };
        Ok(match answer {
            Ok(Value::String(words)) => words,
            Ok(value) => compact(value),
            Err(Failure { code, message }) => {
                compact(json!({"error": {"code": code, "message": message}}))
            }
        })
    }

    async fn with_client(
        &self,
        verb: &str,
        name: &str,
        tool: &str,
        arguments: &str,
        say: &impl Fn(String) -> Said,
    ) -> Result<Value, Failure> {
        let client = self.client(name).await?;
        let service = &client.service;
        let answer = match verb {
            "tools" => names(service.list_all_tools().await?, |it| it.name.into_owned()),
            "resources" => names(service.list_all_resources().await?, |it| it.name),
            "prompts" => names(service.list_all_prompts().await?, |it| it.name),
            "instructions" => {
                let info = service.peer_info();
                let info = info.as_ref();
                json!({
                    "instructions": info.and_then(|it| it.instructions.clone()),
                    "name": info.and_then(|it| it.server_info.as_ref()).map(|it| it.name.clone()),
                })
            }
            _ => {
                let arguments = serde_json::from_str(arguments).map_err(Failure::invalid)?;
                let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
                match verb {
                    "cancel" => cancel(&client, request).await?,
                    _ => call(&client, request, say).await?,
                }
            }
        };
        self.done_with(client).await;
        Ok(answer)
    }

    async fn client(&self, name: &str) -> Result<Arc<Client>, Failure> {
        let server = self.servers.iter().find(|it| described(it).0 == name);
        let server = server.ok_or_else(|| Failure::invalid(format!("no server {name}")))?;
        if self.per_call {
            return Client::connect(server).await.map(Arc::new);
        }
        let mut clients = self.clients.lock().await;
        if let Some(client) = clients.get(name) {
            return Ok(client.clone());
        }
        let client = Arc::new(Client::connect(server).await?);
        clients.insert(name.to_owned(), client.clone());
        Ok(client)
    }

    async fn done_with(&self, client: Arc<Client>) {
        if self.per_call
            && let Some(client) = Arc::into_inner(client)
        {
            client.end().await;
        }
    }
}

async fn call(
    client: &Client,
    request: CallToolRequestParams,
    say: &impl Fn(String) -> Said,
) -> Result<Value, Failure> {
    let mut progress = client.progress.lock().await;
    let call = client.service.call_tool(request);
    tokio::pin!(call);
    let result = loop {
        tokio::select! {
            biased;
            Some(step) = progress.recv() => say(format!("progress {step}")).map_err(Failure::connection)?,
            result = &mut call => break result?,
        }
    };
    // By its text: the way to a `Value` turns 0.7 into 0.699999988, for `priority` is an f32.
    let content = serde_json::to_string(&result.content).map_err(Failure::connection)?;
    let content: Value = serde_json::from_str(&content).map_err(Failure::connection)?;
    Ok(json!({"isError": result.is_error.unwrap_or(false), "content": content}))
}

async fn cancel(client: &Client, request: CallToolRequestParams) -> Result<Value, Failure> {
    let mut progress = client.progress.lock().await;
    while progress.try_recv().is_ok() {}
    let began = timeout(Duration::from_millis(500), progress.recv());
    tokio::select! {
        result = client.service.call_tool(request) => {
            result?;
            Ok(json!({"error": {"code": 0, "message": "answered before it could be cancelled"}}))
        }
        // The SDK tells the server when nobody waits for a call any more.
        _ = began => Ok("cancelled".into()),
    }
}

fn described(server: &McpServer) -> (&str, &'static str) {
    match server {
        McpServer::Stdio(it) => (&it.name, "stdio"),
        McpServer::Http(it) => (&it.name, "http"),
        McpServer::Sse(it) => (&it.name, "sse"),
        McpServer::Acp(it) => (&it.name, "acp"),
        _ => ("", "unknown"),
    }
}

fn server_entry((name, transport): (&str, &str)) -> Value {
    json!({"name": name, "transport": transport})
}

fn names<T>(listed: Vec<T>, name: impl Fn(T) -> String) -> Value {
    let mut names: Vec<String> = listed.into_iter().map(name).collect();
    names.sort();
    names.into()
}

/// Keys in order and whole numbers without a point, so that all agents write the same.
fn compact(value: Value) -> String {
    fn plain(value: Value) -> Value {
        match value {
            Value::Object(it) => {
                let sorted: BTreeMap<_, _> = it.into_iter().collect();
                sorted.into_iter().map(|(key, it)| (key, plain(it))).collect()
            }
            Value::Array(it) => it.into_iter().map(plain).collect(),
            Value::Number(it) => match it.as_f64() {
                #[expect(clippy::cast_possible_truncation, reason = "it is whole and small")]
                Some(float) if it.is_f64() && float.fract() == 0.0 && float.abs() < 1e15 => {
                    (float as i64).into()
                }
                _ => it.into(),
            },
            other => other,
        }
    }
    plain(value).to_string()
}
