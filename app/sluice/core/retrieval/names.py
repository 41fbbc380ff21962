"""What is released of a retrieval together with the bodies: ids, classes and references, which are free text
too.

They are read by the content's detectors, and what is found counts as if it were in the body of the item that
they name; what is found in the request's own ids counts for every item. Where an item is not let through, an
id that something was found in is released as its digest, and another text not at all.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.metadata.provenance import MAX_URI_CHARACTERS
from sluice.detection.text_inspection import NOTHING, Read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from sluice.detection.text_inspection import Finding, Name, Names
    from sluice_topics.records import ProposedRetrieval
    from sluice_topics.records.retrieval_inputs import RetrievedItem

REQUEST_FIELDS = ("request_id", "session_id", "trace_id", "agent_id")
ITEM_FIELDS = ("item_id", "content_class", "provenance_uri")
LONGEST_CLASS = 256
WITHHELD = "withheld:sha256:"
NO_FIELDS = frozenset[str]()


class ItemNames(NamedTuple):
    """What was read in an item's names. `several`: what stands in the names of several items, read one after
    the other; `request`: of the request's own."""

    own: Read = NOTHING
    several: tuple[Finding, ...] = ()
    request: Read = NOTHING

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of them."""
        return self.own.findings + self.several + self.request.findings

    @property
    def inconclusive(self) -> str | None:
        """The first field that passed a bound, and which."""
        return self.own.inconclusive or self.request.inconclusive

    @property
    def unsafe(self) -> frozenset[str]:
        """The item's fields in which more than a hint was found."""
        if not (self.own.findings or self.several or self.own.inconclusive):
            return NO_FIELDS
        return _list_unsafe(ITEM_FIELDS, (*self.own.findings, *self.several), self.own.inconclusive)


class RequestNames(NamedTuple):
    """What was read in the names of a request, and of its items in their order."""

    request: Read
    items: Sequence[ItemNames]

    @property
    def unsafe(self) -> frozenset[str]:
        """The request's own fields in which more than a hint was found."""
        if not self.request.findings and self.request.inconclusive is None:
            return NO_FIELDS
        return _list_unsafe(REQUEST_FIELDS, self.request.findings, self.request.inconclusive)


def read_names(
    reader: Names, retrieval: ProposedRetrieval, classes: Container[str], *, known_agent: bool
) -> RequestNames:
    """Read the names of a request. `classes`: those that the quality bundle names, whose text is its own; the
    id of a known agent is the registry's."""
    given = [("request_id", retrieval.request_id), ("session_id", retrieval.session_id)]
    if retrieval.trace_id is not None:
        given.append(("trace_id", retrieval.trace_id))
    if not known_agent:
        given.append(("agent_id", retrieval.agent_id))
    request = reader.read(given)
    reads = [reader.read(_list_names(item, classes)) for item in retrieval.items]
    if len(reads) == 1:
        return RequestNames(request, (ItemNames(reads[0], (), request),))
    several = _read_several(reader, reads)
    alone = {id(own): ItemNames(own, (), request) for own in reads}
    items = [
        ItemNames(own, several[place], request) if place in several else alone[id(own)]
        for place, own in enumerate(reads)
    ]
    return RequestNames(request, items)


def read_meeting(reader: Names, own: Read, text: str) -> tuple[Finding, ...]:
    """What is found where an item's names and its body meet."""
    return reader.before(own.words, text, "body") if own.words else ()


def record_class(given: Any) -> str | None:
    """A content class as it is recorded and released, None for what is none."""
    return given if isinstance(given, str) and len(given) <= LONGEST_CLASS else None


def record_uri(given: Any) -> str | None:
    """Likewise a reference, as long as one may be that is resolved: a rerun finds its record by it."""
    return given if isinstance(given, str) and len(given) <= MAX_URI_CHARACTERS else None


def withhold_id(an_id: str) -> str:
    """What is released in place of an id: who knows the id can tell that it is meant."""
    return WITHHELD + sha256(an_id.encode()).hexdigest()


def _list_names(item: RetrievedItem, classes: Container[str]) -> list[Name]:
    names: list[Name] = [("item_id", item.item_id)]
    content_class, uri = record_class(item.content_class), record_uri(item.provenance_uri)
    if content_class is not None and content_class not in classes:
        names.append(("content_class", content_class))
    if uri is not None:
        names.append(("provenance_uri", uri))
    return names


def _read_several(reader: Names, reads: Sequence[Read]) -> dict[int, tuple[Finding, ...]]:
    """By place of the item: what was found in a field of it read together with its neighbours'."""
    found: dict[int, tuple[Finding, ...]] = {}
    if len({read.words for read in reads if read.words}) <= 1:
        return found
    for field in ITEM_FIELDS:
        column: dict[str, list[int]] = {}
        for place, read in enumerate(reads):
            for words in (one.words for one in read.words if one.field == field):
                column.setdefault(words, []).append(place)
        texts = list(column)
        for finding, among in reader.along(texts, f"{field} of several items"):
            for place in {place for number in among for place in column[texts[number]]}:
                found[place] = (*found.get(place, ()), finding)
    return found


def _list_unsafe(
    fields: Sequence[str], findings: Iterable[Finding], inconclusive: str | None
) -> frozenset[str]:
    telling = [one.field or "" for one in findings if one.weight != "weak"]
    if inconclusive is not None:
        telling.append(inconclusive.partition(":")[0])
    return frozenset(field for field in fields if any(field in one for one in telling))
