"""An MCP server in front of another one: it shows that server's tools, and makes the calls that the gate
allows.

It speaks MCP 2026-07-28 and the versions before it, to its client and to the server, each as the other side
does. What the server asks of the agent's client (elicitation, sampling) is passed on if the operator names it
and the gate allows it. The rest of MCP (resources, prompts) is not, because the gate would not see it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.subscriptions import SubscriptionLost
from mcp.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp_types import ListToolsResult, TextContent, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sluice.adapters.mcp.listening import listen
from sluice.adapters.mcp.parking import StateRefusedError, make_boundary, park, read_state
from sluice.adapters.mcp.pins import INSTRUCTIONS, Pins, PinsError, compute_digest, name_key
from sluice.adapters.mcp.proxy_file import REQUEST_METHODS, Passed
from sluice.adapters.mcp.remote import overhear, reach_by_command, reach_by_http
from sluice.adapters.mcp.results import (
    GATE_AWAY,
    MOST_PROGRESS,
    ResultJudge,
    list_contents,
    make_error_result,
    report_outcome,
)
from sluice.adapters.mcp.server_requests import RunningCall, ServerRequests, is_held
from sluice.client.answers import (
    ActionInterrupted,
    ActionNotDecided,
    ActionRefused,
    ActionStopped,
    NeedsHuman,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import (
        CallToolRequestParams,
        CallToolResult,
        InputRequiredResult,
        PaginatedRequestParams,
        Tool,
    )

    from sluice.adapters.mcp.listening import Door
    from sluice.adapters.mcp.proxy_file import ProxyOptions
    from sluice.client import AsyncGateClient, Permit

log = logging.getLogger(__name__)
MOST_PAGES = 100
"""The most pages that are read of a server's list of tools."""
PROGRESS_S = 5.0
"""The time between two notifications that a call still waits for a person."""
LISTEN_AGAIN_S = 60.0
"""The time until a server is asked again to say when its tools change."""
CHANGES_S = 1.0
"""The time between two notifications that the tools changed: each has its reader list them again."""
MOST_LISTENERS = 64
TOOL_ERROR = "ToolError"
"""The error text of an outcome if the tool itself answered with an error."""
URL_ELICITATION_REQUIRED = -32042
"""The error by which a server of 2025-11-25 asks for an elicitation outside of `elicitation/create`."""
_BY_ERROR = "the server asks by an error that the user visits an address; it was not passed on"
_UNJUDGED_TRACE = ("baggage", "tracestate")
_ONCE = "this call was begun before, and it does not run again. Look at what the tool has done"
_CALL_AGAIN = "Call it again with the same arguments later: then the wait goes on"


async def serve(
    gate: AsyncGateClient,
    upstream: StdioServerParameters | str,
    pins: Pins,
    options: ProxyOptions,
    door: Door | None = None,
) -> None:
    """Serve on standard input and output until the input ends, or behind a door until a signal. `upstream`:
    a command, or a URL.

    Raises KafkaError if the broker is not there, PinsError, MCPError if the server does not answer, OSError
    if the door's address is taken, and ClientError with the gate's reason if it refuses the mandate.
    """
    proxy = Proxy(gate, upstream, pins, options)
    async with gate:
        if options.mandate is not None:
            await gate.mandate(options.mandate)
        async with proxy.stand() as server:
            if door is not None:
                await listen(server, door)
                return
            ready = server.create_initialization_options(NotificationOptions(tools_changed=True))
            async with stdio_server() as (read, write):
                await server.run(read, write, ready)


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools and instructions of a server that the agent may see; tools by name."""

    tools: Mapping[str, Tool]
    instructions: str | None


class Proxy:
    """One agent's session with one MCP server; its clients all act as this agent, in this session."""

    def __init__(
        self,
        gate: AsyncGateClient,
        upstream: StdioServerParameters | str,
        pins: Pins,
        options: ProxyOptions,
    ) -> None:
        reached: Any = upstream
        if isinstance(upstream, str):
            reached = reach_by_http(upstream)
        elif isinstance(upstream, StdioServerParameters):
            reached = reach_by_command(upstream)
        if not isinstance(reached, Server):
            reached = overhear(
                reached, options.server, (REQUEST_METHODS[kind] for kind in options.server_requests)
            )
        self._requests = ServerRequests(gate, options)
        self.upstream = Client(
            reached, cache=None, message_handler=self._hear, **self._requests.list_callbacks()
        )
        self._gate = gate
        self._pins = pins
        self._options = options
        self._judge = (
            None
            if options.results is None
            else ResultJudge(gate, options.session_id, options.results, options.passed)
        )
        self._downstream: dict[str | None, Any] = {}
        self._changes = InMemorySubscriptionBus()
        self._changed = asyncio.Event()
        self._warned: frozenset[str] = frozenset()
        self._unanswered: dict[str, str] = {}

    @asynccontextmanager
    async def stand(self) -> AsyncIterator[Server[Any]]:
        """Connect to the server; within the block, what this yields serves the agent. Raises MCPError if the
        server does not answer, and PinsError."""
        async with self.upstream:
            shown = await self.look()
            server: Server[Any] = Server(
                self._options.server,
                instructions=shown.instructions,
                on_list_tools=self.list_tools,
                on_call_tool=self.call_tool,
                on_subscriptions_listen=ListenHandler(self._changes, max_subscriptions=MOST_LISTENERS),
            )
            server.middleware.insert(0, _keep_trace_alone)
            if self._options.parking is not None:
                server.middleware.append(make_boundary(self._options.parking, self._options))
            tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._tell_changes())]
            try:
                yield server
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._requests.close()

    async def look(self) -> ToolListing:
        """List the server's tools again, without those that are held back. Raises MCPError and PinsError."""
        tools = await self._list_tools()
        instructions = self.upstream.instructions
        shown: dict[str, Any] = {
            name_key(name): tool.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, tool in tools.items()
        }
        if instructions is not None:
            shown[INSTRUCTIONS] = instructions
        admitted = await asyncio.to_thread(self._pins.admit, shown)
        admitted -= {name_key(name) for name in tools if self._options.is_ambiguous(name)}
        self._warn(frozenset(shown) - admitted)
        allowed = {name: tool for name, tool in tools.items() if name_key(name) in admitted}
        return ToolListing(allowed, instructions if INSTRUCTIONS in admitted else None)

    async def _list_tools(self) -> dict[str, Tool]:
        """The server's tools by name. Raises MCPError without what the server says in it: a listing is no
        action whose result could be judged."""
        tools: dict[str, Tool] = {}
        cursor = None
        try:
            for _ in range(MOST_PAGES):
                page = await self.upstream.list_tools(cursor=cursor)
                tools |= {tool.name: tool for tool in page.tools}
                cursor = page.next_cursor
                if cursor is None:
                    break
        except MCPError as error:
            log.warning("%s does not list its tools: %s", self._options.server, error)
            raise MCPError(error.code, f"{self._options.server} does not list its tools") from None
        return tools

    async def list_tools(self, ctx: Any, _: PaginatedRequestParams | None) -> ListToolsResult:
        """The tools that the agent may see."""
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            self._remember(ctx)
        return ListToolsResult(tools=list((await self.look()).tools.values()))

    async def call_tool(
        self, ctx: Any, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Put a call through the gate, and pass it on if it is allowed; otherwise return a tool error, the
        state of a call that waits for a person, or what the server asks of the client first."""
        if is_held(params):
            return await self._requests.go_on(ctx, params)
        call = RunningCall(ctx, params)
        in_turn = self.upstream.protocol_version not in MODERN_PROTOCOL_VERSIONS
        return await self._requests.run(call, partial(self._put_through, call, params), in_turn=in_turn)

    async def _put_through(
        self, call: RunningCall, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        ctx = call.ctx
        registered = self._options.name_registered(params.name)
        try:
            tool = (await self.look()).tools.get(params.name)
            if tool is None:
                return make_error_result(
                    f"{params.name}: there is no such tool, or it changed since a person looked at it. "
                    f"`sluice mcp pins list` tells the operator which; the tool did not run."
                )
            permit = await self._permit(ctx, registered, tool, params)
        except _Parked as parked:
            return parked.answer
        except ActionRefused as refused:
            return _make_refusal(registered, refused)
        except ActionInterrupted:
            return make_error_result(f"{registered}: {_ONCE}")
        except (*GATE_AWAY, PinsError) as error:
            return make_error_result(f"{registered}: {error}. The tool did not run.")
        result = await self._run(call, permit, registered, params)
        if permit.narrowed:
            note = f"[an approver narrowed the call: it ran with {json.dumps(permit.parameters)}]"
            result.content.insert(0, TextContent(type="text", text=note))
        return result

    async def _permit(self, ctx: Any, registered: str, tool: Tool, params: CallToolRequestParams) -> Permit:
        """The permission to run a tool. Raises what `AsyncGateClient.permit` raises, _Parked and
        StateRefusedError. After NeedsHuman the same call, made again, has the same id."""
        arguments = params.arguments or {}
        asked = compute_digest([registered, arguments, tool.description])
        until_s = None
        if params.request_state is None:
            action_id = self._unanswered.pop(asked, None) or uuid.uuid4().hex
        else:
            action_id, until_s = self._resume(params.request_state, asked)
        permit = partial(
            self._gate.permit,
            registered,
            arguments,
            session_id=self._options.session_id,
            action_id=action_id,
            tool_description=tool.description,
            accept_narrowed=True,
            mandate=self._options.mandate,
        )
        try:
            return await self._await_permit(ctx, registered, permit)
        except NeedsHuman as held:
            parking = self._options.parking
            if parking is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                until_s = until_s or time.time() + parking.longest_s
                raise _Parked(park(held.verdict, asked, until_s)) from None
            self._unanswered[asked] = action_id
            raise
        except (ActionNotDecided, asyncio.CancelledError):
            if until_s is None:
                self._unanswered[asked] = action_id
            raise

    def _resume(self, state: str, asked: str) -> tuple[str, float]:
        """The id of the action that a call goes on with, and until when. Raises StateRefusedError, also
        where the journal does not have the action: then nobody knows whether its tool has run."""
        if self._options.parking is None:
            raise StateRefusedError("this proxy parks no calls", "Make the call without a state")
        action_id, until_s = read_state(state, asked)
        if not self._gate.has_begun(self._options.session_id, action_id):
            raise StateRefusedError("the journal does not have the action of the state", "Tell the operator")
        return action_id, until_s

    async def _await_permit(
        self, ctx: Any, registered: str, permit: Callable[..., Awaitable[Permit]]
    ) -> Permit:
        """The permission. If a person must give it, the caller is told meanwhile that the call waits."""
        try:
            return await permit()
        except NeedsHuman as held:
            message = f"{registered} waits for a person: escalation {held.verdict.escalation_id}"
        try:
            async with _keep_telling(ctx, message, self._options.approval_s):
                return await permit(approval_timeout_s=self._options.approval_s)
        except NeedsHuman as held:
            raise NeedsHuman(held.verdict, _CALL_AGAIN) from None

    async def _run(
        self, call: RunningCall, permit: Permit, registered: str, params: CallToolRequestParams
    ) -> CallToolResult:
        """Call the tool, report the outcome, and return what the agent may see of the result."""
        call.action_id = permit.action_id
        try:
            async with self._gate.stop_when_frozen(permit):
                result = await self.upstream.call_tool(
                    params.name,
                    dict(permit.parameters),
                    progress_callback=self._make_progress(call, permit, registered),
                )
        except BaseException as error:
            await asyncio.shield(report_outcome(self._gate, permit, type(error).__name__))
            if isinstance(error, MCPError):
                log.warning("%s ended with error %d of the protocol", registered, error.code)
            if isinstance(error, ActionStopped):
                return make_error_result(error.for_model)
            if isinstance(error, MCPError) and error.code == URL_ELICITATION_REQUIRED:
                return make_error_result(f"{registered}: {_BY_ERROR}")
            if self._judge is None or not isinstance(error, Exception):
                raise
            return await self._judge.read_error(error, permit.action_id, registered)
        permit.result = list_contents(result)
        await report_outcome(self._gate, permit, TOOL_ERROR if result.is_error else None)
        if self._judge is None:
            return result
        return await self._judge.read(result, permit.action_id, registered)

    def _make_progress(self, call: RunningCall, permit: Permit, registered: str) -> ProgressFnT | None:
        """Make the function that passes on the notifications of a call; None if they are dropped."""
        judge = self._judge
        if judge is None:
            passed: ProgressFnT = call.report_progress
            return passed
        if Passed.PROGRESS not in judge.passed:
            return None
        numbers = iter(range(MOST_PROGRESS))

        async def pass_on(progress: float, total: float | None, message: str | None) -> None:
            number = next(numbers, None)
            if number is None:
                return
            if message is not None:
                message = await judge.read_message(
                    message, f"{permit.action_id}-progress-{number}", registered
                )
            await call.report_progress(progress, total, message)

        return pass_on

    async def _hear(self, message: Any) -> None:
        """Note that the list of tools changed."""
        if isinstance(message, ToolListChangedNotification):
            self._changed.set()

    async def _tell_changes(self) -> None:
        """Pass on that the list of tools changed, once in CHANGES_S however often the server says so: to
        clients of an older version, and to those that listen by 2026-07-28."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._changes.publish(ToolsListChanged())
            for name, session in list(self._downstream.items()):
                try:
                    await session.send_tool_list_changed()
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._downstream.pop(name, None)
            await asyncio.sleep(CHANGES_S)

    def _remember(self, ctx: Any) -> None:
        """Keep the connection of a client of an older version, to tell it that the tools changed."""
        name = None if ctx.request is None else ctx.request.headers.get("mcp-session-id")
        self._downstream.pop(name, None)
        self._downstream[name] = ctx.session
        if len(self._downstream) > MOST_LISTENERS:
            del self._downstream[next(iter(self._downstream))]

    async def _listen(self) -> None:
        """Ask a server of 2026-07-28 to say when its tools change; `_hear` gets what it says. Without an
        answer the proxy goes on: it lists the tools again before each call."""
        tools = self.upstream.server_capabilities.tools
        if (
            self.upstream.protocol_version not in MODERN_PROTOCOL_VERSIONS
            or tools is None
            or not tools.list_changed
        ):
            return
        while True:
            try:
                async with self.upstream.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        pass
            except (MCPError, SubscriptionLost, TimeoutError) as error:
                log.warning("%s does not say when its tools change: %s", self._options.server, error)
            await asyncio.sleep(LISTEN_AGAIN_S)

    def _warn(self, unaccepted: frozenset[str]) -> None:
        for key in sorted(unaccepted - self._warned):
            log.warning("%s: %s is new or changed: held back until accepted", self._options.server, key)
        self._warned = unaccepted


async def _keep_trace_alone(ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Of the trace context that a request brings, keep `traceparent`, which has 55 characters of a fixed
    form: the SDK hands it on to the server, and so it would `tracestate` and `baggage`, which hold whatever
    the agent writes and which no gate reads."""
    if ctx.meta:
        ctx = replace(ctx, meta={key: value for key, value in ctx.meta.items() if key not in _UNJUDGED_TRACE})
    return await call_next(ctx)


@asynccontextmanager
async def _keep_telling(ctx: Any, message: str, longest_s: float) -> AsyncIterator[None]:
    """Within the block, tell the caller every PROGRESS_S that the call waits, and which share of the time is
    over."""

    async def tell() -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(PROGRESS_S)
            await ctx.session.report_progress((time.monotonic() - began) / longest_s, 1.0, message)

    await ctx.session.report_progress(0.0, 1.0, message)
    telling = asyncio.create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


class _Parked(Exception):
    """A call waits for a person, and the client gets `answer`."""

    def __init__(self, answer: InputRequiredResult) -> None:
        super().__init__()
        self.answer = answer


def _make_refusal(registered: str, refused: ActionRefused) -> CallToolResult:
    verdict = refused.verdict
    refusal = {
        "verdict": verdict.verdict,
        "gate": verdict.gate,
        "reason": verdict.reason,
        "to_do": refused.to_do,
        "verdict_id": verdict.verdict_id,
        "escalation_id": verdict.escalation_id,
    }
    waits = "" if verdict.escalation_id is None else f" Escalation: {verdict.escalation_id}."
    return make_error_result(f"{registered}: {refused}.{waits} The tool did not run.", refusal)
