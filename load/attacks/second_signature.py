"""Attack: what two approvers must sign, signed by one of them, who may sign every kind.

The attacker has one approver's key and can write to the control topics. Each attempt publishes one change
that would let through what the policy in force does not: alone, with a second key that is not another
approver's, and hidden in a change of several entries. The same with the second approver's signature must
count.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from load.attacks.attempt import BEGAN_MS, Attempt
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import Envelope, read_envelope, sign
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice.core.trust.signing import cosign
from sluice.offline.bundle_source import read_whole_bundle
from sluice.shipped import SHIPPED_FILES
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.audience import Audience
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from load.attacks.attempt import Extent
    from sluice.core.registry.keys import SigningKey
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice_demo.throwaway_trust import ControlRecord

TRUST = ThrowawayTrust()
OWNER, REVIEWER, STRANGER = TRUST.owner, TRUST.reviewer, ThrowawayTrust().reviewer
_COMPILED = CompileCache(partial(run_cases, stages=None), Audience("acme-production", ""))
_BASE: dict[str, Any] = {
    **json.loads(read_whole_bundle(SHIPPED_FILES / "bundles" / "default.json")),
    "rules": [],
    "patterns": {},
}
_CASES: list[dict[str, Any]] = _BASE["cases"][:2]
_MS = int(_BASE["escalation_ttl_ms"])
Document = dict[str, Any]


def run(extent: Extent) -> Iterator[Attempt]:
    """`short`: each change by one approver and by two; `full`: also in several disguises of the one."""
    policy = _sign_policy()
    for tried, documents in _list_changes():
        yield _attempt(policy, f"{tried}: one signs", documents, [OWNER], counts=False)
        yield _attempt(policy, f"{tried}: two sign", documents, [OWNER, REVIEWER], counts=True)
        if extent == "full":
            for how, signers in (
                ("one signs twice", [OWNER, OWNER]),
                ("one and a stranger sign", [OWNER, STRANGER]),
                ("one and a root key sign", [OWNER, TRUST.root]),
                ("one and an agent's key sign", [OWNER, TRUST.agent]),
                ("one and a gateway's key sign", [OWNER, TRUST.gateway]),
            ):
                yield _attempt(policy, f"{tried}: {how}", documents, signers, counts=False)
            yield _attempt_with_moved_signature(policy, tried, documents)
    yield from _attempt_in_steps(policy)


def _list_changes() -> Iterator[tuple[str, list[Document]]]:
    yield "a bundle waits longer for an answer", [_bundle("strict", 2, escalation_ttl_ms=_MS)]
    yield "a bundle loses a case", [_bundle("strict", 2, cases=_CASES[:1])]
    other = {**_CASES[0], "action": {**_CASES[0]["action"], "mode": "standard"}}
    yield "a case keeps its name and tests something else", [_bundle("strict", 2, cases=[other, _CASES[1]])]
    yield "a bundle under a new id", [_bundle("new", 1)]
    yield "an agent goes to a laxer bundle", [_agent("held", 2, policy_bundle_id="lax")]
    yield "an agent goes to the default bundle", [_agent("held", 2)]
    yield "an agent goes to a bundle that is nowhere", [_agent("held", 2, policy_bundle_id="nowhere")]
    yield "a new agent begins under a laxer bundle", [_agent("new", 1, policy_bundle_id="lax")]
    moved, tool = _agent("held", 2, policy_bundle_id="lax"), _entry("tool", "look", 1, tier="T4")
    yield "an agent goes to a laxer bundle in a change of two entries", _join([tool, moved])
    yield "a tenant goes into shadow mode", [_entry("org", "acme", 2, enforcement="shadow")]
    yield "everything is thawed", [_freeze("all", active=False)]
    yield "a tenant is thawed", [_freeze("tenant/globex", active=False)]
    yield "a tenant that is stopped only asks", [_freeze("tenant/globex", stage="ask")]
    yield "a freeze of another takes the place of a tenant's", [_freeze("tenant/globex", subject_id="nobody")]
    yield "a tenant that is stopped begins in shadow mode", [_entry("org", "globex", 1, enforcement="shadow")]
    yield "an agent leaves a tenant that is stopped", [_agent("stopped", 2, tenant_id="acme")]


def _attempt(
    policy: Sequence[ControlRecord],
    tried: str,
    documents: Sequence[Document],
    signers: Sequence[SigningKey],
    *,
    counts: bool,
) -> Attempt:
    return _judge(
        policy, tried, documents, [_sign(document, signers) for document in documents], counts=counts
    )


def _attempt_with_moved_signature(
    policy: Sequence[ControlRecord], tried: str, documents: Sequence[Document]
) -> Attempt:
    """The second approver's signature is copied from another record."""
    signed = read_envelope(policy[-1][2])
    records = []
    for document in documents:
        topic, key, value = _sign(document, [OWNER])
        envelope = read_envelope(value)
        if not isinstance(envelope, Envelope) or not isinstance(signed, Envelope):
            raise TypeError("both were signed here")
        copied = [signature for signature in signed.signatures if signature.keyid == REVIEWER.keyid]
        moved = Envelope(envelope.payload_type, envelope.payload, (*envelope.signatures, *copied))
        records.append((topic, key, moved.encode()))
    return _judge(policy, f"{tried}: with a signature of another record", documents, records, counts=False)


def _attempt_in_steps(policy: Sequence[ControlRecord]) -> Iterator[Attempt]:
    """One approver goes round: through a bundle that may be reached, or with the rest of a change later."""
    there = _agent("free", 2, policy_bundle_id="strict")
    back = _agent("free", 3, policy_bundle_id="lax")
    records = [_sign(there, [OWNER]), _sign(back, [OWNER])]
    yield _judge(policy, "an agent goes to a stricter bundle", [there], records[:1], counts=True)
    yield _judge(policy, "and from there to a laxer one", [back], records, counts=False)
    moved = _agent("held", 2, policy_bundle_id="lax")
    refused, again = _sign(moved, [OWNER]), _sign({**moved, "revision": 3}, [OWNER])
    yield _judge(
        policy,
        "a refused one as the step to the next",
        [{**moved, "revision": 3}],
        [refused, again],
        counts=False,
    )
    value = cosign(_sign(moved, [OWNER])[2], [REVIEWER]).encode()
    both = (REGISTRY, b"agent/held@2", value)
    yield _judge(policy, "the second signs what was refused", [moved], [refused, both], counts=True)


def _judge(
    policy: Sequence[ControlRecord],
    tried: str,
    documents: Iterable[Document],
    records: Sequence[ControlRecord],
    *,
    counts: bool,
) -> Attempt:
    reduced = _fold([*policy, *records])
    counted = all(digest(_body(document)) in reduced.entries for document in documents)
    codes = {refusal.code for refusal in reduced.refused}
    held = counted if counts else not counted and "second_approver_missing" in codes
    return Attempt(tried, held, "counts" if counted else ", ".join(sorted(codes)), harmless=counts)


def _sign_policy() -> list[ControlRecord]:
    """Two bundles, one laxer, agents under either, and a tenant, in force."""
    both = [OWNER, REVIEWER]
    return [
        TRUST.make_approver(),
        _sign(_approver(), [TRUST.root]),
        TRUST.make_delegate(["acme"]),
        _sign({**_freeze("all"), "revision": 1}, [OWNER]),
        _sign({**_freeze("tenant/globex"), "revision": 1}, [OWNER]),
        _sign(_bundle("strict", 1), both),
        _sign(_bundle("lax", 1, escalation_ttl_ms=_MS), both),
        _sign(_entry("org", "acme", 1), both),
        _sign(_agent("held", 1, policy_bundle_id="strict"), both),
        _sign(_agent("free", 1, policy_bundle_id="lax"), both),
        _sign(_agent("stopped", 1, tenant_id="globex", policy_bundle_id="strict"), both),
    ]


def _fold(records: Iterable[ControlRecord]) -> ReducedPolicy:
    lines = [
        InputRecord(topic, 0, index, BEGAN_MS + index, key, value)
        for index, (topic, key, value) in enumerate(records)
    ]
    return reduce_policy(lines, Roots([TRUST.root_key]), _COMPILED)


def _bundle(name: str, revision: int, **changed: Any) -> Document:
    return {
        **_BASE,
        "id": name,
        "revision": revision,
        "escalation_ttl_ms": _MS // 2,
        "cases": _CASES,
        **changed,
    }


def _approver() -> Document:
    signs = ["bundle", "agent", "tool", "org", "delegate", "freeze"]
    return _entry("approver", "reviewer", 1, public_key=REVIEWER.public.text, signs=signs)


def _agent(name: str, revision: int, **spec: Any) -> Document:
    return _entry("agent", name, revision, **{"tenant_id": "acme", "tier": "T1", **spec})


def _freeze(name: str, **spec: Any) -> Document:
    """The second revision of a freeze that is in force."""
    kind, _, subject_id = name.partition("/")
    return _entry(
        "freeze",
        name,
        2,
        **{"subject": kind, "subject_id": subject_id or kind, "reason": "incident 7", **spec},
    )


def _entry(kind: str, name: str, revision: int, **spec: Any) -> Document:
    return {"kind": kind, "id": name, "revision": revision, "spec": spec}


def _join(entries: Sequence[Document]) -> list[Document]:
    hashes = {_name(entry): digest(entry) for entry in entries}
    return [{**entry, "change": {"id": "both", "entries": hashes}} for entry in entries]


def _body(document: Document) -> Document:
    return {name: value for name, value in document.items() if name != "change"}


def _name(document: Document) -> str:
    of = f"{document['kind']}/" if "kind" in document else ""
    return f"{of}{document['id']}@{document['revision']}"


def _sign(document: Document, signers: Sequence[SigningKey]) -> ControlRecord:
    topic = REGISTRY if "kind" in document else BUNDLES
    value = sign(PAYLOAD_TYPES[topic], json.dumps(document).encode(), signers).encode()
    return topic, _name(document).encode(), value
