//! MCP over ACP: a proxy, or the editor, offers an MCP server whose transport is the ACP channel
//! itself, and whatever agent stands at the end can use it.
//!
//! An [`Broker`] stands between the links of a chain and its router and sees what arrives and what
//! is delivered. It does two things, at two places:
//!
//! - **At each provider's hop** it translates: what a consumer says in its form of MCP over ACP is
//!   delivered in the provider's form, and back. Everywhere else such messages pass as they are.
//! - **At the agent's hop** it bridges: for an agent that does not speak MCP over ACP, the
//!   declaration becomes a server that the agent can start or find, and what MCP clients say there
//!   travels through the chain as `_mcp/connect`, `_mcp/message` and `_mcp/disconnect`.
//!
//! # Layout
//! - [`form`]: the generations of MCP over ACP and their spelling
//! - [`declaration`]: servers in the requests that set up a session
//! - [`capability`]: what agents say they can do
//! - [`stateless`]: between MCP with connections and MCP without
//! - [`broker`]: the list of its parts, and the way of a message through them
//!   - Each table belongs to one part, which nothing else touches: `registry` (the servers, and the set-up
//!     requests that declare them), `connections` (conversations, and the ids of their connections), `questions`
//!     (requests that are not answered, their limits and retries), `operations` (requests between a stateless
//!     side and one with connections), `input_requests` (what consumers are asked), `pending_initializes` (`initialize`), `held`
//!     (what waits for the shell to open a place)
//!   - The way of a message: `set_up` (requests that set a session up), `consumer` and `provider` (what they
//!     say), `opening`, `ending`, `words`, `repeat` and `spare` (a conversation and its requests), `input`
//!     (what a server wants to know before it answers), `right` and `passing` (which component may say what,
//!     and for which one a message is), `absence` (what becomes of it all when a component dies)
//!   - Single records: `server`, `connection`, `question`
//! - [`bridge`]: the agent's hop, in the same way. Its parts are `transport` (what is known of the agent),
//!   `tickets` (the places where its MCP clients connect), `sessions`, `clients` and `requests` (what was asked
//!   in the chain for a client); `set_up` declares servers to the agent, `client` is one MCP client
//! - [`endpoint`]: places where MCP clients can connect; `ids`: ids in the name of others
//!
//! Pure: no clock, no I/O, no randomness. Sockets and secrets are the shell's: the exchange asks for a place
//! where MCP clients can connect with a step, and the shell reports it with a call.

pub mod bridge;
pub mod broker;
pub mod capability;
mod deadlines;
pub mod declaration;
pub mod endpoint;
pub mod form;
mod ids;
pub mod stateless;

pub use bridge::BridgePolicy;
pub use broker::{Broker, Context, Hop, Step};
pub use endpoint::{ClientId, Endpoint, Ticket, Transport};
