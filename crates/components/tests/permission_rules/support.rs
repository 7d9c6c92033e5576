//! A project with rules, and actions in it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use components::action::{Action, At, CommandLine, Operation, ToolName};
use components::permissions::rules::{Decision, Rules, Surroundings, Verdict};

/// The rules of the user guide.
pub const RULES: &str = r#"
version = 1
default = "ask"
unattended = { after = "5m", then = "deny" }

[[rule]]
name = "no force push"
decision = "deny"
message = "No force pushes here. Push to a branch."
run = ["git push --force", "git push -f", "git push --force-with-lease", "git push +*"]
examples = { match = ["git push origin main -f"], no_match = ["git push origin main"] }

[[rule]]
decision = "deny"
read = [".env", ".env.*", "~/.ssh/**"]
write = [".git/**", ".claude/**", ".github/workflows/**"]

[[rule]]
decision = "allow"
run = ["git status", "git log *", "ls *", "cat *", "echo *", "find *", "npm run test *"]
write = ["src/**"]

[[rule]]
decision = "ask"
tool = ["mcp__github__*"]
"#;

/// The same rules in the form of Claude Code.
pub const CLAUDE: &str = r#"{
  "permissions": {
    "deny": [
      "Bash(git push --force:*)",
      "Bash(git push -f:*)",
      "Bash(git push --force-with-lease:*)",
      "Bash(git push +*)",
      "Read(.env)",
      "Read(.env.*)",
      "Read(~/.ssh/**)",
      "Edit(.git/**)",
      "Edit(.claude/**)",
      "Edit(.github/workflows/**)"
    ],
    "ask": ["mcp__github__*"],
    "allow": [
      "Bash(git status)",
      "Bash(git log:*)",
      "Bash(ls:*)",
      "Bash(cat:*)",
      "Bash(echo:*)",
      "Bash(find *)",
      "Bash(npm run test:*)",
      "Edit(src/**)"
    ]
  }
}"#;

/// A folder of its own, removed at the end.
pub struct Project {
    pub root: PathBuf,
    pub surroundings: Surroundings,
}

impl Project {
    pub fn new() -> Project {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("conductor-rules-{}-{count}", std::process::id()));
        let root = folder.join("project");
        for inside in ["src", ".git/hooks", ".claude", "../home/.ssh", "../other", "../bin"] {
            std::fs::create_dir_all(root.join(inside)).expect("a folder");
        }
        for file in [".env", "src/a.rs", "../home/.ssh/id", "../bin/git", "../bin/ls"] {
            std::fs::write(root.join(file), "x").expect("a file");
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(".env", root.join("link")).expect("a link");
        let folder = folder.canonicalize().expect("the folder");
        let mut surroundings = Surroundings::of_system(vec!["goose".to_owned()]);
        surroundings.now = "2026-11-16T12:00[UTC]".parse().expect("a time");
        surroundings.home = Some(folder.join("home"));
        surroundings.search_path = vec![folder.join("bin")];
        surroundings.project = Some(folder.join("project"));
        surroundings.case_blind = false;
        surroundings.windows_shell = false;
        Project { root: folder.join("project"), surroundings }
    }

    pub fn action(&self, operation: Operation) -> Action {
        Action {
            session: "s1".to_owned(),
            at: At::PermissionRequest,
            call: Some("call-1".to_owned()),
            tool: ToolName { native: None, common: "Bash".to_owned() },
            kind: None,
            input: serde_json::Value::Null,
            operations: vec![operation],
            opaque: false,
            cwd: self.root.clone(),
        }
    }

    pub fn run(&self, rules: &Rules, command: &str) -> Verdict {
        self.decide(rules, Operation::Run(CommandLine::Shell(command.to_owned())))
    }

    pub fn argv(&self, rules: &Rules, program: &str, args: &[&str]) -> Verdict {
        let args = args.iter().map(|it| (*it).to_owned()).collect();
        self.decide(
            rules,
            Operation::Run(CommandLine::Program { program: program.to_owned(), args }),
        )
    }

    pub fn decide(&self, rules: &Rules, operation: Operation) -> Verdict {
        rules.decide(&self.action(operation), &self.surroundings)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if let Some(folder) = self.root.parent() {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// Rules from a text.
pub fn rules(text: &str) -> Rules {
    match Rules::parse(Path::new("rules.toml"), text) {
        Ok(rules) => rules,
        Err(error) => panic!("{}", error.why),
    }
}

/// Collects all cases that go wrong, so that a failure shows them together.
#[derive(Default)]
pub struct Wrong(Vec<String>);

impl Wrong {
    pub fn check(&mut self, what: &str, verdict: &Verdict, expected: Decision) {
        if verdict.decision != expected {
            let shown: String = what.chars().take(100).collect();
            self.0.push(format!(
                "{shown:?}: {} instead of {}: {}",
                verdict.decision.name(),
                expected.name(),
                verdict.why
            ));
        }
    }

    pub fn finish(self) {
        assert!(self.0.is_empty(), "{} wrong:\n{}", self.0.len(), self.0.join("\n"));
    }
}
