"""The revision of each bundle and entry in force, and all earlier ones; no older revision replaces a newer
one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.agent_keys import Delegate
    from sluice.core.registry.approvers import Approver
    from sluice.core.trust.signed_entries import Statement

FURTHEST_STEP = 10**10
"""By how much a revision may exceed the one before (0 for none): enough for who counts in dates or seconds.
Whoever takes the last revision that there can be keeps everybody from a next one; by steps of this length
that takes 900 000 records."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A record that counts. `at_ms`: its broker time, `since_ms`: the time from which it was in force;
    `signers`: ids of the keys that signed it; `approvers`: by id, the signers who were allowed to sign it
    then.

    `bundle`, `quality`, `approver` and `delegate` are set for records with one; `relaxations`: what a
    bundle relaxes of the revision before it, in sentences.
    """

    statement: Statement
    input_record: InputRecord
    at_ms: int
    signers: frozenset[str]
    approvers: Mapping[str, Approver]
    bundle: Bundle | None = None
    approver: Approver | None = None
    delegate: Delegate | None = None
    quality: QualityBundle | None = None
    relaxations: tuple[str, ...] = ()
    since_ms: int = 0

    @property
    def kind(self) -> str:
        """ "bundle", "quality_bundle" or a registry kind."""
        return self.statement.kind

    @property
    def key(self) -> str:
        """ "id@revision" of a bundle, "kind/id@revision" of an entry."""
        return self.statement.key

    @property
    def hash(self) -> str:
        """The hash that verdicts record for it."""
        return self.statement.hash

    @property
    def document(self) -> dict[str, Any]:
        """The bundle's document, or the entry's kind, id, revision and spec."""
        return self.statement.document


class Revisions:
    """All revisions, added in order; the last one added for a bundle or entry is the newest.

    `newest` has them by kind and id, and `bundles` those of them that are bundles, of policy or quality.
    """

    def __init__(self) -> None:
        self.bundles: dict[tuple[str, str], Accepted] = {}
        self.newest: dict[tuple[str, str], Accepted] = {}
        self.by_hash: dict[str, Accepted] = {}
        self._by_key: dict[tuple[str, str], Accepted] = {}

    def repeats(self, statement: Statement) -> bool:
        """Whether exactly this counts already."""
        return statement.hash in self.by_hash

    def object_to(self, statement: Statement) -> Reason | None:
        """Why a revision that is not a repeat may not follow the present ones."""
        same = self._by_key.get((statement.kind, statement.key))
        if same is not None:
            description = f"revision {statement.revision} is there with other content ({same.hash})"
            return Reason("revision_conflict", "$.revision", description)
        newest = self.newest.get((statement.kind, statement.id))
        if newest is not None and newest.statement.revision > statement.revision:
            description = f"revision {newest.statement.revision} is in force"
            return Reason("older_revision", "$.revision", description)
        furthest = FURTHEST_STEP + (0 if newest is None else newest.statement.revision)
        if statement.revision > furthest:
            is_bundle = statement.kind in {BUNDLE, QUALITY_BUNDLE}
            description = f"revision {furthest} is the furthest that may come next"
            return Reason("invalid_bundle" if is_bundle else "invalid_entry", "$.revision", description)
        return None

    def put(self, accepted: Accepted) -> None:
        """Add a revision that is not refused."""
        statement = accepted.statement
        self.newest[(statement.kind, statement.id)] = accepted
        if accepted.bundle is not None or accepted.quality is not None:
            self.bundles[(statement.kind, statement.id)] = accepted
        self._by_key[(statement.kind, statement.key)] = accepted
        self.by_hash[statement.hash] = accepted
