//! Who gets what from the server.

use serde_json::json;

use crate::page::{Folder, Studio};

const FILE: [(&str, &str); 1] = [("a.txt", "secret text")];

#[test]
fn pages_have_their_headers_and_need_no_log_in() {
    let folder = Folder::new("headers", &FILE);
    let studio = Studio::start(&folder.0, &["demo-agent"]);
    let (status, head, _) = studio.http("GET /studio HTTP/1.1\nHost: HOST", "");
    assert_eq!(status, 200);
    for header in [
        "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';",
        "trusted-types 'none'",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cross-origin-opener-policy: same-origin",
        "cross-origin-resource-policy: same-origin",
        "permissions-policy: camera=()",
    ] {
        assert!(head.contains(header), "{header}: {head}");
    }
    let (status, head, _) = studio.http("GET /panel/frame.html HTTP/1.1\nHost: HOST", "");
    assert_eq!(status, 200);
    let policy = format!(
        "sandbox allow-scripts; default-src 'none'; script-src http://{}/panel/frame.js;",
        studio.host
    );
    assert!(head.contains(&policy), "{head}");
    assert!(!head.contains("access-control"));
    for path in
        ["/", "/assets/../studio.html", "/assets/none.js", "/panel/none", "/api/other", "/a.txt"]
    {
        let (status, ..) = studio.http(&format!("GET {path} HTTP/1.1\nHost: HOST"), "");
        assert_eq!(status, 404, "{path}");
    }
}

#[test]
fn requests_of_other_names_sites_and_users_get_nothing() {
    let folder = Folder::new("access", &FILE);
    let studio = Studio::start(&folder.0, &["demo-agent"]);
    let port = studio.host.rsplit(':').next().expect("a port");
    let (status, ..) = studio.http("GET /studio HTTP/1.1\nHost: evil.example", "");
    assert_eq!(status, 421);
    let (status, ..) = studio.http(&format!("GET /studio HTTP/1.1\nHost: evil.example:{port}"), "");
    assert_eq!(status, 421);
    let key = json!({ "key": studio.key }).to_string();
    for origin in ["", "\nOrigin: null", "\nOrigin: http://127.0.0.1:1", "\nOrigin: https://HOST"] {
        let head = format!("POST /api/login HTTP/1.1\nHost: HOST{origin}");
        assert_eq!(studio.http(&head, &key).0, 403, "{origin}");
    }
    let site =
        "POST /api/login HTTP/1.1\nHost: HOST\nOrigin: http://HOST\nSec-Fetch-Site: cross-site";
    assert_eq!(studio.http(site, &key).0, 403);
    let (cookie, token) = studio.log_in();
    let origin = format!("http://{}", studio.host);
    // No cookie, a wrong one, another origin.
    assert!(studio.connect("a=b", &origin).is_err());
    let wrong = format!("{}0", &cookie[..cookie.len() - 1]);
    assert!(studio.connect(&wrong, &origin).is_err() || wrong == cookie);
    assert!(studio.connect(&cookie, "http://127.0.0.1:1").is_err());
    assert!(studio.connect(&cookie, "null").is_err());
    // The cookie alone is not enough: a page of another port would have it.
    for token in ["", "0000", &token[1..]] {
        let mut socket = studio.connect(&cookie, &origin).expect("the cookie is right");
        let want = [json!({ "topic": "chain", "at": null })];
        let hello = json!({ "t": "hello", "v": 1, "token": token, "run": "", "want": want });
        socket.send(tungstenite::Message::text(hello.to_string())).expect("sent");
        let answer = socket.read().expect("an answer");
        assert!(answer.is_close(), "{answer:?}");
    }
    let wrong = json!({ "key": "0" }).to_string();
    let head = "POST /api/login HTTP/1.1\nHost: HOST\nOrigin: http://HOST";
    for _ in 0..10 {
        assert_eq!(studio.http(head, &wrong).0, 401);
    }
    assert_eq!(studio.http(head, &wrong).0, 429);
    // Wrong keys of somebody else do not lock the owner out.
    assert_eq!(studio.http(head, &key).0, 200);
}

#[test]
fn files_outside_of_the_folder_are_not_shown() {
    let folder = Folder::new("outside", &FILE);
    let studio = Studio::start(&folder.0, &["demo-agent"]);
    let mut page = studio.page(&["chain"]);
    let text = page.act(&json!({ "op": "readFile", "path": "a.txt" })).expect("read");
    assert_eq!(text["text"], "secret text");
    std::os::unix::fs::symlink("/etc/passwd", folder.0.join("link")).expect("linked");
    for path in ["../x", "/etc/passwd", "link", "file:///etc/passwd"] {
        let refused = page.act(&json!({ "op": "readFile", "path": path })).expect_err("refused");
        assert!(refused.contains("outside"), "{refused}");
        assert!(page.act(&json!({ "op": "listFiles", "path": path })).is_err(), "{path}");
    }
    let found = page.act(&json!({ "op": "findFiles", "text": "a.t" })).expect("found");
    assert_eq!(found, json!([{ "path": "a.txt" }]));
}
