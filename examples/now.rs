//! Offers the agent a tool `now` that tells the time.
//!
//! `conductor agent example-now my-agent`

use std::time::{SystemTime, UNIX_EPOCH};

use acp_proxy::prelude::*;

fn main() -> std::io::Result<()> {
    Proxy::new("clock")
        .tool("now", "The current time, in seconds since 1970-01-01 UTC", async |_: NoInput| {
            let time = SystemTime::now().duration_since(UNIX_EPOCH)?;
            Ok(time.as_secs().to_string())
        })
        .run()
}
