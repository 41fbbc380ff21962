"""Attack: both control topics deleted and put back with something missing, every signature in order.

Older revisions never replace newer ones among the records that are there; so whoever may delete the topics
leaves the newer ones out. What a partition recorded last is compared with what the topics hold now, as a
worker does when it starts. The attacker also tries to pass for the two people who may accept a loss.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from load.attacks.attempt import BEGAN_MS, Attempt
from sluice.core.cases.cases import run_cases
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots, SigningKey
from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.dsse import sign
from sluice.core.trust.policy_contents import PolicyContents, collect_contents, find_loss
from sluice.core.trust.reduction import reduce_policy
from sluice.core.trust.signed_entries import PAYLOAD_TYPES
from sluice_demo.throwaway_trust import ThrowawayTrust
from sluice_topics.audience import Audience
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from load.attacks.attempt import Extent
    from sluice_demo.throwaway_trust import ControlRecord

HERE, ELSEWHERE = "acme-production", "acme-staging"
TRUST = ThrowawayTrust()
OWNER, REVIEWER = TRUST.owner, TRUST.reviewer
ANN, TIM = SigningKey(Ed25519PrivateKey.generate()), SigningKey(Ed25519PrivateKey.generate())
"""Two who were approvers once."""
LEFT_OUT = {"short": 2, "full": 4}
"""Up to so many records at once."""
_COMPILED = CompileCache(partial(run_cases, stages=None), Audience(HERE, ""))


def run(extent: Extent) -> Iterator[Attempt]:
    """Every choice of some records to leave out, then everything that could pass for an acceptance."""
    whole = _history()
    before = _contents(whole)
    for count in range(1, LEFT_OUT[extent] + 1):
        yield _leave_out(whole, before, count)
    yield Attempt("nothing is left out", not find_loss(before, _contents(whole)), "no loss", harmless=True)
    cut = [record for record in whole if record[1] != b"tool/wipe@2"]
    yield from _acceptances(before, cut)
    yield _accept_twice(whole, before, cut)
    yield _put_back(whole, before, cut)
    yield _accept_by_revoked(whole, before)
    yield _accept_by_reordered(before, cut)


def _leave_out(whole: Sequence[ControlRecord], before: PolicyContents, count: int) -> Attempt:
    """A loss is seen exactly where the newest revision of something does not count any more."""
    wrong, tried = [], 0
    for gone in combinations(range(len(whole)), count):
        left = [record for index, record in enumerate(whole) if index not in gone]
        now = _contents(left)
        is_less = any(now.editions.get(name) != edition for name, edition in before.editions.items())
        tried += 1
        if bool(find_loss(before, now)) != is_less:
            wrong.append(b", ".join(whole[index][1] for index in gone).decode())
    answer = f"unseen: {wrong[0]}" if wrong else f"{tried} choices, each loss seen"
    return Attempt(f"{count} of {len(whole)} records left out", not wrong, answer)


def _acceptances(before: PolicyContents, cut: Sequence[ControlRecord]) -> Iterator[Attempt]:
    lost = find_loss(before, _contents(cut))
    exact = [
        _describe_loss(difference.name, *(difference.before or ()), *(difference.now or ()))
        for difference in lost
    ]
    both = (OWNER, REVIEWER)
    tries: tuple[tuple[str, ControlRecord, bool], ...] = (
        ("one person accepts the loss", _acceptance(exact, [OWNER]), False),
        ("one person accepts it with two signatures", _acceptance(exact, [OWNER, OWNER]), False),
        ("a root key accepts it", _acceptance(exact, [TRUST.root]), False),
        ("two people accept it for no installation", _acceptance(exact, both, where=None), False),
        ("two people accept it for another installation", _acceptance(exact, both, where=ELSEWHERE), False),
        ("they accept another entry", _acceptance([{**exact[0], "entry": "tool/pay"}], both), False),
        ("they accept another revision", _acceptance([{**exact[0], "before": 3}], both), False),
        ("they accept other content instead", _acceptance([{**exact[0], "now_hash": "0" * 32}], both), False),
        ("they accept exactly this", _acceptance(exact, both), True),
    )
    for tried, record, wanted in tries:
        left = find_loss(before, _contents([*cut, record]))
        answer = "accepted" if not left else f"{left[0].name} is missing"
        yield Attempt(tried, (not left) == wanted, answer, harmless=wanted)


def _accept_twice(
    whole: Sequence[ControlRecord], before: PolicyContents, cut: Sequence[ControlRecord]
) -> Attempt:
    """A loss was accepted, the entry came back, and is left out once more with the acceptance still there."""
    lost = find_loss(before, _contents(cut))
    accepted = _acceptance(
        [
            _describe_loss(difference.name, *(difference.before or ()), *(difference.now or ()))
            for difference in lost
        ],
        (OWNER, REVIEWER),
    )
    mended = _contents([*whole, accepted])
    left = find_loss(mended, _contents([*cut, accepted]))
    return Attempt(
        "an accepted loss is used for the next one", bool(left), f"{len(left)} entries are missing"
    )


def _put_back(
    whole: Sequence[ControlRecord], before: PolicyContents, cut: Sequence[ControlRecord]
) -> Attempt:
    """Mend 22.8: a used acceptance was lost, two people accepted that, and now it is there again."""
    both = (OWNER, REVIEWER)
    lost = find_loss(before, _contents(cut))
    accepted = _acceptance(
        [
            _describe_loss(difference.name, *(difference.before or ()), *(difference.now or ()))
            for difference in lost
        ],
        both,
    )
    used = _contents([*whole, accepted])
    gone = [
        _describe_loss(difference.name, *(difference.before or ())) for difference in find_loss(used, before)
    ]
    second = _acceptance(gone, both, name="loss-2")
    mended = _contents([*whole, second])
    wrong = bool(find_loss(used, mended))
    left = find_loss(mended.follow(used), _contents([*cut, second, accepted]))
    return Attempt(
        "a used acceptance is lost, that is accepted, and it is put back",
        bool(left) and not wrong,
        f"{len(left)} entries are missing",
    )


def _accept_by_revoked(whole: Sequence[ControlRecord], before: PolicyContents) -> Attempt:
    """With their revocations left out, those who were approvers once accept just that."""
    cut = [record for record in whole if record[1] not in {b"approver/ann@2", b"approver/tim@2"}]
    lost = find_loss(before, _contents(cut))
    exact = [
        _describe_loss(difference.name, *(difference.before or ()), *(difference.now or ()))
        for difference in lost
    ]
    left = find_loss(before, _contents([*cut, _acceptance(exact, (ANN, TIM))]))
    return Attempt(
        "two who were revoked accept that they are not", bool(left), f"{len(left)} entries are missing"
    )


def _accept_by_reordered(before: PolicyContents, cut: Sequence[ControlRecord]) -> Attempt:
    """Mend 22.8: their revocations are there, but behind what they accept."""
    lost = find_loss(before, _contents(cut))
    exact = [
        _describe_loss(difference.name, *(difference.before or ()), *(difference.now or ()))
        for difference in lost
    ]
    revoked = {b"approver/ann@2", b"approver/tim@2"}
    first, last = ([record for record in cut if (record[1] in revoked) is late] for late in (False, True))
    left = find_loss(before, _contents([*first, _acceptance(exact, (ANN, TIM)), *last]))
    return Attempt(
        "two accept a loss before their revocations, put last", bool(left), f"{len(left)} entries are missing"
    )


def _history() -> list[ControlRecord]:
    freeze = {"subject": "agent", "subject_id": "rogue", "reason": "it sent money twice"}
    return [
        TRUST.make_approver(),
        TRUST.make_reviewer(),
        _approver("ann", ANN, 1),
        _approver("tim", TIM, 1),
        _sign_entry(_entry("tool", "wipe", 1, tier="T3"), OWNER),
        _sign_entry(_entry("tool", "wipe", 2, tier="T4"), OWNER),
        _sign_entry(_entry("tool", "pay", 1, tier="T4"), ANN),
        _sign_entry(_entry("agent", "rogue", 1, tenant_id="acme", tier="T4"), OWNER),
        _sign_entry(_entry("freeze", "agent/rogue", 1, **freeze), OWNER),
        _sign_entry(_entry("fact", "limit", 1, value=5, valid_from="2026-01-01T00:00:00Z"), OWNER),
        _sign_entry(_entry("fact", "limit", 2, value=3, valid_from="2026-02-01T00:00:00Z"), OWNER),
        _approver("ann", ANN, 2, active=False),
        _approver("tim", TIM, 2, active=False),
    ]


def _contents(records: Iterable[ControlRecord]) -> PolicyContents:
    lines = [
        InputRecord(topic, 0, index, BEGAN_MS + index, key, value)
        for index, (topic, key, value) in enumerate(records)
    ]
    reduced = reduce_policy(lines, Roots([TRUST.root_key]), _COMPILED)
    return collect_contents(list_entries_in_force(reduced, REGISTRY))


def _describe_loss(
    name: str, before: int, before_hash: str, now: int | None = None, now_hash: str | None = None
) -> Any:
    return {"entry": name, "before": before, "before_hash": before_hash, "now": now, "now_hash": now_hash}


def _acceptance(
    lost: list[dict[str, Any]], signers: Sequence[SigningKey], where: str | None = HERE, name: str = "loss-1"
) -> ControlRecord:
    entry = _entry("policy_loss", name, 1, reason="the files are gone", lost=lost)
    return _sign_entry(entry if where is None else {**entry, "installations": [where]}, *signers)


def _approver(name: str, key: SigningKey, revision: int, **changed: Any) -> ControlRecord:
    spec = {"public_key": key.public.text, "signs": ["tool", "policy_loss"], **changed}
    return _sign_entry(_entry("approver", name, revision, **spec), TRUST.root)


def _entry(kind: str, name: str, revision: int, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": revision, "spec": spec}


def _sign_entry(entry: dict[str, Any], *signers: SigningKey) -> ControlRecord:
    key = f"{entry['kind']}/{entry['id']}@{entry['revision']}".encode()
    return REGISTRY, key, sign(PAYLOAD_TYPES[REGISTRY], json.dumps(entry).encode(), signers).encode()
