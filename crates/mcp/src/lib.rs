//! MCP over ACP: a component of the chain offers an MCP server whose transport is the ACP channel
//! itself, and any agent can use that server.
//!
//! # Provider, consumer, broker
//!
//! The *provider* of a server is the component that declares it: a proxy, or the editor. The
//! *consumer* is the agent, or the bridge in place of an agent that does not support MCP over ACP.
//! The consumer's messages travel from the agent toward the editor until they reach the provider.
//!
//! The [`Broker`] sits between the links of a chain and its router. It sees each message that
//! arrives from a component and each message that the router delivers to one. It does two things:
//!
//! - **At the provider's seat it translates.** MCP over ACP exists in nine versions, the
//!   [*forms*](form::Form) M0 to M7 (M3 has a variant). The provider and the consumer may use
//!   different ones. The broker delivers the consumer's messages in the provider's form, and the
//!   provider's messages in the consumer's form. Components between the two pass the messages on
//!   unchanged.
//! - **At the agent's seat it bridges.** An agent that does not support MCP over ACP gets an
//!   [endpoint](Endpoint) instead: a program to start, or a URL. The agent's MCP client connects
//!   there, and the bridge converts the client's messages into MCP over ACP, and sends them on behalf
//!   of the agent.
//!
//! # Lifecycle of a server
//!
//! 1. A provider declares a server in a request that sets up a session, such as `session/new`. The
//!    broker registers the server and gives it an id and a name that no other server has.
//! 2. The request reaches the agent. The broker declares the server in a syntax that the agent
//!    understands. For a bridged server it first asks for an endpoint with [`Action::OpenEndpoint`],
//!    and holds the request until [`Broker::endpoint_opened`] reports the address.
//! 3. The consumer connects and sends MCP requests. The broker opens a connection to the provider
//!    and forwards them. It retries requests that are safe to repeat, and reports a timeout if the
//!    provider does not answer.
//! 4. If the provider crashes and is restarted, it declares its servers again, under new ids. The
//!    broker opens its connections again and repeats each consumer's `initialize`. The consumer
//!    sees the same ids as before.
//! 5. When no session uses the server any more, the broker closes its connections and removes it.
//!
//! # Modules, in reading order
//!
//! The [forms](form), and how each one encodes its messages, are a module of `acp_wire`.
//!
//! - `declaration`: the servers in a request that sets up a session
//! - `capability`: what an agent declares about MCP in its answer to `initialize`
//! - `stateless`: conversion between MCP with connections and stateless MCP
//! - `broker`: the parts of the broker, and the path of a message through them
//!   - Tables, each owned by one module: `registry` (servers, and the set-up requests that declare
//!     them), `connections`, `pending_requests` (requests that are not answered, with their timeouts
//!     and retries), `operations` (requests between a stateless side and a side with connections),
//!     `input_requests` (requests that servers send to consumers), `pending_initializes`,
//!     `held_deliveries` (messages that wait for an endpoint)
//!   - The path of a message: `set_up`, `consumer`, `provider`, `opening`, `closing`,
//!     `message_names`, `retry`, `initialize_retry`, `input_rounds`, `permissions`, `foreign_ids`,
//!     `foreign_mark`, `component_events`
//!   - Records: `server`, `connection`, `pending_request`
//! - `bridge`: the agent's seat. Its tables are `agent_profile`, `tickets`, `sessions`, `clients` and
//!   `requests`; `set_up` declares servers to the agent, and `client` serves one MCP client.
//! - `endpoint`: the types that the shell and the bridge share; `ids`: ids of requests that the
//!   broker sends on behalf of a peer; `deadlines`: a table of deadlines
//!
//! The crate is pure: no clock, no I/O, no randomness. The caller passes in the time and performs
//! the [`Action`]s that the broker returns.

#![forbid(unsafe_code)]
#![warn(missing_docs, unreachable_pub)]

mod bridge;
mod broker;
mod capability;
mod deadlines;
mod declaration;
mod endpoint;
mod ids;
mod stateless;

#[doc(no_inline)]
pub use acp_wire::mcp as form;
pub use bridge::BridgePolicy;
pub use broker::{Action, Broker, Context, Hop};
pub use declaration::may_carry_servers;
pub use endpoint::{ClientId, Endpoint, Ticket, Transport};
