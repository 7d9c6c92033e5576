//! The fields and variants that a journal holds.

use acp_wire::dialect::{Generation, Greeting};
use acp_wire::json::write_string;
use acp_wire::message::{Findings, Remains};
use acp_wire::{Json, Side, Spoken};
use mcp::{BridgePolicy, ClientId, Endpoint, Ticket, Transport};
use router::{Chain, Component, Ending, How, Kind, Level, Mode, Notice, Seat, TakesUpdates, Time};

use super::codec::{
    Codec, Object, choice, expected, member, newtype, object, read_variant, within, write_variant,
};
use super::{Appended, Begun, Effects, Entry, Header};
use crate::flow::Marks;
use crate::input::{Command, Facts, Input, Line, Link, Output, Port, Seen, Setup};
use crate::policy::{Pace, Policy, Restart, Rules, Then, Watch};

object!(Header { journal, setup });
object!(Entry { at, input, effects });
object!(Begun { at, input });
object!(Effects { outputs, appended });
object!(Appended { link, dropped, text });

newtype!(Seat, Time, Ticket, ClientId);

// What is known when a chain begins.
object!(Setup { chain, rules, bridge, word, nested, longest_line, marks, facts, watched });
object!(Marks { high, low, cap, listen });
object!(Chain { mode, components, greeting_limit, grace, any_version });
object!(Component { name, command, guard, updates });
object!(Rules { policies, watch, tell_editor, seed });
object!(Policy { restart, then, pace, named });
object!(Pace { most, within, first, longest, stable });
object!(Watch { answer, prompt, cancel });
object!(Facts { generation, greeting, crashes_on });
choice!(Mode [Agent, Proxy] [] []);
choice!(TakesUpdates [Usual, All, Known] [] []);
choice!(Restart [Never, IfItCan, Always] [] []);
choice!(Then [Bypass, Stop] [] []);
choice!(BridgePolicy [Auto] [Only] []);
choice!(Transport [Stdio, Http] [] []);
choice!(Generation [P0, P1, P2, P3t, P3, P4, P5] [] []);
choice!(Greeting [Proxy, Underscore, Capability] [] []);
object!(Kind { toward, method, update });
choice!(Side [Editor, Agent] [] []);

// What happens.
object!(Link { seat, port });
choice!(Port [Main, Relay] [] []);
choice!(Line [] [Text] [TooLong { found, length }]);
object!(Findings { messages, more_answers, is_damaged, looks_like_json });
object!(Remains { ids, call, answer, jsonrpc });
choice!(How
    [ClosedOutput, ClosedInput, ClosedSuccessor, Commanded]
    [NotStarted, Status, Signal, Ended, Silent, Refused, Stuck]
    [Unresponsive { method, limit }, Uncancellable { method, limit }]
);
choice!(Command [Stop] [Restart, Bypass, Hold, Release] []);
choice!(Endpoint
    []
    []
    [Stdio { program, port, variable, secret }, Http { url, secret }]
);
choice!(Input
    [Tick]
    [Unread, Extended, ClientDisconnected, Command]
    [
        Line { link, line },
        Waits { link, waits },
        Ended { link, rest },
        Written { link, count },
        NotStarted { seat, life, why },
        Exited { seat, life, how },
        Words { seat, life, lines },
        RelayOpened { seat, life, servers },
        RelayJoined { seat, life },
        ClientConnected { ticket, client_id },
        ClientMessage { client_id, line },
        EndpointOpened { ticket, endpoint },
    ]
);

// What is done about it.
choice!(Output
    []
    [Kill, End, Close, Listen, Extend, DisconnectClient, RevokeTicket, Report, Seen, Finish]
    [
        Start { seat, life },
        Read { link, read },
        OpenRelay { seat, life },
        SendToClient { client_id, message },
        OpenEndpoint { ticket, transport },
        Learn { seat, greeting },
        Spare { seat, kind },
    ]
);
object!(Notice { level, seat, text });
choice!(Level [Warn, Debug] [] []);
choice!(Ending [Clean] [Failed] []);
choice!(Spoken [Plain, Unknown] [Generation] []);
choice!(Seen
    []
    []
    [
        Arrived { seat, toward, dialect, message },
        Delivered { seat, toward, dialect, message },
        Left { seat, how },
    ]
);
