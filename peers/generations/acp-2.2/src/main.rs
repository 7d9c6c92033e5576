//! The proxy of the interop story on crate `agent-client-protocol` 2.2, dialect P4b.

#[path = "../../src/proxy.rs"]
mod proxy;

mod sdk {
    pub use agent_client_protocol::schema::v1 as schema;
    pub use agent_client_protocol::*;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    proxy::run().await
}
