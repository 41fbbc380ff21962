"""Whose signature a person's answer bears: the approver's own, or that of a delegate the person logged in to.

A gateway where people log in signs their answers as a registered delegate. Such an answer names the delegate,
its key and the channel, and all of that is signed. It counts within the delegate's tenants and roles; the
bounds of the person are checked apart, as for an answer by the person's own key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.core.foundation.refusals import Objection
from sluice.core.registry.agent_keys import find_key
from sluice.core.registry.keys import is_signed_by

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from sluice.core.registry.agent_keys import AgentKey
    from sluice.core.registry.approvers import Approver
    from sluice.core.registry.registry import Registry
    from sluice_topics.records import ReviewDecision

WRONG_SIGNATURE = "wrong_signature"
ANSWERING: Mapping[str, frozenset[str]] = {
    "approver": frozenset({"approver", "vp"}),
    "vp": frozenset({"vp"}),
    "reviewer": frozenset({"reviewer"}),
}
"""The roles that may answer, by the required one."""


class AnswerDelegate(NamedTuple):
    """The delegate that signed an answer that counted: its id, the channel, the key's id, its entry's key and
    hash."""

    id: str
    channel: Literal["browser", "slack", "api"]
    key_id: str
    entry: str
    entry_hash: str


def object_to_signature(
    registry: Registry,
    review: ReviewDecision,
    approver: Approver,
    within: tuple[str, str],
    at_ms: int,
) -> Objection | None:
    """Why an answer does not bear a signature that counts; None: it does. `within`: the tenant, and the role
    that the answer needs."""
    delegate = review.delegate
    if delegate is None:
        if is_signed_by(approver.public_key, review, registry.audience):
            return None
        return _object_to_wrong_signature("the approver's", registry)
    key = _find_key(registry, (delegate.id, delegate.key_id), within, at_ms)
    if isinstance(key, Objection):
        return key
    if is_signed_by(key.public_key, review, registry.audience):
        return None
    return _object_to_wrong_signature(f"of the delegate {delegate.id}", registry)


def _object_to_wrong_signature(whose: str, registry: Registry) -> Objection:
    installation, topic_prefix = registry.audience
    description = f"over this answer for installation {installation!r} and topic prefix {topic_prefix!r}"
    return Objection(WRONG_SIGNATURE, f"the signature is not {whose} {description}")


def find_answer_delegate(registry: Registry, review: ReviewDecision) -> AnswerDelegate | None:
    """The delegate that signed an answer; None: the approver's own key did. Raises KeyError for an answer
    that `object_to_signature` refuses."""
    delegate = review.delegate
    if delegate is None:
        return None
    entry = registry.delegates[delegate.id]
    return AnswerDelegate(delegate.id, delegate.channel, delegate.key_id, entry.key, entry.hash)


def may_still_sign(
    registry: Registry, delegate: AnswerDelegate | None, within: tuple[str, str], at_ms: int
) -> bool:
    """Whether a delegate that signed a counted answer is still in force for it; None, no delegate, is."""
    return delegate is None or not isinstance(
        _find_key(registry, (delegate.id, delegate.key_id), within, at_ms), Objection
    )


def make_signer_fields(registry: Registry, review: ReviewDecision) -> dict[str, Any]:
    """The fields about who answered that the records of an answer have."""
    approver, delegate = registry.approvers[review.approver_id], find_answer_delegate(registry, review)
    fields: dict[str, Any] = {
        "approver_id": approver.id,
        "approver_entry": approver.key,
        "approver_hash": approver.hash,
        "justification": review.justification,
    }
    return fields if delegate is None else {**fields, "delegate": delegate._asdict()}


def _find_key(
    registry: Registry, named: tuple[str, str], within: tuple[str, str], at_ms: int
) -> AgentKey | Objection:
    """The key of a delegate by both ids, or why it may not sign for people."""
    (name, key_id), (tenant, role) = named, within
    delegate = registry.delegates.get(name)
    if delegate is None or not delegate.roles or tenant not in delegate.tenants:
        return Objection("not_a_delegate", f"no delegate signs for people of this tenant: {name}")
    if not delegate.roles & ANSWERING[role]:
        return Objection("wrong_delegate_role", f"{name} does not sign for the role {role}")
    key = find_key(delegate.keys, key_id, at_ms)
    return Objection("not_a_delegate", f"{name}: {key}") if isinstance(key, str) else key
