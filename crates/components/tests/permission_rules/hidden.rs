//! Command lines that hide what they do in the grammar of the shell, in variables, in wrappers and in scripts.
//!
//! Each line is judged by two sets of rules. In the first, several programs are allowed. In the second, the whole tool
//! `Bash` is allowed, so that only the rules that deny protect.

use components::action::{Operation, ToolName};
use components::permissions::rules::Decision;
use components::permissions::rules::Decision::{Allow, Ask, Deny};

use crate::support::{Project, Wrong, rules};

const DENIED: &str = r#"
version = 1
[[rule]]
decision = "deny"
run = ["git push --force", "git push -f", "git push --force-with-lease", "git push +*"]
[[rule]]
decision = "deny"
read = [".env", ".env.*", "~/.ssh/**"]
write = [".git/**", ".claude/**", ".github/workflows/**"]
[[rule]]
decision = "allow"
"#;

const PROGRAMS: &str = r#"
run = ["git status", "git log *", "ls *", "cat *", "echo *", "find *", "sed *", "rm *", "tee *", "cp *", "cd *"]
write = ["src/**"]
"#;

const WHOLE_TOOL: &str = "tool = [\"Bash\"]\n";

/// A line, the decision if programs are allowed, and the decision if the whole tool is allowed.
type Row = (&'static str, Decision, Decision);

#[rustfmt::skip] // one line per command
const CONTINUED_LINES: &[Row] = &[
    ("echo \"$\\\n(git push -f)\"", Deny, Deny),
    ("cat <<E\n$\\\n(git push -f)\nE", Deny, Deny),
    ("y=${x:-$\\\n(git push -f)}; ls", Deny, Deny),
    ("cat <\\\n<E\necho '\nE\ngit push -f\n#'", Deny, Deny),
    ("echo `echo $\\\\\n(git push -f)`", Deny, Deny),
    ("git pu\\\nsh -f", Deny, Deny),
    ("cat ~\\\n/.ssh/id", Ask, Ask),
    ("xzz=push; git $x\\\nzz -f", Ask, Ask),
    ("PA\\\nTH=/tmp/x; ls", Ask, Ask),
    ("git \\\npush -f", Deny, Deny),
    ("git \\\n  status", Allow, Allow),
    ("ls \\\n  -la \\\n  src", Allow, Allow),
];

#[rustfmt::skip] // one line per command
const HERE_DOCUMENTS: &[Row] = &[
    ("cat <<E\nfoo\\\nE\necho '\nE\ngit push -f\n#'", Deny, Deny),
    ("cat <<E\nfoo \\\nE\necho '\nE\ngit push -f\n#'", Deny, Deny),
    ("cat <<E\nE\\\n\ngit push -f\nE", Deny, Deny),
    ("cat <<-E\n\tE\\\n\n\tgit push -f\nE", Deny, Deny),
    ("cat <<E\n${x:-'}\n$(git push -f)\n'}\nE", Deny, Deny),
    ("cat <<E\n${x:-$'}\n$(git push -f)\n'}\nE", Deny, Deny),
    ("x=$(( ${y:-'} + $(git push -f) + '} )); ls", Deny, Deny),
    ("x=$(cat <<'E'\nfoo\nE)\ngit push -f\nE\n); ls", Deny, Deny),
    ("cat <<E\na\nE\nls", Allow, Allow),
    ("x=$(cat <<'E'\nfoo\nE\n); ls", Allow, Allow),
];

#[rustfmt::skip] // one line per command
const VALUES: &[Row] = &[
    ("x='a[$'; x+='(git push -f)]'; y=$((x)); ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; [[ x -eq 0 ]]; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; [[ -v $x ]]; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; b[x]=1; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; b=([x]=1); ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; y=${b[x]}; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; y=${b:x}; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; y=${!x}; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; y=${?:x}; ls", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; ls {b[x]}>src/a", Deny, Deny),
    ("x='a[$'; x+='(git push -f)]'; let y=x", Ask, Ask),
    ("x='a[$'; x+='(git push -f)]'; test -v \"$x\"", Ask, Ask),
    ("x='a[$'; x+='(git push -f)]'; unset \"$x\"", Ask, Ask),
    ("x='a[$'; x+='(git push -f)]'; declare -i y=x", Ask, Ask),
    ("x='a[$'; x+='(git push -f)]'; printf -v \"b[x]\" a", Ask, Ask),
    ("x='$'; x+='(git push -f)'; y=${x@P}; ls", Deny, Deny),
    ("BASH_CMDS[ls]=/usr/bin/git; ls push -f", Ask, Ask),
    ("BASH_ALIASES[ls]=x; ls", Ask, Ask),
    ("functions[ls]='git push -f'; ls", Deny, Deny),
    ("commands[ls]=/usr/bin/git; ls push -f", Ask, Ask),
    ("aliases=(ls x); ls", Ask, Ask),
    ("y=$((1+2)); ls", Allow, Allow),
    ("y=${x:0:5}; ls", Allow, Allow),
    ("y=${x:-a}; ls", Allow, Allow),
    ("y=${#x}; z=${a[@]}; ls", Allow, Allow),
    ("a=(git push -f); \"${a[@]}\"", Deny, Deny),
    ("x='git push -f'; env $x", Deny, Deny),
    ("x='git push -f'; sudo -u root $x", Deny, Deny),
    ("x='git push -f' bash -c '$x'", Deny, Deny),
    ("for x in 'git push -f'; do $x; done", Deny, Deny),
    ("f(){ \"$@\"; }; ls", Ask, Ask),
    ("timeout 5 $x", Ask, Ask),
    ("find . -exec $x ;", Ask, Ask),
    ("source <(echo git push -f)", Ask, Ask),
    (". \"$x\"", Ask, Ask),
    ("x='git push -f'; echo a", Allow, Allow),
    ("bash < <(echo git push -f)", Ask, Ask),
    ("x='git push -f'; sudo sh -c \"$x\"", Deny, Deny),
    ("x='git push -f'; trap \"$x\" EXIT", Deny, Deny),
    ("su -c \"$x\"", Ask, Ask),
    ("env make $x", Ask, Allow),
    ("sudo -n make \"$x\"", Ask, Allow),
];

#[rustfmt::skip] // one line per command
const WRAPPERS: &[Row] = &[
    ("timeout 5 tee .git/config", Deny, Deny),
    ("nohup rm -rf .git", Deny, Deny),
    ("env tee .git/config", Deny, Deny),
    ("nice rm -rf .git", Deny, Deny),
    ("command cp src/a .git/hooks/pre-commit", Deny, Deny),
    ("nohup nice timeout 5 env A=1 rm -rf .git", Deny, Deny),
    ("sudo rm -rf .git", Deny, Deny),
    ("xargs rm -rf .git", Deny, Deny),
    ("find . -exec rm .git/config ;", Deny, Deny),
    ("command sed -i s/a/b/ .git/config", Deny, Deny),
    ("sudo perl -i -pe s/a/b/ .git/config", Deny, Deny),
    ("sudo find .git -delete", Deny, Deny),
    ("sudo dd if=x of=.git/config", Deny, Deny),
    ("sudo python3 -c 'open(\".git/config\", \"w\")'", Deny, Deny),
    ("sudo unzip x -d .git", Deny, Deny),
    ("env -C .git tee config", Deny, Deny),
    ("env -iC .git tee config", Deny, Deny),
    ("env --chdir=.git tee config", Deny, Deny),
    ("git -C .git mv a config", Deny, Deny),
    ("tar xfC a.tar .git", Deny, Deny),
    ("cp -at .git src/a", Deny, Deny),
    ("cp -at.git src/a", Deny, Deny),
    ("xargs -I cat -I cp -I mv rm .git/config", Deny, Deny),
    ("timeout 5 tee src/a", Allow, Allow),
    ("nohup rm -rf src", Allow, Allow),
    ("cp -a src/a src/b", Allow, Allow),
    ("npm install x", Ask, Allow),
];

#[rustfmt::skip] // one line per command
const SED_SCRIPTS: &[Row] = &[
    ("sed 's%a%id%e' f", Ask, Allow),
    ("sed --expression='1e id' f", Ask, Allow),
    ("sed '1~2e id' f", Ask, Allow),
    ("sed -n 's:a:b:w /etc/x' f", Ask, Allow),
    ("sed -s '-e1w x' f", Ask, Allow),
    ("sed 's%.*%git push -f%e'", Deny, Deny),
    ("sed '\\%a%e git push -f'", Deny, Deny),
    ("sed -n w.git/config src/a", Deny, Deny),
    ("sed -n 's%a%b%w .git/config' src/a", Deny, Deny),
    ("sed -n '1,5p' src/a", Allow, Allow),
    ("sed 's/git push -f/x/' src/a", Allow, Allow),
    ("sed -E -e 's|a/b|c|g' -e '$d' src/a", Allow, Allow),
    ("sed -i s/a/b/ src/a", Ask, Allow),
];

#[rustfmt::skip] // one line per command
const FOLDERS: &[Row] = &[
    ("for i in 1 2; do cat id; cd ~/.ssh; done", Deny, Deny),
    ("ls(){ cat id; }; cd ~/.ssh; ls", Deny, Deny),
    ("alias x='cat id'; cd ~/.ssh; x", Deny, Deny),
    ("OLDPWD=/home/u/.ssh; cd -; cat id", Ask, Ask),
    ("cd -; cat id", Ask, Ask),
    ("popd; cat id", Ask, Ask),
    ("pushd +1; cat id", Ask, Ask),
    ("chdir ~/.ssh; cat id", Deny, Deny),
    ("while ls; do cat x; cd ..; done", Ask, Ask),
    ("cd src && cat a.rs", Allow, Allow),
    ("cd -P src && cat a.rs", Allow, Allow),
];

#[test]
fn continued_lines_hide_no_command() {
    check(CONTINUED_LINES);
}

#[test]
fn here_documents_hide_no_command() {
    check(HERE_DOCUMENTS);
}

#[test]
fn values_of_variables_hide_no_command() {
    check(VALUES);
}

#[test]
fn wrappers_hide_no_file() {
    check(WRAPPERS);
}

#[test]
fn scripts_of_sed_hide_no_command() {
    check(SED_SCRIPTS);
}

#[test]
fn changes_of_the_folder_hide_no_file() {
    check(FOLDERS);
}

/// Some clients join the program and its arguments without quotes, and give them to a shell.
#[test]
fn a_program_with_arguments_hides_no_command() {
    let project = Project::new();
    let programs = rules(&format!("{DENIED}{PROGRAMS}"));
    let whole_tool = rules(&format!("{DENIED}{WHOLE_TOOL}"));
    let mut wrong = Wrong::default();
    for (program, args, with_programs, with_tool) in [
        ("git push", &["-f"][..], Deny, Deny),
        ("echo", &["$(git push -f)"], Deny, Deny),
        ("echo", &["`git push -f`"], Deny, Deny),
        ("echo", &["a;", "git", "push", "-f"], Deny, Deny),
        ("git status;", &["ls"], Ask, Ask),
        ("echo", &["a; b"], Allow, Allow),
        ("ls", &["-la", "src"], Allow, Allow),
    ] {
        let what = format!("{program} {args:?}");
        wrong.check(&what, &project.argv(&programs, program, args), with_programs);
        wrong.check(&what, &project.argv(&whole_tool, program, args), with_tool);
    }
    wrong.finish();
}

/// Settings have the names that agents show, in which other characters are replaced.
#[test]
fn a_rule_about_an_mcp_tool_matches_its_written_and_its_real_name() {
    let project = Project::new();
    let denied = |tool: &str| {
        rules(&format!(
            "version = 1\n[[rule]]\ndecision = \"deny\"\ntool = [\"{tool}\"]\n[[rule]]\ndecision = \"allow\"\n\
             tool = [\"mcp__*\"]"
        ))
    };
    let allowed = |tool: &str| {
        rules(&format!("version = 1\n[[rule]]\ndecision = \"allow\"\ntool = [\"{tool}\"]"))
    };
    let call = |server: &str, tool: &str, native: &str| {
        let mut action =
            project.action(Operation::Mcp { server: server.to_owned(), tool: tool.to_owned() });
        action.tool = ToolName { native: Some(native.to_owned()), common: "unknown".to_owned() };
        action
    };
    let mut wrong = Wrong::default();
    for (server, tool, pattern, fits) in [
        ("my server", "go", "mcp__my_server__go", true),
        ("my server", "go", "mcp__my server__go", true),
        ("git.hub", "drop", "mcp__git_hub__*", true),
        ("kit", "go", "mcp__my_server__go", false),
    ] {
        let action = call(server, tool, "go");
        let verdict = denied(pattern).decide(&action, &project.surroundings);
        wrong.check(pattern, &verdict, if fits { Deny } else { Allow });
        let verdict = allowed(pattern).decide(&action, &project.surroundings);
        wrong.check(pattern, &verdict, if fits { Allow } else { Ask });
    }
    // The agent's own name can only make the decision stricter.
    let action = call("kit", "go", "kit_go");
    wrong.check("native", &denied("kit_go").decide(&action, &project.surroundings), Deny);
    wrong.check("native", &allowed("kit_go").decide(&action, &project.surroundings), Ask);
    wrong.finish();
}

fn check(rows: &[Row]) {
    let project = Project::new();
    let programs = rules(&format!("{DENIED}{PROGRAMS}"));
    let whole_tool = rules(&format!("{DENIED}{WHOLE_TOOL}"));
    let mut wrong = Wrong::default();
    for (command, with_programs, with_tool) in rows {
        wrong.check(command, &project.run(&programs, command), *with_programs);
        let what = format!("whole tool: {command}");
        wrong.check(&what, &project.run(&whole_tool, command), *with_tool);
    }
    wrong.finish();
}
