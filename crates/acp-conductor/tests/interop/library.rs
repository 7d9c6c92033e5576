//! All built-in components together in one chain, with the editors and agents of three SDKs.

use testkit::peers::quote;
use testkit::test_chain::directory;

use crate::{check, own_conductor, peer};

/// A chain of all built-in proxies, nearest to the editor first.
fn all_components(name: &str, agent: &str) -> Vec<String> {
    let folder = directory(name);
    std::fs::create_dir_all(&folder).expect("a new folder");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        quote(&path.display().to_string())
    };
    let rules = file(
        "rules.toml",
        "version = 1\n[[rule]]\ndecision = \"deny\"\nrun = [\"git push --force\"]\n\
         [[rule]]\ndecision = \"allow\"\nread = [\"**\"]\n",
    );
    let settings = file(
        "settings.json",
        r#"{"hooks":{"UserPromptSubmit":[{"hooks":[{"type":"command","command":"true"}]}]}}"#,
    );
    let path = |name: &str| quote(&folder.join(name).display().to_string());
    let mut chain = vec![
        "remind --start-turn".to_owned(),
        format!("log --file {} --level debug", path("log.jsonl")),
        format!("metrics --file {}", path("metrics.prom")),
        "filter --notice".to_owned(),
        format!("permissions --rules {rules} --audit {}", path("audit.jsonl")),
        format!(
            "hooks --no-user-hooks --settings {settings} --transcripts {}",
            path("transcripts")
        ),
        "rate-limit --prompts-per-minute 1000".to_owned(),
        format!("budget --tokens-per-day 1000M --uncounted allow --ledger {}", path("ledger")),
        format!("cache --mode record --file {}", path("talk.jsonl")),
    ];
    chain.push(peer(agent));
    chain
}

/// The guide names the same order.
#[test]
fn the_chain_of_all_components_is_that_of_the_guide() {
    let guide = include_str!("../../../../docs/components.md");
    let order = guide.split_once("A chain with all of them").expect("the order").1;
    let order = order.split_once("the agent.").expect("the end").0;
    let named: Vec<&str> = order.split('`').skip(1).step_by(2).collect();
    let chain = all_components("library-order", "ts_agent");
    let ours: Vec<&str> = chain.iter().filter_map(|it| it.split(' ').next()).collect();
    assert_eq!(named, ours[..ours.len() - 1]);
}

#[test]
fn all_components_work_in_one_chain_with_a_rust_editor() {
    check("rust_editor", &own_conductor(), &all_components("library-rust", "ts_agent"), &[]);
}

#[test]
fn all_components_work_in_one_chain_with_a_typescript_editor() {
    check("ts_editor", &own_conductor(), &all_components("library-ts", "py_agent"), &[]);
}

#[test]
fn all_components_work_in_one_chain_with_a_python_editor() {
    check("py_editor", &own_conductor(), &all_components("library-py", "rust_agent"), &[]);
}
