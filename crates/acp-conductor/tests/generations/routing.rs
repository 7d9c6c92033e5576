//! Chains of several generations.

use testkit::rpc::{cancel, error, id_of, notification, request, result};

use crate::generation::{P1, P2, P3, P3T, P4, P5};
use crate::new_setup;
use crate::scripted_proxy::{assert_messages_pass, initialize};

/// Checklist 22, 49, 50, 52, 57, 58.
#[test]
fn a_chain_of_three_generations_passes_everything_both_ways() {
    let mut chain = new_setup().run_agent(&["p3", "p4", "p5", "agent"]);
    let (mut proxies, mut agent) = initialize(
        &mut chain,
        &[
            ("p3", &P3, &["proxy/initialize", "initialize"]),
            ("p4", &P4, &["proxy/initialize", "_proxy/initialize"]),
            ("p5", &P5, &["proxy/initialize"]),
        ],
    );
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
}

/// The other order, and the other generations.
#[test]
fn a_chain_of_all_generations_passes_everything_both_ways() {
    let mut chain = new_setup().run_agent(&["p5", "p1", "p3t", "p4", "p2", "agent"]);
    let old = &["proxy/initialize", "initialize"];
    let (mut proxies, mut agent) = initialize(
        &mut chain,
        &[
            ("p5", &P5, &["proxy/initialize"]),
            ("p1", &P1, old),
            ("p3t", &P3T, old),
            ("p4", &P4, &["proxy/initialize", "_proxy/initialize"]),
            ("p2", &P2, old),
        ],
    );
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
}

const CANCELLED: &str = r#"{"code":-32800,"message":"cancelled"}"#;

/// Checklist 59: SDK 1.1 to 3.6 send a cancellation to their successor in an envelope. It names an id of
/// their link, so it is mapped like any other and passed on without an envelope.
/// Checklist 60: sacp and older SDKs do not understand a cancellation and pass it on as they received it,
/// with the conductor's id. That cancels nothing.
#[test]
fn cancellations_in_envelopes_are_mapped_and_echoed_ids_are_ignored() {
    for generation in [&P4, &P3, &P2, &P1] {
        let mut chain = new_setup().run_agent(&["old", "agent"]);
        let greetings = ["proxy/initialize", generation.greeting];
        let (mut proxies, mut agent) = initialize(&mut chain, &[("old", generation, &greetings)]);
        let old = &mut proxies[0];
        chain.editor.send(&request("1", "session/prompt", "{}"));
        let at_proxy = old.line();
        old.send(&generation.sent("5", "session/prompt", "{}"));
        let at_agent = agent.line();

        chain.editor.send(&cancel("1"));
        assert_eq!(old.line(), cancel(id_of(&at_proxy)));
        let id = |id: &str| format!(r#"{{"requestId":{id}}}"#);
        let echoes = [id_of(&at_proxy), id_of(&at_agent), "1"];
        for echo in echoes {
            old.send(&generation.sent_notification("$/cancel_request", &id(echo)));
        }
        old.send(&generation.sent_notification("_x/next", "{}"));
        assert_eq!(agent.line(), notification("_x/next", "{}"), "{}", generation.name);
        old.send(&generation.sent_notification("$/cancel_request", &id("5")));
        assert_eq!(agent.line(), cancel(id_of(&at_agent)), "{}", generation.name);

        agent.send(&error(id_of(&at_agent), CANCELLED));
        assert_eq!(old.line(), error("5", CANCELLED));
        old.send(&error(id_of(&at_proxy), CANCELLED));
        assert_eq!(chain.editor.line(), error("1", CANCELLED));
        // Checklist 62: the request is answered once.
        old.send(&result(id_of(&at_proxy), "{}"));
        old.send(&notification("_x/next", "{}"));
        assert_eq!(chain.editor.line(), notification("_x/next", "{}"));
    }
}
