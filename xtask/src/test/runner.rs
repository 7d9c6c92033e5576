//! Runs steps, two at a time. A failed step stops the others only with `--fail-fast`. A summary follows at the end.

use std::fmt::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How many steps run at a time. Most of them compile and use two processors. A second step uses the time in which the
/// first one waits.
const AT_A_TIME: usize = 2;

/// A check that must pass.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    pub folder: Folder,
    /// Steps that must pass first. Otherwise this step is skipped.
    pub needs: &'static [&'static str],
    /// Steps that must end first, passed or not.
    pub after: &'static [&'static str],
    /// No other step runs at the same time, because this step measures time or memory.
    pub alone: bool,
    /// What the step reads, if its record says that it need not run.
    pub reads: Option<Reads>,
}

/// The inputs of a step.
#[derive(Debug, Clone, Copy)]
pub struct Reads {
    /// Files and folders of the project; see [`is_below`](super::records::is_below).
    pub files: &'static [&'static str],
    /// Installed programs.
    pub programs: &'static [&'static str],
}

/// The folder in which a step builds. Two steps of one folder never run at the same time, because Cargo locks the
/// folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// `target/debug`.
    Debug,
    /// `target/release`.
    Release,
    /// Builds of this project in the cache.
    Cached,
    /// The builds of third-party programs.
    ThirdParty,
    /// `web` and `editors/vscode`, which Cargo does not use.
    Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// It has passed before with the same inputs. The text says when.
    Recorded(String),
    Failed,
    /// The needed step that did not pass.
    Skipped(&'static str),
    /// Another step has failed before.
    NotRun,
}

impl Outcome {
    /// Whether a step that needs this one can run.
    pub fn is_good(&self) -> bool {
        matches!(self, Outcome::Passed | Outcome::Recorded(_))
    }
}

/// The result of a step.
#[derive(Debug, Clone)]
pub struct StepResult {
    pub name: &'static str,
    pub outcome: Outcome,
    pub took: Duration,
    /// Its processor time, if it is known.
    pub processor: Option<Duration>,
}

/// Reports the progress of the runner.
pub trait Progress: Sync {
    fn began(&self, number: usize, step: &Step);
    fn ended(&self, number: usize, done: &StepResult);
    /// The processor time of a step that has ended.
    fn processor_time(&self, name: &str, outcome: &Outcome) -> Option<Duration>;
}

/// Runs all steps, in the order of the list where possible. `work` runs a step. With `fail_fast`, no step begins after
/// the first failure. The results have the order of the list.
pub fn run(
    steps: &[Step],
    fail_fast: bool,
    work: impl Fn(&Step) -> Outcome + Sync,
    progress: &impl Progress,
) -> Vec<StepResult> {
    check(steps);
    let states = vec![StepState::Waiting; steps.len()];
    let board = Schedule { steps, fail_fast, states: Mutex::new(states), changed: Condvar::new() };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(next) = board.next() {
                    let began = Instant::now();
                    let (index, outcome) = match next {
                        Next::Skip(index, outcome) => (index, outcome),
                        Next::Run(index) => {
                            progress.began(index + 1, &steps[index]);
                            (index, work(&steps[index]))
                        }
                    };
                    let name = steps[index].name;
                    let processor = progress.processor_time(name, &outcome);
                    let done = StepResult { name, outcome, took: began.elapsed(), processor };
                    progress.ended(index + 1, &done);
                    board.lock()[index] = StepState::Over(done);
                    board.changed.notify_all();
                }
            });
        }
    });
    let states = board.lock();
    states.iter().filter_map(StepState::done).cloned().collect()
}

/// Checks that each step waits only for earlier ones, so that there is no cycle.
fn check(steps: &[Step]) {
    for (index, step) in steps.iter().enumerate() {
        for name in step.needs.iter().chain(step.after) {
            let known = steps[..index].iter().any(|earlier| earlier.name == *name);
            assert!(known, "{} waits for {name}, which is no earlier step", step.name);
        }
    }
}

#[derive(Debug, Clone)]
enum StepState {
    Waiting,
    Running,
    Over(StepResult),
}

impl StepState {
    fn done(&self) -> Option<&StepResult> {
        match self {
            StepState::Over(done) => Some(done),
            _ => None,
        }
    }
}

/// What a thread does next.
enum Next {
    Run(usize),
    Skip(usize, Outcome),
}

/// All steps and their states.
struct Schedule<'a> {
    steps: &'a [Step],
    fail_fast: bool,
    states: Mutex<Vec<StepState>>,
    changed: Condvar,
}

impl Schedule<'_> {
    fn lock(&self) -> MutexGuard<'_, Vec<StepState>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next step that can be run or skipped, and marks it as running. `None`: no step is left.
    fn next(&self) -> Option<Next> {
        let mut states = self.lock();
        loop {
            let mut left = self.waiting(&states).peekable();
            left.peek()?;
            if let Some(next) = left.find_map(|index| self.next_for(index, &states)) {
                drop(left);
                let (Next::Run(index) | Next::Skip(index, _)) = &next;
                let index = *index;
                states[index] = StepState::Running;
                return Some(next);
            }
            drop(left);
            states = self.changed.wait(states).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn waiting<'s>(&self, states: &'s [StepState]) -> impl Iterator<Item = usize> + 's {
        let all = states.iter().enumerate();
        all.filter(|(_, state)| matches!(state, StepState::Waiting)).map(|(index, _)| index)
    }

    /// Whether a waiting step can begin now.
    fn next_for(&self, index: usize, states: &[StepState]) -> Option<Next> {
        let step = &self.steps[index];
        let done = |name: &str| {
            let at = self.steps.iter().position(|step| step.name == name).expect("it was checked");
            states[at].done()
        };
        let failed = |it: &StepResult| it.outcome == Outcome::Failed;
        if self.fail_fast && states.iter().filter_map(StepState::done).any(failed) {
            return Some(Next::Skip(index, Outcome::NotRun));
        }
        for name in step.needs {
            if done(name).is_some_and(|it| !it.outcome.is_good()) {
                return Some(Next::Skip(index, Outcome::Skipped(name)));
            }
        }
        let all_over = step.needs.iter().chain(step.after).all(|name| done(name).is_some());
        let mut running = self.steps.iter().zip(states);
        let disturbed = running.any(|(other, state)| {
            let conflict = step.alone || other.alone || other.folder == step.folder;
            matches!(state, StepState::Running) && conflict
        });
        (all_over && !disturbed).then_some(Next::Run(index))
    }
}

/// The results of all steps as a table.
pub fn summary(done: &[StepResult], total: Duration) -> String {
    let width = done.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for StepResult { name, outcome, took, processor } in done {
        let took = match processor {
            Some(processor) => format!("{}, {} of processor time", time(*took), time(*processor)),
            None => time(*took),
        };
        let (word, rest) = match outcome {
            Outcome::Passed => ("passed", took),
            Outcome::Recorded(why) => ("record", why.clone()),
            Outcome::Failed => ("FAILED", took),
            Outcome::Skipped(needed) => ("skipped", format!("needs {needed}")),
            Outcome::NotRun => ("skipped", "an earlier step has failed".to_owned()),
        };
        let _ = writeln!(text, "  {name:width$}  {word:7}  {rest}");
    }
    let count = |wanted: fn(&Outcome) -> bool| done.iter().filter(|it| wanted(&it.outcome)).count();
    let recorded = count(|it| matches!(it, Outcome::Recorded(_)));
    let failed = count(|it| *it == Outcome::Failed);
    let skipped = count(|it| matches!(it, Outcome::Skipped(_) | Outcome::NotRun));
    let passed = done.len() - failed - skipped;
    let processor = time(done.iter().filter_map(|it| it.processor).sum());
    let total = time(total);
    let _ = writeln!(
        text,
        "  in {total}, {processor} of processor time; {recorded} steps have records and were not run"
    );
    // Programs that read the output know this form.
    let _ = write!(text, "{passed} passed, {failed} failed, {skipped} skipped");
    text
}

/// A duration in readable form: `8.1 s`, `3 min 20 s`.
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
        fn ended(&self, _number: usize, _done: &StepResult) {}
        fn processor_time(&self, _name: &str, _outcome: &Outcome) -> Option<Duration> {
            None
        }
    }

    const fn step(name: &'static str, needs: &'static [&'static str]) -> Step {
        let folder = Folder::Debug;
        Step { name, about: "", folder, needs, after: &[], alone: false, reads: None }
    }

    fn outcome(passed: bool) -> Outcome {
        if passed { Outcome::Passed } else { Outcome::Failed }
    }

    fn outcomes(done: &[StepResult]) -> Vec<Outcome> {
        done.iter().map(|it| it.outcome.clone()).collect()
    }

    #[test]
    fn a_failed_step_stops_only_those_that_need_it() {
        let steps =
            [step("a", &[]), step("b", &["a"]), step("c", &["b"]), step("d", &[]), step("e", &[])];
        let ran = Mutex::new(Vec::new());
        let work = |step: &Step| {
            ran.lock().expect("no panic").push(step.name);
            outcome(step.name != "a" && step.name != "d")
        };
        let done = run(&steps, false, work, &Silent);
        let expected = [
            Outcome::Failed,
            Outcome::Skipped("a"),
            Outcome::Skipped("b"),
            Outcome::Failed,
            Outcome::Passed,
        ];
        assert_eq!(outcomes(&done), expected);
        assert_eq!(*ran.lock().expect("no panic"), ["a", "d", "e"]);
    }

    #[test]
    fn with_fail_fast_nothing_begins_after_a_failure() {
        let steps = [step("a", &[]), step("b", &[]), step("c", &["a"])];
        let done = run(&steps, true, |step| outcome(step.name != "a"), &Silent);
        assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::NotRun, Outcome::NotRun]);
    }

    #[test]
    fn a_step_with_a_record_is_as_good_as_one_that_passed() {
        let steps = [step("a", &[]), step("b", &["a"])];
        let recorded = Outcome::Recorded("before".to_owned());
        let work = |step: &Step| match step.name {
            "a" => recorded.clone(),
            _ => Outcome::Passed,
        };
        assert_eq!(
            outcomes(&run(&steps, true, work, &Silent)),
            [recorded.clone(), Outcome::Passed]
        );
    }

    #[test]
    fn steps_of_two_folders_run_in_parallel_and_wait_for_needed_steps() {
        let theirs = Step { folder: Folder::ThirdParty, ..step("theirs", &[]) };
        let last = Step { after: &["theirs"], ..step("last", &[]) };
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let ran = Mutex::new(Vec::new());
        let work = |step: &Step| {
            match step.name {
                "ours" => sender.send(()).expect("the other step waits"),
                // Would block forever if the two did not run in parallel.
                "theirs" => receiver.lock().expect("one waits").recv().expect("ours has run"),
                _ => {}
            }
            ran.lock().expect("no panic").push(step.name);
            outcome(step.name != "theirs")
        };
        let done = run(&[theirs, step("ours", &[]), last], false, work, &Silent);
        assert_eq!(outcomes(&done), [Outcome::Failed, Outcome::Passed, Outcome::Passed]);
        let ran = ran.lock().expect("no panic");
        assert_eq!(ran.last(), Some(&"last"), "it runs after a failed step, too");
    }

    #[test]
    fn steps_of_one_folder_never_run_together_and_others_run_alone() {
        let folders = [Folder::Debug, Folder::Release, Folder::Cached, Folder::ThirdParty];
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let steps: Vec<Step> = (0..)
            .zip(names)
            .map(|(index, name)| Step {
                folder: folders[index % folders.len()],
                alone: index == 3,
                ..step(name, &[])
            })
            .collect();
        let running = Mutex::new(Vec::<Step>::new());
        let work = |step: &Step| {
            let mut now = running.lock().expect("no panic");
            now.push(*step);
            assert!(now.len() <= AT_A_TIME);
            assert!(now.len() == 1 || !now.iter().any(|it| it.alone), "{now:?}");
            assert!(now.len() == 1 || now[0].folder != now[1].folder, "{now:?}");
            drop(now);
            thread::yield_now();
            running.lock().expect("no panic").retain(|it| it.name != step.name);
            Outcome::Passed
        };
        let done = run(&steps, false, work, &Silent);
        assert!(done.iter().all(|it| it.outcome == Outcome::Passed));
        assert_eq!(done.len(), names.len());
    }

    #[test]
    fn the_summary_names_each_step_and_the_missing_ones() {
        let done = |name, outcome, seconds| StepResult {
            name,
            outcome,
            took: Duration::from_secs(seconds),
            processor: (seconds > 100).then(|| Duration::from_secs(2 * seconds)),
        };
        let text = summary(
            &[
                done("format", Outcome::Passed, 2),
                done("peers", Outcome::Failed, 200),
                done("interop", Outcome::Skipped("peers"), 0),
                done("walk", Outcome::Recorded("it passed before".to_owned()), 0),
            ],
            Duration::from_secs(202),
        );
        let expected = "  format   passed   2.0 s
  peers    FAILED   3 min 20 s, 6 min 40 s of processor time
  interop  skipped  needs peers
  walk     record   it passed before
  in 3 min 22 s, 6 min 40 s of processor time; 1 steps have records and were not run
2 passed, 1 failed, 1 skipped";
        assert_eq!(text, expected);
    }

    #[test]
    #[should_panic(expected = "b waits for c, which is no earlier step")]
    fn a_step_cannot_wait_for_a_later_one() {
        check(&[step("a", &[]), step("b", &["c"]), step("c", &[])]);
    }
}
