//! All built-in components together in one chain, with the editors and agents of three SDKs.

use testkit::peers::quote;
use testkit::test_chain::directory;

use crate::{check, own_conductor, peer};

/// A chain of the built-in proxies that count, record or decide, nearest to the editor first.
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
        format!("metrics --file {}", path("metrics.prom")),
        "filter --notice".to_owned(),
        format!("permissions --rules {rules} --audit {}", path("audit.jsonl")),
        format!(
            "hooks --no-user-hooks --settings {settings} --transcripts {}",
            path("transcripts")
        ),
        "rate-limit --prompts-per-minute 1000".to_owned(),
        format!("log --file {} --level debug", path("log.jsonl")),
        format!("budget --tokens-per-day 1000M --uncounted allow --ledger {}", path("ledger")),
        format!("cache --mode record --file {}", path("talk.jsonl")),
    ];
    chain.push(peer(agent));
    chain
}

/// The guide has the same order, with more components.
#[test]
fn the_components_of_the_chain_have_the_order_of_the_guide() {
    let guide = include_str!("../../../../docs/components.md");
    let (_, order) = guide.split_once("\n## The order\n").expect("a chapter");
    let block = order.split("```").nth(1).expect("a chain");
    let words = block.split_whitespace().map(|word| word.trim_matches('\''));
    let chain = all_components("library-order", "ts_agent");
    let ours: Vec<&str> = chain.iter().filter_map(|it| it.split(' ').next()).collect();
    let ours = &ours[..ours.len() - 1];
    assert!(words.filter(|word| ours.contains(word)).eq(ours.iter().copied()), "{ours:?}");
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
