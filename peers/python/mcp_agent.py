"""The agent that uses MCP servers (see peers/README.md), on the official Python SDKs of ACP and MCP:
python mcp_agent.py [--http] [--eager] [--per-call]
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
from itertools import count

import acp
import mcp
import mcp_types
from acp import schema
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

parser = argparse.ArgumentParser()
for option in ("--http", "--eager", "--per-call"):
    parser.add_argument(option, action="store_true")
options = parser.parse_args()

# What the SDK would hand on to an MCP server by itself, beside PATH and HOME.
for variable in ("LOGNAME", "SHELL", "TERM", "USER"):
    os.environ.pop(variable, None)


async def sampled(context, params):
    text = mcp_types.TextContent(type="text", text="sampled")
    return mcp_types.CreateMessageResult(model="peer", role="assistant", content=text)


async def elicited(context, params):
    """Fills in what a form needs at least."""
    form = params.requested_schema
    kinds = {name: form["properties"][name]["type"] for name in form.get("required", [])}
    content = {name: kind == "boolean" or "elicited" for name, kind in kinds.items()}
    return mcp_types.ElicitResult(action="accept", content=content)


async def roots(context):
    return mcp_types.ListRootsResult(
        roots=[mcp_types.Root(uri="file:///peer-root", name="peer")]
    )


@contextlib.asynccontextmanager
async def connected(entry):
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(entry, schema.HttpMcpServer):
            headers = {it.name: it.value for it in entry.headers}
            http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
            server = streamable_http_client(entry.url, http_client=http)
        elif isinstance(entry, schema.McpServerStdio):
            env = {it.name: it.value for it in entry.env}
            if "LANG" in os.environ:
                env.setdefault("LANG", os.environ["LANG"])
            server = mcp.StdioServerParameters(command=entry.command, args=entry.args, env=env)
        else:
            raise ValueError(f"no transport {entry.type}")
        client = mcp.Client(
            server,
            client_info=mcp_types.Implementation(name="mcp-agent-py", version="1"),
            sampling_callback=sampled,
            elicitation_callback=elicited,
            list_roots_callback=roots,
        )
        yield await stack.enter_async_context(client)


class Connection:
    """A client with a task of its own: the SDK wants to leave where it entered."""

    def __init__(self, entry) -> None:
        self.client = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self.task = asyncio.create_task(self.run(entry))

    async def run(self, entry) -> None:
        try:
            async with connected(entry) as client:
                self.client.set_result(client)
                await self.ended.wait()
        except Exception as error:
            if not self.client.done():
                self.client.set_exception(error)

    async def end(self) -> None:
        self.ended.set()
        if not self.client.done():
            self.task.cancel()
        await asyncio.wait([self.task])


class Session:
    def __init__(self, servers) -> None:
        self.servers = {it.name: it for it in servers}
        self.connections: dict[str, Connection] = {}

    async def end(self) -> None:
        await asyncio.gather(*(it.end() for it in self.connections.values()))

    @contextlib.asynccontextmanager
    async def client(self, name):
        entry = self.servers.get(name)
        if entry is None:
            raise mcp.MCPError(mcp_types.INVALID_PARAMS, f"no server {name}")
        if options.per_call:
            async with connected(entry) as client:
                yield client
            return
        if name not in self.connections:
            self.connections[name] = Connection(entry)
        # Shielded: a prompt that is given up must not take along the connection.
        yield await asyncio.shield(self.connections[name].client)

    async def play(self, text, say):
        words = re.fullmatch(r"(\w+)(?: (\S+)(?: (\S+)(?: (.*))?)?)?", text, re.DOTALL)
        verb, name, tool, arguments = words.groups() if words else (None,) * 4
        if verb == "servers":
            kind = lambda it: getattr(it, "type", "stdio")
            return [{"name": it.name, "transport": kind(it)} for it in self.servers.values()]
        scripts = ("tools", "resources", "prompts", "instructions", "call", "cancel")
        if verb not in scripts:
            return f"heard {text}"
        try:
            async with self.client(name) as client:
                match verb:
                    case "tools":
                        return names((await client.list_tools()).tools)
                    case "resources":
                        return names((await client.list_resources()).resources)
                    case "prompts":
                        return names((await client.list_prompts()).prompts)
                    case "instructions":
                        info = client.server_info
                        return {"instructions": client.instructions, "name": info and info.name}
                    case "call":
                        return await call(client, tool, json.loads(arguments or "{}"), say)
                    case "cancel":
                        return await cancel(client, tool, json.loads(arguments or "{}"))
        except Exception as error:
            return failure(error)


async def call(client, tool, arguments, say):
    async def progress(done, total, message):
        await say(f"progress {done:g}")

    result = await client.call_tool(tool, arguments, progress_callback=progress)
    content = [it.model_dump(mode="json", by_alias=True, exclude_none=True) for it in result.content]
    return {"isError": result.is_error, "content": content}


async def cancel(client, tool, arguments):
    begun = asyncio.Event()

    async def progress(done, total, message):
        begun.set()

    running = asyncio.create_task(client.call_tool(tool, arguments, progress_callback=progress))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(begun.wait(), 0.5)
    # The SDK tells the server of it.
    running.cancel()
    try:
        await running
        return {"error": {"code": 0, "message": "answered before it could be cancelled"}}
    except asyncio.CancelledError:
        return "cancelled"


def failure(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, mcp.MCPError):
        return {"error": {"code": error.code, "message": error.message}}
    return {"error": {"code": mcp_types.CONNECTION_CLOSED, "message": str(error)}}


def names(listed):
    return sorted(it.name for it in listed)


def compact(value) -> str:
    """Keys in order and whole numbers without a point, so that all agents write the same."""

    def plain(it):
        match it:
            case dict():
                return {key: plain(value) for key, value in it.items()}
            case list():
                return [plain(value) for value in it]
            case float() if it.is_integer():
                return int(it)
            case _:
                return it

    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


class McpAgent(acp.Agent):
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self.numbers = count(1)

    def on_connect(self, conn: acp.Client) -> None:
        self.editor = conn

    async def initialize(self, protocol_version, **_):
        transports = schema.McpCapabilities(http=True, sse=True) if options.http else None
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=transports,
                session_capabilities=schema.SessionCapabilities(
                    close=schema.SessionCloseCapabilities()
                ),
            ),
            agent_info=schema.Implementation(name="mcp-agent-py", version="1"),
        )

    async def open(self, session_id, servers):
        await self.close_session(session_id)
        session = self.sessions[session_id] = Session(servers or [])

        async def listed(name):
            async with session.client(name) as client:
                await client.list_tools()

        if options.eager:
            try:
                await asyncio.gather(*map(listed, session.servers))
            except Exception as error:
                await self.close_session(session_id)
                raise acp.RequestError.internal_error(failure(error)) from error

    async def new_session(self, cwd, mcp_servers=None, **_):
        session_id = f"mcp-session-{next(self.numbers)}"
        await self.open(session_id, mcp_servers)
        return schema.NewSessionResponse(session_id=session_id)

    async def load_session(self, cwd, session_id, mcp_servers=None, **_):
        await self.open(session_id, mcp_servers)
        return schema.LoadSessionResponse()

    async def close_session(self, session_id, **_):
        if session := self.sessions.pop(session_id, None):
            await session.end()
        return schema.CloseSessionResponse()

    async def prompt(self, session_id, prompt, **_):
        if session_id not in self.sessions:
            raise acp.RequestError.invalid_params({"details": "no such session"})

        async def say(text: str) -> None:
            await self.editor.session_update(session_id, acp.update_agent_message_text(text))

        text = next((block.text for block in prompt if block.type == "text"), "")
        said = await self.sessions[session_id].play(text, say)
        await say(said if isinstance(said, str) else compact(said))
        return schema.PromptResponse(stop_reason="end_turn")


async def main() -> None:
    agent = McpAgent()
    # For session/close.
    await acp.run_agent(agent, use_unstable_protocol=True)
    for session_id in list(agent.sessions):
        await agent.close_session(session_id)


asyncio.run(main())
