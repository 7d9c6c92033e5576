"""The agent of the interop story (see peers/README.md) on the official Python SDK."""

import asyncio
import os
import re

import acp
from acp import schema


class Session:
    def __init__(self, cwd: str) -> None:
        self.cwd = cwd
        self.cancelled = asyncio.Event()


class PythonAgent(acp.Agent):
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def on_connect(self, conn: acp.Client) -> None:
        self.editor = conn

    async def initialize(self, protocol_version, **_):
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="python-agent", version="1"),
        )

    async def new_session(self, cwd, **_):
        session_id = f"python-session-{len(self.sessions) + 1}"
        self.sessions[session_id] = Session(cwd)
        return schema.NewSessionResponse(session_id=session_id)

    async def cancel(self, session_id, **_):
        self.sessions[session_id].cancelled.set()

    async def prompt(self, session_id, prompt, **_):
        session = self.sessions[session_id]
        heard = [block.text for block in prompt if block.type == "text"]

        async def say(text: str) -> None:
            await self.editor.session_update(session_id, acp.update_agent_message_text(text))

        if heard[0] == "wait":
            session.cancelled.clear()
            await say("waiting")
            await session.cancelled.wait()
            return schema.PromptResponse(stop_reason="cancelled")

        count = re.fullmatch(r"count to (\d+)", heard[0])
        if count is None:
            raise acp.RequestError.invalid_params()
        await say("heard " + " ".join(heard))
        for number in range(1, int(count[1]) + 1):
            await say(str(number))
        await self.editor.session_update(session_id, acp.start_tool_call("call-1", "Read peer.txt"))

        permission = await self.editor.request_permission(
            session_id=session_id,
            tool_call=schema.ToolCallUpdate(tool_call_id="call-1"),
            options=[
                schema.PermissionOption(option_id="allow", name="Allow", kind="allow_once"),
                schema.PermissionOption(option_id="reject", name="Reject", kind="reject_once"),
            ],
        )
        await say(f"permission {getattr(permission.outcome, 'option_id', 'none')}")

        file = await self.editor.read_text_file(
            session_id=session_id, path=os.path.join(session.cwd, "peer.txt")
        )
        await say(f"file {file.content}")
        return schema.PromptResponse(stop_reason="end_turn")


asyncio.run(acp.run_agent(PythonAgent()))
