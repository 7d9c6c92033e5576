//! A client of one MCP server.

#![expect(
    deprecated,
    reason = "sampling and roots are on their way out of MCP, but servers still ask"
)]

use std::collections::HashMap;
use std::env;

use agent_client_protocol::v1::schema::McpServer;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
    ProgressNotificationParam, Root, SamplingMessage,
};
use rmcp::service::{
    ClientInitializeError, NotificationContext, RequestContext, RunningService, ServiceError,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ErrorData, RoleClient, ServiceExt};
use serde_json::{Map, Value};
use tokio::process::Command;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub struct Client {
    pub service: RunningService<RoleClient, Handler>,
    /// Of whatever call is running: a session has one prompt at a time, and a prompt one call.
    pub progress: Mutex<UnboundedReceiver<f64>>,
}

pub struct Failure {
    pub code: i32,
    pub message: String,
}

impl Client {
    pub async fn connect(server: &McpServer) -> Result<Self, Failure> {
        let (sender, progress) = unbounded_channel();
        let handler = Handler { progress: sender };
        let service = match server {
            McpServer::Stdio(it) => {
                let mut command = Command::new(&it.command);
                command.args(&it.args).env_clear().kill_on_drop(true);
                for name in ["PATH", "HOME", "LANG"] {
                    command.envs(env::var_os(name).map(|value| (name, value)));
                }
                command.envs(it.env.iter().map(|it| (&it.name, &it.value)));
                handler.serve(TokioChildProcess::new(command).map_err(Failure::connection)?).await?
            }
            McpServer::Http(it) => {
                let mut headers = HashMap::new();
                for header in &it.headers {
                    headers.insert(
                        header.name.parse().map_err(Failure::connection)?,
                        header.value.parse().map_err(Failure::connection)?,
                    );
                }
                let config = StreamableHttpClientTransportConfig::with_uri(it.url.as_str())
                    .custom_headers(headers);
                handler.serve(StreamableHttpClientTransport::from_config(config)).await?
            }
            _ => return Err(Failure::connection("no such transport")),
        };
        Ok(Self { service, progress: Mutex::new(progress) })
    }

    pub async fn end(self) {
        let _ = self.service.cancel().await;
    }
}

/// What the client answers when the server asks.
pub struct Handler {
    progress: UnboundedSender<f64>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder()
            .enable_sampling()
            .enable_elicitation()
            .enable_roots()
            .build();
        ClientConfig::new(capabilities, Implementation::new("mcp-agent-rust", "1"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("sampled"), "peer".to_owned()))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///peer-root").with_name("peer")]))
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = serde_json::to_value(request).unwrap_or_default();
        let content = filled_in(&form["requestedSchema"]);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content.into()))
    }

    async fn on_progress(
        &self,
        note: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.progress.send(note.progress);
    }
}

/// What a form needs at least.
fn filled_in(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required
        .map(|name| match schema["properties"][name]["type"].as_str() {
            Some("boolean") => (name.to_owned(), true.into()),
            _ => (name.to_owned(), "elicited".into()),
        })
        .collect()
}

impl Failure {
    /// The code that the SDKs of the other agents use when there is no server to answer.
    pub fn connection(error: impl ToString) -> Self {
        Self { code: -32000, message: error.to_string() }
    }

    pub fn invalid(message: impl ToString) -> Self {
        Self { code: -32602, message: message.to_string() }
    }
}

impl From<ErrorData> for Failure {
    fn from(error: ErrorData) -> Self {
        Self { code: error.code.0, message: error.message.into_owned() }
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => error.into(),
            error => Self::connection(error),
        }
    }
}

impl From<ClientInitializeError> for Failure {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::JsonRpcError(error) => error.into(),
            error => Self::connection(error),
        }
    }
}
