//! The built files of the pages, with their headers. They are the same for everybody.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{Shared, problem};

/// A built file: its name, its type and its contents.
type Asset = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! asset {
    ($name:literal, $kind:ident) => {
        ($name, $kind, include_bytes!(concat!("../../dist/", $name)).as_slice())
    };
}

static PAGES: [Asset; 1] = [asset!("studio.html", HTML)];
static ASSETS: [Asset; 3] =
    [asset!("studio.js", SCRIPT), asset!("studio.css", STYLE), asset!("vendor.js", SCRIPT)];
static PANEL: [Asset; 6] = [
    asset!("panel/frame.html", HTML),
    asset!("panel/frame.js", SCRIPT),
    asset!("panel/frame.css", STYLE),
    asset!("panel/diagram.html", HTML),
    asset!("panel/diagram.js", SCRIPT),
    asset!("panel/mermaid.js", SCRIPT),
];

/// The policy of a page: nothing but its own files, and no HTML made from text.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
     trusted-types 'none'";

/// A page needs none of these.
const PERMISSIONS: &str =
    "camera=(), microphone=(), geolocation=(), usb=(), serial=(), clipboard-read=()";

/// `GET /studio`.
pub(super) async fn studio(headers: HeaderMap) -> Response {
    let mut response = send(&PAGES[0], &headers);
    let list = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", PAGE_POLICY),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("permissions-policy", PERMISSIONS),
    ] {
        list.insert(name, header::HeaderValue::from_static(value));
    }
    response
}

/// `GET /assets/NAME`.
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|it| it.0 == name) else { return missing() };
    let mut response = send(asset, &headers);
    let same_origin = header::HeaderValue::from_static("same-origin");
    response.headers_mut().insert("cross-origin-resource-policy", same_origin);
    response
}

/// `GET /panel/NAME`: the frames in which the HTML of components is shown. A script in a frame without an origin is
/// fetched as if another site did it, so these files have no policy about that.
pub(super) async fn panel(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let name = format!("panel/{name}");
    let Some(asset) = PANEL.iter().find(|it| it.0 == name) else { return missing() };
    let mut response = send(asset, &headers);
    let host = shared.access.host(&headers).unwrap_or_default();
    let policy = match asset.0 {
        "panel/frame.html" => format!(
            "sandbox allow-scripts; default-src 'none'; script-src http://{host}/panel/frame.js; \
             style-src http://{host}/panel/frame.css; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types dompurify"
        ),
        "panel/diagram.html" => format!(
            "sandbox allow-scripts; default-src 'none'; \
             script-src http://{host}/panel/diagram.js http://{host}/panel/mermaid.js; \
             style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
        ),
        _ => return response,
    };
    if let Ok(policy) = policy.parse() {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn missing() -> Response {
    problem(StatusCode::NOT_FOUND, "there is no such file")
}

/// The file, or that the browser has it already.
fn send(asset: &Asset, headers: &HeaderMap) -> Response {
    let (_, kind, contents) = asset;
    let tag = format!("\"{}\"", env!("CONDUCTOR_WEB_BUILD"));
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == tag.as_bytes());
    let headers =
        [(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, "no-cache"), (header::ETAG, &tag)];
    match known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, *contents).into_response(),
    }
}
