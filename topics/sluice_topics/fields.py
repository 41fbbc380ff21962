"""docs/fields.md: what each field that a caller fills in may do to the outcome, as the records declare it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from sluice_topics.catalog import CATALOG
from sluice_topics.records.base import CallersWord, InputCoordinates, Record
from sluice_topics.records.inputs import SeedAction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_HEAD = """# What a caller's word may do

*For those who publish inputs, and for auditors of what a caller can achieve. `sluice topics export` writes
this page from `sluice_topics/records`.*

The publisher of an input fills in its fields, and nothing proves their values. So each field is of one of
three kinds:

- **tightens**: with the field the outcome is the same or stricter than without it. BLOCK is stricter than
  ESCALATE, and ESCALATE is stricter than ALLOW. The tier is not lower, the reserved rows are not fewer, and
  no obligation is missing.
- **ignored**: no gate reads the field, so the outcome is the same with and without it.
- **counts**: the field may make the outcome less strict, within the bound in the table.

A field without a kind fails a test. Property tests hold the first two kinds over the shipped bundle
(tests/unit/core/test_callers_words.py, and in its folder retrieval/test_readers_words.py and
memory/test_writers_words.py). [Decision 8](decisions/0008-callers-words.md) gives the reasons.
"""


def find_callers_word(field: FieldInfo) -> CallersWord | None:
    """What a field declares; None for nothing."""
    return next((annotation for annotation in field.metadata if isinstance(annotation, CallersWord)), None)


def list_input_records() -> tuple[type[Record], ...]:
    """Every record of an input topic, each followed by the records within it, and what stands for "
    "a part of one."""
    record_types: dict[type[Record], None] = {}
    for topic in CATALOG:
        if topic.direction == "in":
            for record in topic.records:
                record_types |= dict.fromkeys(_list_with_parts(record))
    return (*record_types, SeedAction)


def make_fields_page() -> str:
    """The page, Markdown."""
    return "\n".join([_HEAD, *(_write_section(record) for record in list_input_records())])


def _list_with_parts(record: type[Record]) -> Iterator[type[Record]]:
    """Coordinates are copied from a verdict as a whole: no part of them says anything alone."""
    yield record
    for field in record.model_fields.values():
        for part in _list_records(field.annotation):
            if part is not InputCoordinates:
                yield from _list_with_parts(part)


def _list_records(annotation: Any) -> Iterator[type[Record]]:
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for inner in get_args(annotation):
        yield from _list_records(inner)


def _write_section(record: type[Record]) -> str:
    rows = "".join(_write_row(name, field) for name, field in record.model_fields.items())
    return f"## {record.__name__}\n\n| field | kind | |\n|---|---|---|\n{rows}"


def _write_row(name: str, field: FieldInfo) -> str:
    word = find_callers_word(field)
    kind, bound = ("", "") if word is None else (word.kind, word.bound)
    return f"| `{field.alias or name}` | {kind} | {bound} |\n"
