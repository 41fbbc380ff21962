"""What was in force when a decision was made, as far as the control topics let one tell.

A decision takes the policy of a moment between the coming of its input and the writing of its record, give or
take the time by which workers lag behind the control topics and by which brokers' clocks differ. Mostly
nothing changed in between, and there is one policy that it can have been made under. Where something changed,
what the record names is believed if it was in force at some moment in between, and what it does not name is
tried as it was first and last.
"""

from __future__ import annotations

from bisect import bisect_right
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from sluice.core.cases.cases import run_cases
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.foundation.errors import RegistryError
from sluice.core.foundation.sealed_input import NO_KEYS
from sluice.core.policy.policy import Policy
from sluice.core.registry.loading import FACT
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from sluice.core.actions.stage import Stage
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.keys import Roots
    from sluice.core.trust.revisions import Accepted
    from sluice.core.trust.signed_entries import Statement
    from sluice_topics.sealing import Keyring

REMEMBERED = 256
"""Policies, each with its decision point."""
REMEMBERED_RECORDS = 4096
"""Of what records name together, what is possible: as many as an installation's agents use tools."""
FIRST_AND_LAST = 2
MOST_MOMENTS = 64


@dataclass(frozen=True, slots=True)
class DecisionSettings:
    """What its settings say of decisions: the stages that there are, whose signatures count (None: nobody's,
    and what was in force is not checked), the default bundles, the environment, the sessions' bounds, and by
    how much a worker may lag behind the control topics. `group`: the
    workers' consumer group. `version`: of the code that executes decisions
    again. `audience`: what signatures must have been made for. `values_key`: as of PointParts. `keyring`:
    of persons' keys, which opens sealed values; `demands_sealed`: as of DecisionPoint."""

    stages: Sequence[Stage]
    roots: Roots | None
    default_bundle: str
    default_quality: str
    environment: str
    limits: SessionLimits
    max_lag_ms: int
    version: str | None
    group: str = ""
    audience: Audience = UNNAMED
    values_key: bytes | None = field(default=None, repr=False)
    keyring: Keyring = field(default=NO_KEYS, repr=False)
    demands_sealed: bool = True


@dataclass(frozen=True)
class Candidate:
    """A policy that is not in force: bundles by id, each in the place of the revision that is in force under
    its id, and registry entries, each in the place of what is in force under its kind and id."""

    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    quality: Mapping[str, QualityBundle] = field(default_factory=dict)
    entries: Sequence[Statement] = ()

    @cached_property
    def replaced(self) -> frozenset[tuple[str, str]]:
        """Kind and id of the entries whose earlier revisions do not count. A fact replaces none: every
        revision counts, each for its time."""
        return frozenset((entry.kind, entry.id) for entry in self.entries if entry.kind != FACT)


NO_CANDIDATE = Candidate()


class PointsUnder:
    """The decision point under one policy, whatever a record names."""

    def __init__(self, policy: Policy, decision_settings: DecisionSettings) -> None:
        self._policy = policy
        self._decision_settings = decision_settings

    def get_point(self, recorded: dict[str, Any]) -> DecisionPoint:
        """The one decision point, whatever the record names. Raises UnknownStageError."""
        del recorded
        return self._point

    @cached_property
    def _point(self) -> DecisionPoint:
        of = self._decision_settings
        return DecisionPoint(
            self._policy,
            of.stages,
            of.limits,
            stopwatch=lambda: 0,
            environment=of.environment,
            values_key=of.values_key,
            demands_sealed=of.demands_sealed,
        )


class Line(NamedTuple):
    """The revisions of one bundle or entry, each with the number of the moment from which it was in force."""

    revisions: tuple[tuple[int, Accepted], ...]

    def list_between(self, first: int, last: int) -> list[Accepted | None]:
        """What was in force at some moment from `first` to `last`, in order; None: nothing."""
        entries: list[Accepted | None] = [] if self.revisions[0][0] <= first else [None]
        for (since, entry), (until, _) in pairwise((*self.revisions, (last + 1, None))):
            if since <= last and until > first and entry is not None:
                entries.append(entry)
        return entries


def _choose_at(line: Line, moment: int, first: int, last: int, named: frozenset[str]) -> Accepted | None:
    """What the record names of a line, if it was in force in between; else what was at the moment."""
    between = line.list_between(first, last)
    entries = [entry for entry in between if entry is not None and entry.hash in named]
    return entries[-1] if entries else line.list_between(moment, moment)[-1]


@dataclass(frozen=True, slots=True)
class Possible:
    """Under what a decision can have been made: each with `points`; `changed`: what it did not name changed
    in between more than once, so that these are not all. `never`: what it names and was not in force then."""

    points: tuple[PointsUnder, ...]
    changed: bool
    never: frozenset[str]


class PolicyThen:
    """The control topics, reduced once, and asked about moments."""

    def __init__(
        self, records: Iterable[InputRecord], roots: Roots, decision_settings: DecisionSettings
    ) -> None:
        """`records`: all of both control topics."""
        self.decision_settings = decision_settings
        self._compiled = CompileCache(
            partial(run_cases, stages=decision_settings.stages), decision_settings.audience
        )
        accepted = reduce_policy(records, roots, self._compiled).entries.values()
        self._moments = sorted({entry.since_ms for entry in accepted})
        lines: dict[tuple[Any, ...], list[Accepted]] = {}
        for accepted_entry in accepted:
            revision = accepted_entry.statement.revision if accepted_entry.kind == FACT else None
            lines.setdefault((accepted_entry.kind, accepted_entry.statement.id, revision), []).append(
                accepted_entry
            )
        self._lines = [
            Line(tuple((self._count_changes(entry.since_ms), entry) for entry in line))
            for line in lines.values()
        ]
        self._hashes = frozenset(entry.hash for entry in accepted)
        self.put(NO_CANDIDATE)

    def replace_by(self, candidate: Candidate) -> PolicyThen:
        """The same history with a candidate in force all the time. Raises RegistryError for an entry that
        does not validate."""
        replaced = copy(self)
        replaced.put(candidate)
        return replaced

    def put(self, candidate: Candidate) -> None:
        """Put a candidate in force all the time. Raises RegistryError."""
        for statement in candidate.entries:
            checked = self._compiled.check_entry(statement)
            if isinstance(checked, Reason):
                raise RegistryError(f"{statement.key}: {checked.path}: {checked.message}")
        self._candidate = candidate
        self._under: dict[tuple[str, ...], PointsUnder | None] = {}
        self._possible = lru_cache(maxsize=REMEMBERED_RECORDS)(self._collect_possible)

    def list_bundle_ids(self) -> frozenset[str]:
        """The ids under which a bundle of policy or of quality was ever in force."""
        revisions = (entry for line in self._lines for _, entry in line.revisions)
        return frozenset(entry.statement.id for entry in revisions if entry.kind in (BUNDLE, QUALITY_BUNDLE))

    def find_possible(self, recorded: dict[str, Any], came_ms: int, written_ms: int) -> Possible:
        """Under what a record can have been decided whose input came and that was written at these times,
        ms."""
        return self._possible(*self._find_window(recorded, came_ms, written_ms))

    def find_between(self, recorded: dict[str, Any], came_ms: int, written_ms: int) -> Iterator[PointsUnder]:
        """What was in force at each moment in between, the last first, with what the record names; at most
        MOST_MOMENTS. For a decision that neither what was first nor what was last in force explains, because
        of two changes the one came before it and the other after it."""
        first, last, named = self._find_window(recorded, came_ms, written_ms)
        for moment in range(last - 1, max(first, last - 1 - MOST_MOMENTS), -1):
            chosen = [
                entry for line in self._lines if (entry := _choose_at(line, moment, first, last, named))
            ]
            policy = self._make_policy(chosen)
            if policy is not None:
                yield PointsUnder(policy, self.decision_settings)

    def _find_window(
        self, recorded: dict[str, Any], came_ms: int, written_ms: int
    ) -> tuple[int, int, frozenset[str]]:
        """The numbers of the first and the last moment at which a record can have been decided, and the
        hashes that it names."""
        lag = self.decision_settings.max_lag_ms
        named = {
            recorded["bundle_hash"],
            recorded.get("quality_bundle_hash"),
            *recorded["registry_hashes"].values(),
        }
        first, last = self._count_changes(came_ms - lag), self._count_changes(max(came_ms, written_ms) + lag)
        return first, last, frozenset(named - {None})

    def _count_changes(self, at_ms: int) -> int:
        """How many changes there were at this time."""
        return bisect_right(self._moments, at_ms)

    def _collect_possible(self, first: int, last: int, named: frozenset[str]) -> Possible:
        early: list[Accepted] = []
        late: list[Accepted] = []
        changed, hashes = False, set[str]()
        for line in self._lines:
            between = line.list_between(first, last)
            entries = [entry for entry in between if entry is not None and entry.hash in named]
            hashes |= {entry.hash for entry in entries}
            ends = (entries[-1], entries[-1]) if entries else (self._choose_first(between), between[-1])
            changed = changed or (not entries and len(between) > FIRST_AND_LAST)
            for chosen, end in zip((early, late), ends, strict=True):
                if end is not None:
                    chosen.append(end)
        tried = [late] if early == late else [early, late]
        points = tuple(under for under in map(self._find_points, tried) if under is not None)
        return Possible(points, changed, named - hashes)

    def _find_points(self, chosen: list[Accepted]) -> PointsUnder | None:
        """The points under what is chosen; the same as before for the same, whatever a record names of it."""
        key = tuple(entry.hash for entry in chosen)
        if key not in self._under:
            if len(self._under) >= REMEMBERED:
                self._under.clear()
            policy = self._make_policy(chosen)
            self._under[key] = None if policy is None else PointsUnder(policy, self.decision_settings)
        return self._under[key]

    def _choose_first(self, between: Sequence[Accepted | None]) -> Accepted | None:
        """What was in force first. Of the default bundle its first revision: without one nothing is decided,
        and the policy of a young decision_settings came shortly before its first inputs."""
        first = next((entry for entry in between if entry is not None), None)
        if (
            first is not None
            and first.kind == BUNDLE
            and first.statement.id == self.decision_settings.default_bundle
        ):
            return first
        return between[0]

    def _make_policy(self, chosen: list[Accepted]) -> Policy | None:
        """None as long as there was no default bundle, without which nothing is decided."""
        of, candidate = self.decision_settings, self._candidate
        bundles = {
            entry.statement.id: entry.bundle
            for entry in chosen
            if entry.kind == BUNDLE and entry.bundle is not None
        } | {**candidate.bundles}
        if of.default_bundle not in bundles:
            return None
        quality = {
            entry.statement.id: entry.quality
            for entry in chosen
            if entry.kind == QUALITY_BUNDLE and entry.quality is not None
        } | {**candidate.quality}
        documents = {
            entry.hash: entry.document
            for entry in chosen
            if entry.input_record.topic == REGISTRY
            and (entry.kind, entry.statement.id) not in candidate.replaced
        } | {statement.hash: statement.document for statement in candidate.entries}
        registry = self._compiled.merge_registry(documents)
        return Policy(bundles, registry, of.default_bundle, quality, of.default_quality)
