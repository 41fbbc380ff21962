"""What each retrieved item must come to, by tables written down here a second time.

Imports nothing of the core and nothing of the quality bundle's document. An item's label says what it is
like; the tables say what that means under the bundle of the fault runs, whatever gate decides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from load.inputs.retrieval_traffic import Label

AGENT, NARROW, NOBODY = "load-agent", "load-narrow", "load-nobody"
MILD = ("pass", "flag", "downgrade", "deny")
STRICT = ("sandbox", "bounded", "high_privilege")
HIGH_IMPACT = "load.payment"
MAY_READ = {NARROW: {"price", "trial"}}
REGISTERED_TIER = {AGENT: "sandbox", NARROW: "bounded"}
CLOSED = "closed"
FLAG_ONLY = "trial"
NO_LIMIT = "law"
NEEDS_NO_REFERENCE = "memo"
KNOWN = ("law", "price", "memo", "trial")
MINIMA = {"law": 0.5, "memo": 0.6, "trial": 0.8}
FAILING: dict[str, dict[str, tuple[str, str, str]]] = {
    "sandbox": {
        "law": ("flag", "downgrade", "pass"),
        "price": ("downgrade", "flag", "flag"),
        "memo": ("downgrade", "downgrade", "flag"),
        "trial": ("flag", "deny", "downgrade"),
    },
    "bounded": {
        "law": ("downgrade", "deny", "deny"),
        "price": ("deny", "downgrade", "flag"),
        "memo": ("downgrade", "downgrade", "downgrade"),
        "trial": ("deny", "downgrade", "flag"),
    },
    "high_privilege": {
        "law": ("downgrade", "deny", "deny"),
        "price": ("deny", "deny", "deny"),
        "memo": ("downgrade", "downgrade", "downgrade"),
        "trial": ("deny", "deny", "downgrade"),
    },
}
"""What a failed freshness, confidence and provenance come to."""
ELSEWHERE = {"sandbox": "flag", "bounded": "flag", "high_privilege": "deny"}
"""Of a reference by a scheme that nobody registered. A class that nobody knows is closed here."""
CONTENT = {
    "sandbox": {"attack": "downgrade", "doubt": "flag"},
    "bounded": {"attack": "deny", "doubt": "downgrade"},
    "high_privilege": {"attack": "deny", "doubt": "deny"},
}
YOUNG, OLD = ("fresh", "asserted"), ("old", "asserted_old")
VERIFIED = ("recorded", "signed", "feed")
POISONED = ("item", "source", "content")
FLAGS = ("stale", "low_confidence")
CODES = ("FRESHNESS_TTL_EXCEEDED", "CONFIDENCE_BELOW_MINIMUM", "PROVENANCE_FAILED")


class AskedRequest(NamedTuple):
    """What is the same for all items of a request. `minimum`: of "price" under the revision that judged."""

    agent: str
    tier: str
    category: str | None
    minimum: float


@dataclass(frozen=True, slots=True)
class DueItem:
    """What a decision on an item must say. `dimensions`: whether each held, none if nobody looked."""

    outcome: str
    stages: tuple[str, ...]
    flags: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    dimensions: tuple[bool, ...] = ()
    rollout: str | None = None
    would_have_been: str | None = None
    overridden: bool = False
    escalates: bool = False
    released: bool = False


def tier_of(agent: str, asked: str | None) -> str:
    """The stricter of both; the strictest where none is registered, whatever is asked."""
    registered = REGISTERED_TIER.get(agent, STRICT[-1])
    return registered if asked is None else max(registered, asked, key=STRICT.index)


def due_item(asked: AskedRequest, label: Label, score: object, *, overridden: bool) -> DueItem:
    """`score`: as the item gives it; `overridden`: an override stands for it at this moment."""
    if asked.agent == NOBODY:
        return DueItem("deny", ("controls",), codes=("UNKNOWN_AGENT",))
    closed = label.kind == CLOSED or label.kind not in KNOWN  # a closed class closes those that nobody knows
    if closed or label.kind not in MAY_READ.get(asked.agent, {label.kind}):
        return DueItem("deny", ("controls", "access"), codes=("ACCESS_DENIED",))
    if label.mark in POISONED:
        return DueItem("deny", ("controls", "access", "poisoning"), codes=("KNOWN_BAD",))
    return _judge(asked, label, check_dimensions(asked, label, score), overridden=overridden)


def check_dimensions(asked: AskedRequest, label: Label, score: object) -> tuple[bool, bool, bool]:
    """Whether freshness, confidence and provenance hold."""
    least = MINIMA.get(label.kind, asked.minimum)
    fresh = label.time in YOUNG or (label.time in OLD and label.kind == NO_LIMIT)
    sure = isinstance(score, float) and least <= score <= 1
    traced = label.reference in VERIFIED or (label.reference == "absent" and label.kind == NEEDS_NO_REFERENCE)
    return fresh and label.reference != "forged", sure, traced


def _judge(asked: AskedRequest, label: Label, holds: tuple[bool, bool, bool], *, overridden: bool) -> DueItem:
    failed = [number for number, hold in enumerate(holds) if not hold]
    real = max(
        (_choose_failing(asked.tier, label, number) for number in failed), key=MILD.index, default="pass"
    )
    flag_only = label.kind == FLAG_ONLY
    withheld = MILD.index(real) > MILD.index("flag")
    lifted = overridden and withheld and not flag_only
    outcome = "flag" if withheld and (flag_only or lifted) else real
    item = DueItem(
        outcome,
        ("controls", "access", "poisoning", "quality"),
        tuple(_flag(number, label) for number in failed),
        tuple(CODES[number] for number in failed),
        holds,
        "flag_only" if flag_only else "enforce",
        real if flag_only else None,
        lifted,
        outcome == "deny" and asked.tier == STRICT[-1] and asked.category == HIGH_IMPACT,
    )
    has_body = label.body != "none"
    return _read(asked.tier, label, item) if has_body and outcome in {"pass", "flag"} else item


def _choose_failing(tier: str, label: Label, dimension: int) -> str:
    outcome = FAILING[tier][label.kind][dimension]
    if dimension == len(FLAGS) and label.reference == "ftp":
        return max(outcome, ELSEWHERE[tier], key=MILD.index)
    return outcome


def _flag(dimension: int, label: Label) -> str:
    if dimension < len(FLAGS):
        return FLAGS[dimension]
    return "provenance_missing" if label.reference == "absent" else "provenance_unverified"


def _read(tier: str, label: Label, item: DueItem) -> DueItem:
    """The content check behind the quality gate: the more severe of both."""
    action = CONTENT[tier].get(label.body, "pass")
    outcome = max(item.outcome, action, key=MILD.index)
    hidden = item.would_have_been
    suspect = action != "pass"
    return DueItem(
        outcome,
        (*item.stages, "content"),
        (*item.flags, *(("content_suspect",) if suspect else ())),
        (*item.codes, *(("CONTENT_UNSAFE",) if suspect else ())),
        item.dimensions,
        item.rollout,
        None if hidden is None else max(hidden, action, key=MILD.index),
        item.overridden,
        released=outcome in {"pass", "flag"},
    )
