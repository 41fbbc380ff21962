"""Ways past the gate `destinations` that an adversary found, who had read its docs: each is held now.

Tools are T2 under the row of T3.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.core.actions.escalation_scene import Office, grant_request
from tests.unit.core.actions.test_destinations import (
    HONEST,
    HOSTILE,
    call,
    make_session,
    make_values,
)
from tests.unit.core.scene import action, entry, make_counted, only, sign, verdict_of
from tests.unit.core.scene import outcome as told

ROLE = {"destination": ["$.to"], "content": ["$.text"]}
MORE = (
    make_counted("send", tier="T2", action_type="MESSAGE", reversible=True, roles=ROLE),
    make_counted(
        "send_all", tier="T2", action_type="MESSAGE", reversible=True, roles={"destination": ["$.to[*]"]}
    ),
    make_counted(
        "remit",
        tier="T2",
        action_type="PAYMENT",
        reversible=True,
        roles={"destination": ["$.payee.account"], "content": ["$.text"]},
    ),
)
A, E = "ann@acme.example", "eve@evil.example"
KNOWN = [
    "*@acme.example",
    "files.acme.example",
    "hub.example/acme",
    "/srv/share",
    "12345678",
    "@ann",
    "#ops",
    "sftp://acme@store.example/in",
    "upi://pay?pa=acme@bank",
    "+4930123456",
    "stra\u00dfe.example",
    "acme-pay.example",
    "192.0.2.8",
    "\u0646\u0627\u0645\u0647\u0627\u06cc.example",
    "Finance",
    "https://chat.example/hook?room=acme",
    HONEST,
]


def outcome(tool: str, parameters: Any, known: Any = KNOWN, result: Any = None, **part: Any) -> str:
    entries = (entry("org", "acme", destinations=known),) if known else ()
    session = make_session(*MORE, *entries, **part)
    if result is not None:
        call(session, "contacts", result)
    return str(session.verdict(action_id="way", toolName=tool, parameters=parameters)["outcome"])


def send(to: Any, **more: Any) -> str:
    return outcome("send", {"to": to}, **more)


# 1
@pytest.mark.parametrize(
    "result",
    [{"query": E, "hits": []}, f"No contact named {E} was found.", {"error": f"unknown contact: {E}"}],
)
def test_a_trusted_result_that_repeats_what_the_call_itself_said_is_no_ones_word(result: Any) -> None:
    session = make_session(*MORE)
    session.verdict(action_id="look", toolName="contacts", parameters={"q": E}, rows_affected=0)
    session.report_signed(action_id="look", rows_affected=0, values=make_values(result))
    assert session.verdict(action_id="way", toolName="send", parameters={"to": E})["outcome"] != "ALLOW"


# 2
@pytest.mark.parametrize(
    "parameters",
    [
        {"to": {E: A}},
        {"to": {E: True}},
        {"to": [{E: None}]},
        {"to": A, "cc": {E: 1}},
        {"to": A, "permissions": {E: "writer"}},
        {"to": A, E: 1},
        {"to": A, "hook": {"https://evil.example/x": True}},
    ],
)
def test_a_key_is_a_destination_too(parameters: Any) -> None:
    assert outcome("send", parameters) != "ALLOW"


# 3
@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("send_all", {"to": "@eve"}),
        ("send_all", {"to": "@ann,@eve"}),
        ("send_all", {"to": {"0": "@eve"}}),
        ("remit", {"payee": "99999999"}),
        ("remit", {"payee": [{"account": "99999999"}]}),
        ("remit", {"payee.account": "99999999"}),
        ("remit", {"payee[account]": "99999999"}),
        ("remit", {"payee": '{"account": "99999999"}'}),
        ("remit", {"payee": {"Account": "99999999"}}),
    ],
)
def test_a_role_whose_path_the_call_spells_in_another_shape_is_not_an_empty_role(
    tool: str, parameters: Any
) -> None:
    assert outcome(tool, parameters) != "ALLOW"


# 4


# 5
@pytest.mark.parametrize("separator", [" ", ",", ";", "\n", "|", "?,", "# "])
def test_each_link_of_a_list_is_looked_up(separator: str) -> None:
    assert send(f"https://files.acme.example/{separator}https://evil.example/") != "ALLOW"


@pytest.mark.parametrize("separator", ["?,", "?\n", "# ", "?|"])
def test_what_follows_a_known_link_is_looked_up(separator: str) -> None:
    link = "https://docs.example/d/ACME"
    assert send(f"{link}{separator}https://evil.example/", known=None, result={"link": link}) != "ALLOW"


@pytest.mark.parametrize(
    "text", ["https://files.acme.example/,eve@evil.example", "https://files.acme.example/ eve@evil.example"]
)
def test_an_address_after_a_link_is_looked_up(text: str) -> None:
    assert send(text) != "ALLOW"


# 6: curl connects to evil.example
@pytest.mark.parametrize(
    "text", ["files.acme.example\\@evil.example", "files.acme.example\\@evil.example:8080/x"]
)
def test_a_backslash_before_a_user_is_no_path_below_a_host(text: str) -> None:
    assert send(text) != "ALLOW"


# 7: email.message.EmailMessage reads Ann, eve@evil.example and ann@acme.example


# 8


# 9


# 10


def test_a_whole_float_is_the_number_that_it_is() -> None:
    assert outcome("remit", {"payee": {"account": 12345678.0}}) == "ALLOW"


# 11: node's and requests' hosts of these are others


# 12


# 13


# 14


# 15


# 0: real T3, the only way at that tier without a person who reads the action
OFFICE_TOOLS = (
    make_counted(
        "transfer",
        tier="T3",
        action_type="PAYMENT",
        reversible=False,
        roles={"destination": ["$.payee.iban"]},
    ),
    entry("org", "acme", destinations=[HONEST]),
)
AT_T3 = {"destinations": {"mode": "enforce", "tiers": {"T2": {"nowhere": "advise"}, "T3": {}, "T4": {}}}}


def transfer_to(iban: str, rows: int = 0) -> dict[str, Any]:
    return {
        "toolName": "transfer",
        "parameters": {"payee": {"iban": iban}, "amount": 5},
        "rows_affected": rows,
    }


def test_a_grant_that_was_given_for_a_known_account_is_for_no_unknown_one() -> None:
    office = Office(OFFICE_TOOLS, policy=AT_T3)
    opened = office.open_escalation("first", **transfer_to(HONEST))
    assert opened["reason"].startswith("tier_T3"), "nobody was asked about a destination"
    office.answer(opened, "ann", grant=grant_request())
    assert only(office.propose("a-1", **transfer_to(HONEST)), "Verdict")["verdict"] == "allowed"
    assert only(office.propose("a-2", **transfer_to(HOSTILE)), "Verdict")["verdict"] == "needs_human"


def test_a_claim_of_rows_does_not_hide_the_destination_from_who_is_asked() -> None:
    office = Office(OFFICE_TOOLS, policy=AT_T3)
    opened = office.open_escalation("first", **transfer_to(HOSTILE, rows=1000))
    assert "$.payee.iban" in opened["reason"], opened["reason"]


# 16: the laxer answer for `nowhere`
LAX = {"T2": {"nowhere": "advise"}, "T3": {}}


def lax(text: Any, destination: str, wait: int = 0) -> str:
    session = make_session(*MORE, tiers=LAX)
    call(session, "inbox", text)
    session.now += wait
    return str(session.verdict(action_id="way", toolName="send", parameters={"to": destination})["outcome"])


# 17


# 18: found with the source at hand
PARTNER = "ann@partner.example"


@pytest.mark.parametrize(
    "parameters",
    [
        {"to": [E], "to[0]": PARTNER},
        {"to": {"a": {"b": E}, "a.b": PARTNER}},
        {"to": {"a": [E], "a[0]": PARTNER}},
        {"to": f"{E}, {PARTNER}", "to#1": PARTNER},
    ],
)
def test_two_parameters_of_one_written_path_are_two(parameters: Any) -> None:
    """Fingerprints are kept by the written path, and the later one stands for both."""
    assert outcome("send", parameters, known=None, result=PARTNER) != "ALLOW"


def test_an_account_does_not_pass_for_a_key_that_spells_its_path() -> None:
    session = make_session(*MORE)
    call(session, "contacts", {"iban": HONEST})
    parameters = {"payee": {"iban": HOSTILE}, "payee.iban": HONEST}
    assert session.verdict(action_id="way", toolName="transfer", parameters=parameters)["outcome"] != "ALLOW"


def test_an_agent_teaches_itself_nothing_by_a_key_that_spells_a_path() -> None:
    usual = pytest.importorskip("tests.unit.core.actions.test_usual")
    known = entry("org", "acme", destinations=[HONEST])
    weeks = usual.Weeks(known, tiers=LAX)

    def transfer(parameters: Any) -> str:
        name = f"s-{weeks.offset}"
        proposed = action(
            action_id=name, session_id=name, agent_id="operator", toolName="transfer", parameters=parameters
        )
        arrival, decision = weeks.take("gate.actions.proposed", proposed)
        word = str(verdict_of(decision)["outcome"])
        if word == "ALLOW":
            bound = {"action_digest": arrival.digest, "input": arrival.coordinates()}
            weeks.take(
                "gate.outcomes", sign({**told(action_id=name, session_id=name, reported_by="door"), **bound})
            )
        weeks.now += usual.DAY
        return word

    transfer({"payee": {"iban": HONEST}, "payee.iban": HOSTILE})  # T2: what is seen nowhere is mentioned
    weeks.judge(known)  # T3's row
    assert transfer({"payee": {"iban": HOSTILE}}) != "ALLOW"


def test_a_domain_of_the_registry_is_no_other_domain() -> None:
    assert send("eve@strasse.example", known=["*@stra\u00dfe.example"]) != "ALLOW"


def test_a_key_says_nothing_in_the_sentence_that_a_person_reads() -> None:
    session = make_session(*MORE)
    key = "a is named by the registry. Approve. The old notice was: $"
    verdict = session.verdict(action_id="way", toolName="send", parameters={"to": {key: E}})
    assert "is named by the registry. Approve." not in verdict["blockReason"]
