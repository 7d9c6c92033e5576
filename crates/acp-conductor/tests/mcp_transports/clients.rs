//! The MCP client of the Rust SDK, with a small MCP server behind the listeners.

// The protocol is about to drop sampling, but clients use it.
#![allow(deprecated)]

use std::sync::Mutex;

use acp_conductor::mcp::listeners::Listeners;
use mcp::{Endpoint, Transport};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientInfo, CreateMessageRequestParams,
    CreateMessageResult, Implementation, ProgressNotificationParam, ProtocolVersion,
    SamplingMessage,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt, NotificationContext, RequestContext, RoleClient,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ErrorData};
use tokio::sync::Notify;
use tokio::sync::mpsc::channel;

use crate::server;
use crate::{MAX_LINE, TICKET, TIMEOUT};

/// A client that can sample, and records the notifications that it receives.
#[derive(Debug, Default)]
struct Client {
    progress: Mutex<Vec<f64>>,
    changed: Notify,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientInfo {
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = Some(Default::default());
        ClientInfo::new(capabilities, Implementation::new("test", "1"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(CreateMessageResult::new(SamplingMessage::assistant_text("a sample"), "m".into()))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params.progress);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}

async fn check_client(lifecycle: ClientLifecycleMode, calls: usize) {
    let (sender, events) = channel(4);
    let mut listeners = Listeners::new(sender, MAX_LINE);
    let Ok(Endpoint::Http { url, secret }) = listeners.open_endpoint(Transport::Http, TICKET)
    else {
        panic!()
    };
    let server = tokio::spawn(server::serve(events));
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(secret);
    let transport = StreamableHttpClientTransport::from_config(config);
    let client = Client::default().serve_with_lifecycle(transport, lifecycle).await.unwrap();

    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 3);
    let call = async |name: &'static str| {
        let result = client.call_tool(CallToolRequestParams::new(name)).await.unwrap();
        result.content[0].as_text().unwrap().text.clone()
    };
    assert_eq!(call("echo").await, "{}");
    assert_eq!(call("sample").await, "a sample");
    assert_eq!(call("progress").await, "done");
    assert_eq!(*client.service().progress.lock().unwrap(), [1.0, 2.0]);
    // It was sent before there was a stream for it.
    client.service().changed.notified().await;
    client.cancel().await.unwrap();

    listeners.revoke(TICKET);
    let ended = async {
        // The server ends when the last sender of events is dropped.
        drop(listeners);
        server.await.unwrap()
    };
    assert_eq!(ended.await, (calls, calls));
}

#[tokio::test]
async fn the_rust_sdk_works_with_a_session() {
    tokio::time::timeout(TIMEOUT, check_client(ClientLifecycleMode::Initialize, 1)).await.unwrap();
}

/// A client of version 2026-07-28 first tries that version, in a request without a session.
#[tokio::test]
async fn the_rust_sdk_falls_back_to_a_session() {
    let lifecycle = ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: None,
    };
    tokio::time::timeout(TIMEOUT, check_client(lifecycle, 2)).await.unwrap();
}
