"""A framework's tool calls behind the gate: what every adapter does with one, whatever the framework."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import heapq
import json
import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.client.answers import ClientError
from sluice.client.guarded_calls import name_error, resolve_session_id
from sluice.client.json_values import copy_faithfully

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from sluice.client.answers import ActionAnswer, Permit
    from sluice.client.async_client import AsyncGateClient

logger = logging.getLogger(__name__)


class ToolCall(NamedTuple):
    """A call as the framework is about to make it. `call_id`: the framework's own, the same when a run is
    resumed. `agent`: the name by which the framework knows the agent that calls, if it tells."""

    tool_name: str
    parameters: Mapping[str, Any]
    call_id: str
    agent: str | None = None


@dataclass(frozen=True)
class ToolCallGate:
    """The gate before the tool calls of a framework's agents.

    `session_id` None: that of `in_session`. `approval_timeout_s`: how long a resumed call, or one in a
    framework that cannot park it, waits for the end of its escalation. `delegates`: the client of each
    sub-agent that is registered, by the name that the framework has for it; its calls are proposed as those
    of a delegate of `client`'s agent, and every other agent's as `client`'s own. `describe`: more fields of a
    call's record from the tool's name and parameters, such as `rows_affected`; the same for the same call.
    `accept_narrowed`: run with the parameters by which an approver replaced the proposed ones.
    """

    client: AsyncGateClient
    session_id: str | None = None
    approval_timeout_s: float = 10.0
    delegates: Mapping[str, AsyncGateClient] = field(default_factory=dict)
    describe: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] | None = None
    accept_narrowed: bool = False
    _running: dict[tuple[str, str], tuple[AsyncGateClient, Permit]] = field(init=False, default_factory=dict)

    async def await_verdict(self, call: ToolCall, *, wait: bool = False) -> ActionAnswer:
        """Whether the call may run, before anything runs. `wait`: also for a person, `approval_timeout_s`.
        Raises what `AsyncGateClient.await_verdict` raises."""
        client, arguments = self._read(call, wait=wait)
        return await client.await_verdict(**arguments)

    async def run(
        self,
        call: ToolCall,
        work: Callable[[dict[str, Any]], Awaitable[Any]],
        refuse: Callable[[ClientError], Any],
        *,
        wait: bool = False,
    ) -> Any:
        """Run `work` with the parameters that were judged, and report the outcome; without permission
        return what `refuse` makes of the reason. `wait`: as above. Raises what `work` and the report raise.
        """
        try:
            parameters = await self.start(call, wait=wait)
        except ClientError as error:
            return refuse(error)
        try:
            async with self._stop_when_frozen(call):
                result = await work(parameters)
        except BaseException as error:
            await asyncio.shield(self.finish(call.call_id, error=error))
            raise
        await asyncio.shield(self.finish(call.call_id, result))
        return result

    async def start(self, call: ToolCall, *, wait: bool = False) -> dict[str, Any]:
        """Take the permission to run the call once, for a framework that runs the tool itself: the parameters
        to run it with. `finish` must follow. Raises what `AsyncGateClient.permit` raises."""
        client, arguments = self._read(call, wait=wait)
        permit = await client.permit(**arguments, accept_narrowed=self.accept_narrowed)
        self._running[permit.session_id, call.call_id] = client, permit
        return dict(permit.parameters)

    async def finish(
        self, call_id: str, result: Any = None, error: BaseException | str | None = None
    ) -> None:
        """Report the outcome of a call that `start` let run; nothing for one that it did not, and once."""
        started = self._running.pop((resolve_session_id(self.session_id), call_id), None)
        if started is not None:
            client, permit = started
            if error is None:
                permit.result = result
            await client.finish(
                permit, error=name_error(error) if isinstance(error, BaseException) else error
            )

    def _stop_when_frozen(self, call: ToolCall) -> AbstractAsyncContextManager[None]:
        client, permit = self._running[resolve_session_id(self.session_id), call.call_id]
        return client.stop_when_frozen(permit)

    def _read(self, call: ToolCall, *, wait: bool) -> tuple[AsyncGateClient, dict[str, Any]]:
        """The client that asks, and what it asks."""
        client = self.delegates.get(call.agent or "", self.client)
        parameters = copy_faithfully(dict(call.parameters), call.tool_name)
        more = {} if self.describe is None else dict(self.describe(call.tool_name, parameters))
        if client is not self.client:
            root = {
                "rootAgentId": self.client.agent_id,
                "parentAgentId": self.client.agent_id,
                "chainDepth": 1,
            }
            more["governanceContext"] = {**root, **more.get("governanceContext", {})}
        return client, {
            **more,
            "tool_name": call.tool_name,
            "parameters": parameters,
            "session_id": resolve_session_id(self.session_id),
            "action_id": name_action(call.call_id, call.tool_name, parameters),
            "approval_timeout_s": self.approval_timeout_s if wait else None,
        }


class EqualCalls:
    """The ids of calls in a framework that gives none: equal calls of a session are numbered. Any thread may
    name one."""

    def __init__(self) -> None:
        self._free: dict[str, list[int]] = {}
        self._lock = threading.Lock()

    def name(
        self, session_id: str, tool_name: str, parameters: Mapping[str, Any]
    ) -> tuple[str, Callable[[], None]]:
        """The id with the lowest number that is free, and what frees it again, for a call that is to be asked
        about once more."""
        equal = name_action(session_id, tool_name, parameters)
        with self._lock:
            free = self._free.setdefault(equal, [0])
            number = heapq.heappop(free)
            if not free:
                free.append(number + 1)

        def give_back() -> None:
            with self._lock:
                heapq.heappush(free, number)

        return name_action(f"{session_id}/{number}", tool_name, parameters), give_back


def name_action(call_id: str | None, tool_name: str, parameters: Mapping[str, Any]) -> str:
    """The action id of a call: the same when a run is resumed, and another one where a model gives an id to
    a second call. Raises ClientError for a call without an id, since nothing tells a repeat of it from
    another call."""
    if not call_id:
        raise ClientError("the framework gives the tool call no id", "Use a model adapter that gives ids")
    described = json.dumps([call_id, tool_name, parameters], sort_keys=True)
    return f"tool-call-{hashlib.sha256(described.encode()).hexdigest()}"


def read_arguments(text: str | None) -> dict[str, Any]:
    """The arguments that a model wrote as JSON; none at all are an empty table. Raises ClientError."""
    try:
        read = json.loads(text) if text and text.strip() else {}
    except ValueError as error:
        raise ClientError("the arguments are no JSON", "Call the tool with a JSON object") from error
    if not isinstance(read, dict):
        raise ClientError("the arguments are no JSON object", "Call the tool with a JSON object")
    return read


def reveal(value: Any) -> Any:
    """What a tool gets, as JSON, where a framework has validated it into objects: every field of a model, by
    its name in JSON, also one that its own JSON leaves out or writes in another way. Raises ClientError for a
    secret (`SecretStr`), which would be judged as asterisks."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - the frameworks that need this have it

    if hasattr(value, "get_secret_value"):
        raise ClientError("an argument is a secret that the gate cannot read", "Declare it as a plain text")
    if isinstance(value, dict):
        return {to_jsonable_python(key): reveal(member) for key, member in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [reveal(item) for item in value]
    kind = type(value)
    fields = getattr(kind, "__pydantic_fields__", None) or getattr(kind, "__dataclass_fields__", None)
    if not fields:
        return to_jsonable_python(value)
    shown = {
        getattr(field, "serialization_alias", None) or name: reveal(getattr(value, name))
        for name, field in fields.items()
    }
    if getattr(kind, "__pydantic_root_model__", False):
        return shown["root"]
    written, more = to_jsonable_python(value), getattr(value, "__pydantic_extra__", None)
    return {**(written if isinstance(written, dict) else {}), **shown, **reveal(more or {})}


def warn_of_hosted(names: Iterable[object]) -> None:
    """Say in the log, once, which tools run where no call of theirs can be intercepted."""
    _warn_of_hosted(", ".join(sorted(map(str, names))))


@functools.cache
def _warn_of_hosted(names: str) -> None:
    if names:
        logger.warning("the model's provider runs these tools, and the gate sees no call: %s", names)
