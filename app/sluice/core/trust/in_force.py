"""Make the decision point in force from control records, and rehearse the effect of new records.

A worker decides with the decision point. A publisher rehearses before it publishes: it sees what the
reduction would do with its records.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sluice.core.cases.cases import run_cases
from sluice.core.foundation.input_record import InputRecord
from sluice.core.policy.policy import DEFAULT_QUALITY, Policy
from sluice.core.registry.loading import FACT
from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.delegated_freezes import FREEZE
from sluice.core.trust.dsse import Envelope, read_envelope
from sluice.core.trust.erasing import ERASURE
from sluice.core.trust.policy_contents import MOST_BYTES, NOTHING, collect_contents
from sluice.core.trust.reduction import ReducedPolicy, reduce_policy
from sluice.core.trust.refused import Reason, Refused
from sluice.core.trust.signed_entries import read_statement
from sluice.core.trust.signing_authority import POLICY_LOSS
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.registry.keys import Roots
    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.core.trust.revisions import Accepted


class PolicyError(Exception):
    """The policy that the settings name cannot be used; the message says what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class InForce:
    """`point` is None while the default bundle is not in force; `refused`: the records that do not count;
    `entries`: the bundles and registry entries that do, each topic's in its order, and `contents` what they
    are together."""

    point: DecisionPoint | None
    refused: tuple[Refused, ...]
    entries: tuple[Accepted, ...] = ()
    contents: PolicyContents = NOTHING


class PolicyReducer:
    """The policy in force; call it with all control records so far. It remembers what it verified and
    compiled, so a change costs only its new parts."""

    def __init__(
        self,
        roots: Roots,
        default_bundle: str,
        new_point: Callable[[Policy], DecisionPoint],
        default_quality: str = DEFAULT_QUALITY,
        stages: Sequence[Stage] | None = None,
        audience: Audience = UNNAMED,
    ) -> None:
        """`stages`: the available stages; None: those that ship. `audience`: the installation."""
        self._roots = roots
        self._default_bundle = default_bundle
        self._default_quality = default_quality
        self._new_point = new_point
        self._compiled = CompileCache(partial(run_cases, stages=stages), audience)

    def __call__(self, records: Sequence[InputRecord]) -> InForce:
        """The policy in force after these records, in any order."""
        reduced = reduce_policy(records, self._roots, self._compiled)
        if self._default_bundle not in reduced.bundles:
            return InForce(None, reduced.refused)
        entries = tuple(list_entries_in_force(reduced, BUNDLES, REGISTRY))
        policy = Policy(
            reduced.bundles, reduced.registry, self._default_bundle, reduced.quality, self._default_quality
        )
        return InForce(self._new_point(policy), reduced.refused, entries, collect_contents(entries))

    def first(self, records: Sequence[InputRecord]) -> DecisionPoint:
        """The point to start with. Raises PolicyError with everything that was refused."""
        ruling = self(records)
        if ruling.point is None:
            refused = "".join(f"\n  refused: {refusal}" for refusal in ruling.refused)
            missing = f"the bundle {self._default_bundle!r} is not in force"
            raise PolicyError(f"{missing}: `sluice bundle publish` publishes it{refused}")
        return ruling.point


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """`writes`: the new records, empty if one is refused. `repeats`: records that exist and are not written
    again."""

    writes: tuple[InputRecord, ...]
    repeats: tuple[InputRecord, ...]
    refused: tuple[Refused, ...]


def rehearse(
    records: Sequence[InputRecord],
    new: Sequence[InputRecord],
    roots: Roots,
    compiled: CompileCache,
    most_bytes: int = MOST_BYTES,
) -> Rehearsal:
    """The effect that `new` (of `make_input_records`) would have after `records`: if one is refused, none is
    written. `most_bytes`: what the policy in force may take in each partition's state."""
    reduced = reduce_policy([*records, *new], roots, compiled)
    refused = select_refused(reduced, new) or _refuse_too_many(reduced, new, most_bytes)
    repeated = {record.decision_id for record in reduced.repeats}
    repeats = tuple(record for record in new if record.decision_id in repeated)
    writes = () if refused else tuple(record for record in new if record.decision_id not in repeated)
    return Rehearsal(writes, repeats, refused)


def _refuse_too_many(
    reduced: ReducedPolicy, new: Sequence[InputRecord], most_bytes: int
) -> tuple[Refused, ...]:
    """The entries that are new, if the policy would outgrow the state of a partition: no worker could write
    it down. Newer revisions take no more room; freezes, erasures and accepted losses must not wait for it."""
    contents = collect_contents(list_entries_in_force(reduced, BUNDLES, REGISTRY))
    size = len(contents.encode())
    if size <= most_bytes:
        return ()
    description = (
        f"{len(contents.editions)} entries would be in force, {size} bytes in the state of each partition, "
        f"and {most_bytes} fit: only newer revisions, freezes, erasures and accepted losses have room"
    )
    asked = {record.decision_id for record in new}
    often = Counter((entry.kind, entry.statement.id) for entry in reduced.entries.values())
    return tuple(
        Refused(
            entry.input_record,
            Reason("too_large", "$", description),
            entry.input_record.offset,
            frozenset(entry.approvers),
        )
        for entry in reduced.entries.values()
        if entry.input_record.decision_id in asked and entry.kind not in (FREEZE, POLICY_LOSS, ERASURE)
        if entry.kind == FACT or often[(entry.kind, entry.statement.id)] == 1
    )


def select_refused(reduced: ReducedPolicy, records: Iterable[InputRecord]) -> tuple[Refused, ...]:
    """The refusals that concern one of the records."""
    asked = {record.decision_id for record in records}
    return tuple(refused for refused in reduced.refused if refused.input_record.decision_id in asked)


def make_input_records(
    topic: str, values: Iterable[bytes], records: Iterable[InputRecord], now_ms: int
) -> list[InputRecord]:
    """Envelopes as they would arrive in `topic` now, after its present records."""
    behind = max((record.offset + 1 for record in records if record.topic == topic), default=0)
    return [
        InputRecord(topic, 0, behind + index, now_ms, make_record_key(topic, value), value)
        for index, value in enumerate(values)
    ]


def make_record_key(topic: str, value: bytes) -> bytes | None:
    """The Kafka key that belongs to an envelope, signed or not; None if its payload is not readable."""
    envelope = read_envelope(value)
    if not isinstance(envelope, Envelope):
        return None
    statement = read_statement(topic, envelope)
    return None if isinstance(statement, Reason) else statement.key.encode()
