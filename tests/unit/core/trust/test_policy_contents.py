"""What is in force as the ledger and a partition's state have it, and what one set has less than another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from sluice.core.trust.change_log import entries_in_force
from sluice.core.trust.policy_contents import (
    NOTHING,
    Edition,
    PolicyContents,
    contents_of,
    differences,
    policy_record,
)
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.records import PolicyInForce
from sluice_topics.records.policy_events import MOST_NAMED
from tests.unit.core.trust.scene import ALICE, Topics, bundle_document, trusting_alice

if TYPE_CHECKING:
    from sluice.core.foundation.chain import OutRecord

HASHES = st.sampled_from(["0" * 32, "1" * 32])
EDITIONS = st.builds(Edition, st.integers(1, 3), HASHES)
CONTENTS = st.dictionaries(st.sampled_from("abcd"), EDITIONS).map(
    lambda made: PolicyContents(made, str(made))
)


def _contents(topics: Topics) -> PolicyContents:
    folded = topics.fold()
    return contents_of([*entries_in_force(folded, BUNDLES), *entries_in_force(folded, REGISTRY)])


def _record(before: PolicyContents | None, now: PolicyContents) -> OutRecord:
    return policy_record(3, before, now, 1_700_000_000_000, starts=False)


def test_contents_are_the_newest_revisions_and_every_revision_of_a_fact() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(), ALICE)
    topics.bundle(bundle_document(2), ALICE)
    found = _contents(topics).editions
    assert {name: one.revision for name, one in found.items()} == {"approver/alice": 1, "bundle/small": 2}


def test_the_digest_follows_names_revisions_and_content_and_not_their_order() -> None:
    topics = trusting_alice()
    topics.bundle(bundle_document(), ALICE)
    whole = _contents(topics)
    accepted = [*topics.fold().entries.values()]
    assert contents_of(accepted[::-1]) == contents_of(accepted) == whole
    assert whole.digest != contents_of(accepted[:1]).digest
    altered = replace(accepted[1], said=replace(accepted[1].said, hash="sha256:" + "0" * 64))
    assert whole.digest != contents_of([accepted[0], altered]).digest


@given(CONTENTS)
def test_what_a_partition_keeps_reads_back_as_it_was(contents: PolicyContents) -> None:
    assert PolicyContents.decode(contents.encode()) == contents


@given(CONTENTS, CONTENTS)
def test_a_loss_is_what_is_gone_or_not_newer_than_before(before: PolicyContents, now: PolicyContents) -> None:
    lost = {one.name for one in differences(before, now).lost}
    assert lost == {
        name
        for name, edition in before.editions.items()
        if name not in now.editions
        or (now.editions[name] != edition and now.editions[name].revision <= edition.revision)
    }


@given(CONTENTS, CONTENTS)
def test_differences_add_up(before: PolicyContents, now: PolicyContents) -> None:
    found = differences(before, now)
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
