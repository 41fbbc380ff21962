"""How a gate of a verdict is marked for people: by sign and words, so that no colour is needed.

A gate that let an action pass did one of three things: it judged and had no objection; it had one that its
mode in the bundle lets pass; or it did not judge at all, because it is off, the action does not concern it,
or nobody answered. The verdict's record tells them apart by the gate's detail.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sluice.core.actions.pipeline import BUDGET_EXCEEDED
from sluice.core.actions.stage import ContentGate
from sluice.core.actions.stages import GATES
from sluice.core.policy.bundles import never_asks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_WOULD = {"block": "would have denied", "escalate": "would have asked a person"}


class GateMark(NamedTuple):
    """`state`: "passed", "failed", "observed" (an objection that holds nothing up) or "idle" (it did not
    judge)."""

    state: Literal["passed", "failed", "observed", "idle"]
    words: str

    @property
    def sign(self) -> str:
        """One character, each of another form."""
        return {"passed": "✓", "failed": "✗", "observed": "○", "idle": "-"}[self.state]

    def __str__(self) -> str:
        return f"{self.sign} {self.words}"


PASSED, FAILED = GateMark("passed", "passed"), GateMark("failed", "did not pass")


def mark_gate(result: Mapping[str, Any]) -> GateMark:
    """The mark of one element of `gateResults`, which may be of any shape."""
    detail_fields = result.get("detail")
    detail: Mapping[str, Any] = detail_fields if isinstance(detail_fields, dict) else {}
    if result.get("passed") is not True:
        is_skipped = "status" in detail and result.get("failureReason") == BUDGET_EXCEEDED
        return _mark_idle("no answer in time") if is_skipped else FAILED
    if why := _explain_idle(str(result.get("gate")), detail):
        return _mark_idle(why)
    states = {detail.get(gate.checkpoint) for gate in ContentGate.by_name.values()}
    verb = "nudged" if "nudged" in states or detail.get("guidance") else "observed"
    if (would := detail.get("would")) is not None:
        return GateMark("observed", f"{verb}: {_WOULD.get(str(would), 'objects')}")
    if states & {"observed", "nudged"}:
        objects = detail.get("findings") or detail.get("judged")
        return GateMark("observed", f"{verb}: {'would hold it up' if objects else 'not judged to its end'}")
    return PASSED


def describe_passing(results: Iterable[Mapping[str, Any]]) -> str:
    """What all gates of an allowed action say together."""
    passed = all(mark_gate(result) == PASSED for result in results)
    return "every gate passed" if passed else "no gate held it up"


def list_titles(gate: str) -> dict[str, str]:
    """List the titles of the fields of a gate's detail for people, by field; a gate that does not ship, or a
    field that has no title, goes by its own name."""
    fields = [pair for model in GATES if model.name == gate for pair in model.detail.model_fields.items()]
    return {field.alias or name: field.title for name, field in fields if field.title}


def _mark_idle(why: str) -> GateMark:
    return GateMark("idle", f"did not judge: {why}")


def _explain_idle(gate: str, detail: Mapping[str, Any]) -> str:
    """Why a gate that let an action pass did not judge it; empty where it did."""
    if "status" in detail:
        return f"no answer ({detail['status']})"
    if "unasked" in detail:
        return str(detail["unasked"])
    if detail.get("band") == "abstained":
        return "it resembles nothing that is known"
    if gate == "causal" and detail.get("constraints") == 0:
        return "the agent has no constraints"
    return "it is off, or not concerned" if gate in _list_telling_gates() and not detail else ""


@cache
def _list_telling_gates() -> frozenset[str]:
    """The gates whose detail is empty only where they did not judge: those of content, and those that ask."""
    asking = {gate.name for gate in GATES if gate.part is not None and gate.part.asks is not never_asks}
    return frozenset({*ContentGate.by_name, *asking})
