//! The measurements. Each runs its own chain and returns figures.

use std::time::{Duration, Instant};

use testkit::stub::{Frame, number, text_after};

use super::chain::{Chain, Next, preview, result_of};
use super::contender::{Contender, Purpose};
use super::metric::Metric;
use super::results::{median, percentile};
use super::tool::{self, Transport};
use super::{machine, target};

/// How long and how often to measure.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub rounds: usize,
    /// A measurement is repeated for this time.
    pub budget: Duration,
    /// The updates of a stream through a chain without proxies. With proxies there are fewer.
    pub updates: u64,
    /// The minimum number of round trips in a measurement.
    pub round_trips: usize,
    /// The timeout of a measurement.
    pub limit: Duration,
}

impl Effort {
    pub const FULL: Self = Self {
        rounds: 5,
        budget: Duration::from_millis(600),
        updates: 40_000,
        round_trips: 200,
        limit: Duration::from_secs(40),
    };
    pub const QUICK: Self = Self {
        rounds: 3,
        budget: Duration::from_millis(120),
        updates: 10_000,
        round_trips: 100,
        limit: Duration::from_secs(20),
    };

    /// The updates of a stream, so that it takes about the same time with any number of proxies.
    pub fn updates(&self, proxies: usize) -> u64 {
        self.updates / (proxies as u64 + 1)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    StartUp,
    Prompt { pinned: bool },
    Stream { pinned: bool },
    BigPrompt { mebibytes: usize },
    AgentAsks,
    Sessions,
    Tool { transport: Transport, pinned: bool },
    ToolMemory { transport: Transport },
}

// The title of the metric has these numbers.
const SESSIONS: usize = 64;
const UPDATES_PER_SESSION: u64 = 20;
const ASKS_PER_PROMPT: u64 = 100;

impl Probe {
    /// All measurements, with the names that `--only` matches.
    pub const ALL: [(&str, Self); 15] = [
        ("start-up", Self::StartUp),
        ("prompt-unpinned", Self::Prompt { pinned: false }),
        ("prompt-pinned", Self::Prompt { pinned: true }),
        ("stream-unpinned", Self::Stream { pinned: false }),
        ("stream-pinned", Self::Stream { pinned: true }),
        ("big-1", Self::BigPrompt { mebibytes: 1 }),
        ("big-8", Self::BigPrompt { mebibytes: 8 }),
        ("asks", Self::AgentAsks),
        ("sessions", Self::Sessions),
        ("tool-unpinned", Self::Tool { transport: Transport::Stdio, pinned: false }),
        ("tool-pinned", Self::Tool { transport: Transport::Stdio, pinned: true }),
        ("tool-http-unpinned", Self::Tool { transport: Transport::Http, pinned: false }),
        ("tool-http-pinned", Self::Tool { transport: Transport::Http, pinned: true }),
        ("tool-memory", Self::ToolMemory { transport: Transport::Stdio }),
        ("tool-http-memory", Self::ToolMemory { transport: Transport::Http }),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    pub fn is_pinned(self) -> bool {
        matches!(
            self,
            Self::Prompt { pinned: true }
                | Self::Stream { pinned: true }
                | Self::Tool { pinned: true, .. }
        )
    }

    /// Whether this can be measured. Tools need a proxy, and the reference has no MCP bridge.
    pub fn concerns(self, contender: Contender, proxies: usize) -> bool {
        match self {
            Self::Tool { .. } => proxies > 0 && contender != Contender::Reference,
            Self::ToolMemory { .. } => {
                proxies > 0 && contender == Contender::Ours && target::PROXIES.contains(&proxies)
            }
            _ => true,
        }
    }

    pub fn purpose(self) -> Purpose {
        match self {
            Self::Tool { transport, .. } | Self::ToolMemory { transport } => {
                Purpose::Tools(transport)
            }
            _ => Purpose::Prompts,
        }
    }

    /// Runs the measurement once. `start` starts a new chain.
    pub fn run<S>(
        self,
        start: S,
        contender: Contender,
        proxies: usize,
        effort: Effort,
    ) -> Result<Vec<(Metric, f64)>, String>
    where
        S: Fn() -> Result<Chain, String>,
    {
        match self {
            Self::StartUp => start_up(start, effort),
            Self::Prompt { pinned } => prompt(start()?, pinned, effort),
            Self::Stream { pinned } => stream(start()?, pinned, effort.updates(proxies), effort),
            Self::BigPrompt { mebibytes } => big_prompt(start()?, mebibytes, effort),
            Self::AgentAsks => agent_asks(start()?, effort),
            Self::Sessions => sessions(start()?, effort),
            Self::Tool { transport, pinned } => {
                tool::calls(start()?, contender, transport, pinned, effort)
            }
            Self::ToolMemory { transport } => tool::memory(start()?, transport),
        }
    }
}

fn start_up<S>(start: S, effort: Effort) -> Result<Vec<(Metric, f64)>, String>
where
    S: Fn() -> Result<Chain, String>,
{
    let times = repeat(effort.budget, 5, || Ok(start()?.start_up))?;
    Ok(vec![(Metric::StartUp, median(&times) * 1e3)])
}

fn prompt(mut chain: Chain, pinned: bool, effort: Effort) -> Result<Vec<(Metric, f64)>, String> {
    let params = prompt_params(&chain.session()?, "How do I read a file line by line?");
    let mut once = || chain.round_trip("session/prompt", &params);
    repeat(Duration::ZERO, 50, &mut once)?;
    let times = repeat(effort.budget, effort.round_trips, &mut once)?;
    let (middle, tail) = if pinned {
        (Metric::PromptPinned, Metric::PromptTailPinned)
    } else {
        (Metric::Prompt, Metric::PromptTail)
    };
    Ok(vec![(middle, median(&times) * 1e6), (tail, percentile(&times, 99) * 1e6)])
}

fn stream(
    mut chain: Chain,
    pinned: bool,
    updates: u64,
    effort: Effort,
) -> Result<Vec<(Metric, f64)>, String> {
    let session = chain.session()?;
    stream_once(&mut chain, &session, "stream", updates / 10)?;
    let cpu = machine::cpu_seconds(chain.pid())?;
    let times = repeat(effort.budget, 1, || stream_once(&mut chain, &session, "stream", updates))?;
    let cpu = machine::cpu_seconds(chain.pid())? - cpu;
    let cpu = cpu / (updates * times.len() as u64) as f64 * 1e5;
    let rate = updates as f64 / median(&times);
    let memory = machine::peak_memory(chain.pid())?;
    Ok(if pinned {
        vec![(Metric::StreamPinned, rate), (Metric::CpuPinned, cpu)]
    } else {
        vec![(Metric::Stream, rate), (Metric::Cpu, cpu), (Metric::Memory, memory)]
    })
}

/// Sends a prompt that is answered with numbered updates of this kind. All must arrive in order, before the answer.
pub(super) fn stream_once(
    chain: &mut Chain,
    session: &str,
    kind: &str,
    updates: u64,
) -> Result<Duration, String> {
    let (id, line) =
        chain.request("session/prompt", &prompt_params(session, &format!("{kind} {updates}")));
    let begin = Instant::now();
    chain.send(line.as_bytes())?;
    let mut expected = 0;
    chain.read(|line, _| {
        if expected < updates {
            check_update(line, &mut expected)?;
            return Ok(Next::Read);
        }
        match result_of(line, id)? {
            Some(_) => Ok(Next::Stop),
            None => Err(format!("not the answer: {}", preview(line))),
        }
    })?;
    Ok(begin.elapsed())
}

fn check_update(line: &[u8], expected: &mut u64) -> Result<(), String> {
    let found = text_after(line, "\"text\":\"").map(number);
    if found != Some(*expected) {
        return Err(format!("update {expected} expected, got: {}", preview(line)));
    }
    *expected += 1;
    Ok(())
}

fn big_prompt(
    mut chain: Chain,
    mebibytes: usize,
    effort: Effort,
) -> Result<Vec<(Metric, f64)>, String> {
    // Source code in JSON, with escaped quotes and newlines.
    const TEXT: &str = r#"    let name = names.get(\"name\").copied().unwrap_or_default();\n"#;
    let text = TEXT.repeat(mebibytes * 1024 * 1024 / TEXT.len() + 1);
    let params = prompt_params(&chain.session()?, &text);
    let mut once = || {
        let begin = Instant::now();
        chain.ask("session/prompt", &params).map(|_| begin.elapsed())
    };
    once()?;
    let times = repeat(effort.budget, 2, once)?;
    let metric = if mebibytes == 1 { Metric::Prompt1MiB } else { Metric::Prompt8MiB };
    Ok(vec![(metric, median(&times) * 1e3)])
}

fn agent_asks(mut chain: Chain, effort: Effort) -> Result<Vec<(Metric, f64)>, String> {
    let params = prompt_params(&chain.session()?, &format!("ask {ASKS_PER_PROMPT}"));
    let result = r#"{"content":"fn main() {}"}"#;
    let once = || answer_requests(&mut chain, &params, ASKS_PER_PROMPT, result);
    let times = repeat(effort.budget, 3, once)?;
    Ok(vec![(Metric::AgentAsks, median(&times) * 1e6)])
}

/// Sends a prompt during which the agent sends `expected` requests, and answers all with this result. Returns the time of
/// one request.
pub fn answer_requests(
    chain: &mut Chain,
    params: &str,
    expected: u64,
    result: &str,
) -> Result<Duration, String> {
    let (id, line) = chain.request("session/prompt", params);
    let begin = Instant::now();
    chain.send(line.as_bytes())?;
    let mut requests = 0;
    chain.read(|line, replies| {
        let frame =
            Frame::split(line).ok_or_else(|| format!("not a message: {}", preview(line)))?;
        let (Some(_), Some(requested)) = (frame.method, frame.id) else {
            return Ok(if result_of(line, id)?.is_some() { Next::Stop } else { Next::Read });
        };
        requests += 1;
        replies.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        replies.extend_from_slice(requested);
        replies.extend_from_slice(format!(",\"result\":{result}}}\n").as_bytes());
        Ok(Next::Read)
    })?;
    match requests == expected {
        true => Ok(begin.elapsed() / expected as u32),
        false => Err(format!("{requests} of {expected} requests arrived")),
    }
}

fn sessions(mut chain: Chain, effort: Effort) -> Result<Vec<(Metric, f64)>, String> {
    let sessions: Vec<String> = (0..SESSIONS).map(|_| chain.session()).collect::<Result<_, _>>()?;
    let text = format!("stream {UPDATES_PER_SESSION}");
    let once = || {
        let mut first = 0;
        let mut prompts = String::new();
        for (index, session) in sessions.iter().enumerate() {
            let (id, line) = chain.request("session/prompt", &prompt_params(session, &text));
            if index == 0 {
                first = id;
            }
            prompts.push_str(&line);
        }
        let begin = Instant::now();
        chain.send(prompts.as_bytes())?;
        let mut expected = [0; SESSIONS];
        let mut answers = 0;
        chain.read(|line, _| {
            // The sessions of the agent are s1, s2 and so on.
            if let Some(session) = text_after(line, "\"sessionId\":\"s") {
                let index = number(session) as usize - 1;
                let expected = expected.get_mut(index).ok_or("an update of an unknown session")?;
                check_update(line, expected)?;
                return Ok(Next::Read);
            }
            let frame = Frame::split(line).unwrap_or_default();
            let id = frame.id.filter(|_| frame.result.is_some()).map(number);
            let index = id.and_then(|it| it.checked_sub(first)).unwrap_or(u64::MAX);
            if expected.get(index as usize) != Some(&UPDATES_PER_SESSION) {
                return Err(format!("an answer too early or to nothing: {}", preview(line)));
            }
            answers += 1;
            Ok(if answers == SESSIONS { Next::Stop } else { Next::Read })
        })?;
        Ok(begin.elapsed())
    };
    let times = repeat(effort.budget, 3, once)?;
    Ok(vec![(Metric::Sessions, median(&times) * 1e3)])
}

pub fn prompt_params(session: &str, text: &str) -> String {
    format!(
        "{{\"sessionId\":\"{session}\",\"prompt\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}"
    )
}

/// Runs `once` for the time `budget`, and at least `least` times. Returns the seconds of each run.
pub fn repeat<F>(budget: Duration, least: usize, mut once: F) -> Result<Vec<f64>, String>
where
    F: FnMut() -> Result<Duration, String>,
{
    let begin = Instant::now();
    let mut times = Vec::new();
    while times.len() < least || begin.elapsed() < budget {
        times.push(once()?.as_secs_f64());
    }
    Ok(times)
}
