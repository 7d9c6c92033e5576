//! The texts of the demo agent.

/// The answer to `help`.
pub(super) const HELP: &str = "\
I am an agent with a script: no model, no network. I show what agents can do:

| prompt | what I do |
|---|---|
| `plan …` | make a plan and follow it |
| `edit FILE… [TEXT]` | ask for permission, then add a line to the files |
| `read FILE [LINE]` | read a file through the editor |
| `run COMMAND` | ask for permission, then run it in the editor's terminal |
| `show all`, `show NAME…` | show every kind of update, or some (`show` lists them) |
| `tools` | list the tools of the MCP servers |
| `use TOOL {json}` | call a tool |
| `call SERVER TOOL {json}` | call a tool of this server |
| `walkthrough` | present a walkthrough of the folder, if the component `walkthrough` is in the chain |
| `story` | talk for a while: try to interrupt me |
| `sleep SECONDS`, `hang` | answer late, or never |
| `refuse`, `stop REASON` | end the turn with another stop reason |
| `fail`, `fail auth` | answer with an error |
| `crash`, `crash hard` | crash in the middle of my answer |

To anything else I say something friendly.";

/// The answer to `story`.
pub(super) const STORY: &str = "\
Once upon a time there was an editor that spoke to one agent only. Whatever the agent did not know, \
nobody could teach it: it was a monolith, and it was proud of it. One day a proxy came along and sat \
down between the two. It said nothing at first; it only listened, and passed on every word as it was. \
Then it began to add a word here and to leave one out there, and the editor was pleased, and the agent \
did not notice. Soon there came a second proxy, and a third, and each did one small thing well. They \
needed somebody to keep them in time, so they asked a conductor, who knew no music at all but could \
count. And because nothing was lost, and nothing came twice, and nobody waited for anybody longer \
than needed, they played on, and if nobody has interrupted them, they are playing still.";

/// A sample of Markdown.
pub(super) const MARKDOWN: &str = "\
# A heading

Text with **bold**, *italic*, ~~struck~~ and `code`, and a [link](https://agentclientprotocol.com).

## A list

- one
- two, with a longer text that does not fit into one line of a narrow terminal
  1. nested
  2. numbered
- [x] done
- [ ] open

> A quotation.

| part | role |
|---|---|
| proxy | changes messages |
| agent | answers |

```rust
fn main() {
    println!(\"hello\");
}
```

---

The end of the sample.";
