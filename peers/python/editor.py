"""The editor of the interop story (see peers/README.md) on the official Python SDK:
python editor.py -- COMMAND ARGUMENT…
"""

import asyncio
import json
import os
import sys

import acp
from acp import schema
from acp.connection import StreamDirection, StreamEvent


class PythonEditor(acp.Client):
    def __init__(self) -> None:
        self.events: list[dict[str, str]] = []
        self.answered: list[str] = []
        self.understood = 0
        self.waiting = asyncio.Event()

    def note(self, event: StreamEvent) -> None:
        """Sees each message as it arrives; the SDK runs the handlers below as tasks of their own."""
        if event.direction is not StreamDirection.INCOMING:
            return
        match event.message:
            case {"method": "session/update", "params": {"update": update}}:
                noted = {"update": update["sessionUpdate"]}
                match update:
                    case {"content": {"text": text}}:
                        noted["text"] = text
                self.events.append(noted)
            case {"method": method}:
                self.events.append({"asked": method})
            case {"error": error}:
                self.events.append({"error": error["message"]})
            case {"result": {"stopReason": reason}}:
                self.events.append({"answer": reason})

    async def session_update(self, session_id, update, **_):
        self.understood += 1
        text = getattr(getattr(update, "content", None), "text", "")
        # A marking proxy may have written something before the word.
        if text.endswith("waiting"):
            self.waiting.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.answered.append("session/request_permission")
        first = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=first)

    async def read_text_file(self, session_id, path, **_):
        self.answered.append("fs/read_text_file")
        return schema.ReadTextFileResponse(content=f"words of {path}")


async def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] != "--":
        sys.exit("usage: editor.py -- COMMAND ARGUMENT…")
    editor = PythonEditor()
    async with acp.spawn_agent_process(
        editor,
        *sys.argv[2:],
        # By default the SDK hands on a few variables only, and keeps stderr to itself.
        env=os.environ,
        transport_kwargs={"stderr": None},
        observers=[editor.note],
    ) as (agent, _):
        greeting = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(
                fs=schema.FileSystemCapabilities(read_text_file=True)
            ),
        )
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])

        def prompt(text: str):
            return agent.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])

        await prompt("count to 50")
        waited = asyncio.create_task(prompt("wait"))
        await editor.waiting.wait()
        await agent.cancel(session_id=session.session_id)
        await waited

    summary = {
        "protocolVersion": greeting.protocol_version,
        "agent": greeting.agent_info and greeting.agent_info.name,
        "understood": editor.understood,
        "answered": editor.answered,
        "events": editor.events,
    }
    print(json.dumps(summary))


asyncio.run(main())
