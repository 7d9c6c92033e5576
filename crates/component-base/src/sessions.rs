//! State for each session, in bounded memory.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_proxy::schema::{PromptResponse, StopReason};
use acp_proxy::{Call, Json, Message, Proxy, Side};
use sha2::{Digest, Sha256};

/// How many sessions are remembered, unless a component sets another limit.
pub const DEFAULT_LIMIT: usize = 10_000;

/// The longest id that is kept as it is.
const MAX_ID: usize = 256;

/// The key under which something is remembered: its id, or the hash of a long one. So memory and files have a bounded size.
pub fn session_key(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID {
        return id.into();
    }
    let hash = Sha256::digest(id.as_bytes());
    let hash: String = hash.iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256-{hash}").into()
}

/// How a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// `session/new`.
    New,
    /// `session/load`.
    Load,
    /// `session/resume`.
    Resume,
    /// `session/fork`.
    Fork,
    /// The component has not seen the request that set up the session: it was restarted, or the session was
    /// forgotten.
    Unknown,
}

/// A session.
#[derive(Debug, Clone)]
pub struct Session<T> {
    /// Its working directory. Empty if it is unknown.
    pub cwd: PathBuf,
    /// How it began.
    pub origin: Origin,
    /// Whether the conductor has repeated the request that set up the session, because the component was restarted. What
    /// was said in the session before is not known.
    pub was_repeated: bool,
    /// Whether the component knew the session when it was set up again. Then the state is that of before.
    pub was_known: bool,
    /// The state of the component.
    pub state: T,
    used: u64,
}

/// The sessions of a component. When there are too many, the one that was not used for the longest time is forgotten.
///
/// It is a handle: clones share the sessions.
#[derive(Debug)]
pub struct Sessions<T>(Arc<Mutex<Table<T>>>);

#[derive(Debug)]
struct Table<T> {
    sessions: HashMap<String, Session<T>>,
    limit: usize,
    clock: u64,
    has_forgotten: bool,
}

impl<T> Clone for Sessions<T> {
    fn clone(&self) -> Sessions<T> {
        Sessions(self.0.clone())
    }
}

impl<T: Default> Default for Sessions<T> {
    fn default() -> Sessions<T> {
        Sessions::new(DEFAULT_LIMIT)
    }
}

impl<T: Default> Sessions<T> {
    /// No sessions, and at most `limit` later.
    pub fn new(limit: usize) -> Sessions<T> {
        Sessions(Arc::new(Mutex::new(Table {
            sessions: HashMap::new(),
            limit: limit.max(1),
            clock: 0,
            has_forgotten: false,
        })))
    }

    /// Runs a function on a session. A session that is not known is added with [`Origin::Unknown`].
    pub fn with<R>(&self, id: &str, act: impl FnOnce(&mut Session<T>) -> R) -> R {
        let mut table = self.table();
        act(table.session(id))
    }

    /// Runs a function on a session, if it is known.
    pub fn with_known<R>(&self, id: &str, act: impl FnOnce(&mut Session<T>) -> R) -> Option<R> {
        let mut table = self.table();
        let known = table.sessions.contains_key(&*session_key(id));
        known.then(|| act(table.session(id)))
    }

    /// Runs a function on each session, in no order. It gets the key of the session, which stands for a long id.
    pub fn for_each(&self, mut act: impl FnMut(&str, &mut Session<T>)) {
        self.table().sessions.iter_mut().for_each(|(id, session)| act(id, session));
    }

    /// The working directory of a session. Empty if it is unknown.
    pub fn cwd(&self, id: &str) -> PathBuf {
        self.table().sessions.get(&*session_key(id)).map(|it| it.cwd.clone()).unwrap_or_default()
    }

    /// How many sessions are remembered.
    pub fn count(&self) -> usize {
        self.table().sessions.len()
    }

    /// Whether sessions were forgotten because there were too many.
    pub fn has_forgotten(&self) -> bool {
        self.table().has_forgotten
    }

    /// A session was set up. Its state becomes the default, unless the session is known.
    pub fn open(&self, id: &str, cwd: &Path, origin: Origin) {
        let mut table = self.table();
        let session = table.session(id);
        session.origin = origin;
        if !cwd.as_os_str().is_empty() {
            session.cwd = cwd.to_owned();
        }
    }

    /// Forgets a session, and returns it.
    pub fn close(&self, id: &str) -> Option<Session<T>> {
        self.table().sessions.remove(&*session_key(id))
    }

    fn table(&self) -> MutexGuard<'_, Table<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Default + Send + 'static> Sessions<T> {
    /// Adds handlers to a proxy that follow its sessions: they are opened when the agent answers the request that sets
    /// them up, and closed when the editor closes or deletes them.
    pub fn watch(&self, proxy: Proxy) -> Proxy {
        const SET_UP: [(&str, Origin); 4] = [
            ("session/new", Origin::New),
            ("session/load", Origin::Load),
            ("session/resume", Origin::Resume),
            ("session/fork", Origin::Fork),
        ];
        let is_repetition = Arc::new(AtomicBool::new(false));
        let seen = is_repetition.clone();
        let proxy = proxy.observe(move |from, message| {
            if let (Side::Editor, Message::Request { call, .. }) = (from, message)
                && SET_UP.iter().any(|(method, _)| call.is(method))
            {
                seen.store(is_repetition_of(message), Ordering::Relaxed);
            }
        });
        let proxy = SET_UP.into_iter().fold(proxy, |proxy, (method, origin)| {
            let (sessions, is_repetition) = (self.clone(), is_repetition.clone());
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let is_repetition = is_repetition.load(Ordering::Relaxed);
                let asked = text(call.params.as_ref(), "sessionId");
                let cwd = text(call.params.as_ref(), "cwd").map(PathBuf::from).unwrap_or_default();
                let is_known = |id: &str| sessions.with_known(id, |_| ()).is_some();
                let mut was_known = asked.as_deref().is_some_and(is_known);
                // The agent may use files and terminals of a loaded session before it answers.
                if let Some(id) = asked.as_deref().filter(|_| origin != Origin::Fork) {
                    sessions.open(id, &cwd, origin);
                }
                let result = next.run(call).await?;
                let id =
                    text(Some(&result), "sessionId").or(asked.filter(|_| origin != Origin::Fork));
                if let Some(id) = id {
                    if matches!(origin, Origin::New | Origin::Fork) {
                        was_known = is_known(&id);
                    }
                    sessions.open(&id, &cwd, origin);
                    sessions.with(&id, |it| {
                        it.was_repeated = is_repetition;
                        it.was_known = was_known;
                    });
                }
                Ok(result)
            })
        });
        ["session/close", "session/delete"].into_iter().fold(proxy, |proxy, method| {
            let sessions = self.clone();
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let id = text(call.params.as_ref(), "sessionId");
                let result = next.run(call).await?;
                id.map(|id| sessions.close(&id));
                Ok(result)
            })
        })
    }
}

impl<T: Default> Table<T> {
    fn session(&mut self, id: &str) -> &mut Session<T> {
        self.clock += 1;
        let clock = self.clock;
        let id = &*session_key(id);
        if !self.sessions.contains_key(id) {
            self.make_room();
            let session = Session {
                cwd: PathBuf::new(),
                origin: Origin::Unknown,
                was_repeated: false,
                was_known: false,
                state: T::default(),
                used: 0,
            };
            self.sessions.insert(id.to_owned(), session);
        }
        let session = self.sessions.get_mut(id).expect("it was just inserted");
        session.used = clock;
        session
    }

    /// Forgets a tenth of the sessions when the limit is reached, so that the search for old ones is rare.
    fn make_room(&mut self) {
        if self.sessions.len() < self.limit {
            return;
        }
        let mut used: Vec<u64> = self.sessions.values().map(|it| it.used).collect();
        used.sort_unstable();
        let oldest = used[(self.limit / 10).min(used.len() - 1)];
        self.sessions.retain(|_, it| it.used > oldest);
        self.has_forgotten = true;
    }
}

/// Whether the conductor repeats this request to a component that it has restarted. The ids of such requests begin with `r:`.
pub fn is_repetition_of(message: &Message) -> bool {
    let Message::Request { id, .. } = message else { return false };
    id.text().is_some_and(|id| id.starts_with("r:"))
}

/// Whether the agent has read a prompt and keeps it. A prompt that failed or was refused is no part of the conversation.
pub fn was_read(answer: &acp_proxy::Result<PromptResponse>) -> bool {
    answer.as_ref().is_ok_and(|it| it.stop_reason != StopReason::Refusal)
}

/// A text member of a JSON object.
pub fn text(json: Option<&Json>, key: &str) -> Option<String> {
    json?.member(key)?.text().map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sessions_that_were_not_used_for_the_longest_time_are_forgotten() {
        let sessions = Sessions::<u32>::new(100);
        for number in 0..1000_u32 {
            assert_eq!(sessions.has_forgotten(), number > 99, "{number}");
            sessions.with("kept", |it| it.state += 1);
            sessions.with(&format!("s{number}"), |it| it.state = number);
            assert!(sessions.count() <= 100);
        }
        assert_eq!(sessions.with_known("kept", |it| it.state), Some(1000));
        assert_eq!(sessions.with_known("s999", |it| it.state), Some(999));
        assert_eq!(sessions.with_known("s0", |it| it.state), None);
    }

    #[test]
    fn a_long_id_takes_no_more_memory_than_a_short_one() {
        let sessions = Sessions::<u32>::default();
        let (one, other) = ("s".repeat(200_000), "s".repeat(200_001));
        sessions.with(&one, |it| it.state = 1);
        sessions.with(&other, |it| it.state = 2);
        assert_eq!(sessions.with_known(&one, |it| it.state), Some(1));
        sessions.for_each(|key, _| assert!(key.len() < 100, "{key}"));
        assert_eq!(sessions.close(&one).map(|it| it.state), Some(1));
        assert_eq!((sessions.count(), sessions.with(&other, |it| it.state)), (1, 2));
    }

    #[test]
    fn a_session_that_is_loaded_again_keeps_its_state() {
        let sessions = Sessions::<u32>::default();
        sessions.open("a", Path::new("/x"), Origin::New);
        sessions.with("a", |it| it.state = 7);
        sessions.open("a", Path::new(""), Origin::Load);
        let (state, origin, cwd) = sessions.with("a", |it| (it.state, it.origin, it.cwd.clone()));
        assert_eq!((state, origin, cwd), (7, Origin::Load, PathBuf::from("/x")));
        assert_eq!(sessions.close("a").map(|it| it.state), Some(7));
        assert_eq!(sessions.cwd("a"), PathBuf::new());
    }
}
