//! The built files of the pages, with their headers. They are the same for everybody. The program has them compressed,
//! as every browser takes them.

use std::io::Read;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;

use super::{Shared, problem};

/// A built file: its name, its type and its contents, compressed with gzip.
type Asset = (&'static str, &'static str, &'static [u8]);

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! asset {
    ($name:literal, $kind:ident) => {
        ($name, $kind, include_bytes!(concat!(env!("OUT_DIR"), "/dist/", $name)).as_slice())
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
    let (_, kind, compressed) = *asset;
    // The two forms have different tags.
    let (tag, encoding) = match accepts_gzip(headers) {
        true => (concat!("\"", env!("CONDUCTOR_WEB_BUILD"), "-gzip\""), Some("gzip")),
        false => (concat!("\"", env!("CONDUCTOR_WEB_BUILD"), "\""), None),
    };
    let known =
        headers.get(header::IF_NONE_MATCH).is_some_and(|it| it.as_bytes() == tag.as_bytes());
    let list = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, tag),
        (header::VARY, "accept-encoding"),
    ];
    match encoding {
        _ if known => (StatusCode::NOT_MODIFIED, list).into_response(),
        Some(encoding) => {
            (list, [(header::CONTENT_ENCODING, encoding)], compressed).into_response()
        }
        None => (list, decompressed(compressed)).into_response(),
    }
}

/// Whether the client lists gzip among the encodings that it accepts, and not with the weight 0.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|it| it.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, ""));
        let refused = weight.trim().strip_prefix("q=").is_some_and(|it| it.parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("gzip") && !refused
    })
}

fn decompressed(compressed: &[u8]) -> Vec<u8> {
    let mut contents = Vec::new();
    // The build script has written it, and a `Vec` can always be written to.
    let _ = GzDecoder::new(compressed).read_to_end(&mut contents);
    contents
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    fn headers(encodings: &str) -> HeaderMap {
        let value = header::HeaderValue::from_str(encodings).expect("a header");
        HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)])
    }

    #[test]
    fn a_file_is_sent_compressed_only_to_clients_that_accept_it() {
        for accepted in ["gzip", "gzip, deflate, br", "br;q=1.0, GZIP;q=0.5"] {
            assert!(accepts_gzip(&headers(accepted)), "{accepted}");
        }
        for refused in ["", "identity", "br, deflate", "gzip;q=0, br", "gzip; q=0.0"] {
            assert!(!accepts_gzip(&headers(refused)), "{refused}");
        }
    }

    #[tokio::test]
    async fn both_forms_have_the_contents_of_the_built_file() {
        let built = include_bytes!("../../dist/panel/frame.js");
        let asset = &PANEL[1];
        let plain = send(asset, &HeaderMap::new());
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
        let compressed = send(asset, &headers("gzip"));
        assert_eq!(compressed.headers()[header::CONTENT_ENCODING], "gzip");
        assert_ne!(compressed.headers()[header::ETAG], plain.headers()[header::ETAG]);
        let plain = to_bytes(plain.into_body(), usize::MAX).await.expect("a body");
        assert_eq!(plain, &built[..]);
        let compressed = to_bytes(compressed.into_body(), usize::MAX).await.expect("a body");
        assert_eq!(decompressed(&compressed), built);
    }

    #[test]
    fn a_browser_that_has_the_file_does_not_get_it_again() {
        let mut request = headers("gzip");
        let first = send(&PANEL[1], &request);
        request.insert(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone());
        assert_eq!(send(&PANEL[1], &request).status(), StatusCode::NOT_MODIFIED);
    }
}
