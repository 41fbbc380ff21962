"""Resolved verdicts executed again, recounted and verified; what a forger changes in them is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from load.attacks.forging import relink, replace_value
from load.attacks.recorded_installation import HOUR, RecordedInstallation
from sluice.core.rerun.walk import read_entry
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import GATEWAY, OWNER
from sluice_topics.audience import Audience
from sluice_topics.catalog import ACTIONS, ESCALATIONS, REVIEWS, VERDICTS

ACTION = {
    "action_id": "a-1",
    "agent_id": "operator",
    "session_id": "s-1",
    "toolName": "erase",
    "parameters": {"which": "one order"},
    "rows_affected": 10,
    "mode": "high_stakes",
}


def records(installation: RecordedInstallation, topic: str, schema: str) -> list[dict[str, Any]]:
    """The fields of the records of a schema, in order."""
    found = [json.loads(one.value) for one in installation.records if one.topic == topic]
    return [one for one in found if one["schema"] == f"sluice/{schema}/v1"]


def answer(installation: RecordedInstallation, opened: dict[str, Any], decision: str, **more: Any) -> None:
    """The owner's signed answer."""
    fields = {**_answer_fields(opened), "decision": decision, **more}
    installation.take(
        REVIEWS, sign_review(fields, installation.trust.owner, Audience()).model_dump(exclude_unset=True)
    )


def _answer_fields(opened: dict[str, Any]) -> dict[str, Any]:
    """The owner's approval, not signed."""
    return {
        "subject_id": opened["escalation_id"],
        "session_id": opened["session_id"],
        "decision": "approve",
        "approver_id": OWNER,
        "digest": opened["action_digest"],
        "justification": "looked at it",
    }


@pytest.fixture(scope="module")
def installation() -> RecordedInstallation:
    """Approved, denied, narrowed, expired, answered twice, and repeated."""
    made = RecordedInstallation()
    made.take(ACTIONS, {**ACTION, "toolName": "find", "action_id": "a-0"})
    for number in (1, 2, 3, 4):
        made.take(ACTIONS, {**ACTION, "action_id": f"a-{number}"})
    one, two, three, four = records(made, ESCALATIONS, "escalation_opened")
    answer(made, one, "approve")
    answer(made, one, "approve")
    answer(made, two, "deny")
    made.take(ACTIONS, ACTION)
    grant = {"uses": 2, "until": "2099-01-01T00:00:00.000Z", "when": "action.parameters.which != 'all'"}
    answer(made, three, "approve", parameters={"which": "no order"}, grant=grant)
    for number in (5, 6, 7):
        made.take(ACTIONS, {**ACTION, "action_id": f"a-{number}"})
    made.now += 2 * HOUR
    answer(made, four, "approve")
    return made


def test_every_way_to_end_is_in_the_ledger_verifies_and_reruns_identical(
    installation: RecordedInstallation,
) -> None:
    resolved = records(installation, VERDICTS, "resolved_verdict")
    assert [(one["outcome"], one["rows_reserved"], "narrowed" in one) for one in resolved] == [
        ("ALLOW", 100, False),
        ("ALLOW", 100, True),
    ]
    assert len(records(installation, ESCALATIONS, "escalation_resolved")) == 3
    assert len(records(installation, ESCALATIONS, "escalation_expired")) == 2
    assert [one["uses_left"] for one in records(installation, ESCALATIONS, "grant_used")] == [1, 0]
    assert installation.examine(installation.records) == []


def find_resolved(installation: RecordedInstallation) -> int:
    """The place among the records of the first resolved verdict."""
    kinds = [json.loads(one.value)["schema"] for one in installation.records]
    return kinds.index("sluice/resolved_verdict/v1")


@pytest.mark.parametrize(
    "forged",
    [
        {"rows_reserved": 1},
        {"outcome": "BLOCK", "verdict": "denied"},
        {"resolves": "verdict:gate.actions.proposed:3:0"},
        {"approvals": []},
        {"tier": "T1"},
        {"session": None},
        {"escalation": None},
        {"action": None},
    ],
    ids=lambda one: next(iter(one)),
)
def test_what_a_forger_changes_is_told(installation: RecordedInstallation, forged: dict[str, Any]) -> None:
    place = find_resolved(installation)
    entry = read_entry(installation.records[place])
    assert entry is not None
    said = {
        name: {**entry.fields[name], **_otherwise(name)} if one is None else one
        for name, one in forged.items()
    }
    changed = replace_value(installation.records[place], {**entry.fields, **said})
    assert installation.examine(
        relink([*installation.records[:place], changed, *installation.records[place + 1 :]])
    )


def _otherwise(name: str) -> dict[str, Any]:
    otherwise: dict[str, dict[str, Any]] = {
        "session": {"before": {"aggregateRowsAffected": 0, "aggregateActionCount": 0}},
        "escalation": {"required_role": "vp", "quorum": 2},
        "action": {"offset": 0},
    }
    return otherwise[name]


def test_an_action_that_is_no_longer_there_is_named(installation: RecordedInstallation) -> None:
    lost = RecordedInstallation.__new__(RecordedInstallation)
    lost.__dict__ |= installation.__dict__
    place = next(one for one in installation.inputs if one[0] == ACTIONS and one[2] == 1)
    lost.inputs = {at: one for at, one in installation.inputs.items() if at != place}
    said = lost.examine(installation.records)
    assert any("gone: input gate.actions.proposed:3:1" in one for one in said)


def test_an_approver_of_no_group_of_the_route_is_told(installation: RecordedInstallation) -> None:
    place = find_resolved(installation)
    entry = read_entry(installation.records[place])
    assert entry is not None
    route = {"groups": ["desk"], "remind_after_ms": None, "next_after_ms": None}
    seen = {**entry.fields["escalation"], "route": route}
    changed = replace_value(installation.records[place], {**entry.fields, "escalation": seen})
    found = installation.examine(
        relink([*installation.records[:place], changed, *installation.records[place + 1 :]])
    )
    assert any("refused: wrong_group" in one for one in found)


def test_what_a_delegate_signed_verifies_and_reruns_identical() -> None:
    made = RecordedInstallation(
        tables={"approvals": {"quorum": {"T3": 2}}},
        more=lambda trust: [trust.make_reviewer(), trust.make_delegate(["acme"])],
    )
    made.take(ACTIONS, ACTION)
    (opened,) = records(made, ESCALATIONS, "escalation_opened")
    delegate = {"id": GATEWAY, "channel": "browser", "key_id": made.trust.gateway.keyid}
    for by in (OWNER, "reviewer"):
        fields = {**_answer_fields(opened), "approver_id": by, "delegate": delegate}
        made.take(REVIEWS, sign_review(fields, made.trust.gateway, Audience()).model_dump(exclude_unset=True))
    (resolved,) = records(made, VERDICTS, "resolved_verdict")
    assert [one["delegate"]["channel"] for one in resolved["approvals"]] == ["browser", "browser"]
    assert made.examine(made.records) == []
    place = find_resolved(made)
    forged = {**resolved, "approvals": [{**one, "delegate": None} for one in resolved["approvals"]]}
    changed = replace_value(made.records[place], forged)
    assert made.examine(relink([*made.records[:place], changed, *made.records[place + 1 :]]))
