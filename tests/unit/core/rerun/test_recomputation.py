"""Mend 5: a walk over a partition recounts its sessions, and says what it cannot recount."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from load.attacks.forging import change, relink, replace_value
from load.attacks.recorded_site import LIMITS, VALUES_KEY, RecordedSite
from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import InputSigner
from sluice.core.registry.keys import SigningKey
from sluice.core.registry.loading import build_registry
from sluice.core.rerun.policy_then import Installation, PointsUnder, Possible
from sluice.core.rerun.recomputation import GONE
from sluice.core.rerun.walk import group_answers, read_entry
from sluice_topics.audience import UNNAMED
from sluice_topics.catalog import (
    ACTIONS,
    MANDATES,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    SESSION_EVENTS,
    VERDICTS,
)
from sluice_topics.values import derive_tenant_key, fingerprint, read_value

if TYPE_CHECKING:
    from sluice.core.rerun.policy_then import PolicyThen
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.rerun.walk import PartitionWalk


@pytest.fixture
def site() -> RecordedSite:
    return RecordedSite()


def action(name: str, **more: Any) -> dict[str, Any]:
    base = {"action_id": name, "agent_id": "operator", "session_id": "s-1", "toolName": "find"}
    return {**base, "parameters": {}, "rows_affected": 10, "mode": "high_stakes", **more}


def outcome(name: str, rows: int) -> dict[str, Any]:
    return {"action_id": name, "session_id": "s-1", "rows_affected": rows, "reported_by": "operator"}


def reruns(site: RecordedSite) -> list[Rerun]:
    return walk_site(site.walk(), site)


def walk_site(walk: PartitionWalk, site: RecordedSite) -> list[Rerun]:
    entries = [entry for one in site.records if (entry := read_entry(one)) is not None]
    groups = [(group, group[0].place) for group in group_answers(entries)]
    return [
        one
        for group, place in groups
        for one in walk.take(group, None if place is None else site.inputs.get(place))
    ]


def test_totals_settlements_and_repeats_are_recounted(site: RecordedSite) -> None:
    for name in ("a", "b", "a"):
        site.take(ACTIONS, action(name))
    site.take(OUTCOMES, outcome("a", 300))
    site.take(ACTIONS, action("c"))
    assert site.examine(site.records) == []
    last = json.loads([one for one in site.records if one.topic == VERDICTS][-1].value)
    assert last["session"]["before"]["aggregateRowsAffected"] == 400


def test_an_outcome_that_came_before_its_action_counts_where_it_is_settled(site: RecordedSite) -> None:
    site.take(ACTIONS, action("a"))
    site.take(OUTCOMES, outcome("b", 300))
    site.take(ACTIONS, action("b"))
    site.take(ACTIONS, action("c"))
    assert SESSION_EVENTS in {one.topic for one in site.records}
    assert site.examine(site.records) == []


def test_nothing_is_learnt_of_the_values_of_an_outcome_that_came_before_its_action() -> None:
    """The action's tool is not known when the outcome comes, so its values wait for nobody."""
    tool = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}
    sends = {"tier": "T2", "action_type": "DATABASE_WRITE", "reversible": True}
    entries = [
        {"kind": "tool", "id": "look", "revision": 1, "spec": {**tool, "returns_untrusted": True}},
        {"kind": "tool", "id": "send", "revision": 1, "spec": {**sends, "roles": {"destination": ["$.to"]}}},
    ]
    site = RecordedSite(more=lambda trust: trust.sign_entries(entries))
    print_ = fingerprint(derive_tenant_key(VALUES_KEY, "acme"), read_value("eve@else.example"))
    values = {"fingerprints": [b64encode(print_).decode()], "truncated": False}
    site.take(ACTIONS, action("a"))
    site.take(OUTCOMES, {**outcome("b", 10), "values": values})
    site.take(ACTIONS, action("b", toolName="look"))
    site.take(ACTIONS, action("c", toolName="send", parameters={"to": "eve@else.example"}))
    last = json.loads([one for one in site.records if one.topic == VERDICTS][-1].value)
    assert last["session"]["values"] == {"complete": False, "values": {}}
    assert site.examine(site.records) == []


@pytest.mark.parametrize("back_ms", [11_000, 4000])
def test_a_mandate_is_over_where_an_outcome_that_waits_has_come_later(
    site: RecordedSite, back_ms: int
) -> None:
    """The outcome stands in the ledger only with its action, behind what was decided meanwhile."""
    pem = Ed25519PrivateKey.generate()
    written = pem.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    issuer = {"tenant_id": "acme", "keys": [{"public_key": SigningKey(pem).public.text}]}
    entry = {"kind": "issuer", "id": "console", "revision": 1, "spec": issuer}
    site = RecordedSite(more=lambda trust: trust.sign_entries([entry]))
    until = datetime.fromtimestamp(site.now / 1000 + 5, UTC)
    terms = MandateTerms(task="Find it")
    console = MandateIssuer("console", InputSigner(written, UNNAMED))
    mandate = issue_mandate(console, "operator", "s-1", until, terms)
    site.take(MANDATES, mandate)
    site.take(ACTIONS, action("a"))
    site.now += 10_000
    site.take(OUTCOMES, outcome("c", 300))
    site.now -= back_ms
    site.take(ACTIONS, action("b", mandate_digest=compute_mandate_digest(mandate)))
    last = json.loads([one for one in site.records if one.topic == VERDICTS][-1].value)
    assert "has been later" in last["session"]["mandate"]["void"]
    assert site.examine(site.records) == []


def test_a_session_that_folded_starts_from_nothing(site: RecordedSite) -> None:
    site.take(ACTIONS, action("a"))
    site.now += LIMITS.idle_timeout_ms
    site.take(ACTIONS, action("b"))
    assert SESSION_EVENTS in {one.topic for one in site.records}
    assert site.examine(site.records) == []


def test_a_false_total_is_told_once_and_not_with_all_after_it(site: RecordedSite) -> None:
    for name in "abcd":
        site.take(ACTIONS, action(name))
    less = {"aggregateRowsAffected": 1, "aggregateActionCount": 1}
    site.records = change(VERDICTS, 1, session__before=less)(site)
    found = [one for one in reruns(site) if one.status != "identical"]
    assert [one.id for one in found] == [f"verdict:{ACTIONS}:3:1"]


def test_a_whole_false_line_of_verdicts_is_found_at_its_first(site: RecordedSite) -> None:
    """Each follows from the one before it, and the first from nothing."""
    for name in "abc":
        site.take(ACTIONS, action(name))
    lies = list(site.records)
    for at, rows in ((1, 5), (2, 15)):
        fields = json.loads(lies[at].value)
        fields["session"]["before"] = {"aggregateRowsAffected": rows, "aggregateActionCount": at}
        fields["session"]["after"] = {"aggregateRowsAffected": rows + 10, "aggregateActionCount": at + 1}
        lies[at] = replace_value(lies[at], fields)
    site.records = relink(lies)
    found = {one.id: {each.field for each in one.differences} for one in reruns(site)}
    assert "session" in found[f"verdict:{ACTIONS}:3:1"]


def test_a_session_with_an_input_that_is_gone_is_not_checked_and_says_so(site: RecordedSite) -> None:
    for name in "ab":
        site.take(ACTIONS, action(name))
    site.take(ACTIONS, action("c", session_id="s-2"))
    del site.inputs[ACTIONS, 3, 0]
    gone, told, other = reruns(site)
    assert gone.status == "evidence_gone"
    assert (told.status, told.not_checked) == ("identical", (GONE,))
    assert (other.status, other.not_checked) == ("identical", ())


def test_an_input_that_was_decided_and_has_no_record_is_told(site: RecordedSite) -> None:
    for name in "abc":
        site.take(ACTIONS, action(name))
    (said,) = site.examine(relink(site.records[:-1]))
    assert said == f"rerun: {ACTIONS}:3:2: no record answers it"


def test_an_input_that_could_not_be_read_is_answered_by_its_dead_letter(site: RecordedSite) -> None:
    site.take(ACTIONS, action("a", surprise=1))
    assert site.examine(site.records) == []


def test_a_second_decision_is_no_matter_of_versions_nor_of_evidence(site: RecordedSite) -> None:
    """A forger may write any version, and the input may be gone."""
    site.take(ACTIONS, action("a"))
    again = replace_value(site.records[0], {**json.loads(site.records[0].value), "decider_version": "9+else"})
    site.records = relink([site.records[0], again])
    assert [one.status for one in reruns(site)] == ["identical", "different"]
    del site.inputs[ACTIONS, 3, 0]
    assert [one.status for one in reruns(site)] == ["evidence_gone", "different"]


def test_a_forged_second_decision_is_named_with_the_first(site: RecordedSite) -> None:
    site.take(ACTIONS, action("a"))
    site.records = relink([*site.records, site.records[-1]])
    first, second = reruns(site)
    assert (first.status, second.status) == ("identical", "different")
    assert second.differences[0].rerun == "the input was decided before, in record 1"


def memory(name: str, parent: str) -> dict[str, Any]:
    return {
        "write_id": name,
        "agent_id": "operator",
        "session_id": "s-1",
        "content": f"The lease {name} ends in May.",
        "source": {"id": "crm", "type": "user"},
        "content_class": "internal_policy",
        "timestamp": "2025-11-20T00:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": "https://example.com/terms",
        "provenance_hash": "sha256:" + "ab" * 32,
        "derived_from": [parent],
    }


def test_what_became_of_a_memory_is_taken_from_its_record(site: RecordedSite) -> None:
    """A reviewer approved the parent, which the sessions' recount does not see: the child's repeat was told
    to differ."""
    site.take(MEMORY_WRITES, memory("parent", "memory:of:nobody:1"))
    (state,) = site._replay._sessions.values()  # noqa: SLF001 - what an approval leaves in the session
    (account,) = state.accounts.values()
    (remembered,) = account.agents.values()
    known = remembered.write("parent")
    assert known is not None
    assert known.action == "quarantine"
    remembered.writes["parent"] = tuple(known._replace(trust=1.0))
    child = memory("child", f"memory:{MEMORY_WRITES}:3:0")
    for _ in range(2):
        site.take(MEMORY_WRITES, child)
    decided = [json.loads(one.value) for one in site.records if one.topic == MEMORY_DECISIONS]
    assert [one["action"] for one in decided] == ["quarantine", "allow", "allow"]
    assert decided[2]["seen"]["known"]["action"] == "allow"
    site.take(ACTIONS, action("after"))
    (acted,) = (json.loads(one.value) for one in site.records if one.topic == VERDICTS)
    assert acted["session"]["read"]["held"]["times"] == 1
    assert [one for one in reruns(site) if one.status != "identical"] == []


class Around(NamedTuple):
    """The policies around a change, the earliest first, whenever it is asked."""

    points: tuple[PointsUnder, ...]
    installation: Installation

    def find_possible(self, *_: object) -> Possible:
        """All of them."""
        return Possible(self.points, changed=False, never=frozenset())


def test_of_the_policies_around_a_change_the_latest_that_gives_the_record_is_taken(
    site: RecordedSite,
) -> None:
    """The earliest was taken always: before the first registry was published, nobody was known."""
    for name in ("a", "b", "a"):
        site.take(ACTIONS, action(name))
    walk = site.walk()
    assert walk.recount is not None
    possible = walk.recount.then.find_possible(json.loads(site.records[0].value), site.now, site.now)
    (known,) = possible.points
    policy, installation = known._policy, known._installation  # noqa: SLF001 - the same, without a registry
    nobody = PointsUnder(replace(policy, registry=build_registry([])), installation)
    walk.recount.then = cast("PolicyThen", Around((nobody, known), installation))
    assert [one for one in walk_site(walk, site) if one.status != "identical"] == []


def test_a_reading_that_a_later_policy_would_answer_otherwise_is_recounted_as_it_was(
    site: RecordedSite,
) -> None:
    """An override came after a denial, and the flags of what it would have let through were counted then."""
    item = {
        "item_id": "lease",
        "body": "The lease ends in May.",
        "content_class": "legal_text",
        "timestamp": "2025-11-20T10:00:00Z",
        "confidence_score": 0.9,
    }
    site.take(RETRIEVALS, {"request_id": "r", "agent_id": "operator", "session_id": "s-1", "items": [item]})
    site.take(ACTIONS, action("a"))
    read, acted = (
        json.loads(one.value) for one in site.records if one.topic in (QUALITY_DECISIONS, VERDICTS)
    )
    assert read["outcome"] == "flag"
    assert acted["session"]["flags"]["outstanding"]
    walk = site.walk()
    assert walk.recount is not None
    (known,) = walk.recount.then.find_possible(acted, site.now, site.now).points
    policy, installation = known._policy, known._installation  # noqa: SLF001 - the same, without a registry
    nobody = PointsUnder(replace(policy, registry=build_registry([])), installation)
    walk.recount.then = cast("PolicyThen", Around((known, nobody), installation))
    assert [one for one in walk_site(walk, site) if one.status != "identical"] == []
