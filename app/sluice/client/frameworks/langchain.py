"""Tools of a LangChain agent behind the gate: middleware for `create_agent`, which runs on LangGraph.

An escalation parks the graph by `interrupt()`. The gate's records say what the approver decided, never the
value with which the graph is resumed.
"""

from __future__ import annotations

import json
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.types import interrupt
from pydantic import BaseModel, ValidationError

from sluice.client.answers import ClientError, NeedsHuman
from sluice.client.async_client import AsyncGateClient
from sluice.client.frameworks.tool_calls import name_action, warn_of_hosted
from sluice.client.guarded_calls import resolve_session_id
from sluice.client.sync_client import GateClient

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from langgraph.prebuilt.tool_node import ToolCallRequest

    from sluice.client.answers import Permit

RESUME_WAIT_S = 10.0


class _JudgedCall(NamedTuple):
    """A tool call as the gate judges it: `fields` are arguments of `action`."""

    name: str
    parameters: dict[str, Any]
    fields: dict[str, Any]


class GateMiddleware(AgentMiddleware):
    """Every tool call of the agent asks the gate first. Put it last among the middleware, so that nothing
    changes or repeats a call after it was judged.

    The thread of the graph's configuration is the session (without one, that of `in_session`), and the id of
    the tool call gives the action's id, so that a node that runs again asks about the same action. A call
    that may not run gives the model a ToolMessage that says why. Give the client a journal in a file where
    the checkpointer is on disk.
    """

    def __init__(
        self,
        gate: AsyncGateClient | GateClient,
        *,
        rows_before: Mapping[str, Callable[..., int]] | None = None,
        resume_wait_s: float = RESUME_WAIT_S,
    ) -> None:
        """`gate`: an AsyncGateClient for `ainvoke` and `astream`, a GateClient for `invoke` and `stream`.
        `rows_before`: by tool, the rows that a call with these arguments will touch. `resume_wait_s`: how
        long a resumed graph looks for the approver's answer before it parks again."""
        super().__init__()
        self._gate = gate
        self._rows_before = rows_before or {}
        self._resume_wait_s = resume_wait_s

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Run the tool if the gate allows the call; park the graph while a person must agree."""
        if not isinstance(self._gate, AsyncGateClient):
            raise ClientError(
                "GateMiddleware has a GateClient", "Give it an AsyncGateClient, or use `invoke`"
            )
        wait_s = None
        while True:
            async with AsyncExitStack() as reported:
                try:
                    call = self._judge(request)
                    action = self._gate.action(
                        call.name, call.parameters, approval_timeout_s=wait_s, **call.fields
                    )
                    permit = await reported.enter_async_context(action)
                except NeedsHuman as waits:
                    wait_s = self._park(call, waits)
                    continue
                except ClientError as error:
                    return _refuse(request, error)
                return _keep_result(permit, await handler(_make_request(request, permit)))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """The same without an event loop."""
        if not isinstance(self._gate, GateClient):
            raise ClientError(
                "GateMiddleware has an AsyncGateClient", "Give it a GateClient, or use `ainvoke`"
            )
        wait_s = None
        while True:
            with ExitStack() as reported:
                try:
                    call = self._judge(request)
                    action = self._gate.action(
                        call.name, call.parameters, approval_timeout_s=wait_s, **call.fields
                    )
                    permit = reported.enter_context(action)
                except NeedsHuman as waits:
                    wait_s = self._park(call, waits)
                    continue
                except ClientError as error:
                    return _refuse(request, error)
                return _keep_result(permit, handler(_make_request(request, permit)))

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Warn of tools that the model's provider runs: no call of theirs passes here."""
        _warn(request)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same."""
        _warn(request)
        return await handler(request)

    def _judge(self, request: ToolCallRequest) -> _JudgedCall:
        """The call with the arguments with which its tool will run: coerced, and with the defaults. Raises
        ClientError for arguments that the tool does not take, and without a session."""
        called, configured = request.tool_call, request.runtime.config.get("configurable", {})
        session, name = resolve_session_id(configured.get("thread_id")), called["name"]
        parameters = _complete(request)
        fields: dict[str, Any] = {"session_id": session}
        fields["action_id"] = name_action(called["id"], name, parameters)
        if name in self._rows_before:
            fields["rows_affected"] = self._rows_before[name](**parameters)
        return _JudgedCall(name, parameters, fields)

    def _park(self, call: _JudgedCall, waits: NeedsHuman) -> float:
        """End the run until it is resumed; how long to look for the answer then. The next run of the node
        returns here, since it asks about the same action."""
        question = {"tool": call.name, "parameters": call.parameters, "reason": waits.verdict.reason}
        ids = {"escalation_id": waits.verdict.escalation_id, "action_id": call.fields["action_id"]}
        interrupt({**question, **ids})
        return self._resume_wait_s


def _warn(request: Any) -> None:
    warn_of_hosted(tool.get("type") or tool.get("name") for tool in request.tools if isinstance(tool, dict))


def _complete(request: ToolCallRequest) -> dict[str, Any]:
    arguments = request.tool_call["args"]
    if aliased := _list_aliased(request.tool):
        problem = f"{request.tool_call['name']}: the tool reads {', '.join(aliased)} under another name"
        raise ClientError(problem, "Give its schema `validate_by_name`, or no alias")
    schema = None if request.tool is None else request.tool.tool_call_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return dict(arguments)
    try:
        read = schema.model_validate(arguments).model_dump(mode="json")
        again = schema.model_validate(read).model_dump(mode="json")
    except ValidationError as error:
        raise ClientError(f"{request.tool_call['name']}: {error}", "Call it with what it takes") from None
    if json.dumps(again) != json.dumps(read):
        problem = f"{request.tool_call['name']}: the tool would read what was judged as something else"
        raise ClientError(problem, "Give the models in its schema `validate_by_name`, or no aliases")
    return read


def _list_aliased(tool: Any) -> list[str]:
    """The arguments that the tool does not read under their own names: it would take their defaults in place
    of what was judged."""
    schema = getattr(tool, "args_schema", None)
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return []
    config = schema.model_config
    if config.get("populate_by_name") or config.get("validate_by_name"):
        return []
    return [name for name, field in schema.model_fields.items() if field.validation_alias not in (None, name)]


def _make_request(request: ToolCallRequest, permit: Permit) -> ToolCallRequest:
    called: Any = {**request.tool_call, "args": dict(permit.parameters)}
    return request.override(tool_call=called)


def _keep_result(permit: Permit, result: Any) -> Any:
    permit.result = getattr(result, "content", None)
    return result


def _refuse(request: ToolCallRequest, error: ClientError) -> ToolMessage:
    called = request.tool_call
    return ToolMessage(error.for_model, name=called["name"], tool_call_id=called["id"], status="error")
