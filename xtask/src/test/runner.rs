//! Runs steps: two at a time, past those that fail, with a summary at the end.

use std::fmt::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// One thing that must pass.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    /// What is run, in a few words.
    pub about: &'static str,
    /// Steps of one lane run one after the other, the lanes side by side.
    pub lane: Lane,
    /// Steps without which it makes no sense: it is skipped unless they passed.
    pub needs: &'static [&'static str],
    /// Steps that must be over before it begins, whatever came of them.
    pub after: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// This project.
    Own,
    /// What comes from others.
    ThirdParty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// Which step it needs that did not pass.
    Skipped(&'static str),
}

/// What came of a step, and how long it took.
#[derive(Debug, Clone)]
pub struct Done {
    pub name: &'static str,
    pub outcome: Outcome,
    pub took: Duration,
}

/// What the runner says while it runs.
pub trait Progress: Sync {
    fn began(&self, number: usize, step: &Step);
    fn ended(&self, number: usize, done: &Done);
}

/// Runs all steps. `work` says whether a step passed. The answer has the order of the steps.
pub fn run(
    steps: &[Step],
    work: impl Fn(&Step) -> bool + Sync,
    progress: &impl Progress,
) -> Vec<Done> {
    check(steps);
    let board = Board { done: Mutex::new(vec![None; steps.len()]), changed: Condvar::new() };
    thread::scope(|scope| {
        for lane in [Lane::Own, Lane::ThirdParty] {
            let (board, work) = (&board, &work);
            scope.spawn(move || {
                let own = steps.iter().enumerate().filter(|(_, step)| step.lane == lane);
                for (index, step) in own {
                    let done = board.run(steps, step, index, work, progress);
                    progress.ended(index + 1, &done);
                    board.lock()[index] = Some(done);
                    board.changed.notify_all();
                }
            });
        }
    });
    board.lock().iter().flatten().cloned().collect()
}

/// Steps wait only for earlier ones, so they cannot wait for each other in a circle.
fn check(steps: &[Step]) {
    for (index, step) in steps.iter().enumerate() {
        for name in step.needs.iter().chain(step.after) {
            let known = steps[..index].iter().any(|earlier| earlier.name == *name);
            assert!(known, "{} waits for {name}, which is no earlier step", step.name);
        }
    }
}

/// What is over so far.
struct Board {
    done: Mutex<Vec<Option<Done>>>,
    changed: Condvar,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Vec<Option<Done>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(
        &self,
        steps: &[Step],
        step: &Step,
        index: usize,
        work: &impl Fn(&Step) -> bool,
        progress: &impl Progress,
    ) -> Done {
        for name in step.after {
            self.wait_for(steps, name);
        }
        let missing = step.needs.iter().find(|name| self.wait_for(steps, name) != Outcome::Passed);
        if let Some(name) = missing {
            let outcome = Outcome::Skipped(name);
            return Done { name: step.name, outcome, took: Duration::ZERO };
        }
        progress.began(index + 1, step);
        let began = Instant::now();
        let outcome = if work(step) { Outcome::Passed } else { Outcome::Failed };
        Done { name: step.name, outcome, took: began.elapsed() }
    }

    /// Waits until the step `name` is over.
    fn wait_for(&self, steps: &[Step], name: &str) -> Outcome {
        let at = steps.iter().position(|step| step.name == name).expect("it was checked");
        let mut done = self.lock();
        loop {
            if let Some(done) = &done[at] {
                return done.outcome.clone();
            }
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// A table of what came of the steps.
pub fn summary(done: &[Done], total: Duration) -> String {
    let width = done.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Done { name, outcome, took } in done {
        let (word, rest) = match outcome {
            Outcome::Passed => ("passed", time(*took)),
            Outcome::Failed => ("FAILED", time(*took)),
            Outcome::Skipped(needed) => ("skipped", format!("needs {needed}")),
        };
        let _ = writeln!(text, "  {name:width$}  {word:7}  {rest}");
    }
    let count = |wanted: fn(&Outcome) -> bool| done.iter().filter(|it| wanted(&it.outcome)).count();
    let passed = count(|it| *it == Outcome::Passed);
    let failed = count(|it| *it == Outcome::Failed);
    let skipped = count(|it| matches!(it, Outcome::Skipped(_)));
    let _ = write!(text, "{passed} passed, {failed} failed, {skipped} skipped; {}", time(total));
    text
}

/// A time as people say it: `8.1 s`, `3 min 20 s`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    struct Silent;

    impl Progress for Silent {
        fn began(&self, _number: usize, _step: &Step) {}
        fn ended(&self, _number: usize, _done: &Done) {}
    }

    const fn step(name: &'static str, needs: &'static [&'static str]) -> Step {
        Step { name, about: "", lane: Lane::Own, needs, after: &[] }
    }

    fn outcomes(done: &[Done]) -> Vec<Outcome> {
        done.iter().map(|it| it.outcome.clone()).collect()
    }

    #[test]
    fn a_failed_step_stops_only_those_that_need_it() {
        let steps =
            [step("a", &[]), step("b", &["a"]), step("c", &["b"]), step("d", &[]), step("e", &[])];
        let ran = Mutex::new(Vec::new());
        let work = |step: &Step| {
            ran.lock().expect("nobody panicked").push(step.name);
            step.name != "a" && step.name != "d"
        };
        let done = run(&steps, work, &Silent);
        let expected = [
            Outcome::Failed,
            Outcome::Skipped("a"),
            Outcome::Skipped("b"),
            Outcome::Failed,
            Outcome::Passed,
        ];
        assert_eq!(outcomes(&done), expected);
        assert_eq!(*ran.lock().expect("nobody panicked"), ["a", "d", "e"]);
    }

    #[test]
    fn lanes_run_side_by_side_and_wait_where_they_must() {
        let theirs = Step { lane: Lane::ThirdParty, ..step("theirs", &[]) };
        let last = Step { after: &["theirs"], ..step("last", &[]) };
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let ran = Mutex::new(Vec::new());
        let work = |step: &Step| {
            match step.name {
                "ours" => sender.send(()).expect("somebody waits"),
                // Would wait for ever if the lanes did not run side by side.
                "theirs" => receiver.lock().expect("one waits").recv().expect("ours has run"),
                _ => {}
            }
            ran.lock().expect("nobody panicked").push(step.name);
            step.name != "theirs"
        };
        let done = run(&[theirs, step("ours", &[]), last], work, &Silent);
        assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::Passed, Outcome::Passed]);
        let ran = ran.lock().expect("nobody panicked");
        assert_eq!(ran.last(), Some(&"last"), "it runs after a failed step, too");
    }

    #[test]
    fn the_summary_names_each_step_and_what_was_missing() {
        let done =
            |name, outcome, seconds| Done { name, outcome, took: Duration::from_secs(seconds) };
        let text = summary(
            &[
                done("format", Outcome::Passed, 2),
                done("peers", Outcome::Failed, 200),
                done("interop", Outcome::Skipped("peers"), 0),
            ],
            Duration::from_secs(202),
        );
        let expected = "  format   passed   2.0 s
  peers    FAILED   3 min 20 s
  interop  skipped  needs peers
1 passed, 1 failed, 1 skipped; 3 min 22 s";
        assert_eq!(text, expected);
    }

    #[test]
    #[should_panic(expected = "b waits for c, which is no earlier step")]
    fn a_step_cannot_wait_for_a_later_one() {
        check(&[step("a", &[]), step("b", &["c"]), step("c", &[])]);
    }
}
