"""Whether the policy in force ever became less: each partition's records of it, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .ledger_findings import LedgerFinding, write_count

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
        totals = {name: _compute_total(fields.get(name)) for name in ("added", "gone", "lowered")}
        entries = _read_whole(fields.get("entries"))
        self._last[located.partition] = _Last(fields.get("digest"), entries, opened.entry.sequence)
        for message in (
            _find_discontinuity(fields, last),
            _find_miscount(entries, totals, last),
            _find_loss(fields, totals),
        ):
            if message:
                location = (located.partition, opened.entry.sequence, located.topic, located.offset)
                yield LedgerFinding("policy_lost", *location, message)


def _find_discontinuity(fields: dict[str, Any], last: _Last | None) -> str:
    """Describe where the record contradicts the record before it about what was in force; "" where it does
    not."""
    before = None if last is None else last.digest
    if fields.get("previous") == before:
        return ""
    where = "there is none before it" if last is None else f"record {last.sequence} said {before}"
    return f"it follows on the policy {str(fields.get('previous'))[:80]}, but {where}"


def _find_miscount(entries: int, totals: dict[str, int], last: _Last | None) -> str:
    before = 0 if last is None else last.entries
    due = before + totals["added"] - totals["gone"]
    if entries == due:
        return ""
    counts = write_count(entries, "entry", "entries")
    return f"it counts {counts} in force; the record before and its differences make {due}"


def _find_loss(fields: dict[str, Any], totals: dict[str, int]) -> str:
    """A loss that no two people signed."""
    if not totals["gone"] + totals["lowered"] or _is_accepted(fields.get("accepted")):
        return ""
    gone = write_count(totals["gone"], "entry is", "entries are")
    named = [text for name in ("gone", "lowered") for text in _list_names(fields.get(name))]
    return f"{gone} gone and {totals['lowered']} older: {', '.join(named[:MOST_NAMED])}"


def _is_accepted(accepted: Any) -> bool:
    entries = [
        entry.get("approvers")
        for entry in (accepted if isinstance(accepted, list) else [])
        if isinstance(entry, dict)
    ]
    return bool(entries) and all(
        isinstance(signers, list) and len(set(map(str, signers))) >= ENOUGH for signers in entries
    )


def _list_names(changes: Any) -> Iterator[str]:
    named = changes.get("named") if isinstance(changes, dict) else None
    for entry in named if isinstance(named, list) else []:
        if isinstance(entry, dict):
            yield f"{str(entry.get('entry'))[:80]} ({entry.get('before')} → {entry.get('now')})"


def _compute_total(changes: Any) -> int:
    return _read_whole(changes.get("total")) if isinstance(changes, dict) else -1


def _read_whole(value: Any) -> int:
    return value if type(value) is int else -1
