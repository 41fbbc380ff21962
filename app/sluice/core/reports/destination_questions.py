"""What the gate `destinations` would have asked while it only observed: counted from the ledger's verdicts.

A bundle that observes with the gate leaves in each verdict what it would have asked. So nothing has to be
decided again: the verdicts are read, and the answers that people gave to the same actions for other reasons.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.actions.destinations import NAME
from sluice.core.foundation.clock import DAY_MS, read_milliseconds

if TYPE_CHECKING:
    from collections.abc import Mapping

VERDICT, RESOLVED = "sluice/verdict/v1", "sluice/escalation_resolved/v1"
_TOOL = "tool/"


@dataclass(slots=True)
class QuestionCount:
    """Of one agent and tool: the actions that the gate looked at, those of them about which it would have
    asked a person (or did), what became of these (`approved` and `denied` by a person who was asked for
    another reason, `blocked` by another gate, `allowed` with nobody asked), and where their values came
    from."""

    judged: int = 0
    asked: int = 0
    approved: int = 0
    denied: int = 0
    blocked: int = 0
    allowed: int = 0
    origins: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class DestinationQuestions:
    """Takes records of verdicts and of escalations' ends, those since `since_ms`."""

    since_ms: int
    counts: dict[tuple[str, str], QuestionCount] = field(default_factory=dict)
    days: set[int] = field(default_factory=set)
    _waiting: dict[str, QuestionCount] = field(default_factory=dict)

    def take_verdict(self, verdict: Mapping[str, Any]) -> None:
        """One verdict by wire names; a duplicate is no action of its own."""
        at_ms = read_milliseconds(verdict["decided_at"])
        detail = _find_detail(verdict)
        if at_ms < self.since_ms or verdict.get("duplicate_of"):
            return
        self.days.add(at_ms // DAY_MS)
        if detail is None or not detail.get("origins"):
            return
        count = self.counts.setdefault(
            (verdict["agent_id"], read_registered_tool(verdict) or ""), QuestionCount()
        )
        count.judged += 1
        if not _would_ask(verdict, detail):
            return
        count.asked += 1
        count.origins.update(value["origin"] for value in detail.get("values") or ())
        if verdict["escalationId"] is not None:
            self._waiting[verdict["escalationId"]] = count
        elif verdict["outcome"] == "BLOCK":
            count.blocked += 1
        else:
            count.allowed += 1

    def take_end(self, ended: Mapping[str, Any]) -> None:
        """How a person's answer ended an escalation."""
        count = self._waiting.pop(ended["escalation_id"], None)
        if count is not None:
            count.approved += ended["decision"] == "approve"
            count.denied += ended["decision"] == "deny"

    def count_a_day(self, count: QuestionCount) -> float:
        """Questions a day, over the days that have verdicts."""
        return count.asked / max(1, len(self.days))


def _find_detail(verdict: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((result["detail"] for result in verdict["gateResults"] if result["gate"] == NAME), None)


def _would_ask(verdict: Mapping[str, Any], detail: Mapping[str, Any]) -> bool:
    asked = any(result["gate"] == NAME and not result["passed"] for result in verdict["gateResults"])
    return asked or detail.get("would") is not None


def read_registered_tool(verdict: Mapping[str, Any]) -> str | None:
    """The tool of a verdict that rests on the tool's entry; None for a tool without one."""
    names = (key for key in verdict["registry_hashes"] if key.startswith(_TOOL))
    return next((key.removeprefix(_TOOL).rpartition("@")[0] for key in names), None)
