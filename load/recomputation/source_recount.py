"""Every memory source's history once more: what was learnt of it, folded in the order of its partition.

Imports nothing of the core. Reviews count one each; a first sight counts while nobody has seen the source,
since several sessions may tell of it. Each fold is one revision, told to all workers once.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from load.recomputation.write_recount import DECISION, Feedback

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from sluice.adapters.kafka.kafka_read import StoredRecord

STATE_KEY = b"f:"
UNSEEN = (None, 0, 0, 0)
History = tuple[str | None, int, int, int]
"""Type, positive and negative reviews, revision."""


@dataclass(frozen=True, slots=True)
class Histories:
    """By key of the source: its home, and its history after each revision, the first at 1."""

    homes: dict[bytes, set[int]]
    revisions: dict[bytes, list[History]]

    def find(self, source: tuple[str, str], revision: int) -> History | None:
        """What the source's history was at a revision; None when there was none such."""
        histories = self.revisions.get(json.dumps(list(source), separators=(",", ":")).encode(), [])
        return UNSEEN if revision == 0 else histories[revision - 1] if revision <= len(histories) else None


def fold(feedback: Iterable[StoredRecord]) -> Histories:
    """Every source's, from the feedback topic."""
    homes: dict[bytes, set[int]] = defaultdict(set)
    revisions: dict[bytes, list[History]] = defaultdict(list)
    for record in sorted(feedback, key=lambda stored_record: (stored_record.partition, stored_record.offset)):
        key, body = record.key or b"", _body(record)
        homes[key].add(record.partition)
        type_, positive, negative, revision = revisions[key][-1] if revisions[key] else UNSEEN
        if body["verdict"] == "seen" and type_ is not None:
            continue
        positive += body["verdict"] == "positive"
        negative += body["verdict"] == "negative"
        revisions[key].append((type_ or body["type"], positive, negative, revision + 1))
    return Histories(homes, revisions)


def wrong_histories(
    histories: Histories, published_records: Iterable[StoredRecord], changelog: Iterable[StoredRecord]
) -> list[str]:
    """Sources whose published revisions, or whose state in the end, are not what was folded."""
    published: dict[bytes, list[History]] = defaultdict(list)
    for record in sorted(
        published_records, key=lambda published_record: (published_record.partition, published_record.offset)
    ):
        body = _body(record)
        published[record.key or b""].append(
            (body["type"], body["positive"], body["negative"], body["revision"])
        )
        histories.homes[record.key or b""].add(record.partition)
    state = {}
    for record in changelog:
        if (record.key or b"").startswith(STATE_KEY):
            key = (record.key or b"")[len(STATE_KEY) :]
            state[key] = [tuple(json.loads(record.value or b"null"))]
            histories.homes[key].add(record.partition)
    problems = [f"{key!r} has homes {homes}" for key, homes in histories.homes.items() if len(homes) != 1]
    for key in histories.revisions.keys() | published.keys() | state.keys():
        due = histories.revisions.get(key, [])
        if published.get(key, []) != due:
            problems.append(f"{key!r}: folded {due[-3:]}, published {published.get(key, [])[-3:]}")
        if state.get(key, []) != due[-1:]:
            problems.append(f"{key!r}: folded {due[-1:]}, in the state {state.get(key)}")
    return problems


def wrong_feedback(due: Counter[Feedback], records: Iterable[StoredRecord]) -> list[str]:
    """What was told of sources and is not due, or told twice, or not told."""
    there: dict[Feedback, int] = defaultdict(int)
    for body in map(_body, records):
        source = (body["tenant_id"], body["source_id"])
        there[Feedback(source, body["verdict"], body["memory_id"])] += 1
    return [
        f"{feedback} told {there.get(feedback, 0)} times, due {due.get(feedback, 0)}"
        for feedback in due.keys() | there.keys()
        if due.get(feedback, 0) != there.get(feedback, 0)
    ]


def wrong_sights(
    histories: Histories, ledger: Iterable[dict[str, Any]], sources: dict[str, str]
) -> list[str]:
    """Decisions that saw a history which never was. `sources`: by memory id."""
    problems = []
    for body in ledger:
        source = sources.get(body["memory_id"]) if body["schema"] == DECISION else None
        if source is None or body["tenant_id"] is None:
            continue
        observed = body["seen"]["source"]
        history = (observed["type"], observed["positive"], observed["negative"], observed["revision"])
        if histories.find((body["tenant_id"], source), observed["revision"]) != history:
            problems.append(f"{body['memory_id']} saw {history} of {source}")
    return problems


def _body(record: StoredRecord) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(record.value or b"null")
    return body
