"""A gate for the tests of the MCP proxy that need no stream: it answers each tool as a table says."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from sluice.client.answers import NOT_RETURNED, ActionAnswer, ActionNotDecided, Permit, make_refusal
from sluice.client.sender import find_current_traceparent

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager


class ScriptedGate:
    """`verdicts`: by the tool's name in the registry; another tool is allowed, and there is no answer if it
    says "away". It remembers what it was asked
    and what was reported."""

    def __init__(self, **verdicts: str) -> None:
        self.verdicts = {name.replace("__", "."): one for name, one in verdicts.items()}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.sessions: set[str] = set()
        self.traces: list[str | None] = []
        self.finished: list[tuple[str, str | None, Any]] = []

    async def permit(
        self, tool_name: str, parameters: dict[str, Any], *, session_id: str, action_id: str, **_: Any
    ) -> Permit:
        self.asked.append((tool_name, parameters))
        self.sessions.add(session_id)
        self.traces.append(find_current_traceparent())
        said: Any = self.verdicts.get(tool_name, "allowed")
        if said == "away":
            raise ActionNotDecided(action_id, 1.0, None, may_still_come=True)
        record = {"action_id": action_id, "session_id": session_id}
        waits = "gate:escalation:0:7" if said == "needs_human" else None
        answer = ActionAnswer(
            said,
            "v",
            "tier",
            "unregistered_tool",
            "T1",
            waits,
            None,
            (),
            0,
            {},
            record,
        )
        if not answer.allowed:
            raise make_refusal(answer)
        return Permit(answer, parameters)

    def stop_when_frozen(self, _: Permit) -> AbstractAsyncContextManager[None]:
        """Nothing is frozen."""
        return nullcontext()

    async def finish(self, permit: Permit, *, error: str | None = None) -> None:
        result = None if permit.result is NOT_RETURNED else permit.result
        self.finished.append((permit.action_id, error, result))
