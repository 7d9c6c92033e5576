//! `conductor studio`: an editor for a chain, on a web page.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::Path;

use acp_conductor::configuration::Run;
use acp_conductor::{Config, JournalFile, Mode, log, studio};
use acp_wire::ErrorKind;

use super::chain::{DEFAULT_LOG, request, resolve, wait_for_signal, with_chain};
use super::output::Failure;
use super::try_chat::{demo_agent, folder};
use crate::cli::StudioArgs;

/// Runs a chain and an editor for it.
pub fn studio(options: &StudioArgs) -> Result<(), Failure> {
    let demo = vec![demo_agent()?];
    let run = options.chain.run(&options.components, || Run::Specs(demo));
    let chain_options = options.chain.options(options.log.as_ref(), options.log_file.as_ref());
    let request = request(Mode::Agent, run, chain_options, options.cwd.as_deref())?;
    let resolved = resolve(&request)?;
    if !options.listen.is_loopback() && !options.allow_remote {
        let why = format!(
            "--listen {} lets other machines connect; add --allow-remote if you want that",
            options.listen
        );
        return Err(Failure::invalid(ErrorKind::InvalidOption, why));
    }
    let folder = folder(options.cwd.as_deref())?;
    let listen = SocketAddr::new(options.listen, options.port);
    let start_log =
        |level: Option<&str>, file: Option<&Path>| log::start(level.unwrap_or(DEFAULT_LOG), file);
    with_chain(resolved, start_log, async |mut config: Config| {
        let journal = options.journal.as_deref().map(JournalFile::create).transpose();
        config.journal = journal.map_err(|why| Failure::invalid(ErrorKind::UnwritableFile, why))?;
        let opened = |url: &str| announce(url, !options.no_open);
        // It runs from now on, so that no signal is missed after the address was printed.
        let signal = tokio::spawn(wait_for_signal(true));
        tokio::task::yield_now().await;
        let stop = async { drop(signal.await) };
        studio::run(config, studio::Options { folder, listen }, opened, stop)
            .await
            .map_err(Failure::run)
    })?
}

/// Prints the address of the page, and opens it in a browser.
fn announce(url: &str, open: bool) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "Studio: {url}\nThe address is a secret. Ctrl-C ends the studio.");
    let _ = out.flush();
    if open && out.is_terminal() {
        // A browser in a sandbox, such as Firefox from a snap, cannot read the file that leads to the address.
        let _ = writeln!(out, "If your browser shows no page, open the address there.");
        drop(out);
        if let Err(why) = components::browser::open(url) {
            log::print_error(&format!("conductor: cannot open a browser: {why}\n"));
        }
    }
}
