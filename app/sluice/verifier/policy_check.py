"""Whether the policy in force ever became less: each partition's records of it, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .ledger_findings import LedgerFinding, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .export import Located
    from .ledger_record import Opened

SCHEMA = "sluice/policy_in_force/v1"
ENOUGH = 2
"""The people who must have accepted a loss."""
MOST_NAMED = 3
"""Lost entries that a finding names."""


class _Last(NamedTuple):
    digest: Any
    entries: int
    sequence: int


class PolicyCheck:
    """Hand it every record; those of one partition's policy lie in one topic, so they come in their order."""

    def __init__(self) -> None:
        self._last: dict[int, _Last] = {}

    def check(self, opened: Opened, located: Located) -> Iterator[LedgerFinding]:
        """The findings about a record of the policy in force; none about any other."""
        fields = opened.fields
        if fields["schema"] != SCHEMA:
            return
        last = self._last.get(located.partition)
        totals = {name: _total(fields.get(name)) for name in ("added", "gone", "lowered")}
        entries = _whole(fields.get("entries"))
        self._last[located.partition] = _Last(fields.get("digest"), entries, opened.entry.sequence)
        for message in (
            _discontinuity(fields, last),
            _miscount(entries, totals, last),
            _loss(fields, totals),
        ):
            if message:
                place = (located.partition, opened.entry.sequence, located.topic, located.offset)
                yield LedgerFinding("policy_lost", *place, message)


def _discontinuity(fields: dict[str, Any], last: _Last | None) -> str:
    """What the record says was in force before must be what the record before it said."""
    before = None if last is None else last.digest
    if fields.get("previous") == before:
        return ""
    where = "there is none before it" if last is None else f"record {last.sequence} said {before}"
    return f"it follows on the policy {str(fields.get('previous'))[:80]}, but {where}"


def _miscount(entries: int, totals: dict[str, int], last: _Last | None) -> str:
    before = 0 if last is None else last.entries
    due = before + totals["added"] - totals["gone"]
    if entries == due:
        return ""
    counts = counted(entries, "entry", "entries")
    return f"it counts {counts} in force; the record before and its differences make {due}"


def _loss(fields: dict[str, Any], totals: dict[str, int]) -> str:
    """A loss that no two people signed."""
    if not totals["gone"] + totals["lowered"] or _is_accepted(fields.get("accepted")):
        return ""
    gone = counted(totals["gone"], "entry is", "entries are")
    named = [text for name in ("gone", "lowered") for text in _named(fields.get(name))]
    return f"{gone} gone and {totals['lowered']} older: {', '.join(named[:MOST_NAMED])}"


def _is_accepted(accepted: Any) -> bool:
    given = [
        one.get("approvers")
        for one in (accepted if isinstance(accepted, list) else [])
        if isinstance(one, dict)
    ]
    return bool(given) and all(isinstance(one, list) and len(set(map(str, one))) >= ENOUGH for one in given)


def _named(changes: Any) -> Iterator[str]:
    named = changes.get("named") if isinstance(changes, dict) else None
    for one in named if isinstance(named, list) else []:
        if isinstance(one, dict):
            yield f"{str(one.get('entry'))[:80]} ({one.get('before')} → {one.get('now')})"


def _total(changes: Any) -> int:
    return _whole(changes.get("total")) if isinstance(changes, dict) else -1


def _whole(value: Any) -> int:
    return value if type(value) is int else -1
