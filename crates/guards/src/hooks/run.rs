//! Runs the hooks of an event, several at once, and combines their answers.

use std::ffi::{OsStr, OsString};
use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::event::{BACKGROUND_TIME, Contract, Event};
use super::process::{self, HookCommand};
use super::reply::{Decision, Ending, HookOutput, Reply};
use super::settings::{Hook, HookAction};

/// How many hooks run at once, and how many more in the background.
const MAX_RUNNING: usize = 8;

/// Runs hooks.
#[derive(Debug)]
pub(crate) struct Runner {
    permits: Semaphore,
    /// For hooks that nothing waits for, so that they do not delay the others.
    background_permits: Arc<Semaphore>,
    /// The time limit of all hooks that something waits for.
    longest: Duration,
    /// Whether a hook that fails blocks, unless it says otherwise.
    strict: bool,
    counts: Counts,
}

/// How often hooks have run.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ran: AtomicU64,
    pub(crate) blocked: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// One run of a hook.
#[derive(Debug, Clone)]
pub(crate) struct HookRun {
    pub(crate) hook: Arc<Hook>,
    pub(crate) reply: Reply,
    pub(crate) time: Duration,
}

/// Where hooks run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) session: &'a str,
    pub(crate) directory: &'a Path,
}

/// The longest value of an environment variable. The system limits it, and no hook can start with a longer one.
const MAX_VARIABLE: usize = 4096;

/// Whether a process can get this text in an environment variable.
pub(crate) fn is_usable(text: &OsStr) -> bool {
    let bytes = text.as_encoded_bytes();
    bytes.len() <= MAX_VARIABLE && !bytes.contains(&0)
}

impl Surroundings<'_> {
    fn environment(&self) -> Vec<(&'static str, Option<OsString>)> {
        let directory = Some(self.directory.as_os_str().to_owned()).filter(|it| is_usable(it));
        // The agent chooses the id of the session.
        let session = Some(OsString::from(self.session)).filter(|it| is_usable(it));
        let mut variables = vec![
            ("CLAUDE_PROJECT_DIR", directory.clone()),
            ("QWEN_PROJECT_DIR", directory.clone()),
            ("GEMINI_PROJECT_DIR", directory),
            ("GEMINI_SESSION_ID", session),
            ("CONDUCTOR", Some("1".into())),
        ];
        let own = component_base::child_environment::variables();
        variables.extend(own.map(|(name, value)| (name, Some(value))));
        variables
    }
}

impl Runner {
    pub(crate) fn new(longest: Duration, strict: bool) -> Runner {
        let permits = Semaphore::new(MAX_RUNNING);
        let background_permits = Arc::new(Semaphore::new(MAX_RUNNING));
        Runner { permits, background_permits, longest, strict, counts: Counts::default() }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Runs hooks on the same input, and waits for all of them. The runs are in the order of the hooks.
    pub(crate) async fn run(
        &self,
        hooks: &[Arc<Hook>],
        input: impl Fn(Contract) -> String,
        surroundings: Surroundings<'_>,
    ) -> (Reply, Vec<HookRun>) {
        let input = &input;
        let run = |hook: &Arc<Hook>| -> Pin<Box<dyn Future<Output = HookRun> + '_>> {
            let hook = hook.clone();
            Box::pin(async move {
                let input = input(hook.contract);
                self.run_one(hook, input, surroundings).await
            })
        };
        let runs = join_all(hooks.iter().map(run).collect()).await;
        let reply = Reply::combine(runs.iter().map(|run| run.reply.clone()));
        if reply.decision == Some(Decision::Deny) {
            self.counts.blocked.fetch_add(1, Ordering::Relaxed);
        }
        (reply, runs)
    }

    /// The time limit of a hook.
    fn time_of(&self, hook: &Hook) -> Duration {
        if hook.is_async {
            return hook.time.unwrap_or(BACKGROUND_TIME);
        }
        let time = hook.time.unwrap_or(hook.event.default_time(hook.contract));
        let longest = hook.event.longest_time(hook.contract).unwrap_or(self.longest);
        time.min(longest).min(self.longest)
    }

    /// Runs a hook. Its time limit includes the time in which it waits for others.
    pub(crate) async fn run_one(
        &self,
        hook: Arc<Hook>,
        input: String,
        surroundings: Surroundings<'_>,
    ) -> HookRun {
        let time = self.time_of(&hook);
        let waiting = Instant::now();
        let permits = if hook.is_async { &*self.background_permits } else { &self.permits };
        // The semaphore is never closed.
        let (permit, has_waited) = match permits.try_acquire() {
            Ok(permit) => (Some(permit), false),
            Err(_) => {
                let permit = tokio::time::timeout(time, permits.acquire()).await;
                (permit.ok().and_then(Result::ok), true)
            }
        };
        let started = Instant::now();
        let left = time.saturating_sub(waiting.elapsed());
        let output = match permit {
            Some(_) => self.output_of(&hook, input, surroundings, left).await,
            None => HookOutput::of(Ending::NotStarted(format!(
                "too many other hooks ran, and it could not start within {}",
                in_words(time)
            ))),
        };
        let mut reply = match output.ending {
            Ending::TimedOut => {
                let why = format!("it did not end within {}", in_words(time));
                Reply { failure: Some(why), ..Reply::default() }
            }
            _ => Reply::read(hook.contract, hook.event, &output),
        };
        self.counts.ran.fetch_add(1, Ordering::Relaxed);
        if let Some(why) = &reply.failure {
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            // A hook that had less time than it may have is not to blame either.
            let is_ours = match output.ending {
                Ending::NotStarted(_) => true,
                Ending::TimedOut => has_waited,
                _ => false,
            };
            if is_ours && hook.event.is_guard()
                || hook.blocks_on_failure.unwrap_or(self.strict && hook.event.is_guard())
            {
                reply = blocked_by_failure(&hook, why);
            }
        }
        HookRun { hook, reply, time: started.elapsed() }
    }

    /// What a hook has left behind after at most this time.
    async fn output_of(
        &self,
        hook: &Hook,
        input: String,
        surroundings: Surroundings<'_>,
        time: Duration,
    ) -> HookOutput {
        let input = input.into_bytes();
        match &hook.action {
            HookAction::Command { command, args, shell } => {
                let environment = surroundings.environment();
                let command = HookCommand {
                    command,
                    args: args.as_deref(),
                    shell: shell.as_deref(),
                    directory: surroundings.directory,
                    environment: &environment,
                };
                process::run(command, input, time, &self.background_permits).await
            }
            HookAction::Http { url, headers, allowed_env_vars } => {
                super::http::run(url, headers, allowed_env_vars, input, time).await
            }
        }
    }
}

fn in_words(time: Duration) -> String {
    match time.as_millis() {
        ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
        ms => format!("{ms} ms"),
    }
}

/// A hook has failed whose failure counts as exit status 2.
fn blocked_by_failure(hook: &Hook, why: &str) -> Reply {
    let reason = format!("the hook `{}` failed: {why}", hook.label());
    let mut reply = match hook.event {
        // Its exit status blocks nothing there, but a guard that fails must not be passed.
        Event::PermissionRequest => {
            Reply { decision: Some(Decision::Deny), reason: Some(reason), ..Reply::default() }
        }
        event => Reply::blocked(hook.contract, event, &reason),
    };
    reply.failure = Some(why.to_owned());
    reply
}

/// Waits for all futures.
pub(crate) async fn join_all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(cx)
            {
                *result = Some(value);
            }
        }
        match results.iter().all(Option::is_some) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
