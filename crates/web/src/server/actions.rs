//! Each action is done once, whatever a page repeats after a lost connection.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};

use crate::protocol::Action;

/// How many results are kept for pages that ask again.
const MAX_RESULTS: usize = 1000;
/// How many actions wait for the program.
const MAX_WAITING: usize = 256;

/// The result of an action: a value, or why it failed, for people.
pub(super) type ActionResult = Result<Value, String>;

/// An action of a page. It must be answered.
#[derive(Debug)]
pub struct ActionRequest {
    /// What to do.
    pub action: Action,
    /// Gets the result.
    pub answer: oneshot::Sender<ActionResult>,
}

/// The actions of all pages.
pub type ActionReceiver = mpsc::Receiver<ActionRequest>;

#[derive(Debug)]
pub(super) struct Actions {
    sender: mpsc::Sender<ActionRequest>,
    done: Mutex<Done>,
}

/// Results by the id of the action. An action that runs has none yet.
#[derive(Debug, Default)]
struct Done {
    results: BTreeMap<String, watch::Receiver<Option<ActionResult>>>,
    order: VecDeque<String>,
}

impl Actions {
    pub(super) fn new() -> (Actions, ActionReceiver) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Actions { sender, done: Mutex::default() }, receiver)
    }

    /// Does an action, or returns the result of the action with the same id.
    pub(super) async fn perform(&self, id: &str, action: Action) -> ActionResult {
        if !has_effect(&action) {
            return ask(&self.sender, action).await;
        }
        let (mut result, run) = {
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            match done.results.get(id) {
                Some(result) => (result.clone(), None),
                None => {
                    let (set, result) = watch::channel(None);
                    done.results.insert(id.to_owned(), result.clone());
                    done.order.push_back(id.to_owned());
                    done.forget_oldest();
                    (result, Some(set))
                }
            }
        };
        if let Some(set) = run {
            // Also if the page goes away: the action is done.
            let sender = self.sender.clone();
            tokio::spawn(async move { set.send(Some(ask(&sender, action).await)) });
        }
        match result.wait_for(Option::is_some).await {
            Ok(result) => result.clone().unwrap_or_else(|| Err(String::new())),
            Err(_) => Err("conductor is ending".to_owned()),
        }
    }
}

impl Done {
    /// Forgets the oldest results. An action that runs is not forgotten, or it could be done twice.
    fn forget_oldest(&mut self) {
        while self.order.len() > MAX_RESULTS {
            let is_done = |id: &String| self.results.get(id).is_none_or(|it| it.borrow().is_some());
            let Some(at) = self.order.iter().position(is_done) else { return };
            if let Some(id) = self.order.remove(at) {
                self.results.remove(&id);
            }
        }
    }
}

/// Whether it matters how often an action is done.
fn has_effect(action: &Action) -> bool {
    !matches!(
        action,
        Action::ListFiles { .. }
            | Action::ReadFile { .. }
            | Action::FindFiles { .. }
            | Action::Viewing { .. }
            | Action::Draft { .. }
            | Action::ListSessions
    )
}

async fn ask(sender: &mpsc::Sender<ActionRequest>, action: Action) -> ActionResult {
    let ended = || Err("conductor is ending".to_owned());
    let (answer, answered) = oneshot::channel();
    match sender.send(ActionRequest { action, answer }).await {
        Ok(()) => answered.await.unwrap_or_else(|_| ended()),
        Err(_) => ended(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_action_that_is_repeated_is_done_once() {
        let (actions, mut receiver) = Actions::new();
        let counter = tokio::spawn(async move {
            let mut count = 0;
            while let Some(request) = receiver.recv().await {
                count += 1;
                let _ = request.answer.send(Ok(count.into()));
            }
            count
        });
        let (a, b) = tokio::join!(
            actions.perform("1", Action::NewSession),
            actions.perform("1", Action::NewSession)
        );
        assert_eq!((a, b), (Ok(1.into()), Ok(1.into())));
        assert_eq!(actions.perform("2", Action::NewSession).await, Ok(2.into()));
        assert_eq!(actions.perform("1", Action::NewSession).await, Ok(1.into()));
        drop(actions);
        assert_eq!(counter.await.expect("no panic"), 2);
    }
}
