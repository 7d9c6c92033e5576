//! `conductor` without a command: what to do next.

/// The three next steps of a new user.
pub const NEXT_STEPS: &str = concat!(
    "\
Conductor runs an ACP agent behind a chain of proxies.

1. Chat with the demo agent. Nothing needs to be installed:
     conductor try

2. Put a proxy before your agent. Try the chain in this terminal first:
     conductor try -- sparkle 'npx -y @agentclientprotocol/claude-agent-acp'
   Then let your editor start `conductor agent` with the same components instead of the agent:
     conductor agent sparkle 'npx -y @agentclientprotocol/claude-agent-acp'
   ",
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/running.md

3. Write a proxy, in any language:
     ",
    env!("CARGO_PKG_REPOSITORY"),
    "/blob/main/docs/proxies.md

`conductor --help` lists all commands.
"
);
