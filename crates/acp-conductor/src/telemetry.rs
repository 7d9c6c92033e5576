//! Writes log messages and metrics of components to the log of the conductor.

use acp_proxy::{LogLevel, Metric, Notification};
use acp_wire::telemetry::{Telemetry, sender};
use acp_wire::{Call, Json, printable};
use client::payload::{text_without_secrets, without_secrets};
use tracing::{debug, error, info, trace, warn};

/// The longest text that is logged, in bytes.
const MAX_TEXT: usize = 4096;

/// Logs a message of the component in this seat. Secrets of well-known shapes are hidden.
pub(crate) fn log(seat: &str, call: &Call) {
    let Some(kind) = Telemetry::of(call) else { return };
    let params = &call.params.clone().unwrap_or(Json::NULL);
    let name = shown(&sender(seat, Some(params)));
    if kind == Telemetry::Metric {
        return log_metric(&name, call);
    }
    let level = params.member("level");
    let level = level.as_ref().and_then(Json::text).unwrap_or_default();
    let text = params.member("message");
    let text = shown(&text.as_ref().and_then(Json::text).unwrap_or_default());
    let data = params.member("data").filter(|data| !data.is_null());
    let data = data.map(|data| format!(" {}", short(&without_secrets(&data)))).unwrap_or_default();
    match LogLevel::from_name(&level) {
        LogLevel::Error => error!("[{name}] {text}{data}"),
        LogLevel::Warn => warn!("[{name}] {text}{data}"),
        LogLevel::Info => info!("[{name}] {text}{data}"),
        LogLevel::Debug => debug!("[{name}] {text}{data}"),
        LogLevel::Trace => trace!("[{name}] {text}{data}"),
    }
}

fn log_metric(name: &str, call: &Call) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    match Metric::from_call(call) {
        Ok(Some(metric)) => {
            let Metric { name: metric, kind, value, labels, .. } = metric;
            debug!(
                "[{name}] {kind:?} {} = {value} {}",
                shown(&metric),
                shown(&format!("{labels:?}"))
            );
        }
        _ => debug!("[{name}] sent a metric that cannot be read"),
    }
}

/// A text of a component as it is logged: in one line, without secrets, and not too long.
fn shown(text: &str) -> String {
    // A secret at the limit is recognised by what follows.
    let text = &text[..text.floor_char_boundary(2 * MAX_TEXT)];
    printable::one_line(short(&text_without_secrets(text)))
}

fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_at_the_limit_of_a_text_is_hidden() {
        let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
        for before in MAX_TEXT - secret.len() - 10..MAX_TEXT {
            let text = shown(&format!("{} {secret}", "x".repeat(before)));
            assert!(text.len() <= MAX_TEXT && !text.contains("16C7"), "{before}");
        }
    }
}
