"""What agents were let see of retrieved items: every request once, each item covered by its decision."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from load.recounts.quarantine_recount import milliseconds
from load.recounts.retrieval_recount import DECISION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from app.adapters.kafka.kafka_read import StoredRecord
    from load.recounts.input_answers import AnswerAccount, Answered, Place
    from load.recounts.retrieval_recount import Retrievals

ASKED_AGAIN_MS = 30_000
"""A partition that asked for a reference does so again after this time, and not before."""
FLAGS = ("stale", "low_confidence", "provenance_missing", "provenance_unverified", "content_suspect")


def wrong_served(account: AnswerAccount, found: Retrievals, served: Iterable[StoredRecord]) -> Iterator[str]:
    """Requests that were served twice, not at all, in another session, or otherwise than they are due."""
    due = {place for place, _ in found.due}
    for record in served:
        body = json.loads(record.value or b"null")
        place = _place(body["served_id"])
        if place not in due:
            yield f"{body['served_id']} was served twice, or without being due"
            continue
        due.remove(place)
        one = account.inputs[place]
        if (record.key, record.partition) != (one.record.key, one.record.partition):
            yield f"{body['served_id']} was served to another session"
        if (wrong := _wrong(one, found, body)) is not None:
            yield f"{body['served_id']}: {wrong}"
    yield from (f"{place} was not served" for place in due)


def wrong_wanted(found: Retrievals, wanted: Iterable[StoredRecord]) -> list[str]:
    """References that were asked for and are not due, or under another key; or that are due, and no record
    asks for them within this time.

    A decision's time is its input's, and the decisions of a partition are not written in the order of these:
    sessions do not wait for one another. So of two wishes the later one may stand for the earlier.
    """
    asked: dict[str, list[int]] = defaultdict(list)
    there: Counter[tuple[str, str]] = Counter()
    problems = []
    for record in wanted:
        body = json.loads(record.value or b"null")
        asked[body["uri"]].append(milliseconds(body["decided_at"]))
        there[body["uri"], body["decided_at"]] += body["wanted_by"] == "retrieval"
        if json.loads(record.key or b"null") != [body["tenant_id"], body["uri"]]:
            problems.append(f"{body} under the key {record.key!r}")
    problems += [
        f"{one} was asked for {count} times too often" for one, count in (there - found.wanted).items()
    ]
    return problems + [
        f"{uri} was not asked for at {at}, nor near it"
        for uri, at in found.wanted
        if not any(abs(milliseconds(at) - one) < ASKED_AGAIN_MS for one in asked[uri])
    ]


def _wrong(one: Answered, found: Retrievals, body: dict[str, Any]) -> str | None:
    asked = one.message["items"]
    decisions = [each for each in one.decisions if each["schema"] == DECISION]
    place = _place(body["served_id"])
    let_through, withheld = [], []
    for decision in decisions:
        number = decision["place"]
        due = found.due[place, number]
        if due.outcome == "deny":
            withheld.append(_withheld(decision))
        else:
            given = asked[number].get("body") if due.released else None
            flags = {flag: flag in due.flags for flag in FLAGS}
            let_through.append(
                (asked[number]["item_id"], decision["ledger_event_id"], due.outcome, flags, given)
            )
    names = ("item_id", "ledger_event_id", "outcome", "flags", "body")
    served = [tuple(item[name] for name in names) for item in body["items"]]
    if served != let_through:
        return f"served {served}, due {let_through}"
    return None if body["withheld"] == withheld else f"withheld {body['withheld']}, due {withheld}"


def _withheld(decision: dict[str, Any]) -> dict[str, Any]:
    return {name: decision[name] for name in ("item_id", "ledger_event_id", "reason_codes", "escalation_id")}


def _place(served_id: str) -> Place:
    _, topic, partition, offset = served_id.split(":")
    return topic, int(partition), int(offset)
