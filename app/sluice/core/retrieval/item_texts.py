"""What is text in a retrieval: its items' bodies, and the ids, classes and references released with them.

The bodies are what is served and what the content check reads. The others are free text too: they are read
by the content's detectors, and what is found counts as if it were in the body of the item that they name;
what is found in the request's own ids counts for every item. Where an item is not let through, an id that
something was found in is released as its digest, and another text not at all.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.canonical import canonical, is_odd_float, wire_safe
from sluice.core.foundation.sealed_input import list_key_ids
from sluice.core.metadata.provenance import MAX_URI_CHARACTERS
from sluice.detection.text_inspection import NOTHING, Read

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from sluice.core.foundation.sealed_input import OpenedInput
    from sluice.detection.text_inspection import Finding, Name, Names
    from sluice_topics.records import ProposedRetrieval
    from sluice_topics.records.retrieval_inputs import RetrievedItem

MAX_WRITTEN_BYTES = 2 * 1024 * 1024
"""Of a request's JSON bodies in their RFC 8785 form, so that what is served stays below the output's limit: a
number of four characters may take twenty there."""
MAX_ODD_NUMBERS = 4096
"""Of a request: numbers that RFC 8785 writes otherwise than a fast writer does cost 15 us each."""


class Body:
    """A text stands for itself; of other JSON the keys and texts are read, a line each, and the digest is
    over its RFC 8785 form. `value` is what may be served; `problem`: why it is neither read nor served;
    `sealed`: the body as it was sent where it has sealed values, which is served in its place."""

    __slots__ = ("_digest", "_written", "is_given", "problem", "sealed", "text", "value")

    def __init__(self, value: Any, problem: str | None = None) -> None:
        """Raises CanonicalError for what no ledger could carry."""
        self.is_given = value is not None
        self.problem = problem
        self.sealed: Body | None = None
        self._digest: str | None = None
        self._written = b""
        if isinstance(value, str):
            self.value: Any = value
            self.text = value
        elif problem is not None:
            self.value, self.text = None, ""
        else:
            self.value = wire_safe(value)
            self.text = "\n".join(_list_texts(self.value))
            self._written = canonical(self.value)

    @property
    def digest(self) -> str | None:
        """ "sha256:" and the hex digest of the text's UTF-8 or the canonical JSON; None without a body, and
        where that is too long."""
        if self._digest is None and self.is_given and self.problem is None:
            self._digest = "sha256:" + sha256(self._written or self.text.encode()).hexdigest()
        return self._digest

    @property
    def served(self) -> Body:
        """As it is served, and named in records: with its sealed values."""
        return self.sealed or self

    @property
    def written_bytes(self) -> int:
        """Of the RFC 8785 form; 0 for a text, which takes no more room in an output than in its input."""
        return len(self._written)


def read_bodies(items: Iterable[RetrievedItem], opened: OpenedInput | None = None) -> list[Body]:
    """The bodies of a request's items, in their order; those with which it passes a bound have a problem.
    `opened`: the request's sealed values."""
    numbers, written = MAX_ODD_NUMBERS, MAX_WRITTEN_BYTES
    bodies = []
    for item in items:
        body = _read_body(item.body, numbers, written)
        if body.problem is None and not isinstance(body.value, str | None):
            numbers -= _count_odd_numbers(item.body, numbers)
            written -= body.written_bytes
        bodies.append(body)
    if opened is not None:
        for body, item in zip(bodies, opened.sealed["items"], strict=True):
            if body.is_given and list_key_ids(item.get("body")):
                body.sealed = Body(item["body"])
    return bodies


def _read_body(value: Any, numbers: int, written: int) -> Body:
    """`numbers` and `written`: what of the bounds is left."""
    if value is None:
        return NO_BODY
    if not isinstance(value, str) and _count_odd_numbers(value, numbers) > numbers:
        return Body(value, f"too_long: over {MAX_ODD_NUMBERS} numbers that no plain decimal writes")
    body = Body(value)
    if body.written_bytes > written:
        return Body(value, f"too_long: over {MAX_WRITTEN_BYTES} bytes written out")
    return body


def _count_odd_numbers(value: Any, most: int) -> int:
    """How many, counted to one more than `most`."""
    odd = 0
    for number in _list_floats(value):
        odd += is_odd_float(number)
        if odd > most:
            break
    return odd


def _list_floats(value: Any) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _list_floats(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_floats(item)


def _list_texts(value: Any) -> Iterator[str]:
    """Every key and text of a JSON value, in its order. Escapes would hide what begins a line."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item)


NO_BODY = Body(None)


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
    named = [("request_id", retrieval.request_id), ("session_id", retrieval.session_id)]
    if retrieval.trace_id is not None:
        named.append(("trace_id", retrieval.trace_id))
    if not known_agent:
        named.append(("agent_id", retrieval.agent_id))
    request = reader.read(named)
    reads = [reader.read(_list_names(item, classes)) for item in retrieval.items]
    if len(reads) == 1:
        return RequestNames(request, (ItemNames(reads[0], (), request),))
    several = _read_several(reader, reads)
    alone = {id(own): ItemNames(own, (), request) for own in reads}
    items = [
        ItemNames(own, several[index], request) if index in several else alone[id(own)]
        for index, own in enumerate(reads)
    ]
    return RequestNames(request, items)


def read_meeting(reader: Names, own: Read, text: str) -> tuple[Finding, ...]:
    """What is found where an item's names and its body meet."""
    return reader.find_before(own.words, text, "body") if own.words else ()


def record_class(value: Any) -> str | None:
    """A content class as it is recorded and released, None for what is none."""
    return value if isinstance(value, str) and len(value) <= LONGEST_CLASS else None


def record_uri(value: Any) -> str | None:
    """Likewise a reference, as long as one may be that is resolved: a rerun finds its record by it."""
    return value if isinstance(value, str) and len(value) <= MAX_URI_CHARACTERS else None


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
    by_item: dict[int, tuple[Finding, ...]] = {}
    if len({read.words for read in reads if read.words}) <= 1:
        return by_item
    for field in ITEM_FIELDS:
        column: dict[str, list[int]] = {}
        for index, read in enumerate(reads):
            for words in (word.words for word in read.words if word.field == field):
                column.setdefault(words, []).append(index)
        texts = list(column)
        for finding, among in reader.along(texts, f"{field} of several items"):
            for index in {position for number in among for position in column[texts[number]]}:
                by_item[index] = (*by_item.get(index, ()), finding)
    return by_item


def _list_unsafe(
    fields: Sequence[str], findings: Iterable[Finding], inconclusive: str | None
) -> frozenset[str]:
    telling = [finding.field or "" for finding in findings if finding.weight != "weak"]
    if inconclusive is not None:
        telling.append(inconclusive.partition(":")[0])
    return frozenset(field for field in fields if any(field in path for path in telling))
