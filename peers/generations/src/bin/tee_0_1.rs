//! The proxy of crate `sacp-tee` 0.1 (dialect P3), which writes down what passes: `tee_0_1 [FILE]` is
//! `sacp-tee --json --log-file FILE` without its log.

use sacp_2::{Component, Error};
use sacp_tokio_2::Stdio;
use tee_0_1::Tee;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let file = std::env::args_os().nth(1).unwrap_or_else(|| "/dev/null".into());
    Tee::new(file.into()).serve(Stdio::new()).await
}
