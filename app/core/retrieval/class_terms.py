"""What holds of a content class for whoever reads: worked out once, for all items of the class."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from app.core.retrieval.facts import class_of

if TYPE_CHECKING:
    from app.core.quality_bundle.lookup import Cell, Limit
    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.quality_bundle.quality_models import RolloutMode
    from topics.records.retrievals import AutonomyTier

_READERS = 1024
"""Readers whose terms are kept, those of the last requests."""


class ClassTerms(NamedTuple):
    """`closed`: why the reader gets nothing of the class. `content_class` None: no name of a class.

    `tool`: whose time to live counts, if the bundle has one of its own for it; `limit` is the one that does.
    """

    bundle: QualityBundle
    content_class: str | None
    closed: str | None
    cell: Cell
    limit: Limit | None
    tool: str | None
    rollout: RolloutMode


class Reader(NamedTuple):
    """Who reads, under which bundle. `granted`: the classes of the agent, whose id is of interest only then;
    None for every class.

    `tool`: what the request names, `vouched` whether the agent may use it and the registry knows it.
    """

    bundle: QualityBundle
    tier: AutonomyTier
    tenant: str
    agent_id: str | None
    granted: frozenset[str] | None
    tool: str | None
    vouched: bool


class TermsByClass(dict[str | None, ClassTerms]):
    """A reader's terms by what an item gives for its class, None for what is no text. Those of the bundle's
    own classes are kept, so that no more are kept than the bundle has."""

    def __init__(self, reader: Reader | None) -> None:
        """None: under no bundle, and nobody asks for a class."""
        super().__init__()
        self._reader = reader

    def __missing__(self, named: str | None) -> ClassTerms:
        """Worked out, and kept."""
        if self._reader is None:
            raise KeyError(named)
        terms = _worked_out(self._reader, named)
        if named in self._reader.bundle.lookup.classes:
            self[named] = terms
        return terms


NO_TERMS = TermsByClass(None)


@lru_cache(maxsize=_READERS)
def terms_of(reader: Reader) -> TermsByClass:
    """What holds of every class for this reader."""
    return TermsByClass(reader)


def _worked_out(reader: Reader, named: str | None) -> ClassTerms:
    lookup, content_class, tool = reader.bundle.lookup, class_of(named), reader.tool
    if tool is not None and not reader.vouched:
        tool = tool if lookup.is_stricter(tool, content_class) else None
    return ClassTerms(
        reader.bundle,
        content_class,
        _closed(reader, named, content_class),
        lookup.cell(reader.tier, content_class),
        lookup.limit(tool, content_class),
        tool,
        reader.bundle.rollout_of(content_class),
    )


def _closed(reader: Reader, named: str | None, content_class: str | None) -> str | None:
    """By what the agent or its tenant was not granted; where classes are kept from anybody, none gets in by a
    name that nobody knows."""
    bundle = reader.bundle
    if reader.granted is not None and named not in reader.granted:
        return f"class_not_granted: to agent {reader.agent_id}"
    if not bundle.opens(named, reader.tenant):
        return f"class_not_granted: to tenant {reader.tenant}"
    if bundle.keeps_classes and content_class not in bundle.lookup.classes:
        return "class_not_granted: the bundle does not know the class"
    return None
