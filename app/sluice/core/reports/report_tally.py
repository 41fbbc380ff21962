"""What the quality report counts while it reads the ledger: how often each situation was decided.

Memory is flat: a situation is a few words out of fixed lists, a day and a content class, and of classes only
the first `MAX_CLASSES` keep their names. A million events alike cost one counter.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from sluice.core.retrieval.dimensions import UNKNOWN_CLASS
from sluice.core.retrieval.provenance_check import NOT_RESOLVED_YET
from sluice_topics.records.retrievals import QualityOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_CLASS = "(none)"
"""Decisions on items that name no class, or no readable one."""
OTHER_CLASSES = "(others)"
"""Decisions on items of classes that came after the first `MAX_CLASSES`, or whose name is longer than any
that a bundle can have."""
MAX_CLASSES = 256
"""Bundles name few classes; a writer who invents a new one with every item must not fill the memory."""
MAX_CLASS_LENGTH = 256
_DAY = len("2026-01-01")
_ALARM = ("raised_at", "since", "severity", "subject", "recipient", "message", "quality_bundle_id")
_OUTCOMES = frozenset(get_args(QualityOutcome))
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


StaleFor = Literal["ttl_exceeded", "no_usable_time", "unknown_class"]
"""Why freshness failed: older than the time to live; the time absent, malformed or in the future; a class
that the bundle does not know, of whatever age."""


class NotADecisionError(ValueError):
    """A record is not what its topic holds; the message says what is missing or wrong."""


class Situation(NamedTuple):
    """What the report tells apart of a decision; equal ones are counted together.

    `day` is the UTC day of the request. `judged` is False where the item was denied before its freshness,
    confidence and provenance were looked at. `stale_for` is None where freshness did not fail; `verified`:
    whether the hash of the provenance verified; `unresolved`: nobody had looked at the reference so far.
    """

    day: str
    content_class: str
    outcome: str
    would_have_been: str | None
    rollout: str | None
    judged: bool
    overridden: bool
    flags: tuple[str, ...]
    stale_for: StaleFor | None
    verified: bool
    unresolved: bool


@dataclass(frozen=True, slots=True)
class ReportScope:
    """Which records count: whole UTC days (YYYY-MM-DD) from `since` to `until`, both included; one tenant's.

    None: no bound, every tenant.
    """

    since: str | None = None
    until: str | None = None
    tenant: str | None = None

    def has(self, day: str, tenant: str | None) -> bool:
        """Whether a record of this day and tenant counts."""
        return (
            (self.since is None or day >= self.since)
            and (self.until is None or day <= self.until)
            and (self.tenant is None or tenant == self.tenant)
        )


class QualityTally:
    """Takes records of the ledger in any order, as they are parsed from JSON."""

    def __init__(self, scope: ReportScope | None = None) -> None:
        self.scope = scope or ReportScope()
        self._bounded = self.scope != ReportScope()
        self._decisions: dict[tuple[Any, ...], int] = {}
        self.reported: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.covered: defaultdict[tuple[str, str], int] = defaultdict(int)
        self.alarms: dict[tuple[str, str], dict[str, Any]] = {}
        self._names: dict[str | None, str] = {None: NO_CLASS}

    @property
    def situations(self) -> list[tuple[Situation, int]]:
        """Each situation and how often it was decided."""
        return [(Situation._make(key), count) for key, count in self._decisions.items()]

    def count_decision(self, event: Mapping[str, Any]) -> None:
        """Count one record of gate.memory.quality_decision. Raises NotADecisionError.

        Called a million times: the key is a bare tuple, in the order of Situation.
        """
        try:
            day = event["timestamp"][:_DAY]
            if self._bounded and not self.scope.has(day, event.get("tenant_id")):
                return
            content_class, flags = event.get("content_class"), event["flags_set"]
            key = (
                day,
                self._names.get(content_class) or self._name_class(content_class),
                event["outcome"],
                event.get("would_have_been"),
                event.get("rollout"),
                bool(event["dimensions"]),
                event.get("override") is not None,
                tuple(flags),
                _find_stale_reason(event) if "stale" in flags else None,
                event["provenance_hash_verified"] is True,
                "provenance_unverified" in flags
                and _get_details(event).get("provenance") == NOT_RESOLVED_YET,
            )
            if key in self._decisions:
                self._decisions[key] += 1
            else:
                _check(Situation._make(key))
                self._decisions[key] = 1
        except (KeyError, TypeError, ValueError) as error:
            raise NotADecisionError(f"no quality decision: {error!r}") from None

    def count_report(self, event: Mapping[str, Any]) -> None:
        """Count one sluice/retrieval_reported/v1: by day and tier, items returned and those with a decision.

        Raises NotADecisionError.
        """
        try:
            day = event["decided_at"][:_DAY]
            if self.scope.has(day, event.get("tenant_id")):
                of = (day, event["autonomy_tier"])
                self.reported[of] += event["reported"]
                self.covered[of] += event["covered"]
        except (KeyError, TypeError) as error:
            raise NotADecisionError(f"no report of a retrieval: {error!r}") from None

    def count_alarm(self, event: Mapping[str, Any]) -> None:
        """Remember the newest alarm of each bundle and class. Alarms are of no tenant.

        Raises NotADecisionError.
        """
        try:
            of = (event["quality_bundle_id"], event["subject"])
            if self.scope.has(event["raised_at"][:_DAY], self.scope.tenant):
                newest = self.alarms.get(of)
                if newest is None or newest["raised_at"] < event["raised_at"]:
                    self.alarms[of] = {name: event[name] for name in _ALARM}
        except (KeyError, TypeError) as error:
            raise NotADecisionError(f"no alarm: {error!r}") from None

    def _name_class(self, value: object) -> str:
        """The name under which a class that has none yet is counted."""
        if not isinstance(value, str):
            raise TypeError(f"content_class is {value!r}")
        if len(self._names) > MAX_CLASSES or len(value) > MAX_CLASS_LENGTH:
            return OTHER_CLASSES
        self._names[value] = value or NO_CLASS
        return self._names[value]


def _get_details(event: Mapping[str, Any]) -> dict[str, str]:
    """What was recorded of each dimension."""
    return {dimension["dimension"]: dimension["detail"] for dimension in event["dimensions"]}


def _find_stale_reason(event: Mapping[str, Any]) -> StaleFor:
    """Of an item flagged stale, from the freshness dimension's detail and the age that was recorded."""
    if _get_details(event)["freshness"] == UNKNOWN_CLASS:
        return "unknown_class"
    age = event.get("freshness_age_seconds")
    return "ttl_exceeded" if age is not None and age >= 0 else "no_usable_time"


def _check(situation: Situation) -> None:
    """Once for each situation, so that it costs nothing for each event."""
    if situation.outcome not in _OUTCOMES or situation.would_have_been not in {None, *_OUTCOMES}:
        raise TypeError(f"outcome is {situation.outcome!r}, would_have_been {situation.would_have_been!r}")
    if not _DATE.fullmatch(situation.day):
        raise TypeError(f"timestamp begins with {situation.day!r}")
    date.fromisoformat(situation.day)
