"""Google ADK: a plugin that asks the gate before each tool call, and parks a held one as a confirmation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.plugins.base_plugin import BasePlugin

from sluice.client.answers import ClientError, NeedsHuman
from sluice.client.frameworks.tool_calls import ToolCall, ToolCallGate, warn_of_hosted
from sluice.client.guarded_calls import in_session

if TYPE_CHECKING:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.models import LlmRequest
    from google.adk.tools import BaseTool, ToolContext

FUNCTIONS = "function_declarations"


class GatePlugin(BasePlugin):
    """Every tool call of the runner's agents, a transfer to another agent too, runs only if the gate allows
    it. It must be the first of the runner's plugins: the first that answers wins, and the others are not
    asked. The session is the gate's, else that of ADK.

    A held call asks for ADK's confirmation. Answer it once the approver has answered: the gate is asked again
    and waits `approval_timeout_s`, and what it says counts; a refusal by the program stays one. A tool must
    not ask for a confirmation of its own, and no later callback may change its arguments.
    """

    def __init__(self, gate: ToolCallGate) -> None:
        super().__init__(name="sluice")
        self._gate = gate

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        """Warn once of tools that the model's provider runs."""
        offered = [field for tool in llm_request.config.tools or () for field in tool]
        warn_of_hosted({name for name, value in offered if value is not None} - {FUNCTIONS})

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """None if the tool may run, with the arguments that were judged; else the reason, for the model. Any
        other error ends the run."""
        call_id, confirmation = tool_context.function_call_id or "", tool_context.tool_confirmation
        if confirmation is not None and not confirmation.confirmed:
            return {"error": "The call was rejected. The tool did not run."}
        try:
            call = ToolCall(tool.name, tool_args, call_id, tool_context.agent_name)
            with in_session(self._gate.session_id or tool_context.session.id):
                judged = await self._gate.start(call, wait=confirmation is not None)
        except ClientError as error:
            if isinstance(error, NeedsHuman) and error.verdict.escalation_id is not None:
                payload = {"escalation_id": error.verdict.escalation_id}
                tool_context.request_confirmation(hint=error.message, payload=payload)
                tool_context.actions.skip_summarization = True
            return {"error": error.for_model}
        tool_args.clear()
        tool_args.update(judged)
        return None

    async def after_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, result: Any
    ) -> None:
        """Report what the tool returned."""
        with in_session(self._gate.session_id or tool_context.session.id):
            await self._gate.finish(tool_context.function_call_id or "", result)

    async def on_tool_error_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext, error: BaseException
    ) -> None:
        """Report the class of what the tool raised; also that it was cancelled."""
        with in_session(self._gate.session_id or tool_context.session.id):
            await self._gate.finish(tool_context.function_call_id or "", error=error)
