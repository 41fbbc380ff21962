"""What is in force as the ledger and a partition's state have it, and what one set has less than another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.cli.policy.policy_loss import make_loss_entry
from sluice.core.trust.change_log import list_entries_in_force
from sluice.core.trust.compile_cache import CompileCache
from sluice.core.trust.policy_contents import (
    NOTHING,
    Edition,
    EditionDifference,
    PolicyContents,
    collect_contents,
    compare_contents,
    find_loss,
    make_policy_record,
)
from sluice.stream.engine.policy_recorder import POLICY_KEY, RecordedPolicy
from sluice.stream.engine.takeover import PolicyLost
from sluice_topics.audience import Audience
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.records import PolicyInForce
from sluice_topics.records.policy_events import MOST_NAMED
from tests.unit.core.trust.scene import (
    ALICE,
    BOB,
    ROOT_KEY,
    STRANGER,
    Topics,
    approver,
    bundle_document,
    tool,
    trust_alice,
)

if TYPE_CHECKING:
    from sluice.core.foundation.chain import OutRecord

HASHES = st.sampled_from(["0" * 32, "1" * 32])
EDITIONS = st.builds(Edition, st.integers(1, 3), HASHES)
CONTENTS = st.dictionaries(st.sampled_from("abcd"), EDITIONS).map(
    lambda made: PolicyContents(made, str(made), used={"policy_loss/a": len(made)})
)


def _contents(topics: Topics) -> PolicyContents:
    folded = topics.reduce()
    return collect_contents(list_entries_in_force(folded, BUNDLES, REGISTRY))


SIGNS = ["tool", "policy_loss"]
BEFORE = [
    approver("alice", ALICE, signs=SIGNS),
    approver("bob", BOB, signs=SIGNS),
    tool("wipe", tier="T4"),
]


def _topics(*entries: dict[str, Any]) -> Topics:
    """Topics of the installation `here`: the root key signs approvers, Alice and Bob all other entries."""
    topics = Topics()
    topics.compiled = CompileCache(lambda _: (), Audience("here", ""))
    for one in entries:
        topics.entry(one, *((ROOT_KEY,) if one["kind"] == "approver" else (ALICE, BOB)))
    return topics


def _acceptance(before: PolicyContents, now: PolicyContents, name: str = "loss") -> dict[str, Any]:
    """An entry that names exactly what is lost."""
    lost = [
        {"entry": one.name, "before": one.before.revision, "before_hash": one.before.hash}
        for one in compare_contents(before, now).lost
        if one.before is not None
    ]
    spec = {"reason": "the files are gone", "lost": lost}
    return {"kind": "policy_loss", "id": name, "revision": 1, "installations": ["here"], "spec": spec}


def _record(before: PolicyContents | None, now: PolicyContents) -> OutRecord:
    return make_policy_record(3, before, now, 1_700_000_000_000, starts=False)


def test_contents_are_the_newest_revisions_and_every_revision_of_a_fact() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(), ALICE)
    topics.bundle(bundle_document(2), ALICE)
    found = _contents(topics).editions
    assert {name: one.revision for name, one in found.items()} == {"approver/alice": 1, "bundle/small": 2}


def test_the_digest_follows_names_revisions_and_content_and_not_their_order() -> None:
    topics = trust_alice()
    topics.bundle(bundle_document(), ALICE)
    whole = _contents(topics)
    accepted = [*topics.reduce().entries.values()]
    assert collect_contents(accepted[::-1]) == collect_contents(accepted) == whole
    assert whole.digest != collect_contents(accepted[:1]).digest
    altered = replace(accepted[1], statement=replace(accepted[1].statement, hash="sha256:" + "0" * 64))
    assert whole.digest != collect_contents([accepted[0], altered]).digest


@given(CONTENTS)
def test_what_a_partition_keeps_reads_back_as_it_was(contents: PolicyContents) -> None:
    assert PolicyContents.decode(contents.encode()) == contents


@given(CONTENTS, CONTENTS)
def test_a_loss_is_what_is_gone_or_not_newer_than_before(before: PolicyContents, now: PolicyContents) -> None:
    lost = {one.name for one in compare_contents(before, now).lost}
    assert lost == {
        name
        for name, edition in before.editions.items()
        if name not in now.editions
        or (now.editions[name] != edition and now.editions[name].revision <= edition.revision)
    }


@given(CONTENTS, CONTENTS)
def test_differences_add_up(before: PolicyContents, now: PolicyContents) -> None:
    found = compare_contents(before, now)
    assert len(now.editions) == len(before.editions) + len(found.added) - len(found.gone)


def test_a_record_names_a_bounded_number_of_entries_and_counts_all() -> None:
    many = PolicyContents({f"tool/t{n:02}": Edition(1, "0" * 32) for n in range(30)}, NOTHING.digest)
    record = _record(None, many)
    assert record.body["added"]["total"] == 30
    assert len(record.body["added"]["named"]) == MOST_NAMED
    assert record.body["previous"] is None
    linked = {
        **record.body,
        "partition": 3,
        "sequence": 1,
        "prev_hash": "GENESIS",
        "event_hash": NOTHING.digest,
    }
    assert PolicyInForce.model_validate(linked).kinds == {"tool": 30}


@pytest.mark.parametrize(
    "later",
    [
        approver("alice", ALICE, 2, signs=SIGNS, active=False),
        approver("alice", STRANGER, 2, signs=SIGNS),
        approver("alice", ALICE, 2, signs=["tool"]),
        approver("alice", ALICE, 2, signs=SIGNS, valid_until="2025-01-01T00:00:00.000Z"),
    ],
    ids=["revoked", "other key", "fewer rights", "expired"],
)
def test_who_may_accept_no_loss_any_more_accepts_none_by_another_order_of_the_records(
    later: dict[str, Any],
) -> None:
    """Mend 22.8: whoever writes the topics again can put an approver's newest entry behind the acceptance."""
    before = _contents(_topics(*BEFORE, later))
    cut = BEFORE[:2]
    accepted = _acceptance(before, _contents(_topics(*cut, later)))
    reordered = _topics(*cut, accepted, later)
    assert reordered.refusals() == []
    assert [one.name for one in find_loss(before, _contents(reordered))] == ["tool/wipe"]
    whole = _contents(_topics(*BEFORE))
    assert find_loss(whole, _contents(_topics(*cut, accepted))) == ()


def test_an_accepted_loss_counts_once_even_if_it_is_lost_itself_and_that_is_accepted() -> None:
    """Mend 22.8: otherwise it could be kept, taken out and put back for the same loss once more."""
    whole, cut = _contents(_topics(*BEFORE)), BEFORE[:2]
    first = _acceptance(whole, _contents(_topics(*cut)))
    recorded = _merge_kept(_contents(_topics(*BEFORE, first)), whole)
    without = _contents(_topics(*BEFORE))
    second = _acceptance(recorded, without, "loss-of-the-first")
    assert find_loss(recorded, _contents(_topics(*BEFORE, second))) == ()
    recorded = _merge_kept(_contents(_topics(*BEFORE, second)), recorded)
    assert "policy_loss/loss" not in recorded.editions
    again = _contents(_topics(*cut, second, first))
    assert [one.name for one in find_loss(recorded, again)] == ["tool/wipe"]
    newer = _contents(_topics(*cut, second, {**first, "revision": 2}))
    assert find_loss(recorded, newer) == ()


def _merge_kept(now: PolicyContents, before: PolicyContents) -> PolicyContents:
    """What a partition's state has of `now` after `before`."""
    recorded = RecordedPolicy(3, {POLICY_KEY: before.encode()})
    assert recorded.record(now, 1_700_000_000_000, starts=False) is not None
    ((_, value),) = recorded.flush()
    return PolicyContents.decode(value)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (None, "tool/wipe revision 2 (gone)"),
        (Edition(1, "0" * 32), "tool/wipe revision 2 (now 1)"),
        (Edition(2, "1" * 32), "tool/wipe revision 2 (other content)"),
    ],
)
def test_a_lost_entry_is_told_in_the_same_words_by_worker_and_command(
    now: Edition | None, words: str
) -> None:
    """Mend 22.8: the command said nothing of other content under the same revision."""
    lost = EditionDifference("tool/wipe", Edition(2, "0" * 32), now)
    assert str(lost) == words
    assert f"is missing: {words}; publish" in str(PolicyLost([lost]))


def test_a_draft_of_the_same_loss_is_newer_than_each_acceptance_that_was_used() -> None:
    """Mend 22.8: with the used one's revision two people would sign in vain, also where it is lost itself."""
    whole, cut = _contents(_topics(*BEFORE)), _contents(_topics(*BEFORE[:2]))
    lost = [*find_loss(whole, cut)]
    first = make_loss_entry(lost, "the files are gone", "here", [cut, whole])
    used = _merge_kept(_contents(_topics(*BEFORE, first)), whole)
    recorded = whole.follow(used)
    again = make_loss_entry(lost, "the files are gone", "here", [cut, recorded, whole])
    assert (again["id"], first["revision"], again["revision"]) == (first["id"], 1, 2)
    assert find_loss(recorded, _contents(_topics(*BEFORE[:2], first))) == tuple(lost)
    assert find_loss(recorded, _contents(_topics(*BEFORE[:2], again))) == ()
