"""Reduce the control topics to the policy in force: a pure function of their records, in the broker's order.

This module has all trust logic and no I/O, like python-tuf's TrustedMetadataSet. Records of one topic count
in the order of their offsets. Between the topics the broker's time decides; in one millisecond the registry
comes before bundles, so a revoked key is revoked for a bundle of the same instant. The rules, in their
order:

1. an envelope of its topic's type, with a valid signature of a root key, of a present or former approver's
key, or of a delegate that signs for people; 2. a payload that states what it is, under the Kafka key that
belongs to it; 3. a signer who may sign this kind at the broker's time of the record; root keys sign
approvers' entries only, delegates freezes only; and, where the payload names the installations that it is
for, this one among them; 4. a revision newer than the one in force; an equal one is a repeat and changes
nothing; 5. content that validates: an entry by its kind, a bundle by compiling and passing its own cases, and
at the broker's time of the record; 6. the approvers that this content needs, by signing_authority.py and
bundle_moves.py, where any one is not enough; 7. with a change, every record of it, and for each 3, 4 and 6
once more when the last one is there.

A record that breaks a rule is refused with the reason, and the earlier policy stays in force. Until rule 1
holds, only the envelope is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from heapq import merge
from typing import TYPE_CHECKING

from sluice.core.foundation.clock import rfc3339
from sluice.core.trust.bundle_moves import AGENT, object_to_move
from sluice.core.trust.grouped_changes import Changes
from sluice.core.trust.refused import Reason, Refused
from sluice.core.trust.revisions import Accepted, Revisions
from sluice.core.trust.signed_entries import APPROVER, BUNDLE, QUALITY_BUNDLE
from sluice.core.trust.signing_authority import (
    Authority,
    object_to_entry,
    object_to_first_revision,
    object_to_new_id,
    object_to_relaxation,
)
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.keys import Roots
    from sluice.core.registry.registry import Registry
    from sluice.core.trust.compile_cache import CompileCache
    from sluice.core.trust.dsse import Envelope
    from sluice.core.trust.signed_entries import EntryChange, Statement

GRACE_MS = 24 * 3600 * 1000
"""How far after its record's time a start may be: it is often written as a day, and in local time.

A flag-only that begins in the future would never be overdue, and no alarm would be raised about it (seed 004,
"Flag-only mode left permanent")."""


def object_to_start(bundle: QualityBundle, published_ms: int) -> Reason | None:
    """Why a quality bundle whose record has this broker's time (ms since 1970) may not count."""
    latest = published_ms + GRACE_MS
    for name, since_ms in sorted(bundle.rollout_since_ms.items()):
        if since_ms > latest and bundle.rollout_of(name) == "flag_only":
            description = f"flag-only published now begins by {rfc3339(latest)}"
            return Reason("invalid_bundle", f"$.rollout.{name}.since", description)
    return None


_ORDER = {REGISTRY: 0, BUNDLES: 1}


@dataclass(frozen=True, slots=True)
class ReducedPolicy:
    """The result of reducing the control topics.

    `bundles` and `quality`: the revision in force by id. `entries`: every revision that ever counted, also of
    bundles, by hash, for reruns. `refused`: in order, with records that wait for the rest of their change
    last. `repeats`: records that repeat one that counts or waits, without any effect. `repeated_members`:
    those of whole changes that repeat a record which counted alone before.
    """

    bundles: Mapping[str, Bundle]
    registry: Registry
    refused: tuple[Refused, ...]
    entries: Mapping[str, Accepted]
    repeats: tuple[InputRecord, ...]
    repeated_members: tuple[InputRecord, ...]
    quality: Mapping[str, QualityBundle]


def reduce_policy(records: Iterable[InputRecord], roots: Roots, compiled: CompileCache) -> ReducedPolicy:
    """The policy in force after these records of the control topics, given in any order."""
    reduction = _Reduction(roots, compiled)
    for at_ms, input_record in order_records(records):
        reduction.take(input_record, at_ms)
    return reduction.build_result()


def order_records(records: Iterable[InputRecord]) -> Iterator[tuple[int, InputRecord]]:
    """The records with the times that count: within a topic the time never goes back, even if a clock did."""
    by_topic: dict[str, list[InputRecord]] = {topic: [] for topic in _ORDER}
    for record in records:
        by_topic[record.topic].append(record)
    lines = (_order_topic(_ORDER[topic], input_records) for topic, input_records in by_topic.items())
    for at_ms, _, _, input_record in merge(*lines, key=lambda line: line[:3]):
        yield at_ms, input_record


def _order_topic(rank: int, input_records: list[InputRecord]) -> Iterator[tuple[int, int, int, InputRecord]]:
    reached = 0
    for input_record in sorted(input_records, key=lambda record: record.offset):
        reached = max(reached, input_record.timestamp_ms)
        yield reached, rank, input_record.offset, input_record


class _Reduction:
    def __init__(self, roots: Roots, compiled: CompileCache) -> None:
        self._compiled = compiled
        self._authority = Authority(roots)
        self._revisions = Revisions()
        self._changes = Changes()
        self._reached = 0
        self._refused: list[Refused] = []
        self._repeats: list[InputRecord] = []
        self._repeated_members: list[InputRecord] = []

    def take(self, input_record: InputRecord, at_ms: int) -> None:
        self._reached = input_record.offset
        signed = self._check_signatures(input_record, at_ms)
        if isinstance(signed, Reason):
            self._refuse(input_record, signed)
        elif self._is_repeat(signed.statement):
            self._repeats.append(input_record)
        else:
            self._consider(signed)

    def build_result(self) -> ReducedPolicy:
        waiting = [
            Refused(entry.input_record, reason, entry.input_record.offset, frozenset(entry.approvers))
            for entry, reason in self._changes.list_incomplete()
        ]
        newest = self._revisions.newest
        bundles = {entry.statement.id: entry.bundle for entry in newest.values() if entry.bundle is not None}
        quality = {
            entry.statement.id: entry.quality for entry in newest.values() if entry.quality is not None
        }
        entries = self._revisions.by_hash
        documents = {
            entry.hash: entry.document for entry in entries.values() if entry.input_record.topic == REGISTRY
        }
        registry = self._compiled.merge_registry(documents)
        refused = (*self._refused, *waiting)
        repeats, records = tuple(self._repeats), tuple(self._repeated_members)
        return ReducedPolicy(bundles, registry, refused, entries, repeats, records, quality)

    def _check_signatures(self, input_record: InputRecord, at_ms: int) -> Accepted | Reason:
        """Rules 1 to 3."""
        envelope = self._compiled.read_envelope(input_record)
        if isinstance(envelope, Reason):
            return envelope
        signers = self._compiled.find_signers(input_record, envelope, self._authority.keys)
        if not signers:
            return self._explain_no_signer(envelope)
        statement = self._compiled.read_statement(input_record, envelope)
        if isinstance(statement, Reason):
            return statement
        if input_record.key != statement.key.encode():
            return Reason("key_mismatch", "$", f"the record's key is not {statement.key}")
        allowed = self._authority.select_allowed(signers, statement.kind, at_ms)
        if isinstance(allowed, Reason):
            return allowed
        elsewhere = statement.object_to_installation(self._compiled.audience.installation)
        return elsewhere or Accepted(statement, input_record, at_ms, signers, allowed)

    def _explain_no_signer(self, envelope: Envelope) -> Reason:
        hints = {signature.keyid for signature in envelope.signatures}
        if hints & self._authority.keys.keys():
            return Reason("wrong_signature", "$.signatures", "no signature holds for this payload and type")
        return Reason("unknown_key", "$.signatures", "no signature of a root's or an approver's key")

    def _is_repeat(self, statement: Statement) -> bool:
        if statement.change is None:
            return self._revisions.repeats(statement)
        return self._changes.repeats(statement.change, statement)

    def _consider(self, member: Accepted) -> None:
        """Rules 4 to 7."""
        change = member.statement.change
        refusal = None if change is None else self._changes.object_to(change)
        checked = refusal or self._check_content(member)
        if isinstance(checked, Reason):
            self._refuse(member.input_record, checked, member.approvers)
        elif change is None:
            self._put(checked, member.at_ms)
        else:
            self._apply_change(change, self._changes.join(change, checked), member.at_ms)

    def _check_content(self, member: Accepted) -> Accepted | Reason:
        statement = member.statement
        if self._revisions.repeats(statement):
            return member
        refusal = self._revisions.object_to(statement)
        if refusal is not None:
            return refusal
        if statement.kind == BUNDLE:
            return self._check_policy_bundle(member)
        if statement.kind == QUALITY_BUNDLE:
            return self._check_quality_bundle(member)
        return self._check_entry(member, statement)

    def _check_policy_bundle(self, member: Accepted) -> Accepted | Reason:
        """Compare a policy bundle with the one in force: a relaxed one needs two approvers, and so does one
        under a new id."""
        bundle = self._compiled.load_bundle(member.statement)
        if isinstance(bundle, Reason):
            return bundle
        before = self._revisions.newest.get((BUNDLE, member.statement.id))
        if before is None or before.bundle is None:
            refusal = object_to_new_id(self._revisions.newest, member.approvers)
            return refusal or replace(member, bundle=bundle)
        relaxed = self._compiled.find_relaxations(before.bundle, bundle)
        refusal = object_to_relaxation(relaxed, before.key, member.approvers)
        return refusal or replace(member, bundle=bundle, relaxations=relaxed)

    def _check_quality_bundle(self, member: Accepted) -> Accepted | Reason:
        """Compare a quality bundle with the one in force: a relaxed one needs two approvers."""
        loaded = self._compiled.load_quality_bundle(member.statement)
        bundle = loaded if isinstance(loaded, Reason) else object_to_start(loaded, member.at_ms) or loaded
        if isinstance(bundle, Reason):
            return bundle
        before = self._revisions.newest.get((QUALITY_BUNDLE, member.statement.id))
        if before is None or before.quality is None:
            refusal = object_to_first_revision(member.statement.id, self._revisions.newest, member.approvers)
            return refusal or replace(member, quality=bundle)
        relaxed = self._compiled.find_relaxations(before.quality, bundle)
        refusal = object_to_relaxation(relaxed, before.key, member.approvers)
        return refusal or replace(member, quality=bundle, relaxations=relaxed)

    def _check_entry(self, member: Accepted, statement: Statement) -> Accepted | Reason:
        entry = self._compiled.check_entry(statement)
        if isinstance(entry, Reason):
            return entry
        if statement.kind != APPROVER:
            member = replace(member, delegate=entry.delegates.get(statement.id))
            return self._object(member, member.approvers) or member
        approver = entry.approvers[statement.id]
        unusable = self._authority.object_to_key(approver)
        return replace(member, approver=approver) if unusable is None else unusable

    def _apply_change(self, change: EntryChange, members: tuple[Accepted, ...], at_ms: int) -> None:
        """Put all members in force, or none if one is no longer allowed."""
        reasons = {member.key: self._object_now(member, at_ms) for member in members}
        broken = next((f"{key}: {reason.message}" for key, reason in reasons.items() if reason), None)
        if broken is not None:
            self._changes.refuse(change)
        for member in members:
            if broken is not None:
                others = Reason("change_refused", "$.change", f"the change was refused for {broken}")
                self._refuse(member.input_record, reasons[member.key] or others, member.approvers)
            elif self._revisions.repeats(member.statement):
                self._repeated_members.append(member.input_record)
            else:
                self._put(member, at_ms)

    def _object_now(self, member: Accepted, at_ms: int) -> Reason | None:
        """Why a member that waited may not take effect now; a member that already counts has no reason."""
        statement = member.statement
        if self._revisions.repeats(statement):
            return None
        allowed = self._authority.select_allowed(member.signers, statement.kind, at_ms)
        if isinstance(allowed, Reason):
            return allowed
        return self._revisions.object_to(statement) or self._object(member, allowed)

    def _object(self, member: Accepted, approvers: Mapping[str, Approver]) -> Reason | None:
        if member.kind == AGENT:
            return object_to_move(member, self._revisions, approvers, self._compiled.find_relaxations)
        return object_to_entry(member, self._revisions.newest, approvers)

    def _put(self, accepted: Accepted, at_ms: int) -> None:
        self._revisions.put(replace(accepted, since_ms=at_ms))
        if accepted.approver is not None:
            self._authority.admit(accepted.approver)
        if accepted.delegate is not None:
            self._authority.admit_delegate(accepted.delegate)

    def _refuse(self, input_record: InputRecord, reason: Reason, approvers: Iterable[str] = ()) -> None:
        self._refused.append(Refused(input_record, reason, self._reached, frozenset(approvers)))
