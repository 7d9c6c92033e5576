//! The fields and variants of all types in a journal.

use acp_wire::config::Operation;
use acp_wire::dialect::{Generation, Greeting};
use acp_wire::json::write_string;
use acp_wire::message::{PartialMessage, ScanResult};
use acp_wire::{Json, LinkProtocol, Side};
use mcp::{BridgePolicy, ClientId, Endpoint, Ticket, Transport};
use router::{
    Chain, Component, Diagnostic, Ending, ExitCause, Level, MessageKind, Mode, Seat, StartFailure,
    StartProblem, Time, UpdateFilter,
};

use super::codec::{
    Codec, Object, choice, expected, member, newtype, object, read_variant, within, write_variant,
};
use super::{Appended, Effects, Entry, EntryStart, Header};
use crate::flow_control::Watermarks;
use crate::input::{
    About, Command, Configured, Facts, Input, KeptTelemetry, Line, LinkId, Observation, Output,
    Port, Reload, Setup,
};
use crate::policy::{Backoff, ComponentPolicy, Fallback, Restart, Rules, Timeouts};

object!(Header { journal, setup });
object!(Entry { at, input, effects });
object!(EntryStart { at, input });
object!(Effects { outputs, appended });
object!(Appended { link, dropped, text });

newtype!(Seat, Time, Ticket, ClientId);

// The setup of a chain.
object!(Setup {
    chain,
    rules,
    bridge,
    nonce,
    nested,
    forwards_telemetry,
    kept_telemetry,
    max_line,
    watermarks,
    facts,
    about,
    tapped,
    start_notices
});
object!(About { version, chain });
object!(Configured { result, restart });
object!(Reload { chain, rules, facts, kept_telemetry, restarted, tapped, notices, about, now });
object!(Watermarks { high, low, cap, mcp });
object!(Chain { mode, components, order, initialize_timeout, grace, any_version });
object!(Component { name, command, guard, updates, managed });
object!(Rules { policies, timeouts, notify_editor, seed });
object!(ComponentPolicy { restart, fallback, backoff, named });
object!(Backoff { max_restarts, window, first_delay, max_delay, reset_after });
object!(Timeouts { answer, prompt, cancel });
object!(Facts { generation, greeting, poison });
choice!(Mode [Agent, Proxy] [] []);
choice!(UpdateFilter [Auto, All, Known] [] []);
choice!(Restart [Never, IfResumable, Always] [] []);
choice!(Fallback [Bypass, Stop] [] []);
choice!(BridgePolicy [Auto] [Only] []);
choice!(KeptTelemetry [All] [Of] []);
choice!(Transport [Stdio, Http] [] []);
choice!(Generation [P0, P1, P2, P3t, P3, P4, P5] [] []);
choice!(Greeting [Proxy, Underscore, Capability] [] []);
object!(MessageKind { toward, method, update });
choice!(Side [Editor, Agent] [] []);

// Inputs.
object!(LinkId { seat, port });
choice!(Port [Main, Relay] [] []);
choice!(Line [] [Text] [TooLong { found, length }]);
object!(ScanResult { messages, more_answers, is_damaged, looks_like_json });
object!(PartialMessage { ids, call, answer, jsonrpc });
object!(StartFailure { problem, why, remedy });
choice!(StartProblem
    [
        NotFound,
        NotExecutable,
        Directory,
        MissingInterpreter,
        WrongArchitecture,
        MissingDirectory,
        UnusableFile,
        Untrusted,
        Other
    ]
    []
    []
);
choice!(ExitCause
    [ClosedOutput, ClosedInput, ClosedSuccessor, ByCommand]
    [NotStarted, Status, Signal, Ended, InitializeTimeout, RefusedInitialize, CannotResume, StoppedReading]
    [Unresponsive { method, limit }, Uncancellable { method, limit }]
);
choice!(Operation [Get, Set, Schema] [] []);
choice!(Command [Stop] [Restart, Bypass, Hold, Release] []);
choice!(Endpoint
    []
    []
    [Stdio { program, port, variable, secret }, Http { url, secret }]
);
choice!(Input
    [Tick, DropReload]
    [InputClosed, Extended, ClientDisconnected, Command, Reload]
    [
        Line { link, line },
        Readable { link, readable },
        OutputClosed { link, rest },
        Written { link, count },
        NotStarted { seat, incarnation, why },
        Exited { seat, incarnation, how },
        Stderr { seat, incarnation, lines },
        RelayOpened { seat, incarnation, servers },
        RelayConnected { seat, incarnation },
        ClientConnected { ticket, client_id },
        ClientMessage { client_id, line },
        EndpointOpened { ticket, endpoint },
        Configured { request, answer },
    ]
);

// Outputs.
choice!(Output
    []
    [
        Kill, Discard, Close, ReadClients, Extend, DisconnectClient, RevokeTicket, Report, Tap, Finish,
        ReloadNote
    ]
    [
        Start { seat, incarnation },
        Read { link, read },
        OpenRelay { seat, incarnation },
        SendToClient { client_id, message },
        OpenEndpoint { ticket, transport },
        Configure { request, seat, operation, values },
        ApplyOptions { request },
        DropOptions { request },
        RememberGreeting { seat, greeting },
        RememberPoison { seat, kind },
        Reloaded { problem },
        Reverted { seat, why },
    ]
);
object!(Diagnostic { level, seat, text });
choice!(Level [Warn, Debug] [] []);
choice!(Ending [Clean] [Failed] []);
choice!(LinkProtocol [Plain, Unknown] [Generation] []);
choice!(Observation
    []
    []
    [
        Arrived { seat, toward, dialect, message },
        Delivered { seat, toward, dialect, message },
        Telemetry { seat, message },
        Ended { seat, how },
    ]
);
