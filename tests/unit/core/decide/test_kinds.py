"""The table of kinds says of every kind what the catalog, the documents and the other readers of it say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from sluice.adapters.named_decisions import NAMES
from sluice.cli.ledger.rerun import PLURALS
from sluice.cli.machine.evaluate import EVALUATIONS
from sluice.cli.machine.publish import INPUTS, check_lines
from sluice.core.decide.kinds import (
    ANSWERS,
    BY_MODEL,
    BY_ROW,
    BY_TOPIC,
    DECIDING,
    DECISIONS,
    JUDGED,
    KINDS,
    Message,
    name_decision,
    read_input_message,
)
from sluice.core.decide.replay import Replay
from sluice.core.foundation.input_record import InputRecord
from sluice.core.rerun import walk
from sluice.core.rerun.rerun_result import WORDS
from sluice.offline.panels import ROWS
from sluice.offline.record_files import read_input_records
from sluice.verifier.placement import KINDS as VERIFIED
from sluice_topics.catalog import (
    BY_NAME,
    CATALOG,
    DESTINATION_USES,
    REVIEWS,
    SOURCE_FEEDBACK,
    get_wire_schema,
)
from sluice_topics.headers import make_input_headers
from sluice_topics.record_reading import Unreadable
from tests.unit import memory_records
from tests.unit.core.scene import START, point
from tests.unit.test_docs_current import EXAMPLES

if TYPE_CHECKING:
    from sluice.core.policy.kind import AnswerKind, AnyKind
    from sluice_topics.records.base import Record

ROOT = Path(__file__).resolve().parents[4]
LEARNT = {name: memory_records.other_records()[name] for name in ("SourceFeedback", "DestinationUsed")}
EXAMPLES_OF_INPUTS = {**EXAMPLES, **LEARNT}
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
every_answer = pytest.mark.parametrize("answer", ANSWERS.values(), ids=lambda one: one.model.__name__)


def input_record_of(kind: AnyKind, offset: int = 1) -> InputRecord:
    """A readable input of the kind, under its key."""
    value = EXAMPLES_OF_INPUTS[kind.model.__name__]
    raw = json.dumps(value).encode()
    return InputRecord(
        kind.topic, 3, offset, START, kind.key(kind.model.model_validate_json(raw)).encode(), raw
    )


def rows_of(document: str, heading: str) -> list[list[str]]:
    """The cells of the first table behind a heading's line, without its own two lines."""
    behind = (ROOT / document).read_text(encoding="utf-8").partition(heading)[2]
    lines = re.search(r"(?:^\|.*\n)+", behind, re.MULTILINE)
    assert lines is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()[2:]]


def test_the_table_has_every_input_topic_of_the_catalog_and_what_is_learnt_of_sources_and_uses() -> None:
    inputs = [topic.name for topic in CATALOG if topic.direction == "in"]
    assert sorted(BY_TOPIC) == sorted([*inputs, SOURCE_FEEDBACK, DESTINATION_USES])
    assert all(BY_NAME[kind.topic].records == (kind.model,) for kind in KINDS)
    assert set(get_args(Message)) == BY_MODEL.keys()
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_the_page_of_topics_lists_the_topics_and_records_of_the_table() -> None:
    rows = [row for row in rows_of("docs/topics.md", "# Topics") if row[1] == "in"]
    told = {row[0].strip("`"): row[2].split("`")[1] for row in rows}
    assert told == {kind.topic: kind.model.__name__ for kind in KINDS if kind.session}


def test_a_line_of_a_file_is_told_as_its_document_says() -> None:
    told = {
        row[0].strip("`"): row[1].strip("`") for row in rows_of("docs/offline.md", "## Decisions on a file")
    }
    marked = [(kind.marked_by or "none of them", kind.topic) for kind in reversed(KINDS) if kind.session]
    assert list(told.items()) == marked
    for kind in KINDS:
        if kind.session is not None:
            (read,) = read_input_records([input_record_of(kind).value or b""], START)
            assert read.topic == kind.topic


@every_kind
def test_an_input_is_read_as_its_kind_and_names_itself_and_its_session(kind: AnyKind) -> None:
    input_record = input_record_of(kind)
    message = read_input_message(input_record)
    assert type(message) is kind.model
    raw = EXAMPLES_OF_INPUTS[kind.model.__name__]
    assert kind.subject_of(message) == raw[kind.subject]
    assert kind.session_of(message) == (None if kind.session is None else raw[kind.session])
    elsewhere = InputRecord(input_record.topic, 3, 1, START, b"elsewhere", input_record.value)
    assert isinstance(read_input_message(elsewhere), Unreadable)


@pytest.mark.parametrize("kind", [one for one in KINDS if one.session], ids=lambda kind: kind.name)
def test_a_publisher_names_an_input_as_the_table_does(kind: AnyKind) -> None:
    (line,) = check_lines(
        [(1, input_record_of(kind).value or b"")], INPUTS[kind.topic], "session_id", "2026-01-01T00:00:00Z"
    )
    named = EXAMPLES_OF_INPUTS[kind.model.__name__][kind.subject]
    headers = make_input_headers(named, kind.model.__name__, "/sluice/publish", "2026-01-01T00:00:00Z")
    assert getattr(line.content, "headers", None) == tuple(headers)


@every_kind
def test_an_input_that_nobody_reads_and_one_that_the_core_fails_on_are_answered(kind: AnyKind) -> None:
    input_record, where = input_record_of(kind), point()
    message = read_input_message(input_record)
    assert isinstance(message, kind.model)
    state = Replay(where).session(input_record.key or b"")
    for answered in (where.unread(input_record), where.fault(input_record, message, state, "it raised")):
        kinds = [one.kind for one in answered.records]
        due = "InputRefused" if kind.fault is None else answer_of(kind).model.__name__
        assert kinds[-1] == "DeadLetter"
        assert due in kinds
    assert (kind.fault is None) is (kind.unread is None)
    assert (kind.fault is not None) is (kind in JUDGED)


def answer_of(kind: AnyKind) -> AnswerKind[Any]:
    assert kind.answer is not None
    return kind.answer


@every_answer
def test_an_answer_lies_on_its_topic_and_has_the_fields_that_the_table_names(answer: AnswerKind[Any]) -> None:
    assert answer.model in BY_NAME[answer.topic].records
    assert answer.schema == get_wire_schema(answer.model)
    assert VERIFIED[answer.schema].topic == answer.topic
    assert VERIFIED[answer.schema].id_field == answer.id_field
    names = fields_of(answer.model)
    assert names >= {answer.id_field, *(path[0] for path in answer.of_session)}
    if answer.decision is not None:
        assert names >= {answer.decision.read_field, *answer.decision.rerun_fields}


def fields_of(model: type[Record]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_reader_of_the_table_knows_every_decision() -> None:
    words = [one.word for one in DECISIONS.values()]
    topics = {kind.topic for kind in JUDGED}
    assert [*WORDS] == [*words, "event"]
    assert PLURALS.keys() == set(WORDS)
    assert walk.DECIDED.keys() == NAMES.keys() == topics
    assert DECIDING.keys() == {*topics, REVIEWS}
    assert set(walk.DECISION_TOPICS) == {one.topic for one in DECIDING.values()}
    for kind in JUDGED:
        verified = VERIFIED[answer_of(kind).schema]
        assert verified.of == kind.topic
        assert name_decision((kind.topic, 3, 7)) == f"{verified.word}:{kind.topic}:3:7"


@every_kind
def test_a_case_of_a_bundle_gives_the_input_in_the_field_that_the_table_names(kind: AnyKind) -> None:
    assert (kind.case is not None) is (kind in JUDGED)
    if kind.case is not None:
        assert kind.case.field in kind.case.model.model_fields


def test_every_kind_with_cases_is_evaluated_on_labelled_rows() -> None:
    evaluated = [kind.name for kind in BY_ROW.values()]
    assert evaluated == [kind.name for kind in JUDGED] == [*ROWS] == [*EVALUATIONS]
