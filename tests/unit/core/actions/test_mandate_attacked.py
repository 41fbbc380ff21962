"""Ways past mandates that somebody has looked for and that must stay shut."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from sluice_topics.catalog import MANDATES
from tests.unit.core.actions.escalation_scene import Office
from tests.unit.core.actions.mandate_scene import ISSUERS, STAGES, digest_of, make_mandate
from tests.unit.core.actions.test_limits import OURS
from tests.unit.core.actions.test_mandate import act, change, scene
from tests.unit.core.scene import entry, only

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
ONCE = [{"tool": "change", "count": 1}]


def respell(mandate: dict[str, Any]) -> dict[str, Any]:
    """The same signature in another base64: of its last character four bits say nothing."""
    text = mandate["signature"]
    other = text[:-3] + ALPHABET[ALPHABET.index(text[-3]) ^ 1] + "=="
    assert b64decode(other, validate=True) == b64decode(text, validate=True)
    return {**mandate, "signature": other}


def test_a_respelled_signature_makes_no_second_mandate() -> None:
    mandate = make_mandate(tools=ONCE)
    revoked = entry("mandate_revocation", digest_of(mandate), tenant_id="acme", reason="cancelled")
    again = respell(mandate)
    assert digest_of(again) != digest_of(mandate)
    for case in (scene(), scene(None, revoked)):
        case.issue(mandate)
        act(case, digest_of(mandate), **change(5))
        assert case.issue(again)["reason"] == "bad_signature"
        assert act(case, digest_of(again), **change(5))[0] == "denied"


def test_a_respelled_signature_of_a_parent_makes_no_second_parent() -> None:
    above = respell(make_mandate(mandate_id="m-0"))
    case = scene()
    assert case.issue(make_mandate(parent=above))["reason"] == "bad_signature"


@pytest.mark.parametrize("named", [True, False])
def test_a_standing_grant_is_no_answer_to_an_action_outside_its_mandate(named: bool) -> None:
    part = {"tiers": {"T3": {"need": "needed", "outside": "ask"}}}
    grant = entry(
        "agent_grant",
        "g-1",
        tenant_id="acme",
        agent_id="operator",
        tool="erase",
        uses=40,
        approver_id="ann",
        expires_at="2025-11-21T15:00:00.000Z",
        justification="old orders",
    )
    office = Office(
        (*ISSUERS, grant), limits=OURS, policy={"patterns": {}, "stages": STAGES, "mandate": part}
    )
    mandate = make_mandate(tools=[{"tool": "erase", "condition": "action.parameters.id == 7", "count": 2}])
    office.take(MANDATES, mandate)
    names = {"mandate_digest": digest_of(mandate)} if named else {}
    assert only(office.propose("a-1", parameters={"id": 8}, **names), "Verdict")["verdict"] == "needs_human"
    inside = {"mandate_digest": digest_of(mandate), "parameters": {"id": 7}}
    assert only(office.propose("a-2", **inside), "Verdict")["verdict"] == "allowed"
