"""AGENT-HOOKS 0.1 (`agent-hooks-sdk`): one interceptor for each host of it, Agent Framework among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent_hooks import ApprovalOutcome, ApprovalResolution, Decision, Transform, Verdict

from sluice.client.answers import ClientError, NeedsHuman
from sluice.client.frameworks.tool_calls import ToolCall, ToolCallGate
from sluice.client.guarded_calls import in_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent_hooks.approval import ApprovalRequest


class GateInterceptor:
    """Asks the gate at `pre_tool_call`, and reports the outcome at `post_tool_call`. It allows every other
    point.

    Register it last, in a sequential profile, so that no other interceptor changes or denies what the gate
    has allowed, and with `mode="enforce"`: in evaluate_only the host runs every tool. The emitter's `timeout`
    must be longer than the client's `deadline_s`. A held call is a deny that `resolver=` may lift: give the
    same object there. The session is the gate's, else the host's own.
    """

    def __init__(self, gate: ToolCallGate) -> None:
        self._gate = gate

    async def intercept(self, context: Mapping[str, Any], /) -> Verdict:
        """The verdict at a point. An error that is not the client's own is raised: the host denies then."""
        point = context["interception_point"]
        if point == "pre_tool_call":
            try:
                return await self._start(context, wait=False)
            except NeedsHuman as held:
                approval = {"escalation_id": held.verdict.escalation_id}
                return Verdict(
                    Decision.DENY,
                    "sluice:needs_human",
                    held.for_model,
                    approval=approval if held.verdict.escalation_id else None,
                )
            except ClientError as error:
                return _deny(error)
        if point == "post_tool_call":
            await self._report(context)
        return Verdict.allow()

    async def resolve(self, request: ApprovalRequest, /) -> ApprovalResolution:
        """What the gate's approver says within `approval_timeout_s`; nobody else lifts a deny. Without an
        answer it is a deny too, since a host ends the run where a resolver leaves it open."""
        try:
            verdict = await self._start(request.context, wait=True)
        except ClientError as error:
            return ApprovalResolution(ApprovalOutcome.REJECT, request.context_identity, _deny(error))
        return ApprovalResolution(ApprovalOutcome.APPROVE, request.context_identity, verdict)

    async def _start(self, context: Mapping[str, Any], *, wait: bool) -> Verdict:
        called, agent = context["tool_call"], context["agent"]
        call = ToolCall(called["name"], called["args"], called["id"], agent.get("name") or agent["id"])
        with in_session(self._gate.session_id or context["session"]["id"]):
            judged = await self._gate.start(call, wait=wait)
        if judged == called["args"]:
            return Verdict.allow()
        return Verdict(Decision.TRANSFORM, "sluice:narrowed", transform=Transform("$target", judged))

    async def _report(self, context: Mapping[str, Any]) -> None:
        called, ended = context["tool_call"], context["tool_result"]
        value = ended["value"]
        with in_session(self._gate.session_id or context["session"]["id"]):
            if not ended.get("is_error"):
                await self._gate.finish(called["id"], value)
            else:  # a host may give the class of the error, or a text with content
                is_class = isinstance(value, str) and value.isidentifier()
                await self._gate.finish(called["id"], error=value if is_class else "ToolError")


def _deny(error: ClientError) -> Verdict:
    return Verdict.deny(reason=f"sluice:{type(error).__name__}", message=error.for_model)
