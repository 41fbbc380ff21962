"""A bundle with the sequence gate on, and a plain model of what the gate is said to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.unit.core.scene import LIMITS, Session, bundle, entry, make_counted, point

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.policy.bundles import Bundle

STAGES = ["controls", "fast_reject", "rules", "sequence", "consequence", "topology", "tier_auth"]
SECRET_OUT: dict[str, Any] = {
    "id": "secret-then-out",
    "reason": "what was read from the vault must not leave",
    "first": "action.tool == 'read_secret'",
    "then": "action.type in ['MESSAGE', 'API_CALL']",
    "within_ms": 10_000,
}
NO_DENIED = {"id": "none", "type": "forbidden", "reason": "no", "condition": "action.tool == 'denied'"}
TOOLS = (
    make_counted("read_secret", tier="T1", action_type="FILE_READ", reversible=True),
    make_counted("send", tier="T1", action_type="MESSAGE", reversible=True),
    make_counted("wait", tier="T3", action_type="FILE_READ", reversible=True),
    make_counted("denied", tier="T1", action_type="FILE_READ", reversible=True),
    entry("org", "globex", enforcement="shadow"),
)


def make_sequenced(*rules: dict[str, Any], freeze: dict[str, int] | None = None, **changes: Any) -> Bundle:
    """The shipped bundle without patterns, with the gate on and a rule that denies the tool "denied"."""
    part = {"rules": list(rules)} | ({} if freeze is None else {"freeze": freeze})
    return bundle(**{"patterns": {}, "stages": STAGES, "rules": [NO_DENIED], "sequence": part, **changes})


def session(
    *rules: dict[str, Any],
    freeze: dict[str, int] | None = None,
    limits: SessionLimits = LIMITS,
    **changes: Any,
) -> Session:
    """A session under such a bundle."""
    return Session(point(*TOOLS, policy=make_sequenced(*rules, freeze=freeze, **changes), limits=limits))


@dataclass
class Model:
    """What docs/rules.md says of the gate, for one agent in one session, in the plainest way: everything that
    happened is kept, and looked through at each action.

    `rules` are (id, first tool, then tool, within ms, outcome, first may be denied), `freeze` is (denials,
    within ms) or None.
    """

    rules: list[tuple[str, str, str, int, str, bool]]
    freeze: tuple[int, int] | None
    happened: list[tuple[int, str, str]] = field(default_factory=list)
    """When, which tool, and "carried", "waits" or "denied"."""
    denials: list[int] = field(default_factory=list)

    def is_frozen(self, now: int) -> bool:
        if self.freeze is None:
            return False
        so_many, within = self.freeze
        return sum(now - one < within for one in self.denials) >= so_many

    def list_broken(self, now: int, tool: str) -> list[tuple[str, str]]:
        """Rule and outcome of each rule that this action breaks."""
        found = []
        for rule, first, then, within, outcome, denied_too in self.rules:
            before = [
                at
                for at, earlier, how in self.happened
                if earlier == first and now - at <= within and (how != "denied" or denied_too)
            ]
            if tool == then and before:
                found.append((rule, outcome))
        return found

    def decide(self, now: int, tool: str, own: str, *, held_up: bool) -> str:
        """The real outcome of an action that the other gates would answer with `own`; `held_up`: whether its
        caller obeys."""
        broken = [outcome for _, outcome in self.list_broken(now, tool)]
        if self.is_frozen(now) or "block" in broken or own == "BLOCK":
            outcome = "BLOCK"
        else:
            outcome = "ESCALATE" if broken or own == "ESCALATE" else "ALLOW"
        if outcome == "BLOCK" and not self.is_frozen(now):
            self.denials.append(now)
        carried = not held_up or outcome == "ALLOW"
        how = "carried" if carried else "waits" if outcome == "ESCALATE" else "denied"
        self.happened.append((now, tool, how))
        return outcome


Step = tuple[int, dict[str, Any]]
"""How many ms after the one before, and the fields of an action."""


def run(of: Session, steps: list[Step]) -> list[dict[str, Any]]:
    """The verdicts of actions, each so many ms after the one before."""
    found = []
    for place, (later, fields) in enumerate(steps):
        of.now += later
        found.append(of.verdict(**{"action_id": f"a-{place}", **fields}))
    return found


def last(of: Session, *steps: Step) -> tuple[str, str | None]:
    """The last one's outcome, that of shadow mode first, and its reason."""
    verdict = run(of, list(steps))[-1]
    return verdict["shadowOutcome"] or verdict["outcome"], verdict["blockReason"]


READ: dict[str, Any] = {"toolName": "read_secret"}
SEND: dict[str, Any] = {"toolName": "send"}
