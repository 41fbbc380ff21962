"""Which key may sign what, and when: the roots, and the approvers' entries in force at a moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.foundation.clock import rfc3339
from app.core.registry.keys import PublicKey, UnusableKeyError
from app.core.trust.refused import Reason
from app.core.trust.signed_entries import APPROVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from app.core.registry.keys import Roots
    from app.core.registry.registry_entries import Approver


class Authority:
    """Grows as approvers' entries are taken in order; answers for the moment that has been reached.

    A key belongs to one approver for ever: else a revoked key would live on under another name. A key that
    was replaced or revoked stays known, so that what it signs is refused for that, not for being unknown.
    """

    def __init__(self, roots: Roots) -> None:
        self._roots = roots.by_id
        self._retired_at_ms = roots.retired_at_ms
        self._approvers: dict[str, Approver] = {}
        self._keys: dict[str, PublicKey] = dict(roots.by_id)
        self._owners: dict[str, str] = {}

    @property
    def known(self) -> Mapping[str, PublicKey]:
        """Every key that is or was anybody's, by id."""
        return self._keys

    def unusable(self, approver: Approver) -> Reason | None:
        """Why an approver's entry may not bring in its key."""
        try:
            keyid = _public_key(approver).keyid
        except UnusableKeyError as error:
            return Reason("invalid_entry", "$.spec.public_key", str(error))
        if keyid in self._roots:
            return Reason("invalid_entry", "$.spec.public_key", "the key is a root key")
        owner = self._owners.get(keyid, approver.id)
        if owner != approver.id:
            return Reason("invalid_entry", "$.spec.public_key", f"the key is or was approver {owner}'s")
        return None

    def admit(self, approver: Approver) -> None:
        """Take an approver's newest entry. Call only if it is not `unusable`."""
        key = _public_key(approver)
        self._keys[key.keyid] = key
        self._owners[key.keyid] = approver.id
        self._approvers[approver.id] = approver

    def allowed(self, signers: Iterable[str], kind: str, at_ms: int) -> dict[str, Approver] | Reason:
        """The approvers who signed and may sign this kind at this moment, by id: people, however many keys
        they have; empty where a root key did. If none of the signers may, why each may not."""
        reasons = {keyid: self._why_not(keyid, kind, at_ms) for keyid in sorted(signers)}
        may = [keyid for keyid, reason in reasons.items() if reason is None]
        if not may:
            told = "; ".join(reason or "" for reason in reasons.values())
            return Reason("key_not_allowed", "$.signatures", told)
        owners = [self._owners[keyid] for keyid in may if keyid in self._owners]
        return {owner: self._approvers[owner] for owner in owners}

    def _why_not(self, keyid: str, kind: str, at_ms: int) -> str | None:
        if kind == APPROVER:
            return self._why_no_root(keyid, at_ms)
        if keyid in self._roots:
            return "a root key signs approvers' entries and nothing else"
        approver = self._approvers[self._owners[keyid]]
        who = f"approver {approver.id}"
        if _public_key(approver).keyid != keyid:
            return f"this key of {who} was replaced"
        if not approver.active:
            return f"{who} was revoked"
        if approver.valid_until_ms is not None and at_ms >= approver.valid_until_ms:
            return f"the key of {who} was valid until {rfc3339(approver.valid_until_ms)}"
        return None if kind in approver.signs else f"{who} may not sign a {kind}"

    def _why_no_root(self, keyid: str, at_ms: int) -> str | None:
        if keyid not in self._roots:
            return "only a root key signs an approver's entry"
        retired_at_ms = self._retired_at_ms.get(keyid)
        if retired_at_ms is None or at_ms < retired_at_ms:
            return None
        return f"this root key was retired at {rfc3339(retired_at_ms)}"


def _public_key(approver: Approver) -> PublicKey:
    return PublicKey(approver.public_key.public_bytes_raw())
