"""Gate "outbound": secrets and personal data in what an action sends out (seed 002, checkpoint `back`).

It reads the parameters of actions of the types that the bundle names, and looks for the kinds that it names.
`observe` tells of what it finds. `nudge` also gives the parameters with a warning at each text that it
concerns. `enforce` denies the action and gives the parameters without what was found, so that the agent can
propose it again. What was found is never written into a record, only its kind and its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BaseModel, Field

from sluice.core.actions.stage import PASSED, ContentGate, Detail, StageResult
from sluice.core.foundation.canonical import canonical, wire_safe
from sluice.core.foundation.strict import StrictModel
from sluice.core.policy.bundles import BundlePart
from sluice.detection.text_inspection import COMMON, KINDS, SensitiveScan, scan_for
from sluice_topics.records.base import CheckpointState  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records.inputs import ActionType  # noqa: TC001 - as above
from sluice_topics.relaxations import Members, Scale

if TYPE_CHECKING:
    from sluice.core.actions.stage import ActionContext, ActionPlan

SENT: tuple[ActionType, ...] = ("MESSAGE", "API_CALL")
Mode = Literal["off", "observe", "nudge", "enforce"]
"""Of a checkpoint (seed 002)."""
MODES: tuple[Mode, ...] = get_args(Mode)
STATES: Mapping[Mode, CheckpointState] = {"observe": "observed", "nudge": "nudged", "enforce": "enforced"}
"""Of a checkpoint that found something, by its mode."""
MOST_CHARACTERS = 200_000
"""Of an action's texts that are read; what lies behind is not, and the checkpoint is then not passed."""
MOST_FINDINGS = 64
MOST_REPLACED_BYTES = 16_384
"""Larger parameters are not given back."""


LOOKED_FOR = Members("more", "what leaves is no longer looked through for {members}")


class OutboundPolicy(StrictModel):
    """`mode` "off": nothing is read. `action_types`: of which actions. `kinds`: what is looked for; without
    them all but e-mail addresses and telephone numbers, which most messages rightly hold."""

    mode: Annotated[Mode, Scale(MODES, "what leaves is only {new}, not {old}")] = "off"
    action_types: Annotated[list[ActionType], Field(min_length=1), LOOKED_FOR] = Field(
        default_factory=lambda: list(SENT)
    )
    kinds: Annotated[list[Literal[KINDS]], Field(min_length=1), LOOKED_FOR] = Field(  # type: ignore[valid-type]
        default_factory=lambda: [kind for kind in KINDS if kind not in COMMON]
    )

    def idle_fields(self) -> frozenset[str]:
        """Everything, where nothing is read."""
        return frozenset(type(self).model_fields if self.mode == "off" else ())


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


class Outbound(ContentGate):
    """Finds secrets and personal data in what leaves; denies it where the bundle says enforce."""

    name = "outbound"
    checkpoint = "back"
    holds = "what this action sends out holds"
    detail = OutboundDetail
    pauses = True
    part = BundlePart(name, OutboundPolicy, OutboundPolicy())

    def evaluate(self, context: ActionContext) -> StageResult:
        """Passes at once what is not sent out."""
        policy: OutboundPolicy = context.plan.bundle.parts[self.name]
        if self.settle(context.plan) is not None:
            return PASSED
        scan, left = scan_for(frozenset(policy.kinds)), MOST_CHARACTERS
        findings: list[dict[str, str]] = []
        unread = 0
        for path, text in context.texts():
            read = text[:left]
            left -= len(read)
            unread += len(text) - len(read)
            findings += ({"kind": match.kind, "path": path} for match in scan.find(read))
        if not findings:
            return StageResult("pass", None, _unread("observed" if unread else "pass", unread))
        return _judge_findings(policy.mode, scan, context, findings, unread)

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """A pass where nothing is read, and for what is not sent out."""
        policy: OutboundPolicy = plan.bundle.parts[self.name]
        read = policy.mode != "off" and not set(policy.action_types).isdisjoint(plan.types)
        return None if read else PASSED


def _judge_findings(
    mode: Mode, scan: SensitiveScan, context: ActionContext, findings: list[dict[str, str]], unread: int
) -> StageResult:
    detail = {**_unread(STATES[mode], unread), "findings": findings[:MOST_FINDINGS]}
    if not unread:
        change = partial(_warn, scan) if mode == "nudge" else scan.redact
        detail |= make_replacement(context, mode, change, scan.redact)
    if mode != "enforce":
        return StageResult("pass", None, detail)
    kinds = ", ".join(dict.fromkeys(finding["kind"] for finding in findings))
    return StageResult("block", f"outbound_data: {kinds} at {findings[0]['path']}", detail)


def _unread(state: str, unread: int) -> dict[str, Any]:
    return {"back": state, "unread_characters": unread} if unread else {"back": state}


def _warn(scan: SensitiveScan, text: str) -> str:
    kinds = ", ".join(dict.fromkeys(match.kind for match in scan.find(text)))
    return f"{text} [warning: contains {kinds}]" if kinds else text


Change = Callable[[str], str]


def make_replacement(context: ActionContext, mode: Mode, text: Change, name: Change) -> dict[str, Any]:
    """The detail's `replacement` where the mode gives one: the parameters with each text and each name of a
    field changed. What an earlier gate has changed stays changed."""
    shown = wire_safe(context.action.parameters)
    if mode == "observe" or len(canonical(shown)) > MOST_REPLACED_BYTES:
        return {}
    changed = _redact(context.replacement or shown, text, name)
    context.replacement = changed
    return {"replacement": changed}


def _redact(value: Any, text: Change, name: Change) -> Any:
    if isinstance(value, dict):
        return {name(key): _redact(member, text, name) for key, member in value.items()}
    if isinstance(value, list):
        return [_redact(item, text, name) for item in value]
    written = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(written, str):
        return value
    changed = text(written)
    return value if changed == written else changed
