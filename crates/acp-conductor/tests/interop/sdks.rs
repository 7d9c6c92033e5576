//! The current official SDKs, and the reference conductor.

use crate::{agent, check, marking, own_conductor, peer, proxies, reference};

#[test]
fn a_rust_editor_works_with_a_rust_agent() {
    check_pair("rust_editor", "rust_agent");
}

#[test]
fn a_rust_editor_works_with_a_typescript_agent() {
    check_pair("rust_editor", "ts_agent");
}

#[test]
fn a_rust_editor_works_with_a_python_agent() {
    check_pair("rust_editor", "py_agent");
}

#[test]
fn a_typescript_editor_works_with_a_rust_agent() {
    check_pair("ts_editor", "rust_agent");
}

#[test]
fn a_typescript_editor_works_with_a_typescript_agent() {
    check_pair("ts_editor", "ts_agent");
}

#[test]
fn a_typescript_editor_works_with_a_python_agent() {
    check_pair("ts_editor", "py_agent");
}

#[test]
fn a_python_editor_works_with_a_rust_agent() {
    check_pair("py_editor", "rust_agent");
}

#[test]
fn a_python_editor_works_with_a_typescript_agent() {
    check_pair("py_editor", "ts_agent");
}

#[test]
fn a_python_editor_works_with_a_python_agent() {
    check_pair("py_editor", "py_agent");
}

fn check_pair(editor: &str, agent: &str) {
    check(editor, &own_conductor(), &[peer(agent)], &[]);
    check(editor, &own_conductor(), &[marking("A"), marking("B"), peer(agent)], &["A", "B"]);
}

#[test]
fn a_proxy_that_changes_nothing_is_not_noticed() {
    check(
        "ts_editor",
        &own_conductor(),
        &[peer("rust_proxy"), marking("B"), peer("py_agent")],
        &["B"],
    );
}

#[test]
fn proxies_of_two_sdks_work_in_one_chain() {
    let typescript = |mark| format!("{} --mark {mark}", peer("ts_proxy"));
    let chain = [typescript("A"), marking("B"), typescript("C"), peer("rust_agent")];
    check("py_editor", &own_conductor(), &chain, &["A", "B", "C"]);
}

#[test]
fn a_nested_chain_works() {
    let inner = proxies(&own_conductor(), &["B", "C"]);
    let chain = [marking("A"), inner, marking("D"), peer("ts_agent")];
    check("rust_editor", &own_conductor(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn a_chain_works_as_the_agent_of_another() {
    let inner = agent(&own_conductor(), &[marking("B"), peer("py_agent")]);
    check("ts_editor", &own_conductor(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn the_conductor_works_inside_the_reference_conductor() {
    let chain =
        [marking("A"), proxies(&own_conductor(), &["B", "C"]), marking("D"), peer("rust_agent")];
    check("py_editor", &reference(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn the_conductor_works_as_the_agent_of_the_reference_conductor() {
    let inner = agent(&own_conductor(), &[marking("B"), peer("ts_agent")]);
    check("rust_editor", &reference(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn the_reference_conductor_works_as_a_component() {
    let chain = [marking("A"), proxies(&reference(), &["B", "C"]), marking("D"), peer("py_agent")];
    check("rust_editor", &own_conductor(), &chain, &["A", "B", "C", "D"]);
}
