"""One partition of the ledger from its first record to its last: every decision executed again, the sessions
recounted along the way, and what lies outside a record's hash held against the record."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson
from pydantic import ValidationError

from sluice.core.decide.kinds import ANSWERS, DECIDING, DECISIONS, JUDGED
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.strict import first_error
from sluice.core.rerun.recomputation import EnteredRecord, Recomputation, Recomputed
from sluice.core.rerun.rerun_result import EVENT, Difference, Rerun
from sluice_topics.catalog import CATALOG, get_wire_schema
from sluice_topics.headers import make_output_headers
from sluice_topics.json_text import MAX_DEPTH, Unreadable, parse
from sluice_topics.record_proof import HEADER as PROOF

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.kind import AnswerKind, DecisionKind
    from sluice.core.rerun.rerunner import Rerunner


DECISION_TOPICS = frozenset(answer_kind.topic for answer_kind in DECIDING.values())
"""Where records that decide lie. A topic may have several kinds of them."""


class NotADecision(Exception):
    """The value is no record of a decision; the message has the path and the reason."""


def read_decision(topic: str, raw: bytes) -> dict[str, Any]:
    """The fields, by wire name, of a record of `topic`: one of DECISION_TOPICS. Raises NotADecision."""
    document = parse(raw)
    if isinstance(document, Unreadable):
        raise NotADecision(f"{document.path}: {document.message}")
    schema = document.get("schema") if isinstance(document, dict) else None
    answer = ANSWERS.get(schema) if isinstance(schema, str) and schema in DECISIONS else None
    if answer is None or answer.topic != topic:
        answer = FIRST_OF_TOPIC[topic]
    try:
        answer.model.model_validate(document)
    except ValidationError as error:
        raise NotADecision(first_error(error)) from None
    fields: dict[str, Any] = document
    return fields


Place = tuple[str, int, int]
"""Base topic, partition and offset of an input."""
Inputs = Mapping[Place, "InputRecord"]
"""What lies at the places of earlier inputs."""
NO_INPUTS: Inputs = {}
FIRST_OF_TOPIC: Mapping[str, AnswerKind[Any]] = {kind.topic: kind for kind in reversed([*DECIDING.values()])}
"""The kind of decision that a topic is named for."""
DECIDED: Mapping[str, DecisionKind[Any]] = {
    kind.topic: kind.answer.decision for kind in JUDGED if kind.answer and kind.answer.decision
}
"""What decides on an input, by its topic; every input of these is answered by a decision or a dead letter."""
NO_RECOUNT = "the session's state before: no root keys are set, so the policy of its inputs is not known"
FROM_ELSEWHERE = frozenset({"ce_source", "traceparent", PROOF})
"""Headers that do not follow from the record: the installation's name, what the input carried, and the proof
of the whole transaction, which `sluice ledger verify --verdict-key` checks."""
_HASH_FOLLOWS = b',"event_hash":"'
_HASH_ENDS = re.compile(rb'sha256:[0-9a-f]{64}"\}')
_KINDS = {
    schema: record.__name__
    for topic in CATALOG
    for record in topic.records
    if (schema := get_wire_schema(record))
}


class WrittenRecord(NamedTuple):
    """A ledger record as it lies; `topic` is the base name, `written_ms` the broker's time of it."""

    topic: str
    partition: int
    offset: int
    written_ms: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


class LedgerEntry(NamedTuple):
    """A record and its fields."""

    written: WrittenRecord
    fields: dict[str, Any]

    @property
    def coordinates(self) -> Place | None:
        """Of its input; None where a timer decided."""
        source = self.fields["input"]
        return None if source is None else (source["topic"], source["partition"], source["offset"])


def list_places(entries: Iterable[LedgerEntry]) -> Iterator[Place]:
    """Where the inputs lie that records rest on: their own, and the action that was approved."""
    for entry in entries:
        if entry.coordinates is not None:
            yield entry.coordinates
        if _is_input(action := entry.fields.get("action")) and action is not None:
            yield action["topic"], action["partition"], action["offset"]


def read_entry(written: WrittenRecord) -> LedgerEntry | None:
    """None for a record that does not belong to the ledger; `sluice ledger verify` reports it."""
    fields = _parse_record(written.value)
    if not isinstance(fields, dict) or not isinstance(schema := fields.get("schema"), str):
        return None
    if schema not in _KINDS:
        return None
    if type(fields.get("sequence")) is not int or not _is_input(fields.get("input", 0)):
        return None
    return LedgerEntry(written, fields)


def _parse_record(raw: bytes) -> Any:
    """What `parse` gives. Where orjson writes again the very bytes that it read, nothing was lost or changed:
    no name stands there twice, and no number is beyond what it holds. Nearly every record lies so, its names
    in order and its hash behind them."""
    others, mark, event_hash = raw.rpartition(_HASH_FOLLOWS)
    if not mark or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH or not _HASH_ENDS.fullmatch(event_hash):
        return parse(raw)
    others += b"}"
    try:
        fields = orjson.loads(others)
        is_same = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS) == others
    except (ValueError, TypeError):
        return parse(raw)
    if not is_same or "event_hash" in fields:
        return parse(raw)
    fields["event_hash"] = event_hash[:-2].decode()
    return fields


def get_kind(fields: dict[str, Any]) -> str:
    """The name of a ledger record's model, by its schema."""
    return _KINDS[fields["schema"]]


_MOST_OFFSET = 2**63 - 1


def _is_input(source: Any) -> bool:
    if not isinstance(source, dict):
        return source is None
    numbers = (source.get("partition"), source.get("offset"))
    return isinstance(source.get("topic"), str) and all(
        type(number) is int and 0 <= number <= _MOST_OFFSET for number in numbers
    )


def group_answers(entries: Iterable[LedgerEntry]) -> Iterator[list[LedgerEntry]]:
    """The records that answer one input, as they follow one another."""
    for coordinates, answers in groupby(entries, key=lambda entry: entry.coordinates):
        if coordinates is None:
            yield from ([entry] for entry in answers)
        else:
            yield list(answers)


def check_outside(written: WrittenRecord, fields: dict[str, Any]) -> tuple[Difference, ...]:
    """What key, headers and partition say otherwise than the record."""
    differences = []
    session = fields.get("session_id")
    if isinstance(session, str) and written.key != session.encode():
        differences.append(Difference("key", _decode_text(written.key), session))
    source = fields["input"]
    if source is not None and source["partition"] != written.partition:
        differences.append(Difference("input.partition", source["partition"], written.partition))
    due, there = _make_due_headers(fields), dict(written.headers)
    names = sorted((due.keys() | there.keys()) - FROM_ELSEWHERE)
    differing = [name for name in names if due.get(name) != there.get(name)]
    headers = [
        Difference(f"headers.{name}", _decode_text(there.get(name)), _decode_text(due.get(name)))
        for name in differing
    ]
    return (*differences, *headers)


class RecordFetcher(Protocol):
    """Fetches single records of a ledger and its inputs."""

    async def fetch_inputs(self, places: Iterable[Place]) -> dict[Place, InputRecord]:
        """The inputs at these places; one is absent where nothing lies any more."""

    async def fetch_decisions(self, coordinates: Place, sought: str, since_ms: int) -> list[WrittenRecord]:
        """Every decision of id `sought` on the input at this place, written at or after `since_ms`."""


class LedgerPartitions(Protocol):
    """Reads a ledger partition by partition."""

    async def list_numbers(self) -> list[int]:
        """The numbers of the ledger's partitions."""

    def read_entries(self, number: int, since_ms: int = 0) -> AsyncIterator[list[LedgerEntry]]:
        """Every record of a partition by its number, in batches; what is no record is skipped. `since_ms`:
        those that were written before (broker's time) may be left out."""

    def read_decided_inputs(self, topic: str, number: int) -> AsyncIterator[list[InputRecord]]:
        """The inputs of a topic (base name) that the workers had decided, as far as they are there."""


class LedgerSource(Protocol):
    """What reruns read: a broker (KafkaEvidence) or an archive (ArchiveEvidence)."""

    async def read_policy(self) -> list[InputRecord]:
        """Every control record so far."""

    def read_inputs(self, bases: Sequence[str]) -> AsyncIterator[list[InputRecord]]:
        """Every record of these topics (base names), without headers."""

    def read_decisions(self) -> AsyncIterator[list[WrittenRecord]]:
        """Every decision, in batches, each partition of a topic in order."""

    async def fetch_ends(self, bases: Sequence[str]) -> dict[tuple[str, int], int]:
        """The offset behind the last record, by topic (base name) and partition."""

    def open_fetcher(self) -> AbstractAsyncContextManager[RecordFetcher]:
        """A reader of single records."""

    def open_partitions(self, group: str) -> LedgerPartitions:
        """A reader of whole partitions. `group`: the workers' consumer group."""


@dataclass
class PartitionWalk:
    """Hand it the records of one partition in the order of their numbers, those of one input together.

    `recount` is None where no policy of then is known. `answered`: offsets of the inputs that a decision or a
    dead letter answers, by base topic.
    """

    rerunner: Rerunner
    recount: Recomputation | None
    answered: dict[str, set[int]] = field(default_factory=lambda: {topic: set() for topic in DECIDED})
    _decisions: dict[str, int] = field(default_factory=dict)

    def take(
        self, group: Sequence[LedgerEntry], input_record: InputRecord | None, inputs: Inputs = NO_INPUTS
    ) -> Iterator[Rerun]:
        """A Rerun for each decision, and for every other record that something is wrong with. `inputs`: what
        lies at the other places that `list_places` gives of the records."""
        coordinates = group[0].coordinates
        if coordinates is not None and coordinates[0] in self.answered:
            self.answered[coordinates[0]].add(coordinates[2])
        for entry, counted in zip(group, self._recount(group, input_record, inputs), strict=True):
            if entry.written.topic in DECISION_TOPICS:
                yield self._rerun_decision(
                    entry, execute_again(self.rerunner, entry.written, input_record, inputs), counted
                )
            elif differences := (*check_outside(*entry), *counted.differences):
                yield Rerun(EVENT, _get_name(entry), differences)

    def list_unanswered(self, inputs: Iterable[InputRecord]) -> Iterator[Rerun]:
        """One for each of these inputs, every one of which was decided, that no record answers."""
        for record in inputs:
            if record.offset not in self.answered[record.topic]:
                lacks = Difference("input", None, "was decided, and no record of the ledger answers it")
                yield Rerun(DECIDED[record.topic].word, record.decision_id, (lacks,))

    def _recount(
        self, group: Sequence[LedgerEntry], input_record: InputRecord | None, inputs: Inputs
    ) -> list[Recomputed]:
        if self.recount is None:
            return [Recomputed((), (NO_RECOUNT,))] * len(group)
        try:
            entered = [EnteredRecord(entry.fields, entry.written.written_ms) for entry in group]
            return self.recount.take(entered, input_record, inputs)
        except (CoreError, KeyError, TypeError, ValueError) as wrong:
            return [Recomputed((Difference("record", "cannot be recounted", repr(wrong)),))] * len(group)

    def _rerun_decision(self, entry: LedgerEntry, rerun: Rerun, counted: Recomputed) -> Rerun:
        certain = (*self._find_second(entry), *check_outside(*entry))
        return replace(
            rerun,
            differences=_omit_repeated((*certain, *rerun.differences, *counted.differences)),
            not_checked=(*rerun.not_checked, *counted.not_checked),
            whatever_version=rerun.whatever_version or bool(certain),
        )

    def _find_second(self, entry: LedgerEntry) -> tuple[Difference, ...]:
        """A difference where the input was decided before, by the decision's id; of a record of another topic
        there is none."""
        answer = ANSWERS.get(entry.fields["schema"])
        if answer is None:
            return ()
        id_field = answer.id_field
        name = str(entry.fields.get(id_field))
        first = self._decisions.setdefault(name, entry.fields["sequence"])
        if first == entry.fields["sequence"]:
            return ()
        return (describe_second_decision(id_field, name, f"record {first}"),)


def describe_second_decision(id_field: str, name: str, first: str) -> Difference:
    """Two decisions on one input."""
    return Difference(id_field, name, f"the input was decided before, in {first}")


def execute_again(
    rerunner: Rerunner, written: WrittenRecord, input_record: InputRecord | None, inputs: Inputs = NO_INPUTS
) -> Rerun:
    """A decision executed again; one that is no valid record is named as missing."""
    kind = DECISIONS[FIRST_OF_TOPIC[written.topic].schema].word
    try:
        fields = read_decision(written.topic, written.value)
    except NotADecision as error:
        return Rerun(kind, "", missing=(f"a readable {kind.replace('_', ' ')}: {error}",))
    return rerunner.rerun(fields, input_record, written.written_ms, inputs)


def _get_name(entry: LedgerEntry) -> str:
    ids = (value for name, value in entry.fields.items() if name.endswith("_id") and name != "session_id")
    return str(next(ids, entry.fields.get("session_id")))


def _omit_repeated(differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Without what is said twice of one field."""
    return tuple({difference.field: difference for difference in reversed(differences)}.values())[::-1]


def _make_due_headers(fields: dict[str, Any]) -> dict[str, bytes]:
    try:
        return dict(make_output_headers(fields, get_kind(fields), "", None))
    except (KeyError, TypeError, AttributeError):
        return {}


def _decode_text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
