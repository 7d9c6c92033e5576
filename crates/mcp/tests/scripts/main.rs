//! Tests of the MCP broker as conversations, with the item numbers of the conformance checklist.
//!
//! `harness` drives the core in place of the shell, without processes. A test plays all peers line
//! by line, or uses `participants`: consumers and providers of every form.

mod addressing;
mod agent_restarts;
mod capabilities;
mod declarations;
mod documents;
mod endpoints;
mod fallback;
mod harness;
mod input_rounds;
mod lifecycle;
mod pairs;
mod participants;
mod pass_through;
mod permissions;
mod policy;
mod request_limits;
mod restarts;
mod retries;
mod same_ids;
mod scenario;
mod simulation;
mod timing;
