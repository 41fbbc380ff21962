"""Looks for a content library's patterns in a text and in everything that the text may be in disguise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.content.detector import Detector
from app.core.content.forms import Forms
from app.core.content.inspection import Finding, Inspection
from app.core.content.remembered import Remembered
from app.core.content.shares import special_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from app.core.content.sets import ContentSets

_SEVERAL = "content.several_weak"


class ContentInspector:
    """A compiled content library."""

    __slots__ = ("_detector", "_forms", "_remembered", "_weak_makes_strong")

    def __init__(self, sets: ContentSets) -> None:
        """Raises BundleError with the path of what does not compile."""
        self._weak_makes_strong = sets.weak_makes_strong
        self._detector = Detector(sets)
        self._forms = Forms(self._detector.vocabulary)
        self._remembered = Remembered()

    def inspect(self, text: str) -> Inspection:
        """Everything found in the text; the same text always gives the same."""
        known = self._remembered.get(text)
        if known is None:
            known = self._inspected(text)
            self._remembered.put(text, known)
        return known

    def _inspected(self, text: str) -> Inspection:
        unfolding = self._forms.of(text)
        found: dict[str, Finding] = {}
        seen = set[bytes]()
        for form in unfolding.forms:
            for one in self._detector.findings(form, seen):
                if one.id not in found or (found[one.id].framed and not one.framed):
                    found[one.id] = one
        return Inspection(
            (*found.values(), *self._several(list(found.values()))),
            len(text),
            unfolding.removed / max(1, len(text)),
            special_share(text),
            unfolding.bound,
        )

    def _several(self, found: list[Finding]) -> Iterator[Finding]:
        weak = [one for one in found if one.weight == "weak" and not one.framed]
        if len(weak) >= self._weak_makes_strong:
            first = weak[0]
            reason = f"{len(weak)} weak findings in one text"
            yield first._replace(id=_SEVERAL, weight="strong", reason=reason, source="weak_makes_strong")
