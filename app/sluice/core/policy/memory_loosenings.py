"""Where the newer `memory` part of a bundle is less strict than the older one.

What cannot be ordered (weights, a changed pattern, another library) counts as looser where it differs: it may
hold less, and a person has to look.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.content_judge import OFTENER
from sluice.core.quality_bundle.loosenings import Loosening

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel

    from sluice.core.policy.memory_policy import MemoryPolicy
    from sluice.detection.text_inspection import ContentSets

LOSSES = (
    "trust.write_threshold",
    "trust.quarantine_threshold",
    *(
        f"trust.consistency.{hits}.{loss}"
        for hits in ("injection", "manipulation")
        for loss in ("first", "each", "most")
    ),
    *(f"trust.consistency.{over}.loss" for over in ("removed", "long", "special")),
    "trust.coherence.within_ms",
    "trust.coherence.loss",
    "trust.alignment.identity",
    "trust.alignment.goal",
    "analysis.head_characters",
    "analysis.tail_characters",
    "analysis.doubt_within",
)
"""Looser where they are lower."""
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
"""Looser where they are higher."""
KINDS = (
    "trust.consistency.injection_kinds",
    "trust.consistency.manipulation_kinds",
    "trust.alignment.identity_kinds",
    "trust.alignment.goal_kinds",
)
"""Looser where one is missing."""
UNORDERED = {
    "trust.weights": "other weights of the dimensions",
    "trust.history": "reviews change a source's reliability by other numbers",
    "content.lexicon": "other word classes",
    "content.vocabulary": "another vocabulary",
    "content.frames.withdrawn": "other words that make an order of a quotation",
    "content.frames.unless": "other words that say the contrary of these",
}
"""Looser where they differ."""
_WEIGHTS = ("weak", "strong", "definite")
_SEARCHED = ("kind", "any", "all", "unless", "scope", "framed")
"""Of a pattern, what says where it is found and as what."""


def find_memory_loosenings(before: MemoryPolicy, after: MemoryPolicy) -> Iterator[Loosening]:
    """Each time a sentence and the fields that may cause it, from the part on."""
    if not before.enabled:
        return
    if not after.enabled:
        yield _loosening(before, "every memory write is allowed", "enabled")
    for path in (*LOSSES, *ALLOWANCES):
        old, new = attrgetter(path)(before), attrgetter(path)(after)
        if new < old if path in LOSSES else new > old:
            yield _loosening(before, f"{_written(before, path)} is {new}, not {old}", path)
    for path in KINDS:
        gone = [one for one in attrgetter(path)(before) if one not in attrgetter(path)(after)]
        if gone:
            yield _loosening(before, f"{_written(before, path)} lacks {', '.join(gone)}", path)
    for path, sentence in UNORDERED.items():
        if attrgetter(path)(before) != attrgetter(path)(after):
            yield _loosening(before, f"{sentence}, which may hold less", path)
    yield from _metadata(before, after)
    yield from _asked(before, after)
    yield from _compared(before, after)
    yield from _patterns(before, before.content, after.content)


def _metadata(before: MemoryPolicy, after: MemoryPolicy) -> Iterator[Loosening]:
    old, new = before.quality.content_classes, after.quality.content_classes
    if old is not None and (new is None or set(new) - set(old)):
        more = "any class" if new is None else ", ".join(sorted(set(new) - set(old)))
        yield _loosening(before, f"a memory may be of {more}", "quality.content_classes")
    schemes = set(after.quality.provenance_schemes) - set(before.quality.provenance_schemes)
    if schemes:
        sentence = f"a reference may begin with {', '.join(sorted(schemes))}"
        yield _loosening(before, sentence, "quality.provenance_schemes")


def _asked(before: MemoryPolicy, after: MemoryPolicy) -> Iterator[Loosening]:
    """A model's answer can only lower trust, so each one that is not asked for may trust more."""
    old, new = before.trust.llm_analysis, after.trust.llm_analysis
    if OFTENER.index(new) < OFTENER.index(old):
        yield _loosening(before, f"a model is asked {new}, not {old}", "trust.llm_analysis")
    ignores = after.analysis.on_failure == "ignore"
    if ignores and before.analysis.on_failure != "ignore":
        yield _loosening(before, "a model's missing answer changes nothing", "analysis.on_failure")
    if ignores and after.analysis.budget_ms < before.analysis.budget_ms:
        sentence = f"a model has {after.analysis.budget_ms} ms to answer, not {before.analysis.budget_ms}"
        yield _loosening(before, sentence, "analysis.budget_ms")


def _compared(before: MemoryPolicy, after: MemoryPolicy) -> Iterator[Loosening]:
    old, new = before.similarity, after.similarity
    if old is None or not old.enabled:
        return
    if new is None or not new.enabled:
        yield _loosening(before, "no memory is compared with known attacks", "similarity")
    elif (old.library.hash, old.windows) != (new.library.hash, new.windows):
        sentence = "memories are compared with other texts, or cut otherwise, which may find less"
        yield _loosening(before, sentence, "similarity")


def _patterns(part: MemoryPolicy, before: ContentSets, after: ContentSets) -> Iterator[Loosening]:
    found = {one.id: one for one in after.findings}
    for old in before.findings:
        new = found.get(old.id)
        if new is None:
            yield _loosening(part, f"the pattern {old.id} is gone", "content.findings")
        elif _WEIGHTS.index(new.weight) < _WEIGHTS.index(old.weight):
            yield _loosening(
                part, f"the pattern {old.id} is {new.weight}, not {old.weight}", "content.findings"
            )
        elif any(getattr(new, name) != getattr(old, name) for name in _SEARCHED):
            yield _loosening(part, f"the pattern {old.id} changed, and may find less", "content.findings")
    known = {one.id: one for one in before.frames.markers}
    for marker in after.frames.markers:
        if known.get(marker.id) != marker:
            sentence = f"the frame {marker.id} is new or changed, and may take more findings back"
            yield _loosening(part, sentence, "content.frames.markers")


def _loosening(part: MemoryPolicy, sentence: str, path: str) -> Loosening:
    return Loosening(f"memory: {sentence}", tuple(dict.fromkeys((_written(part, path), path))))


def _written(model: BaseModel, path: str) -> str:
    """The path by the seed's names, where it has them."""
    return ".".join(_steps(model, path.split(".")))


def _steps(model: Any, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        fields = getattr(type(model), "model_fields", {})
        yield fields[name].alias or name if name in fields else name
        model = getattr(model, name, None)
