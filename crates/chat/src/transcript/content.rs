//! The blocks of a message: text, images, audio, links and files.

use acp_wire::printable::{one_line, plain};
use serde_json::Value;

/// A block as Markdown: its text, or a description in brackets.
pub fn text_of(block: &Value) -> String {
    match block["text"].as_str().filter(|_| block["type"] == "text") {
        Some(text) => plain(text).into_owned(),
        None => describe(block),
    }
}

/// Describes a block that is not a text.
pub fn describe(block: &Value) -> String {
    let text = |name: &str| one_line(block[name].as_str().unwrap_or_default());
    match block["type"].as_str().unwrap_or_default() {
        "text" => plain(block["text"].as_str().unwrap_or_default()).into_owned(),
        kind @ ("image" | "audio") => {
            let size = size_of(&block["data"]);
            let uri = match text("uri") {
                uri if uri.is_empty() => String::new(),
                uri => format!(" ({uri})"),
            };
            format!("[{kind}: {}, {size}{uri}]", text("mimeType"))
        }
        "resource_link" => {
            let title = if text("title").is_empty() { text("name") } else { text("title") };
            let description = match text("description") {
                it if it.is_empty() => it,
                it => format!(": {it}"),
            };
            format!("[link: {title} ({}){description}]", text("uri"))
        }
        "resource" => resource(&block["resource"]),
        "" => "[content without a type]".to_owned(),
        kind => format!("[{}]", one_line(kind)),
    }
}

/// A file in a message: its address, and its text.
fn resource(resource: &Value) -> String {
    let uri = one_line(resource["uri"].as_str().unwrap_or_default());
    match resource["text"].as_str() {
        Some(text) => {
            let text = plain(text);
            // The fence is longer than any in the text.
            let fence = "`".repeat(longest_fence(&text).max(2) + 1);
            format!("[file: {uri}]\n\n{fence}\n{}\n{fence}\n", text.trim_end())
        }
        None => {
            let kind = one_line(resource["mimeType"].as_str().unwrap_or("binary"));
            format!("[file: {uri}, {kind}, {}]", size_of(&resource["blob"]))
        }
    }
}

fn longest_fence(text: &str) -> usize {
    text.split(|it| it != '`').map(str::len).max().unwrap_or(0)
}

/// The size of Base64 data, in words.
fn size_of(data: &Value) -> String {
    let length = data.as_str().map_or(0, |data| data.trim_end_matches('=').len());
    let bytes = length / 4 * 3 + length % 4 * 3 / 4;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KB", bytes.div_ceil(1024)),
        _ => format!("{:.1} MB", bytes as f64 / 1_048_576.0),
    }
}
