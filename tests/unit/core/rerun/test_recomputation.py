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
from load.attacks.recorded_installation import LIMITS, VALUES_KEY, RecordedInstallation
from sluice.client.mandates import MandateIssuer, MandateTerms, compute_mandate_digest, issue_mandate
from sluice.client.sender import InputSigner
from sluice.core.registry.keys import SigningKey
from sluice.core.registry.loading import build_registry
from sluice.core.rerun.policy_then import DecisionSettings, PointsUnder, Possible
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
    from collections.abc import Callable

    from sluice.core.rerun.policy_then import PolicyThen
    from sluice.core.rerun.rerun_result import Rerun
    from sluice.core.rerun.walk import PartitionWalk


@pytest.fixture
def installation() -> RecordedInstallation:
    return RecordedInstallation()


def action(name: str, **more: Any) -> dict[str, Any]:
    base = {"action_id": name, "agent_id": "operator", "session_id": "s-1", "toolName": "find"}
    return {**base, "parameters": {}, "rows_affected": 10, "mode": "high_stakes", **more}


def outcome(name: str, rows: int) -> dict[str, Any]:
    return {"action_id": name, "session_id": "s-1", "rows_affected": rows, "reported_by": "operator"}


def reruns(installation: RecordedInstallation) -> list[Rerun]:
    return walk_installation(installation.walk(), installation)


def walk_installation(walk: PartitionWalk, installation: RecordedInstallation) -> list[Rerun]:
    entries = [entry for one in installation.records if (entry := read_entry(one)) is not None]
    groups = [(group, group[0].coordinates) for group in group_answers(entries)]
    return [
        one
        for group, place in groups
        for one in walk.take(group, None if place is None else installation.inputs.get(place))
    ]


def test_totals_settlements_and_repeats_are_recounted(installation: RecordedInstallation) -> None:
    for name in ("a", "b", "a"):
        installation.take(ACTIONS, action(name))
    installation.take(OUTCOMES, outcome("a", 300))
    installation.take(ACTIONS, action("c"))
    assert installation.examine(installation.records) == []
    last = json.loads([one for one in installation.records if one.topic == VERDICTS][-1].value)
    assert last["session"]["before"]["aggregateRowsAffected"] == 400


def test_an_outcome_that_came_before_its_action_counts_where_it_is_settled(
    installation: RecordedInstallation,
) -> None:
    installation.take(ACTIONS, action("a"))
    installation.take(OUTCOMES, outcome("b", 300))
    installation.take(ACTIONS, action("b"))
    installation.take(ACTIONS, action("c"))
    assert SESSION_EVENTS in {one.topic for one in installation.records}
    assert installation.examine(installation.records) == []


def test_nothing_is_learnt_of_the_values_of_an_outcome_that_came_before_its_action() -> None:
    """The action's tool is not known when the outcome comes, so its values wait for nobody."""
    tool = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}
    sends = {"tier": "T2", "action_type": "DATABASE_WRITE", "reversible": True}
    entries = [
        {"kind": "tool", "id": "look", "revision": 1, "spec": {**tool, "returns_untrusted": True}},
        {"kind": "tool", "id": "send", "revision": 1, "spec": {**sends, "roles": {"destination": ["$.to"]}}},
    ]
    installation = RecordedInstallation(more=lambda trust: trust.sign_entries(entries))
    print_ = fingerprint(derive_tenant_key(VALUES_KEY, "acme"), read_value("eve@else.example"))
    values = {"fingerprints": [b64encode(print_).decode()], "truncated": False}
    installation.take(ACTIONS, action("a"))
    installation.take(OUTCOMES, {**outcome("b", 10), "values": values})
    installation.take(ACTIONS, action("b", toolName="look"))
    installation.take(ACTIONS, action("c", toolName="send", parameters={"to": "eve@else.example"}))
    last = json.loads([one for one in installation.records if one.topic == VERDICTS][-1].value)
    assert last["session"]["values"] == {"complete": False, "values": {}}
    assert installation.examine(installation.records) == []


def open_with_issuer() -> tuple[RecordedInstallation, Callable[[str, float], dict[str, Any]]]:
    """An installation, and what issues its agent a mandate for a task that counts so many seconds."""
    pem = Ed25519PrivateKey.generate()
    written = pem.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    issuer = {"tenant_id": "acme", "keys": [{"public_key": SigningKey(pem).public.text}]}
    entry = {"kind": "issuer", "id": "console", "revision": 1, "spec": issuer}
    installation = RecordedInstallation(more=lambda trust: trust.sign_entries([entry]))
    console = MandateIssuer("console", InputSigner(written, UNNAMED))

    def issue(task: str, seconds: float) -> dict[str, Any]:
        until = datetime.fromtimestamp(installation.now / 1000 + seconds, UTC)
        return issue_mandate(console, "operator", "s-1", until, MandateTerms(task=task))

    return installation, issue


@pytest.mark.parametrize("back_ms", [11_000, 4000])
def test_a_mandate_is_over_where_an_outcome_that_waits_has_come_later(
    back_ms: int,
) -> None:
    """The outcome stands in the ledger only with its action, behind what was decided meanwhile."""
    installation, issue = open_with_issuer()
    mandate = issue("Find it", 5)
    installation.take(MANDATES, mandate)
    installation.take(ACTIONS, action("a"))
    installation.now += 10_000
    installation.take(OUTCOMES, outcome("c", 300))
    installation.now -= back_ms
    installation.take(ACTIONS, action("b", mandate_digest=compute_mandate_digest(mandate)))
    last = json.loads([one for one in installation.records if one.topic == VERDICTS][-1].value)
    assert "has been later" in last["session"]["mandate"]["void"]
    assert installation.examine(installation.records) == []


@pytest.mark.parametrize("back_ms", [11_000, 4000])
def test_fewer_mandates_count_where_an_outcome_that_waits_has_come_later(back_ms: int) -> None:
    """As above, of an action that names no mandate: the verdict says how many there are."""
    installation, issue = open_with_issuer()
    for task, seconds in (("Find it", 5), ("Send it", 8), ("Keep it", 60)):
        installation.take(MANDATES, issue(task, seconds))
    installation.take(ACTIONS, action("a"))
    installation.now += 10_000
    installation.take(OUTCOMES, outcome("c", 300))
    installation.now -= back_ms
    installation.take(ACTIONS, action("b"))
    verdicts = [json.loads(record.value) for record in installation.records if record.topic == VERDICTS]
    assert [verdict["session"]["mandates"] for verdict in verdicts] == [3, 1]
    assert installation.examine(installation.records) == []


def test_mandates_are_not_over_before_their_end() -> None:
    installation, issue = open_with_issuer()
    installation.take(MANDATES, issue("Find it", 3600))
    installation.take(MANDATES, issue("Send it", 3600))
    installation.take(ACTIONS, action("a"))
    installation.records = change(VERDICTS, 0, session__mandates=1)(installation)
    assert [rerun.id for rerun in reruns(installation) if rerun.status != "identical"] == [
        f"verdict:{ACTIONS}:3:0"
    ]


def test_a_session_that_folded_starts_from_nothing(installation: RecordedInstallation) -> None:
    installation.take(ACTIONS, action("a"))
    installation.now += LIMITS.idle_timeout_ms
    installation.take(ACTIONS, action("b"))
    assert SESSION_EVENTS in {one.topic for one in installation.records}
    assert installation.examine(installation.records) == []


def test_a_false_total_is_told_once_and_not_with_all_after_it(installation: RecordedInstallation) -> None:
    for name in "abcd":
        installation.take(ACTIONS, action(name))
    less = {"aggregateRowsAffected": 1, "aggregateActionCount": 1}
    installation.records = change(VERDICTS, 1, session__before=less)(installation)
    found = [one for one in reruns(installation) if one.status != "identical"]
    assert [one.id for one in found] == [f"verdict:{ACTIONS}:3:1"]


def test_a_whole_false_line_of_verdicts_is_found_at_its_first(installation: RecordedInstallation) -> None:
    """Each follows from the one before it, and the first from nothing."""
    for name in "abc":
        installation.take(ACTIONS, action(name))
    lies = list(installation.records)
    for at, rows in ((1, 5), (2, 15)):
        fields = json.loads(lies[at].value)
        fields["session"]["before"] = {"aggregateRowsAffected": rows, "aggregateActionCount": at}
        fields["session"]["after"] = {"aggregateRowsAffected": rows + 10, "aggregateActionCount": at + 1}
        lies[at] = replace_value(lies[at], fields)
    installation.records = relink(lies)
    found = {one.id: {each.field for each in one.differences} for one in reruns(installation)}
    assert "session" in found[f"verdict:{ACTIONS}:3:1"]


def test_a_session_with_an_input_that_is_gone_is_not_checked_and_says_so(
    installation: RecordedInstallation,
) -> None:
    for name in "ab":
        installation.take(ACTIONS, action(name))
    installation.take(ACTIONS, action("c", session_id="s-2"))
    del installation.inputs[ACTIONS, 3, 0]
    gone, told, other = reruns(installation)
    assert gone.status == "evidence_gone"
    assert (told.status, told.not_checked) == ("identical", (GONE,))
    assert (other.status, other.not_checked) == ("identical", ())


def test_an_input_that_was_decided_and_has_no_record_is_told(installation: RecordedInstallation) -> None:
    for name in "abc":
        installation.take(ACTIONS, action(name))
    (said,) = installation.examine(relink(installation.records[:-1]))
    assert said == f"rerun: {ACTIONS}:3:2: no record answers it"


def test_an_input_that_could_not_be_read_is_answered_by_its_dead_letter(
    installation: RecordedInstallation,
) -> None:
    installation.take(ACTIONS, action("a", surprise=1))
    assert installation.examine(installation.records) == []


def test_a_second_decision_is_no_matter_of_versions_nor_of_evidence(
    installation: RecordedInstallation,
) -> None:
    """A forger may write any version, and the input may be gone."""
    installation.take(ACTIONS, action("a"))
    again = replace_value(
        installation.records[0], {**json.loads(installation.records[0].value), "decider_version": "9+else"}
    )
    installation.records = relink([installation.records[0], again])
    assert [one.status for one in reruns(installation)] == ["identical", "different"]
    del installation.inputs[ACTIONS, 3, 0]
    assert [one.status for one in reruns(installation)] == ["evidence_gone", "different"]


def test_a_forged_second_decision_is_named_with_the_first(installation: RecordedInstallation) -> None:
    installation.take(ACTIONS, action("a"))
    installation.records = relink([*installation.records, installation.records[-1]])
    first, second = reruns(installation)
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


def test_what_became_of_a_memory_is_taken_from_its_record(installation: RecordedInstallation) -> None:
    """A reviewer approved the parent, which the sessions' recount does not see: the child's repeat was told
    to differ."""
    installation.take(MEMORY_WRITES, memory("parent", "memory:of:nobody:1"))
    (state,) = installation._replay._sessions.values()  # noqa: SLF001 - what an approval leaves in the session
    (account,) = state.accounts.values()
    (remembered,) = account.agents.values()
    known = remembered.write("parent")
    assert known is not None
    assert known.action == "quarantine"
    remembered.writes["parent"] = tuple(known._replace(trust=1.0))
    child = memory("child", f"memory:{MEMORY_WRITES}:3:0")
    for _ in range(2):
        installation.take(MEMORY_WRITES, child)
    decided = [json.loads(one.value) for one in installation.records if one.topic == MEMORY_DECISIONS]
    assert [one["action"] for one in decided] == ["quarantine", "allow", "allow"]
    assert decided[2]["seen"]["known"]["action"] == "allow"
    installation.take(ACTIONS, action("after"))
    (acted,) = (json.loads(one.value) for one in installation.records if one.topic == VERDICTS)
    assert acted["session"]["read"]["held"]["times"] == 1
    assert [one for one in reruns(installation) if one.status != "identical"] == []


class Around(NamedTuple):
    """The policies around a change, the earliest first, whenever it is asked."""

    points: tuple[PointsUnder, ...]
    decision_settings: DecisionSettings

    def find_possible(self, *_: object) -> Possible:
        """All of them."""
        return Possible(self.points, changed=False, never=frozenset())


def test_of_the_policies_around_a_change_the_latest_that_gives_the_record_is_taken(
    installation: RecordedInstallation,
) -> None:
    """The earliest was taken always: before the first registry was published, nobody was known."""
    for name in ("a", "b", "a"):
        installation.take(ACTIONS, action(name))
    walk = installation.walk()
    assert walk.recount is not None
    possible = walk.recount.then.find_possible(
        json.loads(installation.records[0].value), installation.now, installation.now
    )
    (known,) = possible.points
    policy, decision_settings = known._policy, known._decision_settings  # noqa: SLF001 - the same, without a registry
    nobody = PointsUnder(replace(policy, registry=build_registry([])), decision_settings)
    walk.recount.then = cast("PolicyThen", Around((nobody, known), decision_settings))
    assert [one for one in walk_installation(walk, installation) if one.status != "identical"] == []


def test_a_reading_that_a_later_policy_would_answer_otherwise_is_recounted_as_it_was(
    installation: RecordedInstallation,
) -> None:
    """An override came after a denial, and the flags of what it would have let through were counted then."""
    item = {
        "item_id": "lease",
        "body": "The lease ends in May.",
        "content_class": "legal_text",
        "timestamp": "2025-11-20T10:00:00Z",
        "confidence_score": 0.9,
    }
    installation.take(
        RETRIEVALS, {"request_id": "r", "agent_id": "operator", "session_id": "s-1", "items": [item]}
    )
    installation.take(ACTIONS, action("a"))
    read, acted = (
        json.loads(one.value) for one in installation.records if one.topic in (QUALITY_DECISIONS, VERDICTS)
    )
    assert read["outcome"] == "flag"
    assert acted["session"]["flags"]["outstanding"]
    walk = installation.walk()
    assert walk.recount is not None
    (known,) = walk.recount.then.find_possible(acted, installation.now, installation.now).points
    policy, decision_settings = known._policy, known._decision_settings  # noqa: SLF001 - the same, without a registry
    nobody = PointsUnder(replace(policy, registry=build_registry([])), decision_settings)
    walk.recount.then = cast("PolicyThen", Around((known, nobody), decision_settings))
    assert [one for one in walk_installation(walk, installation) if one.status != "identical"] == []
