// Made from crates/web/src/protocol by `UPDATE=1 cargo test -p acp-conductor-web types`. Do not edit.

export type ToServer = { "t": "hello", 
/**
 * The version of the protocol.
 */
v: number, 
/**
 * The secret that the page got when it logged in.
 */
token: string, 
/**
 * The run of the server that the positions belong to. Empty for a new page.
 */
run: string, 
/**
 * The topics to follow, each with the position of the page, or null.
 */
want: Array<Want>, } | { "t": "want" } & Want | { "t": "drop", 
/**
 * The topic.
 */
topic: string, } | { "t": "do", 
/**
 * The id of the action.
 */
id: string, 
/**
 * What to do.
 */
action: Action, } | { "t": "ack", 
/**
 * The number of frames since the connection was opened.
 */
frames: number, };

export type Want = { 
/**
 * `chain`, `sessions`, `session/ID`, `panels`, `comments`, `edits` or `files`.
 */
topic: string, 
/**
 * The position of the page, or null for a snapshot.
 */
at: number | null, };

export type ToPage = { "t": "welcome", 
/**
 * The version of the protocol.
 */
v: number, 
/**
 * Random for each run of the server. In another run, all positions are void.
 */
run: string, 
/**
 * What the page shows.
 */
features: Features, } | { "t": "snap", 
/**
 * The topic.
 */
topic: string, 
/**
 * Its position.
 */
at: number, 
/**
 * The entries in their order.
 */
entries: Array<[string, Entry]>, } | { "t": "inc", 
/**
 * The topic.
 */
topic: string, 
/**
 * The position before the first change.
 */
from: number, 
/**
 * The position after the last change.
 */
at: number, 
/**
 * The changes. There may be fewer than positions, because changes are joined.
 */
changes: Array<Change>, } | { "t": "done", 
/**
 * The id of the action.
 */
id: string, 
/**
 * The result, if it is done.
 */
ok?: unknown, 
/**
 * Why it has failed, for people.
 */
error?: string, };

export type Change = { "c": "put", 
/**
 * The id of the entry.
 */
id: string, 
/**
 * The whole entry.
 */
entry: Entry, } | { "c": "append", 
/**
 * The id of the entry.
 */
id: string, 
/**
 * The length of the text before, in UTF-16 units, as JavaScript counts.
 */
offset: number, 
/**
 * The text to add.
 */
text: string, } | { "c": "del", 
/**
 * The id of the entry.
 */
id: string, };

export type Features = { 
/**
 * Whether the page has a chat. A companion of another editor has none.
 */
chat: boolean, 
/**
 * The name of the chain, for the title.
 */
title: string, 
/**
 * The folder of the project.
 */
folder: string, };

export type Entry = { "kind": "chain" } & Chain | { "kind": "log", 
/**
 * `debug`, `info`, `warn` or `error`.
 */
level: string, 
/**
 * The component, if it is known.
 */
component: string | null, 
/**
 * The message.
 */
text: string, 
/**
 * When it came.
 */
time: number, } | { "kind": "session" } & Session | { "kind": "user", 
/**
 * The text.
 */
text: string, 
/**
 * What is attached, by name.
 */
attachments: Array<string>, 
/**
 * Whether it still waits for the end of the turn.
 */
queued: boolean, 
/**
 * When it was sent.
 */
time: number, } | { "kind": "agent", 
/**
 * The text.
 */
text: string, 
/**
 * Whether more may come.
 */
open: boolean, 
/**
 * When it began.
 */
time: number, 
/**
 * Images, audio and resources that the agent has sent after the text.
 */
blocks: Array<Block>, } | { "kind": "thought", 
/**
 * The text.
 */
text: string, 
/**
 * Whether more may come.
 */
open: boolean, 
/**
 * When it began.
 */
time: number, 
/**
 * How long it took, when it is not open any more.
 */
ms: number | null, } | { "kind": "tool" } & Tool | { "kind": "terminal", 
/**
 * The command line, quoted for a shell.
 */
command: string, 
/**
 * The folder in which it runs, if that is not the folder of the session.
 */
folder: string | null, 
/**
 * The output, with escape sequences.
 */
text: string, 
/**
 * How the command ended. Null while it runs.
 */
exit: Exit | null, 
/**
 * Whether the beginning of the output is missing.
 */
cut: boolean, } | { "kind": "plan", 
/**
 * The steps.
 */
steps: Array<Step>, } | { "kind": "question" } & Question | { "kind": "note", 
/**
 * The text.
 */
text: string, } | { "kind": "error", 
/**
 * What failed, why, and the remedy.
 */
text: string, 
/**
 * The error as it came, for a bug report.
 */
details: string, 
/**
 * The text of the prompt that failed, to try it again.
 */
prompt: string | null, 
/**
 * What was attached to the prompt, by name.
 */
attachments: Array<string>, } | { "kind": "turn", 
/**
 * The activity.
 */
state: Activity, 
/**
 * Since when.
 */
since: number, 
/**
 * The component that the chain waits for, if it is known.
 */
awaits: string | null, 
/**
 * Why the last turn ended, such as `end_turn` or `cancelled`.
 */
ended: string | null, } | { "kind": "settings" } & Settings | { "kind": "draft", 
/**
 * The text.
 */
text: string, } | { "kind": "panel", 
/**
 * The label of its tab.
 */
label: string, 
/**
 * The HTML as it came. Only the panel frame may show it.
 */
contents: string, 
/**
 * Grows when the panel is brought to the front. The panel with the highest value is in front.
 */
front: number, } | { "kind": "thread" } & Thread | { "kind": "edit", 
/**
 * What it is for.
 */
label: string, 
/**
 * The files before and after.
 */
files: Array<FileDiff>, 
/**
 * `open`, `accepted`, `rejected` or `failed`.
 */
state: string, } | { "kind": "changed", 
/**
 * How many times.
 */
version: number, } | { "kind": "openFile", 
/**
 * The path, relative to the folder.
 */
path: string, 
/**
 * The line, from 1.
 */
line: number | null, 
/**
 * Grows with each request.
 */
version: number, };

export type Chain = { 
/**
 * `starting`, `running`, `login` (the agent needs a log-in) or `ended`.
 */
state: string, 
/**
 * The names of the components, the agent last.
 */
components: Array<string>, 
/**
 * The agent with its version, when it is known.
 */
agent: string | null, 
/**
 * Why the chain has ended or did not start, with the remedy.
 */
error: string | null, 
/**
 * Whether an earlier session can be loaded or resumed.
 */
canLoad: boolean, 
/**
 * Whether images can be attached.
 */
images: boolean, 
/**
 * The ways to log in.
 */
logins: Array<Login>, };

export type Login = { 
/**
 * The id on the wire.
 */
id: string, 
/**
 * What the user reads.
 */
name: string, 
/**
 * More about it.
 */
about: string, 
/**
 * The command to run in a terminal, if that is needed. The page cannot do it.
 */
command: string | null, };

export type Session = { 
/**
 * The title.
 */
title: string, 
/**
 * The folder.
 */
cwd: string, 
/**
 * `saved` (not loaded yet), `loading`, `idle`, `running`, `asks` or `failed`.
 */
state: string, 
/**
 * When it was last used.
 */
time: number, };

export type Block = { "block": "text", 
/**
 * Markdown.
 */
text: string, } | { "block": "image", 
/**
 * The type, such as `image/png`.
 */
mime: string, 
/**
 * The image in base64. Empty if the agent named only an address.
 */
data: string, } | { "block": "resource", 
/**
 * The address.
 */
uri: string, 
/**
 * Its name.
 */
name: string, 
/**
 * Its text, if it is embedded.
 */
text: string | null, } | { "block": "other", 
/**
 * What it is, such as `audio (audio/wav)`.
 */
about: string, };

export type Tool = { 
/**
 * The title.
 */
title: string, 
/**
 * `read`, `edit`, `delete`, `move`, `search`, `execute`, `think`, `fetch` or another kind.
 */
tool: string, 
/**
 * `pending`, `in_progress`, `completed` or `failed`.
 */
status: string, 
/**
 * Text, images and resources.
 */
blocks: Array<Block>, 
/**
 * Changes of files.
 */
diffs: Array<FileDiff>, 
/**
 * The ids of terminals. Their entries are `terminal:ID`.
 */
terminals: Array<string>, 
/**
 * The places that it is about.
 */
places: Array<Place>, 
/**
 * The input of the tool.
 */
input: unknown, 
/**
 * The output of the tool.
 */
output: unknown, 
/**
 * When it began.
 */
time: number, 
/**
 * How long it took, when it has ended.
 */
ms: number | null, };

export type Place = { 
/**
 * The path, relative to the folder if it is inside.
 */
path: string, 
/**
 * The line, from 1.
 */
line: number | null, };

export type FileDiff = { 
/**
 * The path, relative to the folder if it is inside.
 */
path: string, 
/**
 * The text before; null for a new file.
 */
old: string | null, 
/**
 * The text after.
 */
new: string, };

export type Exit = { 
/**
 * The exit code.
 */
code: number | null, 
/**
 * The signal that killed it, such as `SIGKILL`.
 */
signal: string | null, };

export type Step = { 
/**
 * What is done.
 */
text: string, 
/**
 * `pending`, `in_progress` or `completed`.
 */
status: string, 
/**
 * `high`, `medium` or `low`.
 */
priority: string, };

export type Question = { 
/**
 * What is asked.
 */
title: string, 
/**
 * The tool call that it is about, with everything known. The entry of the call may come later or never.
 */
tool: Tool | null, 
/**
 * The command line that would run, quoted for a shell, if it is known.
 */
command: string | null, 
/**
 * The folder in which the command would run, if that is known and is not the folder of the session.
 */
folder: string | null, 
/**
 * The answers to choose from.
 */
choices: Array<Choice>, 
/**
 * The chosen answer, or `cancelled`. Null while the question is open.
 */
answer: string | null, };

export type Choice = { 
/**
 * The id on the wire.
 */
id: string, 
/**
 * What the user reads.
 */
name: string, 
/**
 * `allow_once`, `allow_always`, `reject_once`, `reject_always`, or `other`.
 */
effect: string, };

export type Activity = "loading" | "idle" | "running" | "cancelling" | "failed";

export type Settings = { 
/**
 * What can be chosen: the mode, the model and others, in the order to show them.
 */
selects: Array<Select>, 
/**
 * The slash commands of the agent.
 */
commands: Array<Command>, 
/**
 * What the session has used so far, such as `12,400 of 200,000 tokens`.
 */
usage: string | null, };

export type Select = { 
/**
 * `mode`, `model`, or `option:ID`.
 */
id: string, 
/**
 * What the user reads.
 */
name: string, 
/**
 * The id of the current value.
 */
current: string, 
/**
 * The values.
 */
values: Array<SelectValue>, };

export type SelectValue = { 
/**
 * The id on the wire.
 */
id: string, 
/**
 * What the user reads.
 */
name: string, 
/**
 * More about it.
 */
about: string, };

export type Command = { 
/**
 * The name, without the slash.
 */
name: string, 
/**
 * What it does.
 */
about: string, 
/**
 * What to write after it. Empty if it takes nothing.
 */
hint: string, };

export type Thread = { 
/**
 * The path, relative to the folder if it is inside.
 */
path: string, 
/**
 * The first line, from 1.
 */
line: number, 
/**
 * The first column, from 1, if the comment begins inside of the line.
 */
column: number | null, 
/**
 * The last line.
 */
endLine: number, 
/**
 * The column after the last character, if the comment ends inside of the line.
 */
endColumn: number | null, 
/**
 * The comment, Markdown. May be empty.
 */
text: string, 
/**
 * Whether a person can reply.
 */
canReply: boolean, 
/**
 * The replies of the person.
 */
replies: Array<Reply>, };

export type Reply = { 
/**
 * The text, Markdown.
 */
text: string, 
/**
 * When it was written.
 */
time: number, };

export type Action = { "op": "newSession" } | { "op": "openSession", 
/**
 * The id of the session.
 */
session: string, } | { "op": "listSessions" } | { "op": "closeSession", 
/**
 * The id of the session.
 */
session: string, } | { "op": "prompt", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The text.
 */
text: string, 
/**
 * What is attached.
 */
attachments: Array<Attachment>, } | { "op": "unqueue", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the entry.
 */
entry: string, } | { "op": "tryAgain", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the error.
 */
entry: string, } | { "op": "sendNow", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the entry.
 */
entry: string, } | { "op": "cancel", 
/**
 * The id of the session.
 */
session: string, } | { "op": "killTerminal", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the terminal: its entry is `terminal:ID`.
 */
terminal: string, } | { "op": "answer", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the entry.
 */
entry: string, 
/**
 * The id of the choice.
 */
choice: string, } | { "op": "select", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The id of the select.
 */
select: string, 
/**
 * The id of the value.
 */
value: string, } | { "op": "logIn", 
/**
 * The id of the login.
 */
login: string, } | { "op": "draft", 
/**
 * The id of the session.
 */
session: string, 
/**
 * The text.
 */
text: string, } | { "op": "listFiles", 
/**
 * The path, relative to the folder; empty for the folder itself.
 */
path: string, } | { "op": "readFile", 
/**
 * The path, relative to the folder.
 */
path: string, } | { "op": "findFiles", 
/**
 * The text to find.
 */
text: string, } | { "op": "viewing", 
/**
 * The open files, relative to the folder.
 */
open: Array<string>, 
/**
 * The file in front.
 */
active: string | null, 
/**
 * The first selected line and column, and the position after the selection, all from 1.
 */
selection: [number, number, number, number] | null, } | { "op": "panelEvent", 
/**
 * The id of the panel.
 */
panel: string, 
/**
 * The name of the widget.
 */
widget: string, 
/**
 * `click`, `choice`, `input` or `toggle`.
 */
event: string, 
/**
 * The value: a text or true or false.
 */
value: string | boolean | null, 
/**
 * The texts that a button has sent along, by the name of their input.
 */
inputs: Record<string, string> | null, } | { "op": "closePanel", 
/**
 * The id of the panel.
 */
panel: string, } | { "op": "reply", 
/**
 * The id of the thread.
 */
thread: string, 
/**
 * The text, Markdown.
 */
text: string, } | { "op": "answerEdit", 
/**
 * The id of the edit.
 */
edit: string, 
/**
 * Whether it is applied.
 */
accept: boolean, };

export type Attachment = { "attach": "file", 
/**
 * The path, relative to the folder.
 */
path: string, } | { "attach": "image", 
/**
 * Its name.
 */
name: string, 
/**
 * The type, such as `image/png`.
 */
mime: string, 
/**
 * The image in base64.
 */
data: string, } | { "attach": "text", 
/**
 * Its name.
 */
name: string, 
/**
 * The text.
 */
text: string, };

export type Unqueued = { 
/**
 * The text.
 */
text: string, 
/**
 * What was attached.
 */
attachments: Array<Attachment>, };

export type FileEntry = { 
/**
 * The name.
 */
name: string, 
/**
 * Whether it is a folder.
 */
folder: boolean, };

export type FileText = { 
/**
 * The path, relative to the folder.
 */
path: string, 
/**
 * The text. Empty if the file is not text.
 */
text: string, 
/**
 * Why the text is not complete: the file is too long, or is not text. Null if it is complete.
 */
note: string | null, };

export type FoundFile = { 
/**
 * The path, relative to the folder.
 */
path: string, };
