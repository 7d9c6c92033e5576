//! The official SDKs of today, and the reference conductor.

use crate::{agent, check, marking, ours, peer, proxies, reference};

#[test]
fn rust_editor_rust_agent() {
    check_pair("rust_editor", "rust_agent");
}

#[test]
fn rust_editor_typescript_agent() {
    check_pair("rust_editor", "ts_agent");
}

#[test]
fn rust_editor_python_agent() {
    check_pair("rust_editor", "py_agent");
}

#[test]
fn typescript_editor_rust_agent() {
    check_pair("ts_editor", "rust_agent");
}

#[test]
fn typescript_editor_typescript_agent() {
    check_pair("ts_editor", "ts_agent");
}

#[test]
fn typescript_editor_python_agent() {
    check_pair("ts_editor", "py_agent");
}

#[test]
fn python_editor_rust_agent() {
    check_pair("py_editor", "rust_agent");
}

#[test]
fn python_editor_typescript_agent() {
    check_pair("py_editor", "ts_agent");
}

#[test]
fn python_editor_python_agent() {
    check_pair("py_editor", "py_agent");
}

fn check_pair(editor: &str, agent: &str) {
    check(editor, &ours(), &[peer(agent)], &[]);
    check(editor, &ours(), &[marking("A"), marking("B"), peer(agent)], &["A", "B"]);
}

#[test]
fn a_silent_proxy_is_not_seen() {
    check("ts_editor", &ours(), &[peer("rust_proxy"), marking("B"), peer("py_agent")], &["B"]);
}

#[test]
fn proxies_of_two_sdks_in_one_chain() {
    let typescript = |mark| format!("{} --mark {mark}", peer("ts_proxy"));
    let chain = [typescript("A"), marking("B"), typescript("C"), peer("rust_agent")];
    check("py_editor", &ours(), &chain, &["A", "B", "C"]);
}

#[test]
fn a_chain_inside_a_chain() {
    let inner = proxies(&ours(), &["B", "C"]);
    let chain = [marking("A"), inner, marking("D"), peer("ts_agent")];
    check("rust_editor", &ours(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn a_whole_chain_as_the_agent_of_another() {
    let inner = agent(&ours(), &[marking("B"), peer("py_agent")]);
    check("ts_editor", &ours(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn inside_the_reference_conductor() {
    let chain = [marking("A"), proxies(&ours(), &["B", "C"]), marking("D"), peer("rust_agent")];
    check("py_editor", &reference(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn as_the_agent_of_the_reference_conductor() {
    let inner = agent(&ours(), &[marking("B"), peer("ts_agent")]);
    check("rust_editor", &reference(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn around_the_reference_conductor() {
    let chain = [marking("A"), proxies(&reference(), &["B", "C"]), marking("D"), peer("py_agent")];
    check("rust_editor", &ours(), &chain, &["A", "B", "C", "D"]);
}
