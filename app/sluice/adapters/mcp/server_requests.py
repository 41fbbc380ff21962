"""What a server asks of the agent's client while a call runs: elicitation and sampling, through the gate.

Each request is an action of its own, `SERVER.elicitation/create` or `SERVER.sampling/createMessage`, with the
request's fields as parameters. What the gate allows is passed on exactly as it was judged, and the client's
answer goes back to the server; for everything else the server gets a refusal without a reason. A client of an
older version is sent the request. A client of 2026-07-28 gets it in place of the call's result, and makes the
call again with the answer, while the call goes on here.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from contextlib import nullcontext
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    ErrorData,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sluice.adapters.mcp.pins import compute_digest
from sluice.adapters.mcp.proxy_file import ServerRequest
from sluice.adapters.mcp.results import GATE_AWAY, make_error_result, report_outcome
from sluice.client.answers import ActionDenied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_types import CallToolRequestParams

    from sluice.adapters.mcp.proxy_file import ProxyOptions
    from sluice.client import AsyncGateClient, Permit

log = logging.getLogger(__name__)
MOST_REQUESTS = 10
"""Of one call."""
MOST_REQUEST_BYTES, MOST_ANSWER_BYTES = 64 * 1024, 256 * 1024
"""The longest request of a server and the longest answer of a client, as JSON."""
MOST_HELD = 64
"""Calls whose clients of 2026-07-28 were asked, at one time."""
_HELD = "call:"
_CALL: ContextVar[RunningCall | None] = ContextVar("mcp_call", default=None)
_ANSWERS: dict[str, Any] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
}
_NOT_JUDGED = {"meta", "task"}
_REFUSAL = ErrorData(code=-1, message="the server's request to the client was refused")
_ENDED = "the state is of another call, or of one that has ended; look at what the tool has done"


class RequestRefusedError(Exception):
    """A request is not passed on, or has no answer; the message, for the log, says why."""

    def __init__(self, message: str, *, is_denied: bool = False) -> None:
        super().__init__(message)
        self.is_denied = is_denied


class RunningCall:
    """A call of the agent's, and how its client is asked while the call runs.

    `ctx`: of the client's request that waits for the call; None: the client was asked and has not come back.
    `action_id`: of the call. `context`: the variables, with the trace, of the request that began it.
    """

    def __init__(self, ctx: Any, params: CallToolRequestParams) -> None:
        self.ctx: Any = ctx
        self.action_id = ""
        self.context = copy_context()
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.capabilities: Any = ctx.session.client_capabilities
        self.digest = _compute_digest(params)
        self.state = f"{_HELD}{uuid.uuid4().hex}"
        self.asking: set[asyncio.Task[Any]] = set()
        self._asked = 0
        self._waiting: dict[str, tuple[Any, asyncio.Future[Any]]] = {}
        self._sent: tuple[str, ...] = ()
        self._changed = asyncio.Event()

    async def report_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell the client, if it waits."""
        if self.ctx is not None:
            await self.ctx.session.report_progress(progress, total, message)

    def name_request(self) -> str:
        """A name for the next request. Raises RequestRefusedError after MOST_REQUESTS."""
        self._asked += 1
        if self._asked > MOST_REQUESTS:
            raise RequestRefusedError(f"more than {MOST_REQUESTS} requests in one call")
        return f"request-{self._asked}"

    async def ask(self, name: str, request: Any, longest_s: float) -> Any:
        """The client's answer. Raises RequestRefusedError if there is none."""
        kind = _ANSWERS[request.method]
        try:
            async with asyncio.timeout(longest_s):
                answer = await (self._hold(name, request) if self.is_modern else self._send(request, kind))
        except TimeoutError:
            raise RequestRefusedError(f"the client has not answered within {longest_s:g} s") from None
        except (MCPError, ValidationError) as error:
            raise RequestRefusedError(f"the client does not answer: {type(error).__name__}") from None
        if not isinstance(answer, kind):
            raise RequestRefusedError("the client gave no answer to this request")
        if len(answer.model_dump_json(by_alias=True)) > MOST_ANSWER_BYTES:
            raise RequestRefusedError(f"an answer of more than {MOST_ANSWER_BYTES} bytes")
        return answer

    async def wait(self, task: asyncio.Task[Any]) -> Any:
        """The result of the call, or what its client is asked first."""
        while not task.done():
            opened = {name: request for name, (request, answer) in self._waiting.items() if not answer.done()}
            if opened:
                self._sent, self.ctx = tuple(opened), None
                return InputRequiredResult(input_requests=opened, request_state=self.state)
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((task, changed), return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError:
                task.cancel()
                raise
            finally:
                changed.cancel()
        return task.result()

    def take_answers(self, ctx: Any, answers: dict[str, Any]) -> None:
        """The client is back. What it was asked and leaves out has no answer."""
        self.ctx = ctx
        for name in self._sent:
            _, answer = self._waiting.get(name, (None, None))
            if answer is not None and not answer.done():
                answer.set_result(answers.get(name))
        self._sent = ()

    def end(self) -> None:
        """Nobody is asked any more."""
        for task in self.asking:
            task.cancel()

    async def _hold(self, name: str, request: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[name] = request, answer
        self._changed.set()
        try:
            return await answer
        finally:
            del self._waiting[name]

    async def _send(self, request: Any, kind: type[Any]) -> Any:
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        return await self.ctx.session.send_request(request, kind, metadata=related)


class ServerRequests:
    """Puts the requests of one server through the gate, and passes on what it allows."""

    def __init__(self, gate: AsyncGateClient, options: ProxyOptions) -> None:
        self._gate = gate
        self._options = options
        self._held: dict[str, tuple[RunningCall, asyncio.Task[Any]]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turn = asyncio.Lock()
        self._in_turn: RunningCall | None = None

    def list_callbacks(self) -> dict[str, Any]:
        """Arguments of the SDK's client: it declares to the server what has a callback, and nothing else."""
        every = {
            ServerRequest.ELICITATION: ("elicitation_callback", self._answer_elicitation),
            ServerRequest.SAMPLING: ("sampling_callback", self._answer_sampling),
        }
        return dict(every[kind] for kind in self._options.server_requests)

    async def run(
        self, call: RunningCall, put_through: Callable[[], Awaitable[Any]], *, in_turn: bool
    ) -> Any:
        """Run a call to its result, or until its client must be asked. `in_turn`: after every other one,
        because the server's requests do not name the call that they belong to."""
        if not self._options.server_requests:
            return await put_through()
        if not call.is_modern:
            return await self._attend(call, put_through, in_turn=in_turn)
        task = asyncio.create_task(self._attend(call, put_through, in_turn=in_turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await self._wait(call, task)

    async def go_on(self, ctx: Any, params: CallToolRequestParams) -> Any:
        """A client came back with what it was asked in a call; return what `run` returns."""
        call, task = self._held.get(params.request_state or "", (None, None))
        if call is None or task is None or call.ctx is not None or call.digest != _compute_digest(params):
            return make_error_result(f"{self._options.name_registered(params.name)}: {_ENDED}")
        call.take_answers(ctx, params.input_responses or {})
        return await self._wait(call, task)

    async def close(self) -> None:
        """End the calls that run; their outcomes are reported."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(self, call: RunningCall, task: asyncio.Task[Any]) -> Any:
        """As `RunningCall.wait`. A client that comes back when the call has ended still gets the result."""
        result = await call.wait(task)
        if call.ctx is not None:
            self._held.pop(call.state, None)
        elif call.state not in self._held:
            self._held[call.state] = call, task
            task.add_done_callback(partial(self._forget_later, call))
        return result

    def _forget_later(self, call: RunningCall, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # of a call whose client has not come back nobody else reads it
        asyncio.get_running_loop().call_later(self._options.answer_s, self._held.pop, call.state, None)

    async def _attend(
        self, call: RunningCall, put_through: Callable[[], Awaitable[Any]], *, in_turn: bool
    ) -> Any:
        async with self._turn if in_turn else nullcontext():
            token = _CALL.set(call)
            if in_turn:
                self._in_turn = call
            try:
                return await put_through()
            finally:
                self._in_turn = None
                call.end()
                _CALL.reset(token)

    async def _answer_elicitation(self, _: Any, params: Any) -> ElicitResult:
        try:
            answer: ElicitResult = await self._answer(ElicitRequest(params=params))
        except RequestRefusedError as refused:
            log.warning("an elicitation by %s is refused: %s", self._options.server, refused)
            return ElicitResult(action="decline" if refused.is_denied else "cancel")
        return answer

    async def _answer_sampling(self, _: Any, params: Any) -> CreateMessageResult | ErrorData:
        try:
            answer: CreateMessageResult = await self._answer(CreateMessageRequest(params=params))
        except RequestRefusedError as refused:
            log.warning("a sampling by %s is refused: %s", self._options.server, refused)
            return _REFUSAL
        return answer

    async def _answer(self, request: Any) -> Any:
        """The answer of the client of the call to which a request belongs. Raises RequestRefusedError."""
        call = _CALL.get() or self._in_turn
        if call is None or not call.action_id:
            raise RequestRefusedError("the server asks while no call runs that the gate has allowed")
        asking = asyncio.create_task(self._pass_on(call, request), context=call.context)
        call.asking.add(asking)
        asking.add_done_callback(call.asking.discard)
        try:
            await asyncio.wait((asking,))
        finally:
            asking.cancel()
        if asking.cancelled():
            raise RequestRefusedError("the call has ended")
        return asking.result()

    async def _pass_on(self, call: RunningCall, request: Any) -> Any:
        """Put a request through the gate, ask the client, and report the outcome."""
        registered = self._options.name_request(request.method)
        name = call.name_request()
        fields = request.params.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_NOT_JUDGED)
        if len(json.dumps(fields)) > MOST_REQUEST_BYTES:
            raise RequestRefusedError(f"a request of more than {MOST_REQUEST_BYTES} bytes")
        if call.is_modern and call.state not in self._held and len(self._held) >= MOST_HELD:
            raise RequestRefusedError(f"{MOST_HELD} calls wait for answers of clients")
        if (objection := _find_objection(request, call.capabilities)) is not None:
            raise RequestRefusedError(objection)
        permit = await self._permit(registered, fields, f"{call.action_id}-{name}")
        try:
            judged = type(request).model_validate({"params": permit.parameters})
            answer = await call.ask(name, judged, self._options.answer_s)
        except BaseException as error:
            await asyncio.shield(report_outcome(self._gate, permit, type(error).__name__))
            raise
        permit.result = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
        await report_outcome(self._gate, permit, None)
        return answer

    async def _permit(self, registered: str, fields: dict[str, Any], action_id: str) -> Permit:
        """The permission to pass a request on. If a person must give it, the call waits, as long as a call
        itself would. Raises RequestRefusedError."""
        try:
            return await self._gate.permit(
                registered,
                fields,
                session_id=self._options.session_id,
                action_id=action_id,
                approval_timeout_s=self._options.approval_s,
                mandate=self._options.mandate,
            )
        except GATE_AWAY as error:
            raise RequestRefusedError(str(error), is_denied=isinstance(error, ActionDenied)) from None


def is_held(params: CallToolRequestParams) -> bool:
    """Whether a call is made again with an answer to what was asked in it."""
    return (params.request_state or "").startswith(_HELD)


def _compute_digest(params: CallToolRequestParams) -> str:
    return compute_digest([params.name, params.arguments or {}])


def _find_objection(request: Any, declared: Any) -> str | None:
    """Why a request cannot be passed on, whatever the gate says: the client does not support it, the gate
    could not read it, or it asks for more than the proxy declares to the server."""
    params = request.params
    if isinstance(request, ElicitRequest):
        modes = None if declared is None else declared.elicitation
        if modes is None:
            return "the agent's client supports no elicitation"
        supported = modes.url is not None if params.mode == "url" else modes.form or modes.url is None
        return None if supported else f"the agent's client supports no elicitation by {params.mode}"
    if declared is None or declared.sampling is None:
        return "the agent's client supports no sampling"
    if params.tools or params.tool_choice or params.include_context not in (None, "none"):
        return "tools and context of other servers are not passed on"
    if not all(
        isinstance(block, TextContent) for message in params.messages for block in message.content_as_list
    ):
        return "what is no text is not passed on, because no gate reads it"
    return None
