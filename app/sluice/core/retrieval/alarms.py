"""Alarms that time alone raises: flag-only beyond its window (seed 004, "Flag-only mode left permanent").

One for each whole window that has passed. Partition 0 keeps the end of the last one that it was raised for,
so that neither a restart nor another worker raises it twice; an end in the future is of a clock that went
wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.state.book import Alarmed
from sluice.core.state.decision import Decision
from sluice_topics.catalog import ALARMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.state.book import Book


DAY_MS = 86_400_000


class Overdue(NamedTuple):
    """A class in flag-only since `since_ms` whose window ended at `overdue_since_ms`; `ordinal`: how many
    whole windows have passed since, each of which is an alarm of its own; the last of them ended at
    `ended_ms`. Times in ms since 1970.

    Source: seed 004, "Flag-only mode left permanent".
    """

    content_class: str
    since_ms: int
    overdue_since_ms: int
    ordinal: int
    ended_ms: int


def list_overdue(bundle: QualityBundle, now_ms: int) -> tuple[Overdue, ...]:
    """Every class that is overdue at `now_ms`, by name."""
    window_ms = bundle.file.rollout_window_days * DAY_MS
    alarms = []
    for name, since_ms in sorted(bundle.rollout_since_ms.items()):
        passed = (now_ms - since_ms) // window_ms
        if bundle.rollout_of(name) == "flag_only" and passed > 0:
            ended_ms = since_ms + passed * window_ms
            alarms.append(Overdue(name, since_ms, since_ms + window_ms, passed, ended_ms))
    return tuple(alarms)


SCHEMA = "sluice/alarm/v1"
KIND = "flag_only_overdue"
SUBJECT = "alarms"
"""The Kafka key: alarms are of no session."""
_NAME_DIGITS = 32


def raise_alarms(bundles: Iterable[QualityBundle], book: Book, now_ms: int) -> Decision | None:
    """What is overdue at `now_ms` and was not raised yet; None for nothing."""
    due = list(_due(bundles, book, now_ms))
    if not due:
        return None
    records = [_alarm(bundle, overdue, now_ms) for bundle, overdue in due]
    changes = tuple(Alarmed(name_of(bundle, overdue), overdue.ended_ms) for bundle, overdue in due)
    return Decision((), records, changes)


def name_of(bundle: QualityBundle, overdue: Overdue) -> tuple[str, str, int]:
    """What is counted: a bundle's class since its start in flag-only."""
    return bundle.id, overdue.content_class, overdue.since_ms


def _due(
    bundles: Iterable[QualityBundle], book: Book, now_ms: int
) -> Iterator[tuple[QualityBundle, Overdue]]:
    for bundle in bundles:
        for overdue in list_overdue(bundle, now_ms):
            last_ms = book.find_alarm_end(name_of(bundle, overdue))
            if last_ms < overdue.ended_ms or last_ms > now_ms:
                yield bundle, overdue


def _alarm(bundle: QualityBundle, overdue: Overdue, now_ms: int) -> OutRecord:
    window = bundle.file.rollout_window_days
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "alarm_id": f"alarm:{KIND}:{_short(bundle.id, overdue.content_class)}:{overdue.ended_ms}:{now_ms}",
        "kind": KIND,
        "severity": "warn" if overdue.ordinal == 1 else "critical",
        "recipient": bundle.file.alarm_recipient,
        "subject": overdue.content_class,
        "message": f"{overdue.content_class} has been flag-only since {rfc3339(overdue.since_ms)}, longer "
        f"than its window of {window} days: promote it, or say in a signed revision why not",
        "since": rfc3339(overdue.since_ms),
        "overdue_since": rfc3339(overdue.overdue_since_ms),
        "quality_bundle_id": bundle.id,
        "quality_bundle_hash": bundle.hash,
        "raised_at": rfc3339(now_ms),
        "decided_at": rfc3339(now_ms),
        "input": None,
    }
    return OutRecord(ALARMS, "Alarm", body, SUBJECT)


def _short(bundle_id: str, content_class: str) -> str:
    """Both names in a bounded id."""
    return digest([bundle_id, content_class]).removeprefix("sha256:")[:_NAME_DIGITS]
