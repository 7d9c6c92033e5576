//! The component `metrics`: measures the chain, for Prometheus and for `conductor status`.
//!
//! # Layout
//! - here: the options and the proxy
//! - `state`: everything that is measured; it outlives restarts of the component
//! - `registry`: the metrics and their values; `exposition`: their text formats
//! - `conversation`: what passes the component at its own place; `hops`: what each component of the chain receives
//! - `reported`: the metrics that other components send; `labels`: the values of labels
//! - `server` and `file`: where the metrics can be read

mod conversation;
mod exposition;
mod file;
mod hops;
mod labels;
mod registry;
mod reported;
mod server;
mod state;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use acp_proxy::Proxy;
use acp_wire::ErrorKind;
use acp_wire::telemetry::METRIC;
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::unbounded_channel;

use crate::telemetry::Collector;
use component_base::options::Interval;
use component_base::{BuiltIn, OptionError};
use exposition::Format;
use server::Socket;
use state::Measured;

/// Measures the chain: messages, durations, turns, tool calls, tokens and costs.
///
/// Prometheus reads the metrics from a port of this machine or from a file, and `conductor status` shows the most
/// important ones. Metrics that other components send as `_proxy/metric` are collected as well.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Metrics {
    /// Serve the metrics at http://ADDRESS/metrics: a port, or an address of this machine with a port, such as
    /// 127.0.0.1:9464. Port 0 is any free port; `conductor status` shows it.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    listen: Option<String>,

    /// Write the metrics to this file, in the text format of Prometheus. The file is replaced at once, and only you can
    /// read it. {pid} in its name stands for the number of the process, so that several chains do not share a file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How often the file is written: 500ms, 15s, 1m.
    #[arg(long, value_name = "TIME", default_value = "15s")]
    interval: Interval,

    #[arg(skip)]
    #[serde(skip)]
    measured: Measured,

    #[arg(skip)]
    #[serde(skip)]
    socket: Socket,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::parse_from([Metrics::NAME])
    }
}

impl BuiltIn for Metrics {
    const NAME: &'static str = "metrics";
    const COLLECTS_TELEMETRY: bool = true;
    const OBSERVES_MESSAGES: bool = true;

    fn check(&self) -> Result<(), OptionError> {
        let misused = |why| OptionError { kind: ErrorKind::MisusedBuiltIn, why };
        if self.interval.0 < Duration::from_millis(100) {
            return Err(misused("--interval is shorter than 100ms".to_owned()));
        }
        if let Some(address) = self.address().map_err(misused)? {
            match self.socket.open(address) {
                // The conductor of another editor may use the port. It is free when that one ends.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                opened => opened.map_err(|error| {
                    misused(format!(
                        "--listen: cannot listen on {address}: {error}; use another port"
                    ))
                })?,
            }
        }
        if let Some(path) = &self.path() {
            file::check(path, &self.measured.text(Format::Prometheus)).map_err(|error| {
                let why = format!("--file: cannot write {}: {error}", path.display());
                OptionError { kind: ErrorKind::UnwritableFile, why }
            })?;
        }
        Ok(())
    }

    fn build(&self) -> acp_proxy::Component {
        self.measured.restart();
        let collector = Collector::default();
        let measured = self.measured.clone();
        let proxy = Proxy::new(Metrics::NAME)
            .observe(move |from, message| measured.pass(from, message, Instant::now()));
        let (warn, mut warnings) = unbounded_channel::<String>();
        let (measured, warn_of_chain) = (self.measured.clone(), warn.clone());
        let proxy = collector.watch(proxy, &[METRIC], move |component, call| {
            let name = component.as_deref().unwrap_or("unknown");
            measured.report(name, name, call).map(|line| warn.send(line));
        });
        let measured = self.measured.clone();
        let proxy = proxy.observe_chain(move |event| {
            let line = measured.on_event(&collector, event, Instant::now());
            line.map(|line| warn_of_chain.send(line));
        });
        let proxy = proxy.on_start(async move |context| {
            while let Some(line) = warnings.recv().await {
                context.log(line);
            }
        });
        let options = self.clone();
        let proxy = proxy.status(move || options.status());
        let proxy = self.serve(self.write_file(proxy));
        proxy.into()
    }
}

impl Metrics {
    /// What all instances of this component have measured, in the text format of Prometheus.
    pub fn text(&self) -> String {
        self.measured.text(Format::Prometheus)
    }

    /// What all instances of this component have measured, in the text format of OpenMetrics.
    pub fn open_metrics_text(&self) -> String {
        self.measured.text(Format::OpenMetrics)
    }

    /// The address of `--listen`.
    fn address(&self) -> Result<Option<SocketAddr>, String> {
        let Some(text) = &self.listen else { return Ok(None) };
        let named = text.strip_prefix("localhost:").unwrap_or(text);
        let address = match named.parse::<u16>() {
            Ok(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
            Err(_) => named.parse().map_err(|_| {
                format!("--listen: `{text}` is not an address; write a port or an address and a port, such as 127.0.0.1:9464")
            })?,
        };
        match address.ip().is_loopback() {
            true => Ok(Some(address)),
            false => Err(format!(
                "--listen: {address} can be reached from other machines, and the metrics have no password; use a loopback address, such as 127.0.0.1:{}",
                address.port()
            )),
        }
    }

    /// The file of `--file`.
    fn path(&self) -> Option<PathBuf> {
        let path = self.file.as_ref()?;
        match path.file_name().and_then(OsStr::to_str) {
            Some(name) => {
                Some(path.with_file_name(name.replace("{pid}", &std::process::id().to_string())))
            }
            None => Some(path.clone()),
        }
    }

    /// Serves the metrics over HTTP.
    fn serve(&self, proxy: Proxy) -> Proxy {
        let Ok(Some(address)) = self.address() else { return proxy };
        let (socket, measured) = (self.socket.clone(), self.measured.clone());
        proxy.on_start(async move |context| {
            socket.serve(address, measured, |line| context.log(line)).await;
        })
    }

    /// Writes the metrics to the file, now and then and at the end.
    fn write_file(&self, proxy: Proxy) -> Proxy {
        let Some(path) = self.path() else { return proxy };
        let (interval, measured) = (self.interval.0, self.measured.clone());
        let (last_path, last_measured) = (path.clone(), measured.clone());
        let proxy = proxy.on_start(async move |context| {
            let mut is_reported = false;
            loop {
                tokio::time::sleep(interval).await;
                let written = file::replace(&path, &measured.text(Format::Prometheus));
                if let Err(error) = written
                    && !std::mem::replace(&mut is_reported, true)
                {
                    context.log(format!("cannot write {}: {error}", path.display()));
                }
            }
        });
        proxy.on_end(async move |context| {
            let text = last_measured.text(Format::Prometheus);
            if let Err(error) = file::replace(&last_path, &text) {
                context.log(format!("cannot write {}: {error}", last_path.display()));
            }
        })
    }

    /// The lines for `conductor status`.
    fn status(&self) -> Vec<String> {
        let mut lines = self.measured.summary();
        if let Some(listen) = &self.listen {
            lines.push(match self.socket.address() {
                Some(address) => format!("http://{address}/metrics"),
                None => format!("not listening on {listen}: another program uses the port"),
            });
        }
        lines.extend(self.path().iter().map(|path| format!("file: {}", path.display())));
        lines
    }
}
