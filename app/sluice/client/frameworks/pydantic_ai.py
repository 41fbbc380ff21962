"""Pydantic AI: a capability that asks the gate before a tool is executed, and defers held calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed

from sluice.client.answers import ClientError, NeedsHuman
from sluice.client.frameworks.tool_calls import ToolCall, ToolCallGate, reveal, warn_of_hosted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.tools import ToolDefinition


class GateCapability(AbstractCapability[Any]):
    """Every function tool of the agent, and of its toolsets and MCP servers, runs only if the gate allows the
    call with its validated arguments. `Agent(…, capabilities=[GateCapability(gate)])`.

    A held call raises ApprovalRequired, so give the agent `DeferredToolRequests` among its output types; the
    program resumes with `DeferredToolResults`, and the gate is asked again: what it says counts, whatever the
    program has approved. A refused call gives the model the reason, as a failed result.
    """

    def __init__(self, gate: ToolCallGate) -> None:
        self._gate = gate

    def get_ordering(self) -> CapabilityOrdering:
        """The innermost, so that no other capability changes what was judged."""
        return CapabilityOrdering(position="innermost")

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        """Warn once of tools that the model's provider runs."""
        warn_of_hosted(tool.kind for tool in request_context.model_request_parameters.native_tools)
        return request_context

    async def before_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: ToolDefinition, args: dict[str, Any]
    ) -> dict[str, Any]:
        """The arguments that were judged. Raises ApprovalRequired for a held call, and ToolFailed with the
        reason for a refused one."""
        try:
            plain = reveal(args)
            asked = ToolCall(tool_def.name, plain, call.tool_call_id, getattr(ctx.agent, "name", None))
            judged = await self._gate.start(asked, wait=ctx.tool_call_approved)
            return await self._choose(call.tool_call_id, args, judged, same=plain == args)
        except NeedsHuman as held:
            if held.verdict.escalation_id is None:
                raise ToolFailed(held.for_model) from held
            raise ApprovalRequired({"escalation_id": held.verdict.escalation_id}) from held
        except ClientError as error:
            raise ToolFailed(error.for_model) from error

    async def after_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        result: Any,
    ) -> Any:
        """Report what the tool returned."""
        await self._gate.finish(call.tool_call_id, result)
        return result

    async def on_tool_execute_error(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        error: Exception,
    ) -> Any:
        """Report the class of what the tool raised, before another capability recovers from it."""
        await self._gate.finish(call.tool_call_id, error=error)
        raise error

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Report how a tool ended of which the other hooks do not hear: cancelled, or with a retry."""
        try:
            return await handler(args)
        except BaseException as error:
            await asyncio.shield(self._gate.finish(call.tool_call_id, error=error.__cause__ or error))
            raise

    async def _choose(
        self, call_id: str, args: dict[str, Any], judged: dict[str, Any], *, same: bool
    ) -> dict[str, Any]:
        """What was judged; of arguments that JSON does not keep (a date, a model) the validated ones, as long
        as they are those still that were judged. Raises ClientError."""
        if same:
            return judged
        if reveal(args) != judged:
            await self._gate.finish(call_id, error="ArgumentsChanged")
            raise ClientError("the arguments are no longer those that were judged", "Call the tool once more")
        return args
