"""What a rerun says: the same again, the fields that differ, or what is no longer there to execute."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from sluice.core.decide.kinds import DECISIONS
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.chain import PLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Status = Literal["identical", "different", "other_version", "evidence_gone", "erased"]
EVENT = "event"
"""Any other record than a decision, of which only what is wrong is told."""
WORDS = (*(kind.word for kind in DECISIONS.values()), EVENT)
"""Of the record, for its rerun."""
HASH_FIELD = "rerun_hash"
_PLACE_IN_THE_LEDGER = frozenset({*PLACE, "event_hash"})
_GATES = "gateResults"
_DURATION = "durationMs"


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` is a path inside the record; None on one side: it is absent or null there."""

    field: str
    recorded: Any
    rerun: Any


@dataclass(frozen=True, slots=True)
class Rerun:
    """One decision executed again; `kind` is one of WORDS. `missing` names what is gone, `erased` the ids of
    the persons' keys that were destroyed, and then nothing was executed.

    `whatever_version`: among the differences are some that no other version of the code explains.

    `not_checked`: what the record may have said falsely without showing. `decided_by` and `executed_by`:
    versions of the code, None for a record or a rerun that names none.
    """

    kind: str
    id: str
    differences: tuple[Difference, ...] = ()
    missing: tuple[str, ...] = ()
    decided_by: str | None = None
    executed_by: str | None = None
    not_checked: tuple[str, ...] = ()
    whatever_version: bool = False
    erased: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """In one word."""
        if not self.differences:
            if self.erased:
                return "erased"
            return "evidence_gone" if self.missing else "identical"
        same = self.decided_by == self.executed_by
        return "different" if same or self.whatever_version else "other_version"


def compare_records(
    hashed: tuple[str, ...], recorded: dict[str, Any], again: dict[str, Any]
) -> tuple[Difference, ...]:
    """Every leaf that differs between two records of a decision: the `hashed` fields first, their hash last.

    Durations and the place in the ledger are not compared: a rerun has neither.
    """
    written, rewritten = _write_comparable(recorded), _write_comparable(again)
    if written == rewritten:
        return ()
    before, after = orjson.loads(written), orjson.loads(rewritten)
    others = [name for name in {**before, **after} if name not in hashed and name != HASH_FIELD]
    order = (*hashed, *others, HASH_FIELD)
    return tuple(
        difference
        for name in order
        for difference in _compare_leaves(name, before.get(name), after.get(name))
    )


def _write_comparable(record: dict[str, Any]) -> bytes:
    own = {name: value for name, value in record.items() if name not in _PLACE_IN_THE_LEDGER}
    if _GATES in own:
        own[_GATES] = [{key: gate[key] for key in gate if key != _DURATION} for gate in own[_GATES]]
    return canonical(own)


def _compare_leaves(path: str, recorded: Any, again: Any) -> Iterator[Difference]:
    if recorded == again and type(recorded) is type(again):
        return
    if isinstance(recorded, dict) and isinstance(again, dict):
        for key in {**recorded, **again}:
            yield from _compare_leaves(f"{path}.{key}", recorded.get(key), again.get(key))
    elif isinstance(recorded, list) and isinstance(again, list) and len(recorded) == len(again):
        for index, pair in enumerate(zip(recorded, again, strict=True)):
            yield from _compare_leaves(f"{path}[{index}]", *pair)
    else:
        yield Difference(path, recorded, again)


@dataclass
class RerunTally:
    """Counts by kind and status, and of what was not checked; `reruns` are those that are not identical, or
    all."""

    keep_identical: bool = False
    by_kind: dict[str, dict[Status, int]] = field(
        default_factory=lambda: {kind: dict.fromkeys(get_args(Status), 0) for kind in WORDS}
    )
    reruns: list[Rerun] = field(default_factory=list)
    not_checked: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> dict[Status, int]:
        """By status alone."""
        return {name: sum(of[name] for of in self.by_kind.values()) for name in get_args(Status)}

    @property
    def total(self) -> int:
        """All reruns."""
        return sum(self.counts.values())

    @property
    def all_identical(self) -> bool:
        """Whether there was a rerun, and every one came out the same, or what it rested on was erased."""
        return self.total == self.counts["identical"] + self.counts["erased"] > 0

    def take(self, reruns: Iterable[Rerun]) -> None:
        """Count some more."""
        for rerun in reruns:
            self.by_kind[rerun.kind][rerun.status] += 1
            self.not_checked.update(rerun.not_checked)
            if self.keep_identical or rerun.status != "identical":
                self.reruns.append(rerun)

    def list_kept_fields(self) -> list[dict[str, Any]]:
        """{status, kind, id, differences, missing, …} of each that is kept, for JSON."""
        return [{"status": rerun.status, **asdict(rerun)} for rerun in self.reruns]
