//! The event loop: reads lines, runs handlers, writes lines.
//!
//! Everything runs in one task. After each line, all handlers run as far as they can before the next line is read.
//! So a handler that waits only for what it has sent on keeps its place in the order of messages.

use std::future::poll_fn;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use acp_proxy_core::Driver;
use acp_wire::lines::{Line, LineBuffer};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::activity::Activity;
use crate::component::Component;
use crate::dispatch::Dispatcher;
use crate::loop_waker::LoopWaker;
use crate::shared::{Command, Shared, Task};
use crate::tool_server::ToolServers;

const CHUNK: usize = 64 * 1024;

/// A running proxy or agent, without its streams.
pub(crate) struct Runner {
    driver: Driver<Dispatcher>,
    shared: Rc<Shared>,
    tasks: FuturesUnordered<Task>,
}

impl Runner {
    pub(crate) fn new(mut component: Component) -> Runner {
        let shared = Rc::new(Shared {
            servers: ToolServers::new(std::mem::take(&mut component.servers)),
            is_agent: component.is_agent,
            name: component.name.clone(),
            is_strict: component.is_strict,
            has_raw_turns: component.has_raw_turns,
            activity: Activity::new(component.late_updates),
            logger: component.logger.take(),
            salt: RandomState::new().build_hasher().finish() as u32,
            ..Shared::default()
        });
        let is_agent = component.is_agent;
        let dispatcher = Dispatcher::new(component, shared.clone());
        let driver = if is_agent { Driver::agent(dispatcher) } else { Driver::new(dispatcher) };
        Runner { driver, shared, tasks: FuturesUnordered::new() }
    }

    /// Handles one line. Appends the lines to send to `lines`.
    pub(crate) fn handle(&mut self, line: &bytes::Bytes, lines: &mut Vec<u8>) {
        self.driver.handle(line, lines);
    }

    /// Runs all handlers as far as they can. Returns whether anything was done.
    pub(crate) fn advance(&mut self, cx: &mut Context<'_>, lines: &mut Vec<u8>) -> bool {
        let mut is_busy = false;
        loop {
            self.tasks.extend(self.shared.tasks.borrow_mut().drain(..));
            let mut has_moved = false;
            while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(cx) {
                has_moved = true;
            }
            while let Some(command) = self.next_command() {
                self.driver.with_proxy(lines, |dispatcher, out| dispatcher.perform(command, out));
                has_moved = true;
            }
            is_busy |= has_moved;
            if !has_moved && self.shared.tasks.borrow().is_empty() {
                *self.shared.waker.borrow_mut() = Some(cx.waker().clone());
                return is_busy;
            }
        }
    }

    fn next_command(&self) -> Option<Command> {
        self.shared.commands.borrow_mut().pop_front()
    }
}

/// Runs a component until its input ends.
pub(crate) async fn serve(
    mut component: Component,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let enders = std::mem::take(&mut component.enders);
    let mut runner = Runner::new(component);
    let result = exchange(&mut runner, reader, writer).await;
    let context = crate::context::Context::new(runner.shared.clone());
    runner.shared.has_ended.set(true);
    drop(runner);
    for end in enders {
        end(context.clone()).await;
    }
    result
}

/// Reads and writes messages until the input ends.
async fn exchange(
    runner: &mut Runner,
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let gate = LoopWaker::new();
    let waker = Waker::from(gate.clone());
    // The conductor limits the length of lines, so a component need not.
    let (mut received, mut lines) = (LineBuffer::new(usize::MAX), Vec::new());
    loop {
        while let Some(Line::Text(line)) = received.next_line() {
            runner.handle(&line, &mut lines);
            gate.run();
            runner.advance(&mut Context::from_waker(&waker), &mut lines);
        }
        if !lines.is_empty() {
            writer.write_all(&lines).await?;
            writer.flush().await?;
            lines.clear();
        }
        // Waits for a chunk of input, or for a handler that can go on.
        let count = {
            let mut reading = std::pin::pin!(reader.read_buf(received.reserve(CHUNK)));
            poll_fn(|cx| {
                gate.run();
                if runner.advance(&mut Context::from_waker(&waker), &mut lines) {
                    return Poll::Ready(Ok(None));
                }
                let polled = reading.as_mut().poll(cx).map_ok(Some);
                if polled.is_pending() && gate.pause(cx.waker()) {
                    // A handler was woken from another thread, or wakes itself: the runtime has its turn first.
                    cx.waker().wake_by_ref();
                }
                polled
            })
            .await?
        };
        if count == Some(0) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

    use crate::{Json, Proxy, Side};

    #[tokio::test]
    async fn a_proxy_ends_with_a_task_after_its_handlers_have_stopped() {
        struct Stopped(std::sync::mpsc::Sender<&'static str>);
        impl Drop for Stopped {
            fn drop(&mut self) {
                let _ = self.0.send("the handler has stopped");
            }
        }
        let (send, events) = std::sync::mpsc::channel();
        let (in_handler, at_end) = (send.clone(), send);
        let proxy = Proxy::new("ends")
            .on_raw_request(Side::Editor, "_x/wait", async move |_, _| {
                let _stopped = Stopped(in_handler.clone());
                std::future::pending().await
            })
            .on_end(async move |context| {
                // Timing: a timer works in the task, however long it takes.
                tokio::time::sleep(Duration::from_millis(1)).await;
                // Nobody answers any more.
                let answer = context.editor().request_raw("_x/late", serde_json::json!({})).await;
                let _ = at_end.send(if answer.is_err() { "the end" } else { "an answer" });
            });
        let request = &b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"_x/wait\"}\n"[..];
        proxy.serve_on(request, tokio::io::sink()).await.expect("it ends");
        assert_eq!(events.try_iter().collect::<Vec<_>>(), ["the handler has stopped", "the end"]);
    }

    /// Another thread, a timer, and the handler itself.
    #[tokio::test]
    async fn a_waiting_handler_goes_on_whatever_wakes_it() {
        let proxy = Proxy::new("waits").on_raw_request(Side::Editor, "_x/wait", async |_, _| {
            let (send, receive) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                std::thread::yield_now();
                send.send(()).expect("the handler waits");
            });
            receive.await.expect("the thread sends");
            // Timing: a timer wakes the handler, however long it takes.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let mut is_second = false;
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                match std::mem::replace(&mut is_second, true) {
                    true => std::task::Poll::Ready(()),
                    false => std::task::Poll::Pending,
                }
            })
            .await;
            Ok(Json::trusted("\"done\""))
        });
        let (ours, theirs) = tokio::io::duplex(1024);
        let (reader, writer) = tokio::io::split(theirs);
        let (answers, mut requests) = tokio::io::split(ours);
        let mut answers = BufReader::new(answers).lines();
        let converse = async {
            for id in 1..=20 {
                let request =
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"_x/wait\"}}\n");
                requests.write_all(request.as_bytes()).await.expect("the proxy reads");
                let answer = answers.next_line().await.expect("the proxy writes").expect("a line");
                assert_eq!(
                    answer,
                    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"done\"}}")
                );
            }
        };
        tokio::select! {
            ended = proxy.serve_on(reader, writer) => panic!("the proxy ended: {ended:?}"),
            () = converse => {}
        }
    }
}
