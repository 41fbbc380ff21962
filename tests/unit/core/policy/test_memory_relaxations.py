"""What relaxes the memory gate's part of a bundle."""

from __future__ import annotations

import json
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from sluice.core.actions.stages import load_bundle
from sluice.core.policy.memory_policy import MemoryPolicy
from sluice.offline.bundle_source import SHIPPED, read_whole_bundle
from sluice_topics.relaxations import find_relaxations
from tests.unit.core.scene import relaxations

if TYPE_CHECKING:
    from pydantic import BaseModel

LOSSES = (
    "trust.write_threshold",
    "trust.quarantine_threshold",
    *(
        f"trust.consistency.{hits}.{loss}"
        for hits in ("injection", "manipulation")
        for loss in ("first", "each", "most")
    ),
    *(f"trust.consistency.{over}.loss" for over in ("removed", "long", "special")),
    *(f"trust.caps.{cap}" for cap in ("strong", "definite", "unknown_parent", "inconclusive")),
    "trust.coherence.within_ms",
    "trust.coherence.loss",
    "trust.alignment.identity",
    "trust.alignment.goal",
    "analysis.head_characters",
    "analysis.tail_characters",
    "analysis.doubt_within",
)
"""Less strict where they are lower."""
ALLOWANCES = (
    "review_after_ms",
    *(f"trust.bases.{kind}" for kind in ("system", "agent", "user", "plugin", "external")),
    "trust.coherence.base",
    "trust.alignment.base",
    "trust.consistency.removed.share",
    "trust.consistency.special.share",
    "trust.consistency.long.characters",
    "trust.max_characters",
    "trust.hints_that_count",
    "quality.future_skew_ms",
    "quality.max_uri_characters",
    "content.weak_makes_strong",
)
"""Less strict where they are higher."""
KINDS = (
    "trust.consistency.injection_kinds",
    "trust.consistency.manipulation_kinds",
    "trust.alignment.identity_kinds",
    "trust.alignment.goal_kinds",
)
"""Less strict where one is missing."""
DOCUMENT = json.loads(read_whole_bundle(SHIPPED / "default.json"))
LIBRARY = json.loads((SHIPPED / "content" / "library.json").read_bytes())["similarity"]
MEMORY = MemoryPolicy.model_validate({**DOCUMENT["memory"], "similarity": {**LIBRARY, "enabled": True}})
"""What ships, with the encoder switched on."""


def change(of: BaseModel, path: str, value: Any) -> Any:
    """A copy with another value; no validator is asked, because single values are compared here."""
    name, _, rest = path.partition(".")
    own = change(getattr(of, name), rest, value) if rest else value
    return of.model_copy(update={name: own})


def sentences(after: MemoryPolicy, before: MemoryPolicy = MEMORY) -> list[str]:
    return [one.sentence for one in find_relaxations(before, after)]


def test_nothing_is_looser_than_itself() -> None:
    assert sentences(MEMORY) == []


@pytest.mark.parametrize("path", [*LOSSES, *ALLOWANCES])
def test_a_number_is_looser_in_one_direction_and_is_named(path: str) -> None:
    old = attrgetter(path)(MEMORY)
    lower, higher = (old - 0.01, old + 0.01) if isinstance(old, float) else (old - 1, old + 1)
    looser, stricter = (lower, higher) if path in LOSSES else (higher, lower)
    (found,) = find_relaxations(MEMORY, change(MEMORY, path, looser))
    assert f"{found.path} is {looser}, not {old}" in found.sentence
    assert (found.before, found.after) == (old, looser)
    assert sentences(change(MEMORY, path, stricter)) == []


@pytest.mark.parametrize("path", KINDS)
def test_a_kind_of_finding_that_no_longer_counts_is_looser(path: str) -> None:
    first, *others = attrgetter(path)(MEMORY)
    (found,) = sentences(change(MEMORY, path, others))
    assert found.endswith(f"lacks {first}")
    assert sentences(MEMORY, change(MEMORY, path, others)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("trust.weights.source_reliability", 0.2),
        ("trust.history.prior_positive", 3),
        ("trust.history.positives_to_raise", 1),
        ("content.lexicon", {}),
        ("content.vocabulary", []),
        ("content.frames.withdrawn", []),
        ("content.frames.unless", []),
        ("trust.history_window", 99),
        ("similarity.windows.most", 1),
    ],
)
def test_what_has_no_order_is_looser_where_it_differs(path: str, value: Any) -> None:
    (found,) = find_relaxations(MEMORY, change(MEMORY, path, value))
    assert found.path.partition(".")[0] == path.partition(".")[0]
    assert "which may" in found.sentence


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("enabled", False, "every memory write is allowed"),
        ("similarity", None, "no memory is compared"),
        ("similarity.enabled", False, "no memory is compared"),
        ("quality.content_classes", None, "any class"),
        ("quality.content_classes", ["note", "rumour"], "a memory may be of rumour"),
        ("analysis.on_failure", "ignore", "changes nothing"),
        ("trust.llm_analysis", "in_doubt", "in_doubt, not always"),
    ],
)
def test_what_is_no_longer_asked_or_demanded_is_looser(path: str, value: Any, told: str) -> None:
    before = change(MEMORY, "quality.content_classes", ["note"])
    before = change(before, "trust.llm_analysis", "always")
    (found,) = sentences(change(before, path, value), before)
    assert told in found
    assert sentences(before, change(before, path, value)) == []


def test_a_pattern_that_is_gone_weaker_or_changed_is_looser() -> None:
    first, *others = MEMORY.content.findings
    definite = next(one for one in MEMORY.content.findings if one.weight == "definite")
    gone = change(MEMORY, "content.findings", others)
    assert sentences(gone) == [f"memory: the pattern {first.id} is gone"]
    assert sentences(MEMORY, gone) == []
    for update, told in (
        ({"weight": "weak"}, "is weak, not definite"),
        ({"unless": ["please"]}, "may find less"),
    ):
        findings = [
            one.model_copy(update=update) if one is definite else one for one in MEMORY.content.findings
        ]
        (found,) = sentences(change(MEMORY, "content.findings", findings))
        assert told in found
    frames = MEMORY.content.frames.markers
    assert (
        "may take more findings back"
        in sentences(MEMORY, change(MEMORY, "content.frames.markers", frames[1:]))[0]
    )
    assert sentences(change(MEMORY, "content.frames.markers", frames[1:])) == []


def test_a_gate_that_judged_nothing_cannot_get_looser() -> None:
    off = change(MEMORY, "enabled", False)
    assert sentences(change(off, "trust.write_threshold", 0.31), off) == []


def test_a_bundle_says_it_under_the_fields_of_the_file() -> None:
    looser = {**DOCUMENT, "memory": {**DOCUMENT["memory"], "trust": {"writeThreshold": 0.5}}}
    stricter = {**DOCUMENT, "memory": {**DOCUMENT["memory"], "trust": {}}}
    pair = (load_bundle(json.dumps(one).encode()) for one in (stricter, looser))
    (found,) = relaxations(*pair)
    assert found.sentence == "memory: trust.writeThreshold is 0.5, not 0.7"
    assert found.path == "memory.trust.writeThreshold"
