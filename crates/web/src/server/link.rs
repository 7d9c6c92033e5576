//! The connection of one page.
//!
//! The page has a position in each topic that it follows. News are sent at most every [`FLUSH`], and only while the page
//! handles what it gets: with more than [`MAX_UNHANDLED`] bytes on the way, nothing is sent until it has caught up,
//! but the results of its actions, each with the news before it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use super::{HELLO_TIMEOUT, Shared};
use crate::protocol::{ToPage, ToServer, VERSION, Want};

/// The largest message of a page: a prompt with images.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// How many bytes may be on the way to a page.
const MAX_UNHANDLED: usize = 2 * 1024 * 1024;
/// How often news are sent.
const FLUSH: Duration = Duration::from_millis(16);
/// How often a silent connection is tested.
const PING: Duration = Duration::from_secs(15);
/// A page that was silent for so long is gone.
const SILENCE: Duration = Duration::from_secs(40);
/// How many topics a page can follow.
const MAX_TOPICS: usize = 200;
/// How many actions of a page run at a time.
const MAX_ACTIONS: usize = 64;

/// Serves a page until it goes away.
pub(super) async fn run(shared: &Shared, socket: WebSocket, permit: OwnedSemaphorePermit) {
    let (mut sender, mut receiver) = socket.split();
    let hello = tokio::time::timeout(HELLO_TIMEOUT, receiver.next()).await;
    let Ok(Some(Ok(Message::Text(text)))) = hello else { return };
    let Ok(ToServer::Hello { v, token, run, want }) = serde_json::from_str(&text) else { return };
    if !shared.access.is_token(&token) {
        let _ = sender.send(close(4401, "the page is not logged in")).await;
        return;
    }
    if v != VERSION {
        let _ = sender.send(close(4400, "the page is of another version; load it again")).await;
        return;
    }
    let mut page = Page::new(run == shared.run, want);
    let welcome =
        ToPage::Welcome { v: VERSION, run: shared.run.clone(), features: shared.features.clone() };
    let Some(frame) = page.frame(&[welcome]) else { return };
    if sender.send(frame).await.is_err() {
        return;
    }
    let (done_sender, mut done) = mpsc::channel::<ToPage>(MAX_ACTIONS);
    let mut changes = shared.topics.subscribe();
    let mut flush = tokio::time::interval(FLUSH);
    flush.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ping = tokio::time::interval(PING);
    let mut heard = Instant::now();
    let mut changed = true;
    // Actions run here, so that they end with the connection; what they do does not.
    let mut actions = futures_util::stream::FuturesUnordered::new();
    loop {
        let frame = tokio::select! {
            message = receiver.next() => {
                heard = Instant::now();
                match message {
                    Some(Ok(Message::Text(text))) => match serde_json::from_str(&text) {
                        Ok(ToServer::Do { id, action }) if actions.len() < MAX_ACTIONS => {
                            let done = done_sender.clone();
                            actions.push(async move {
                                let result = shared.actions.perform(&id, action).await;
                                let (ok, error) = match result {
                                    Ok(value) => (Some(value), None),
                                    Err(why) => (None, Some(why)),
                                };
                                let _ = done.send(ToPage::Done { id, ok, error }).await;
                            });
                            continue;
                        }
                        Ok(ToServer::Do { id, .. }) => {
                            let error = Some("too many actions at a time; try again".to_owned());
                            page.frame(&[ToPage::Done { id, ok: None, error }])
                        }
                        Ok(ToServer::Hello { .. }) => None,
                        Ok(message) => {
                            page.on_message(message);
                            changed = true;
                            continue;
                        }
                        Err(error) => {
                            let why = format!("the message is invalid: {error}");
                            let _ = sender.send(close(4400, &why)).await;
                            break;
                        }
                    },
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Binary(_) | Message::Close(_)) | Err(_)) | None => break,
                }
            }
            Some(()) = actions.next(), if !actions.is_empty() => continue,
            Some(message) = done.recv() => {
                // What the action has changed is seen before its result.
                let mut messages = page.news(shared);
                messages.push(message);
                page.frame(&messages)
            }
            result = changes.changed(), if !changed => {
                if result.is_err() {
                    break;
                }
                changed = true;
                continue;
            }
            _ = flush.tick(), if changed && !page.is_busy() => {
                changed = false;
                changes.mark_unchanged();
                let messages = page.news(shared);
                if messages.is_empty() { None } else { page.frame(&messages) }
            }
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE {
                    break;
                }
                Some(Message::Ping(Default::default()))
            }
        };
        if let Some(frame) = frame
            // A page that does not read is gone.
            && !matches!(tokio::time::timeout(SILENCE, sender.send(frame)).await, Ok(Ok(())))
        {
            break;
        }
    }
    drop(permit);
}

fn close(code: u16, why: &str) -> Message {
    // A reason has at most 123 bytes.
    let reason = why.chars().take(60).collect::<String>().into();
    Message::Close(Some(axum::extract::ws::CloseFrame { code, reason }))
}

/// What a page follows, and what is on its way.
struct Page {
    positions: BTreeMap<String, Option<u64>>,
    /// The sizes of the frames that the page has not handled.
    unhandled: VecDeque<usize>,
    unhandled_bytes: usize,
    /// How many frames the page has handled.
    handled: u64,
}

impl Page {
    fn new(same_run: bool, want: Vec<Want>) -> Page {
        let positions = want.into_iter().take(MAX_TOPICS);
        let positions = positions.map(|it| (it.topic, it.at.filter(|_| same_run)));
        Page {
            positions: positions.collect(),
            unhandled: VecDeque::new(),
            unhandled_bytes: 0,
            handled: 0,
        }
    }

    fn on_message(&mut self, message: ToServer) {
        match message {
            ToServer::Want(want) => {
                if self.positions.len() < MAX_TOPICS || self.positions.contains_key(&want.topic) {
                    self.positions.insert(want.topic, want.at);
                }
            }
            ToServer::Drop { topic } => drop(self.positions.remove(&topic)),
            ToServer::Ack { frames } => {
                while self.handled < frames {
                    let Some(size) = self.unhandled.pop_front() else { break };
                    self.unhandled_bytes -= size;
                    self.handled += 1;
                }
            }
            ToServer::Hello { .. } | ToServer::Do { .. } => {}
        }
    }

    fn is_busy(&self) -> bool {
        self.unhandled_bytes > MAX_UNHANDLED
    }

    /// What the page has not seen.
    fn news(&mut self, shared: &Shared) -> Vec<ToPage> {
        let mut messages = Vec::new();
        for (topic, at) in &mut self.positions {
            if let Some((message, position)) = shared.topics.news(topic, *at) {
                *at = Some(position);
                messages.push(message);
            }
        }
        messages
    }

    /// A frame with these messages, which is on its way from now on.
    fn frame(&mut self, messages: &[ToPage]) -> Option<Message> {
        let text = serde_json::to_string(messages).ok()?;
        self.unhandled.push_back(text.len());
        self.unhandled_bytes += text.len();
        Some(Message::Text(text.into()))
    }
}
