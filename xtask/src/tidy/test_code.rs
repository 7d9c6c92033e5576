//! The rules for tests: an assertion does not read what may still be on its way, and no test depends on time.

/// The comment that says why a line may depend on time. It is in the line, or in the comment above it.
const REASON: &str = "// Timing: ";

/// The functions that say how it is now, and what to use in an assertion.
const READS: [(&str, &str); 2] = [
    (
        "stderr_so_far",
        "a line may still be on its way: use wait_for_stderr, or whole_stderr after the end",
    ),
    (
        "has_reported",
        "a process may not have reported yet: use wait_for_component or assert_not_started",
    ),
];

/// Checks the tests in a Rust file.
pub fn check(name: &str, text: &str, complaints: &mut Vec<String>) {
    let Some(start) = start_of_tests(name, text) else { return };
    let code = without_texts(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut complain = |at: usize, why: &str| {
        let number = text[..at].matches('\n').count();
        if at >= start {
            complaints.push(format!("{name}:{}: {why}", number + 1));
        }
    };
    for (read, why) in READS.into_iter().filter(|_| !name.starts_with("crates/testkit/")) {
        let is_bound_at = |at: usize| read == "stderr_so_far" && is_let(&code[..at]);
        for at in calls(&code, read) {
            match place(&code, at) {
                Place::Condition => complain(at, &format!("{read} in an assertion: {why}")),
                Place::Other if is_bound_at(at) => complain(at, &format!("{read}: {why}")),
                Place::Other | Place::WaitOrMessage => {}
            }
        }
    }
    let depends_on_time = calls(&code, "sleep").map(|at| (at, "a test waits for a fact"));
    let bounds = upper_bounds(&code).map(|at| (at, "a busy machine breaks an upper bound of time"));
    for (at, why) in depends_on_time.chain(bounds) {
        if !has_reason(&lines, text[..at].matches('\n').count()) {
            complain(at, &format!("{why}: if it must be, say why with `{REASON}…`"));
        }
    }
}

/// Where the tests of a file begin.
fn start_of_tests(name: &str, text: &str) -> Option<usize> {
    let whole = ["/tests/", "/tests.rs", "crates/testkit/"].iter().any(|it| name.contains(it));
    if whole { Some(0) } else { text.find("#[cfg(test)]\nmod tests {") }
}

/// Whether the line, or the comment above it, has the reason.
fn has_reason(lines: &[&str], number: usize) -> bool {
    let above = lines[..number].iter().rev();
    let comment = above.take_while(|line| line.trim_start().starts_with("//"));
    comment.chain([&lines[number]]).any(|line| line.contains(REASON))
}

/// The positions of the calls of a function, but not of a method of the same name as `sleep`, which a simulated clock has.
fn calls<'a>(code: &'a str, function: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_call = move |at: &usize| {
        let before = code[..*at].trim_end();
        let is_name = code[..*at].ends_with(|it: char| it.is_alphanumeric() || it == '_');
        let is_method = function == "sleep" && before.ends_with('.');
        code[at + function.len()..].starts_with('(')
            && !is_name
            && !is_method
            && !before.ends_with("fn")
    };
    code.match_indices(function).map(|(at, _)| at).filter(is_call)
}

/// The positions of comparisons that want less than an amount of time.
fn upper_bounds(code: &str) -> impl Iterator<Item = usize> + '_ {
    let elapsed = code.match_indices("elapsed()").map(|(at, _)| at).filter(|at| {
        let rest = code[*at..].split([';', '{', ',', '|', '&']).next().unwrap_or_default();
        let before = code[..*at].rsplit(['(', ';', '{', ',', '|', '&']).next().unwrap_or_default();
        [" < ", " <= "].iter().any(|it| rest.contains(it))
            || [" > ", " >= "].iter().any(|it| before.contains(it))
    });
    let amounts = ["< Duration::from_", "<= Duration::from_"];
    let amounts = amounts.into_iter().flat_map(|it| code.match_indices(it)).map(|(at, _)| at);
    let mut found: Vec<usize> = elapsed.chain(amounts).collect();
    found.sort_by_key(|at| code[..*at].matches('\n').count());
    found.dedup_by_key(|at| code[..*at].matches('\n').count());
    found.into_iter()
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In the condition of an assertion.
    Condition,
    /// In a wait, or in the message of a failure.
    WaitOrMessage,
    Other,
}

/// Where a call stands: looks at the brackets around it, from the inner to the outer one.
fn place(code: &str, at: usize) -> Place {
    let mut around: Vec<(&str, usize)> = Vec::new();
    for (index, character) in code[..at].char_indices() {
        match character {
            '(' | '[' | '{' => {
                let is_name = |it: char| it.is_alphanumeric() || it == '_' || it == '!';
                let before = &code[..index];
                around.push((&before[before.trim_end_matches(is_name).len()..], 0));
            }
            ')' | ']' | '}' => drop(around.pop()),
            ',' => around.iter_mut().next_back().into_iter().for_each(|it| it.1 += 1),
            _ => {}
        }
    }
    for (name, argument) in around.into_iter().rev() {
        match name {
            "assert!" if argument == 0 => return Place::Condition,
            "assert_eq!" | "assert_ne!" if argument <= 1 => return Place::Condition,
            "assert!" | "assert_eq!" | "assert_ne!" | "panic!" | "eprintln!" => {
                return Place::WaitOrMessage;
            }
            _ if name.starts_with("wait_") => return Place::WaitOrMessage,
            _ => {}
        }
    }
    Place::Other
}

/// Whether the statement that this code ends in begins with `let`.
fn is_let(code: &str) -> bool {
    code.rsplit([';', '{', '}']).next().unwrap_or_default().trim_start().starts_with("let ")
}

/// The code with spaces in place of its comments and the text of its strings. Positions and lines stay.
fn without_texts(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hashes = rest[1.min(rest.len())..].bytes().take_while(|it| *it == b'#').count();
        let is_raw = first == 'r' && rest[1 + hashes..].starts_with('"');
        let is_raw = is_raw && !code.ends_with(|it: char| it.is_alphanumeric());
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if is_raw => {
                let (open, close) = (hashes + 2, format!("\"{}", "#".repeat(hashes)));
                rest[open..].find(&close).map_or(rest.len(), |it| open + it + close.len())
            }
            '"' => {
                let mut escaped = false;
                let end = rest[1..].find(|it| {
                    let ends = it == '"' && !escaped;
                    escaped = it == '\\' && !escaped;
                    ends
                });
                end.map_or(rest.len(), |it| it + 2)
            }
            '\'' if rest.starts_with("'\"'") => 3,
            '\'' if rest.starts_with("'\\") => 4.min(rest.len()),
            '\'' if rest.chars().nth(2) == Some('\'') => {
                rest.chars().take(3).map(char::len_utf8).sum()
            }
            _ => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
                continue;
            }
        };
        code.extend(rest[..length].bytes().map(|it| if it == b'\n' { '\n' } else { ' ' }));
        rest = &rest[length..];
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(body: &str) -> Vec<String> {
        let mut complaints = Vec::new();
        check("crates/x/tests/a.rs", body, &mut complaints);
        complaints
    }

    fn is_refused(body: &str) -> bool {
        !complaints(body).is_empty()
    }

    #[test]
    fn an_assertion_does_not_read_what_may_still_be_on_its_way() {
        for refused in [
            "assert!(chain.stderr_so_far().contains(\"x\"));",
            "assert!(\n    !chain\n        .stderr_so_far()\n        .contains(\"x\")\n);",
            "assert_eq!(chain.stderr_so_far(), \"\");",
            "assert_eq!(\"a, b\", chain.stderr_so_far());",
            "assert_eq!(f(a, b), chain.stderr_so_far());",
            "let stderr = chain.stderr_so_far();",
            "let all = format!(\"{}{}\", a, chain.stderr_so_far());",
            "assert!(!chain.has_reported(\"proxy\"));",
        ] {
            assert!(is_refused(refused), "{refused}");
        }
        for allowed in [
            "assert!(done, \"{}\", chain.stderr_so_far());",
            "assert_eq!(a, b, \"{}\", chain.stderr_so_far());",
            "let x = y.unwrap_or_else(|| panic!(\"{}\", chain.stderr_so_far()));",
            "wait_until(\"x\", || {\n let stderr = chain.stderr_so_far();\n stderr.find(\"x\")\n});",
            "wait_until(\"x\", || chain.has_reported(\"proxy\").then_some(()));",
            "while !chain.has_reported(\"proxy\") {}",
            "// assert!(chain.stderr_so_far().is_empty())",
            "let text = \"assert!(chain.stderr_so_far())\";",
            "let text = r#\"assert!(\" chain.stderr_so_far())\"#;",
        ] {
            assert_eq!(complaints(allowed), [""; 0]);
        }
    }

    #[test]
    fn a_test_does_not_sleep() {
        for refused in [
            "std::thread::sleep(time);",
            "tokio::time::sleep(time).await;",
            "sleep(time);",
            "// Timing: another line\n\nsleep(time);",
        ] {
            assert!(is_refused(refused), "{refused}");
        }
        for allowed in [
            "// Timing: a stall is not an event\nsleep(time);",
            "// Timing: this is\n// a long reason\nsleep(time);",
            "sleep(time); // Timing: a stall is not an event",
            "spawn(\"sleep(1000)\");",
            "clock.sleep(time);",
            "fn sleep(&self) {}",
            "oversleep(time);",
        ] {
            assert_eq!(complaints(allowed), [""; 0]);
        }
    }

    #[test]
    fn an_upper_bound_of_time_has_a_reason() {
        for refused in [
            "assert!(began.elapsed() < Duration::from_secs(5));",
            "assert!(began.elapsed() <= LIMIT);",
            "assert!(began.elapsed().as_millis() < 1500, \"{:?}\", began.elapsed());",
            "assert!(LIMIT > began.elapsed());",
            "assert!(took < Duration::from_millis(20));",
        ] {
            assert_eq!(complaints(refused).len(), 1, "{refused}");
            assert_eq!(complaints(&format!("// Timing: why\n{refused}")), [""; 0]);
        }
        for allowed in [
            "assert!(began.elapsed() >= Duration::from_secs(5));",
            "assert!(LIMIT <= began.elapsed());",
            "let time: Option<Duration> = f(began.elapsed(), a < b);",
            "let limit: Vec<Duration> = vec![Duration::from_secs(5)];",
        ] {
            assert_eq!(complaints(allowed), [""; 0]);
        }
    }

    #[test]
    fn only_tests_are_checked() {
        let code = "fn a() { sleep(time); }\n#[cfg(test)]\nmod tests {\n    sleep(time);\n}\n";
        let mut complaints = Vec::new();
        check("crates/x/src/a.rs", code, &mut complaints);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].starts_with("crates/x/src/a.rs:4: a test waits for a fact"));
        check("crates/x/src/b.rs", "fn a() { sleep(time); }", &mut complaints);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        for name in ["crates/x/src/a/tests.rs", "crates/testkit/src/a.rs"] {
            let before = complaints.len();
            check(name, "sleep(time);", &mut complaints);
            assert_eq!(complaints.len(), before + 1, "{name}");
        }
    }
}
