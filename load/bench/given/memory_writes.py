"""The benchmarks' memory writes: texts of the panel, each salted so that no cache of texts helps."""

from __future__ import annotations

import string
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import orjson

from load.bench.given.action_events import AGENT, AT_MS, found
from sluice.core.foundation.arrival import Arrival
from sluice.core.foundation.clock import rfc3339
from sluice.offline.panels import WriteRow, load_mixed
from sluice_topics.catalog import MEMORY_WRITES

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

Kind = Literal["benign", "mixed"]
KINDS: tuple[Kind, ...] = ("benign", "mixed")
CHARACTERS = 1024
SOURCES = 12
_SALT_LETTERS = 7
_BETWEEN = "\n\n"
_QUALITY = {
    "content_class": "note",
    "timestamp": rfc3339(AT_MS),
    "confidence_score": 0.9,
    "provenance_uri": "https://notes.example/bench",
    "provenance_hash": f"sha256:{0:064x}",
}


@cache
def panel() -> tuple[WriteRow, ...]:
    """The whole panel of memory writes if it is at hand, else the demo's share of it."""
    rows = load_mixed(found("memory_writes.jsonl"))
    return tuple(row for row in rows if isinstance(row, WriteRow))


def rows_of(kind: Kind) -> list[str]:
    """The texts of the panel's harmless rows, or of all."""
    return [row.text for row in panel() if kind == "mixed" or row.label == "benign"]


def texts(kind: Kind, count: int, chance: random.Random, characters: int = CHARACTERS) -> Iterator[str]:
    """`count` texts of so many characters, each of as many rows as it takes."""
    rows = rows_of(kind)
    for _ in range(count):
        text = ""
        while len(text) < characters:
            text += salted(chance.choice(rows), chance) + _BETWEEN
        yield text[:characters]


def salted(text: str, chance: random.Random) -> str:
    """The text and one word more, that nobody has used: letters alone, or it would look like a disguise."""
    return f"{text} {''.join(chance.choices(string.ascii_lowercase, k=_SALT_LETTERS))}"


def fields(text: str, number: int, session: str) -> dict[str, Any]:
    """A text as a proposed memory write with complete metadata, from one of a few sources."""
    return {
        "write_id": f"w-{number:07d}",
        "agent_id": AGENT,
        "session_id": session,
        "content": text,
        "source": {"id": f"source-{number % SOURCES}", "type": "user"},
        **_QUALITY,
    }


def arrivals(contents: Sequence[str], sessions: int, first: int = 0) -> list[Arrival]:
    """The texts as inputs of one partition, spread over `sessions`; `first`: the first one's offset."""
    written = []
    for number, text in enumerate(contents, first):
        session = f"session-{number % sessions:06d}"
        value = orjson.dumps(fields(text, number, session))
        written.append(Arrival(MEMORY_WRITES, 0, number, AT_MS, session.encode(), value))
    return written
