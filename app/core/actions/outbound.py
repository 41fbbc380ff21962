"""Gate "outbound": secrets and personal data in what an action sends out (seed 002, checkpoint `back`).

It reads the parameters of actions of the types that the bundle names, and looks for the kinds that it names.
`observe` tells of what it finds. `nudge` also gives the parameters with a warning at each text that it
concerns. `enforce` denies the action and gives the parameters without what was found, so that the agent can
propose it again. What was found is never written into a record, only its kind and its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from app.core.actions.stage import PASSED, Detail, Gate, StageResult
from app.core.foundation.canonical import canonical, wire_safe
from app.core.foundation.strict import StrictModel
from app.core.policy.bundles import BundlePart
from app.core.quality_bundle.loosenings import Loosening
from app.core.text.sensitive import COMMON, KINDS, SensitiveScan, scan_for
from topics.records.base import CheckpointState  # noqa: TC001 - pydantic reads the annotations
from topics.records.inputs import ActionType  # noqa: TC001 - as above

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.actions.stage import ActionContext

SENT: tuple[ActionType, ...] = ("MESSAGE", "API_CALL")
MODES = ("off", "observe", "nudge", "enforce")
MOST_CHARACTERS = 200_000
"""Of an action's texts that are read; what lies behind is not, and the checkpoint is then not passed."""
MOST_FINDINGS = 64
MOST_REPLACED_BYTES = 16_384
"""Larger parameters are not given back."""


class OutboundPolicy(StrictModel):
    """`mode` "off": nothing is read. `action_types`: of which actions. `kinds`: what is looked for; without
    them all but e-mail addresses and telephone numbers, which most messages rightly hold."""

    mode: Literal["off", "observe", "nudge", "enforce"] = "off"
    action_types: Annotated[list[ActionType], Field(min_length=1)] = Field(default_factory=lambda: list(SENT))
    kinds: Annotated[list[Literal[KINDS]], Field(min_length=1)] = Field(  # type: ignore[valid-type]
        default_factory=lambda: [one for one in KINDS if one not in COMMON]
    )


def find_loosenings(before: OutboundPolicy, after: OutboundPolicy) -> Iterator[Loosening]:
    """A milder mode, and kinds or types that are no longer looked at."""
    if MODES.index(after.mode) < MODES.index(before.mode):
        yield Loosening(f"what leaves is only {after.mode}, not {before.mode}", ("mode",))
    for name in ("action_types", "kinds"):
        gone = sorted(set(getattr(before, name)) - set(getattr(after, name)))
        if gone and before.mode != "off":
            yield Loosening(f"what leaves is no longer looked through for {', '.join(gone)}", (name,))


class OutboundFinding(BaseModel):
    """A secret or a personal datum: its kind, and the path of the parameter that has it."""

    kind: str
    path: str


class OutboundDetail(Detail):
    """`back`: the checkpoint's state. `replacement`: the parameters with warnings (nudge) or without what was
    found (enforce); absent if they are larger than 16 KB. `unread_characters`: of its texts, which are too
    long."""

    back: Annotated[CheckpointState | None, Field(title="back")] = None
    findings: Annotated[list[OutboundFinding] | None, Field(title="leaves")] = None
    replacement: dict[str, Any] | None = None
    unread_characters: int | None = None


class Outbound(Gate):
    """Finds secrets and personal data in what leaves; denies it where the bundle says enforce."""

    name = "outbound"
    detail = OutboundDetail
    part = BundlePart(name, OutboundPolicy, find_loosenings, OutboundPolicy())

    def evaluate(self, context: ActionContext) -> StageResult:
        """Passes at once what is not sent out."""
        policy: OutboundPolicy = context.bundle.parts[self.name]
        if policy.mode == "off" or not set(policy.action_types) & set(context.types):
            return PASSED
        scan, left = scan_for(frozenset(policy.kinds)), MOST_CHARACTERS
        findings: list[dict[str, str]] = []
        unread = 0
        for path, text in _texts("$.parameters", context.action.parameters):
            read = text[:left]
            left -= len(read)
            unread += len(text) - len(read)
            findings += ({"kind": one.kind, "path": path} for one in scan.find(read))
        if not findings:
            return StageResult("pass", None, _unread("observed" if unread else "pass", unread))
        return _found(policy.mode, scan, context.action.parameters, findings, unread)


def _found(
    mode: str, scan: SensitiveScan, parameters: dict[str, Any], findings: list[dict[str, str]], unread: int
) -> StageResult:
    state = {"observe": "observed", "nudge": "nudged", "enforce": "enforced"}[mode]
    detail = {**_unread(state, unread), "findings": findings[:MOST_FINDINGS]}
    if mode != "observe":
        shown = canonical(wire_safe(parameters))
        if len(shown) <= MOST_REPLACED_BYTES and not unread:
            detail["replacement"] = _replaced(wire_safe(parameters), scan, warn=mode == "nudge")
    if mode != "enforce":
        return StageResult("pass", None, detail)
    kinds = ", ".join(dict.fromkeys(one["kind"] for one in findings))
    return StageResult("block", f"outbound_data: {kinds} at {findings[0]['path']}", detail)


def _unread(state: str, unread: int) -> dict[str, Any]:
    return {"back": state, "unread_characters": unread} if unread else {"back": state}


def _texts(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every text in a JSON value with its path; names of fields too, since they can carry anything."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for place, (name, one) in enumerate(value.items()):
            below = f"{path}.{name}" if name.isidentifier() and len(name) <= 64 else f"{path}[{place}]"  # noqa: PLR2004
            yield below, name
            yield from _texts(below, one)
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from _texts(f"{path}[{place}]", one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, str(value)


def _replaced(value: Any, scan: SensitiveScan, *, warn: bool) -> Any:
    if isinstance(value, dict):
        return {scan.redact(name): _replaced(one, scan, warn=warn) for name, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, scan, warn=warn) for one in value]
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not (found := scan.find(text)):
        return value
    kinds = ", ".join(dict.fromkeys(one.kind for one in found))
    return f"{text} [warning: contains {kinds}]" if warn else scan.redact(text)
