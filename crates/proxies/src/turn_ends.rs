//! Tells a tool that nobody reads its result any more, so that it does not wait for the user or the editor.
//!
//! An agent should cancel the call of a tool that it gives up, but some do not. So a wait also ends with the turn, and when
//! the agent reports the call as completed or failed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_proxy::schema::ToolCallStatus;
use acp_proxy::{Call, Delivery, Proxy, Side, ToolCall};
use tokio::sync::oneshot;

use component_base::sessions::text;

/// After a turn is cancelled, the agent has this time to cancel the call of the tool itself. A result that overtakes the
/// cancellation would let the agent continue.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// How many reported tool calls are remembered.
const MAX_REPORTED: usize = 1024;

/// What waits in the sessions of a component. It is a handle: clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct TurnEnds(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    waits: Vec<Wait>,
    /// The calls of tools that the agent has reported, and that are not over: session, tool and id.
    reported: BTreeSet<(String, &'static str, String)>,
}

#[derive(Debug)]
struct Wait {
    number: u64,
    session: String,
    tool: &'static str,
    end: oneshot::Sender<()>,
}

/// The end of a turn, for one call of a tool.
#[derive(Debug)]
pub(crate) struct TurnEnd(oneshot::Receiver<()>);

impl TurnEnd {
    /// Waits until nobody reads the result of the call any more.
    pub(crate) async fn wait(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl TurnEnds {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of a tool begins in a session.
    pub(crate) fn begin(&self, session: &str, tool: &'static str) -> TurnEnd {
        let (end, receiver) = oneshot::channel();
        let mut table = self.table();
        table.waits.retain(|it| !it.end.is_closed());
        table.last += 1;
        let (number, session) = (table.last, session.to_owned());
        table.waits.push(Wait { number, session, tool, end });
        TurnEnd(receiver)
    }

    /// Ends the waits of a session that have begun before this number.
    fn end(&self, session: &str, last: u64) {
        let mut table = self.table();
        table.reported.retain(|(it, ..)| it != session);
        table.end_if(|it| it.session == session && it.number <= last);
    }

    fn last(&self) -> u64 {
        self.table().last
    }

    /// The agent reports a tool call. If all its calls of a tool are over, no result of this tool is read any more.
    fn on_tool_call(&self, tools: &[&'static str], call: &ToolCall) {
        let Some(tool) = tools.iter().find(|it| is_call_of(call, it)) else { return };
        let (session, id) = (call.session().to_owned(), call.id().unwrap_or_default());
        let mut table = self.table();
        if table.reported.len() >= MAX_REPORTED {
            table.reported.clear();
        }
        match call.status() {
            Some(ToolCallStatus::Completed | ToolCallStatus::Failed) => {
                table.reported.remove(&(session.clone(), *tool, id));
                let is_same =
                    |(of, name, _): &(String, &str, String)| *of == session && name == tool;
                if !table.reported.iter().any(is_same) {
                    table.end_if(|it| it.session == session && it.tool == *tool);
                }
            }
            _ => {
                table.reported.insert((session, *tool, id));
            }
        }
    }

    /// Adds handlers to a proxy that follow its turns, and the agent's calls of these tools.
    pub(crate) fn watch(&self, proxy: Proxy, tools: &'static [&'static str]) -> Proxy {
        let [prompted, cancelled, reported] = std::array::from_fn(|_| self.clone());
        let proxy = proxy
            .on_prompt(async move |prompt, next| {
                let session = prompt.session().to_owned();
                let answer = next.run(prompt).await;
                prompted.end(&session, prompted.last());
                answer
            })
            .on_raw_notification(Side::Editor, "session/cancel", move |_, context| {
                let session = context.session().unwrap_or_default();
                let (waits, last) = (cancelled.clone(), cancelled.last());
                context.spawn(async move {
                    tokio::time::sleep(CANCEL_GRACE).await;
                    waits.end(&session, last);
                });
                Delivery::Forward
            })
            .on_tool_call(move |call, _| reported.on_tool_call(tools, call));
        ["session/close", "session/delete"].into_iter().fold(proxy, |proxy, method| {
            let closed = self.clone();
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                let result = next.run(call).await;
                closed.end(&session, closed.last());
                result
            })
        })
    }
}

impl Table {
    fn end_if(&mut self, is_meant: impl Fn(&Wait) -> bool) {
        for wait in self.waits.extract_if(.., |it| is_meant(it)) {
            let _ = wait.end.send(());
        }
    }
}

/// Whether a tool call is one of this tool. Agents write its name into different members, together with that of the server.
fn is_call_of(call: &ToolCall, tool: &str) -> bool {
    const PLACES: [&[&str]; 5] =
        [&["toolCallId"], &["title"], &["name"], &["_meta"], &["rawInput", "tool"]];
    PLACES.iter().any(|place| call.json().at(place).is_some_and(|it| it.as_str().contains(tool)))
}
