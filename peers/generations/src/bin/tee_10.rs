//! The proxy of crate `sacp-tee` 10 (dialect P4a), which writes down what passes: `tee_10 [FILE]` is
//! `sacp-tee --json --log-file FILE` without its log.

use sacp_10::{Component, Error};
use sacp_tokio_10::Stdio;
use tee_10::Tee;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let file = std::env::args_os().nth(1).unwrap_or_else(|| "/dev/null".into());
    Tee::new(file.into()).serve(Stdio::new()).await
}
