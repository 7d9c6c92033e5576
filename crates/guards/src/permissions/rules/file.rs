//! The file with rules: its form in TOML, and its checks.

use std::path::Path;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::hours::Hours;
use super::url::UrlPattern;
use super::{AskLimit, Decision, Mode, Rule, RuleRef, Rules};
use crate::permissions::command::pattern::RunPattern;
use crate::permissions::paths::PathPattern;
use component_base::OptionError;
use component_base::options::{Interval, TomlFile};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    version: Option<Spanned<u32>>,
    #[serde(default)]
    mode: ModeForm,
    #[serde(default)]
    default: Option<DecisionForm>,
    #[serde(default)]
    unattended: Option<Spanned<LimitForm>>,
    #[serde(default)]
    import: Texts,
    #[serde(default)]
    rule: Vec<Spanned<RuleForm>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum ModeForm {
    #[default]
    Enforce,
    Audit,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum DecisionForm {
    Allow,
    Ask,
    Deny,
}

impl DecisionForm {
    fn decision(self) -> Decision {
        match self {
            DecisionForm::Allow => Decision::Allow,
            DecisionForm::Ask => Decision::Ask,
            DecisionForm::Deny => Decision::Deny,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitForm {
    after: Interval,
    #[serde(default)]
    then: Option<DecisionForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleForm {
    #[serde(default)]
    name: Option<String>,
    decision: DecisionForm,
    #[serde(default)]
    message: Option<String>,
    #[serde(default)]
    ask: Option<Spanned<LimitForm>>,
    #[serde(default)]
    run: Texts,
    #[serde(default)]
    read: Texts,
    #[serde(default)]
    write: Texts,
    #[serde(default)]
    url: Texts,
    #[serde(default)]
    tool: Texts,
    #[serde(default)]
    kind: Texts,
    #[serde(default)]
    agent: Texts,
    #[serde(default)]
    session: Texts,
    #[serde(default)]
    hours: Option<Spanned<String>>,
    #[serde(default)]
    examples: ExamplesForm,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct ExamplesForm {
    #[serde(default, rename = "match")]
    matching: Texts,
    #[serde(default)]
    no_match: Texts,
}

/// One text, or a list of texts. Each has its position in the file, unless it stands alone.
#[derive(Default)]
struct Texts(Vec<(Option<usize>, String)>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Texts, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
            type Value = Texts;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![(None, text.to_owned())]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element::<Spanned<String>>()? {
                    texts.push((Some(text.span().start), text.into_inner()));
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(TextsVisitor)
    }
}

/// The kinds of tool calls.
const KINDS: [&str; 10] = [
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
];

/// Reads rules.
///
/// # Errors
/// The first thing that is wrong, with file, line and a hint.
pub(super) fn read(file: &TomlFile) -> Result<Rules, OptionError> {
    let form: FileForm = file.parse()?;
    if let Some(version) = form.version
        && *version.get_ref() != 1
    {
        let why =
            format!("version {} of the rules is not known; write `version = 1`", version.get_ref());
        return Err(file.error(line_at(file, version.span().start), why));
    }
    let import_claude = imports(file, &form.import)?;
    let unattended = form.unattended.map(|limit| general_limit(file, &limit)).transpose()?;
    let mut rules = Vec::with_capacity(form.rule.len());
    for (index, rule) in form.rule.into_iter().enumerate() {
        let line = line_at(file, rule.span().start);
        let reader = RuleReader { file, line, index };
        rules.push(Arc::new(reader.rule(rule.into_inner())?));
    }
    Ok(Rules {
        mode: match form.mode {
            ModeForm::Enforce => Mode::Enforce,
            ModeForm::Audit => Mode::Audit,
        },
        default: form.default.map_or(Decision::Ask, DecisionForm::decision),
        unattended,
        import_claude,
        rules,
        sources: vec![super::Source::of(file.path(), file.text().as_bytes())],
        notes: Vec::new(),
    })
}

fn line_at(file: &TomlFile, offset: usize) -> usize {
    let before = file.text().get(..offset).unwrap_or(file.text());
    before.matches('\n').count() + 1
}

fn imports(file: &TomlFile, import: &Texts) -> Result<bool, OptionError> {
    for (at, name) in &import.0 {
        if name != "claude" {
            let line = at.map_or_else(|| file.line_of(&["import"]), |at| line_at(file, at));
            let why = format!("`{name}` cannot be imported; only `claude` can");
            return Err(file.error(line, why));
        }
    }
    Ok(!import.0.is_empty())
}

/// The limit for all questions. It cannot allow: an action that nobody has seen is not allowed.
fn general_limit(file: &TomlFile, limit: &Spanned<LimitForm>) -> Result<AskLimit, OptionError> {
    let form = limit.get_ref();
    let then = form.then.map_or(Decision::Deny, DecisionForm::decision);
    let why = match (then, form.after.0.is_zero()) {
        (Decision::Deny, false) => return Ok(AskLimit { after: form.after.0, then }),
        (_, true) => {
            "`after` is zero; to deny without a question, write `default = \"deny\"`".to_owned()
        }
        (then, _) => format!(
            "`then = \"{}\"` is not possible for all questions; write `then = \"deny\"`, or a rule with its own `ask`",
            then.name()
        ),
    };
    Err(file.error(line_at(file, limit.span().start), why))
}

/// Reads one rule.
struct RuleReader<'f> {
    file: &'f TomlFile,
    line: usize,
    /// The place of the rule in the list of rules.
    index: usize,
}

impl RuleReader<'_> {
    fn error(&self, at: Option<usize>, why: impl std::fmt::Display) -> OptionError {
        self.file.error(at.map_or(self.line, |at| line_at(self.file, at)), why)
    }

    fn rule(&self, form: RuleForm) -> Result<Rule, OptionError> {
        let decision = form.decision.decision();
        let ask = match &form.ask {
            Some(limit) => Some(self.limit(limit, decision)?),
            None => None,
        };
        let rule = Rule {
            reference: RuleRef {
                name: form.name,
                file: self.file.path().to_owned(),
                line: self.line,
                message: form.message,
            },
            decision,
            ask,
            run: self.all("run", &form.run, RunPattern::parse)?,
            read: self.all("read", &form.read, PathPattern::parse)?,
            write: self.all("write", &form.write, PathPattern::parse)?,
            url: self.all("url", &form.url, UrlPattern::parse)?,
            tool: self.all("tool", &form.tool, glob_name)?,
            kind: self.all("kind", &form.kind, kind)?,
            agent: self.all("agent", &form.agent, glob_name)?,
            session: self.all("session", &form.session, glob_name)?,
            hours: match &form.hours {
                Some(hours) => {
                    let parsed = Hours::parse(hours.get_ref());
                    Some(parsed.map_err(|why| self.error(Some(hours.span().start), why))?)
                }
                None => None,
            },
        };
        if !rule.has_targets() && !rule.has_conditions() {
            let why = "the rule matches everything; write what it is about (`run`, `read`, `write`, `url` or `tool`), \
                       or use `default`";
            return Err(self.error(None, why));
        }
        self.check_examples(&rule, &form.examples)?;
        Ok(rule)
    }

    fn all<T>(
        &self,
        key: &str,
        texts: &Texts,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, OptionError> {
        let error = |at: Option<usize>, why: String| match at {
            Some(_) => self.error(at, why),
            // A single text has no place of its own.
            None => {
                let line = self.file.line_of(&["rule", &self.index.to_string(), key]);
                self.file.error(line, why)
            }
        };
        let read =
            |(at, text): &(Option<usize>, String)| parse(text).map_err(|why| error(*at, why));
        texts.0.iter().map(read).collect()
    }

    fn limit(
        &self,
        limit: &Spanned<LimitForm>,
        decision: Decision,
    ) -> Result<AskLimit, OptionError> {
        let form = limit.get_ref();
        let then = form.then.map_or(Decision::Deny, DecisionForm::decision);
        let why = if decision != Decision::Ask {
            "`ask` is a time limit for the user's answer; it needs `decision = \"ask\"`"
        } else if then == Decision::Ask {
            "`then` is what happens without an answer; write `deny` or `allow`"
        } else if form.after.0.is_zero() {
            "`after` is zero; write how long the user has, such as `2m`"
        } else {
            return Ok(AskLimit { after: form.after.0, then });
        };
        Err(self.error(Some(limit.span().start), why))
    }

    /// Checks that the rule matches its examples, and does not match the others.
    fn check_examples(&self, rule: &Rule, examples: &ExamplesForm) -> Result<(), OptionError> {
        let folder = self.file.path().parent().filter(|it| !it.as_os_str().is_empty());
        let folder = std::path::absolute(folder.unwrap_or(Path::new("."))).unwrap_or_default();
        for (wanted, texts) in [(true, &examples.matching), (false, &examples.no_match)] {
            for (at, text) in &texts.0 {
                if super::decide::example_matches(rule, text, &folder) != wanted {
                    let why = match wanted {
                        true => format!(
                            "the rule does not match its example `{text}`; change the rule or the example"
                        ),
                        false => format!(
                            "the rule matches `{text}`, which is in `no_match`; change the rule or the example"
                        ),
                    };
                    return Err(self.error(*at, why));
                }
            }
        }
        Ok(())
    }
}

fn glob_name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name is empty; write a name, or `*` for any".to_owned()),
        name => Ok(name.to_owned()),
    }
}

fn kind(text: &str) -> Result<String, String> {
    if KINDS.contains(&text) {
        return Ok(text.to_owned());
    }
    let hint = acp_wire::suggestion::closest(text, KINDS);
    let hint = hint.map(|it| format!("; did you mean `{it}`?")).unwrap_or_default();
    Err(format!("`{text}` is not a kind of tool call; the kinds are {}{hint}", KINDS.join(", ")))
}
