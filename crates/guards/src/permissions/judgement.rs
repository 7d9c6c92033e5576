//! What the rules decide, also where something is not known.

use std::path::{Path, PathBuf};

use super::command::programs::is_dangerous_variable;
use super::enforcer::{Enforcer, Policy};
use super::rules::{Decision, Rules, Surroundings, Verdict};
use component_base::action::Action;
use component_base::sessions::Origin;

/// How many folders are tried for an action in a session that is not known.
const MAX_FOLDERS: usize = 8;

/// Why an action is denied that the agent may have described to an earlier instance of the component.
const RESTARTED: &str = "the component was restarted and has not seen what the agent has said about it; \
                         ask the agent to try again";

/// Why an action is denied in a session that is not known.
const UNKNOWN: &str = "this session is not known, because the component was restarted; \
                       start a new session or load it again";

impl Enforcer {
    /// The decision of the rules.
    pub(super) fn judge(&self, action: &Action) -> Verdict {
        let rules = match &self.policy {
            Policy::Rules(rules) => rules,
            Policy::Broken(why) => {
                let (decision, rule, why) = (Decision::Deny, None, why.clone());
                return Verdict { decision, rule, why, ask: None };
            }
        };
        let (project, is_known, may_have_missed) = self.sessions.with(&action.session, |it| {
            let may_have_missed = it.was_repeated || !it.state.has_prompt;
            (it.cwd.clone(), it.origin != Origin::Unknown, may_have_missed)
        });
        if !is_known || project.as_os_str().is_empty() {
            return self.judge_in_unknown(rules, action);
        }
        let verdict = self.judge_in(rules, action, &project);
        match action.opaque && may_have_missed {
            true => at_least(Decision::Deny, verdict, || RESTARTED.to_owned()),
            false => verdict,
        }
    }

    /// The decision of the rules about an action in a session of this folder.
    fn judge_in(&self, rules: &Rules, action: &Action, project: &Path) -> Verdict {
        let imported = match self.imported.of(rules, project) {
            Ok(imported) => imported,
            Err(why) => {
                let verdict = self.decide(rules, action, project);
                return at_least(Decision::Ask, verdict, || why);
            }
        };
        self.decide(imported.as_deref().unwrap_or(rules), action, project)
    }

    fn decide(&self, rules: &Rules, action: &Action, project: &Path) -> Verdict {
        let mut surroundings = Surroundings::of_system(self.agent.info().names());
        surroundings.project = Some(project.to_path_buf());
        let verdict = rules.decide(action, &surroundings);
        let environment = action.environment();
        match environment.iter().find(|(name, _)| is_dangerous_variable(name)) {
            Some((name, _)) => {
                let why = || format!("the variable `{name}` decides which programs run");
                at_least(Decision::Ask, verdict, why)
            }
            None => verdict,
        }
    }

    /// The decision about an action in a session whose folder is not known: the component was restarted, or the agent
    /// has opened the session itself. The strictest decision for the folders of all known sessions counts. If there is
    /// none, a rule about a path cannot match, so everything is denied.
    fn judge_in_unknown(&self, rules: &Rules, action: &Action) -> Verdict {
        let mut folders = Vec::<PathBuf>::new();
        self.sessions.for_each(|_, it| {
            let is_new = it.origin != Origin::Unknown && !folders.contains(&it.cwd);
            if is_new && folders.len() < MAX_FOLDERS {
                folders.push(it.cwd.clone());
            }
        });
        let verdicts = folders.iter().map(|folder| {
            let action = Action { cwd: folder.join(&action.cwd), ..action.clone() };
            self.judge_in(rules, &action, folder)
        });
        let strictest = verdicts.max_by_key(|it| it.decision);
        let why = || UNKNOWN.to_owned();
        match strictest {
            Some(verdict) if !action.opaque => at_least(Decision::Ask, verdict, why),
            Some(verdict) => at_least(Decision::Deny, verdict, why),
            None => Verdict { decision: Decision::Deny, rule: None, why: why(), ask: None },
        }
    }
}

/// The verdict, made stricter if need be.
fn at_least(decision: Decision, verdict: Verdict, why: impl FnOnce() -> String) -> Verdict {
    match verdict.decision >= decision {
        true => verdict,
        false => Verdict { decision, rule: None, why: why(), ask: None },
    }
}
