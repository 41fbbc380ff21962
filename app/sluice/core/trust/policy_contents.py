"""The contents of the policy in force, and what one set of contents has less than another.

The ledger says with each start of a partition, and with each change, which contents are in force; the state
of the partition keeps them. So a worker that starts on control topics that lost records knows what is gone
(docs/decisions/0016).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.loading import FACT
from sluice.core.registry.policy_losses import PolicyLossSpec
from sluice.core.trust.refused import ENOUGH
from sluice.core.trust.signed_entries import APPROVER
from sluice.core.trust.signing_authority import POLICY_LOSS, object_to_approver
from sluice_topics.catalog import POLICY_EVENTS
from sluice_topics.records.policy_events import MOST_NAMED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sluice.core.registry.approvers import Approver
    from sluice.core.trust.revisions import Accepted
    from sluice.core.trust.signed_entries import Statement

SCHEMA = "sluice/policy_in_force/v1"
SUBJECT = "policy"
"""The Kafka key: the policy is of no session."""
_ID_DIGITS = slice(7, 23)
_HASH_DIGITS = slice(7, 39)
"""The half of a hash that a partition keeps: 128 bits, after "sha256:"."""


MOST_BYTES = 3 * 1024 * 1024
"""What a publisher lets the contents take in each partition's state, as encoded: some 30 000 entries. A
quarter of the changelog's bound is left for what publishers of one topic do not see, and for freezes."""


class Edition(NamedTuple):
    """A revision, and the first 32 hex digits of the hash of its content."""

    revision: int
    hash: str


class EditionDifference(NamedTuple):
    """One entry in two sets of contents; None where a set lacks it."""

    name: str
    before: Edition | None
    now: Edition | None

    def __str__(self) -> str:
        """In words: "tool/wipe revision 2 (now 1)"."""
        before = "" if self.before is None else f" revision {self.before.revision}"
        if self.now is None:
            return f"{self.name}{before} (gone)"
        is_same = self.before is not None and self.now.revision == self.before.revision
        return f"{self.name}{before} ({'other content' if is_same else f'now {self.now.revision}'})"


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """An entry by which `approvers` accept that exactly this is `lost`: those who signed it, and still may
    by the entries in force."""

    name: str
    key: str
    revision: int
    hash: str
    approvers: frozenset[str]
    lost: frozenset[EditionDifference]


@dataclass(frozen=True, slots=True)
class PolicyContents:
    """What is in force, by "kind/id" (of a fact, whose revisions all count, "kind/id@revision"), sorted.

    `digest`: SHA-256 over the RFC 8785 form of {name: [revision, hash]}, with whole hashes. `accepted`: the
    accepted losses among them. `used`: the newest revision of each accepted loss that these contents and
    those before them ever had, by name: it counts no more, even if its entry is lost itself.
    """

    editions: Mapping[str, Edition]
    digest: str
    accepted: tuple[AcceptedLoss, ...] = ()
    used: Mapping[str, int] = field(default_factory=dict)

    def follow(self, before: PolicyContents | None) -> PolicyContents:
        """These contents after `before`: what was used then stays used."""
        used = Counter(self.used) | Counter({} if before is None else before.used)
        return replace(self, used=dict(used))

    def encode(self) -> bytes:
        """The bytes that a partition keeps: without the accepted losses, which count only once."""
        return orjson.dumps(
            {
                "digest": self.digest,
                "editions": {name: [*edition] for name, edition in self.editions.items()},
                "used": dict(self.used),
            }
        )

    @classmethod
    def decode(cls, value: bytes) -> PolicyContents:
        """The contents that were encoded."""
        tree = orjson.loads(value)
        editions = {name: Edition(*edition) for name, edition in tree["editions"].items()}
        return cls(editions, tree["digest"], used=tree["used"])


def collect_contents(entries: Collection[Accepted]) -> PolicyContents:
    """The contents that the entries in force make."""
    named = sorted((make_name(entry.statement), entry.statement.revision, entry.hash) for entry in entries)
    whole = digest({name: [revision, entry_hash] for name, revision, entry_hash in named})
    people = {entry.statement.id: entry.approver for entry in entries if entry.approver is not None}
    accepted = tuple(_read_accepted_loss(entry, people) for entry in entries if entry.kind == POLICY_LOSS)
    editions = {name: Edition(at, entry_hash[_HASH_DIGITS]) for name, at, entry_hash in named}
    return PolicyContents(editions, whole, accepted, {loss.name: loss.revision for loss in accepted})


def _read_accepted_loss(accepted_entry: Accepted, people: Mapping[str, Approver]) -> AcceptedLoss:
    """`people`: the approvers by their entries in force."""
    spec = PolicyLossSpec.model_validate(accepted_entry.document["spec"])
    lost = frozenset(
        EditionDifference(
            entry.entry,
            Edition(entry.before, entry.before_hash),
            None if entry.now is None or entry.now_hash is None else Edition(entry.now, entry.now_hash),
        )
        for entry in spec.lost
    )
    approvers = frozenset(
        name for name in accepted_entry.approvers if _may_still_accept(accepted_entry, people.get(name))
    )
    return AcceptedLoss(
        make_name(accepted_entry.statement),
        accepted_entry.key,
        accepted_entry.statement.revision,
        accepted_entry.hash,
        approvers,
        lost,
    )


def _may_still_accept(entry: Accepted, person: Approver | None) -> bool:
    """Whether the approver may sign it by the entry in force: whoever writes the topics again can put a
    revocation last, behind what the revoked key signs."""
    return person is not None and any(
        object_to_approver(person, keyid, POLICY_LOSS, entry.at_ms) is None for keyid in entry.signers
    )


NOTHING = collect_contents(())


@dataclass(frozen=True, slots=True)
class PolicyDifferences:
    """By name. `replaced`: by a higher revision; `lowered`: by a lower one, or by other content under the
    same revision. What is `lowered` or `gone` is a loss: no publisher can do that."""

    added: tuple[EditionDifference, ...]
    replaced: tuple[EditionDifference, ...]
    lowered: tuple[EditionDifference, ...]
    gone: tuple[EditionDifference, ...]

    @property
    def lost(self) -> tuple[EditionDifference, ...]:
        """What the newer set has less, by name."""
        return tuple(sorted((*self.lowered, *self.gone)))


def compare_contents(before: PolicyContents | None, now: PolicyContents) -> PolicyDifferences:
    """The way from `before` (None: nothing was ever in force) to `now`."""
    was = {} if before is None else before.editions
    changed = [
        EditionDifference(name, was.get(name), edition)
        for name, edition in now.editions.items()
        if was.get(name) != edition
    ]
    return PolicyDifferences(
        tuple(difference for difference in changed if difference.before is None),
        tuple(difference for difference in changed if _is_newer(difference)),
        tuple(
            difference
            for difference in changed
            if difference.before is not None and not _is_newer(difference)
        ),
        tuple(
            EditionDifference(name, edition, None)
            for name, edition in was.items()
            if name not in now.editions
        ),
    )


def _is_newer(difference: EditionDifference) -> bool:
    return (
        difference.before is not None
        and difference.now is not None
        and difference.now.revision > difference.before.revision
    )


def make_name(statement: Statement) -> str:
    """The name by which a revision replaces another. Every revision of a fact counts for its time and
    replaces none."""
    name = f"{statement.kind}/{statement.id}"
    return f"{name}@{statement.revision}" if statement.kind == FACT else name


def make_edition(statement: Statement) -> tuple[str, Edition]:
    """What a statement is by name where it is in force, as a partition keeps it."""
    return make_name(statement), Edition(statement.revision, statement.hash[_HASH_DIGITS])


def _select_counting(
    before: PolicyContents | None, now: PolicyContents, missing: Collection[EditionDifference]
) -> tuple[AcceptedLoss, ...]:
    """The accepted losses of `now` that count against `before`, of which `missing` is lost.

    One that was ever in force before has been used. An approver whose own entry is among the losses does not
    count: otherwise two revoked ones could accept that their revocation is gone.
    """
    used = {} if before is None else before.used
    lost = {difference.name for difference in missing}
    return tuple(
        loss
        for loss in now.accepted
        if used.get(loss.name, 0) < loss.revision
        and sum(f"{APPROVER}/{approver}" not in lost for approver in loss.approvers) >= ENOUGH
    )


def find_loss(before: PolicyContents | None, now: PolicyContents) -> tuple[EditionDifference, ...]:
    """What `now` has less than `before` and nobody has accepted, by name; empty where nothing is missing."""
    lost = compare_contents(before, now).lost
    if not lost:
        return ()
    accepted = {entry for loss in _select_counting(before, now, lost) for entry in loss.lost}
    return tuple(difference for difference in lost if difference not in accepted)


def make_policy_record(
    partition: int, before: PolicyContents | None, now: PolicyContents, now_ms: int, *, starts: bool
) -> OutRecord:
    """The PolicyInForce of a partition that recorded `before` last. `starts`: a worker took it over.

    `now_ms`: this machine's clock, ms since 1970.
    """
    changed = compare_contents(before, now)
    lost = changed.lost
    body: dict[str, Any] = {
        "schema": SCHEMA,
        "policy_event_id": f"policy:{partition}:{now.digest[_ID_DIGITS]}:{now_ms}",
        "trigger": "start" if starts else "change",
        "digest": now.digest,
        "previous": None if before is None else before.digest,
        "entries": len(now.editions),
        "kinds": dict(Counter(name.partition("/")[0] for name in now.editions)),
        "added": _list_differences(changed.added),
        "replaced": _list_differences(changed.replaced),
        "lowered": _list_differences(changed.lowered),
        "gone": _list_differences(changed.gone),
        "accepted": [
            {"entry": loss.key, "hash": loss.hash, "approvers": sorted(loss.approvers)}
            for loss in _select_counting(before, now, lost)
            if loss.lost.intersection(lost)
        ][:MOST_NAMED],
        "decided_at": rfc3339(now_ms),
        "input": None,
    }
    return OutRecord(POLICY_EVENTS, "PolicyInForce", body, SUBJECT)


def _list_differences(changed: tuple[EditionDifference, ...]) -> dict[str, Any]:
    named = [
        {
            "entry": difference.name,
            "before": _get_revision(difference.before),
            "now": _get_revision(difference.now),
        }
        for difference in changed[:MOST_NAMED]
    ]
    return {"total": len(changed), "named": named}


def _get_revision(edition: Edition | None) -> int | None:
    return None if edition is None else edition.revision
