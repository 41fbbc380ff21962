"""An agent whose entry has keys counts by its signature alone (product.md, "Identity")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sluice.core.decide.kinds import read_input_message
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import RegistryError
from sluice.core.state.nonces import MOST_NONCES
from sluice_topics.catalog import ACTIONS, MEMORY_WRITES, OUTCOMES, RETRIEVALS
from sluice_topics.record_reading import Unreadable
from tests.unit.core.scene import MINUTE, START, point, registry
from tests.unit.core.signing_scene import (
    ID,
    NEXT,
    OWN,
    SIGNERS,
    STRANGE,
    WINDOW_MS,
    Signing,
    answer_of,
    key_entry,
    key_id,
    make_signing_agent,
    sign,
)

TOPICS = (ACTIONS, MEMORY_WRITES, RETRIEVALS, OUTCOMES)


def reason_of(body: dict[str, object]) -> str:
    """Why an input was denied or refused."""
    for name in ("blockReason", "message", "reason"):
        if body.get(name):
            return str(body[name])
    return ""


def test_a_signed_action_is_allowed_and_names_what_was_checked() -> None:
    case = Signing()
    found = case.verdict(case.sign(case.make(ACTIONS)))
    assert (found["verdict"], case.totals()) == ("allowed", (1, 1))
    assert found["signature"] == {
        "key_id": key_id(OWN),
        "nonce": "nonce-000000000001",
        "novelty": "new",
        "signed_at_ms": START,
    }


def test_an_agent_without_keys_gets_the_records_that_it_got() -> None:
    case = Signing()
    found = case.verdict(case.make(ACTIONS, "operator"))
    assert found["verdict"] == "allowed"
    assert "signature" not in found


@pytest.mark.parametrize("topic", TOPICS)
def test_an_input_without_a_signature_does_not_count(topic: str) -> None:
    case = Signing()
    case.put(case.sign(case.make(ACTIONS)))
    before = case.totals()
    decision = case.put(case.make(topic, **({} if topic == OUTCOMES else {ID[topic]: "other"})))
    body = answer_of(decision)
    assert "missing" in reason_of(body)
    assert "unsigned_agent" in {body.get("reason"), reason_of(body).split(":")[0]}
    assert decision.session == ()
    assert case.totals() == before


@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_it_is_denied_in_every_mode_and_counts_in_none(mode: str) -> None:
    case = Signing()
    found = case.verdict(case.make(ACTIONS, mode=mode, rows_affected=90))
    assert (found["verdict"], found["rows_reserved"], case.totals()) == ("denied", 0, (0, 0))


@pytest.mark.parametrize("topic", [ACTIONS, MEMORY_WRITES, RETRIEVALS])
def test_under_shadow_it_is_denied_too(topic: str) -> None:
    case = Signing(entries=(make_signing_agent("signer", key_entry(OWN), tenant_id="shadowed"),))
    body = answer_of(case.put(case.make(topic)))
    assert body.get("outcome", body.get("action")) in ("BLOCK", "reject", "deny")


@pytest.mark.parametrize(
    ("bounds", "now", "why"),
    [
        ({"valid_from": rfc3339(START + MINUTE)}, START, "early_key"),
        ({"valid_until": rfc3339(START + MINUTE)}, START + MINUTE, "expired_key"),
        ({"revoked_at": rfc3339(START + MINUTE)}, START + MINUTE, "revoked_key"),
    ],
)
def test_a_key_counts_in_its_time_alone(bounds: dict[str, str], now: int, why: str) -> None:
    case = Signing(entries=(make_signing_agent("signer", key_entry(OWN, **bounds)),), now=now)
    assert reason_of(case.verdict(case.sign(case.make(ACTIONS)))).startswith(f"unsigned_agent: {why}")
    case.now = START + MINUTE if why == "early_key" else START + MINUTE - 1
    assert case.verdict(case.sign(case.make(ACTIONS)))["verdict"] == "allowed"


def test_two_keys_count_while_one_takes_over() -> None:
    case = Signing(entries=(make_signing_agent("signer", key_entry(OWN), key_entry(NEXT)),))
    for number, key in enumerate((OWN, NEXT)):
        assert (
            case.verdict(case.sign(case.make(ACTIONS, action_id=f"a-{number}"), key))["verdict"] == "allowed"
        )
    assert "unknown_key" in reason_of(case.verdict(case.sign(case.make(ACTIONS, action_id="a-3"), STRANGE)))


@pytest.mark.parametrize("away", [-1, 1])
def test_the_broker_s_time_bounds_when_it_was_signed(away: int) -> None:
    case = Signing()
    case.now += WINDOW_MS
    late = case.sign(case.make(ACTIONS), at_ms=case.now + away * (WINDOW_MS + 1))
    assert "stale" in reason_of(case.verdict(late))
    assert (
        case.verdict(case.sign(case.make(ACTIONS), at_ms=case.now + away * WINDOW_MS))["verdict"] == "allowed"
    )


def test_a_record_that_comes_again_is_a_duplicate_within_the_window_and_refused_after_it() -> None:
    case = Signing()
    first = case.sign(case.make(ACTIONS))
    before = case.verdict(first)
    case.now += WINDOW_MS
    found = case.verdict(case.again(first))
    assert (found["duplicate_of"], found["signature"]["novelty"]) == (before["verdict_id"], "replayed")
    case.now += 1
    assert "stale" in reason_of(case.verdict(case.again(first)))
    assert case.totals() == (1, 1)


def test_a_stripped_repeat_is_no_duplicate() -> None:
    case = Signing()
    first = case.sign(case.make(ACTIONS))
    case.put(first)
    found = case.verdict(replace(case.again(first), signature_header=None))
    assert (found["verdict"], found["duplicate_of"]) == ("denied", None)


def test_a_repeated_read_and_a_repeated_outcome_are_not_decided_twice() -> None:
    case = Signing()
    case.put(case.sign(case.make(ACTIONS)))
    read, told = (case.sign(case.make(topic)) for topic in (RETRIEVALS, OUTCOMES))
    assert answer_of(case.put(read))["reason_codes"] != ["UNSIGNED_AGENT"]
    assert answer_of(case.put(told))["schema"] == "sluice/reservation_settled/v1"
    assert answer_of(case.put(case.again(read)))["reason_codes"] == ["UNSIGNED_AGENT"]
    assert answer_of(case.put(case.again(told)))["reason"] == "outcome_replayed"


def test_an_outcome_that_waited_for_its_action_is_not_kept_twice() -> None:
    case = Signing()
    early = case.sign(case.make(OUTCOMES))
    assert case.put(early).records == []
    assert answer_of(case.put(case.again(early)))["reason"] == "outcome_replayed"
    decision = case.put(case.sign(case.make(ACTIONS)))
    assert [one.kind for one in decision.records] == ["Verdict", "ReservationSettled"]


def test_a_nonce_counts_once_whatever_is_signed_with_it() -> None:
    case = Signing()
    case.put(sign(case.make(ACTIONS), OWN, "the-same-nonce-twice"))
    found = case.verdict(sign(case.make(ACTIONS, action_id="other"), OWN, "the-same-nonce-twice"))
    assert "replayed" in reason_of(found)


def test_the_nonces_kept_are_bounded_and_what_was_forgotten_does_not_count() -> None:
    case = Signing(limits=replace(Signing().limits, max_recent_actions=4 * MOST_NONCES))
    first = case.sign(case.make(ACTIONS, action_id="first"))
    case.put(first)
    for number in range(MOST_NONCES + 20):
        case.now += 1
        assert case.verdict(case.sign(case.make(ACTIONS, action_id=f"a-{number}")))["verdict"] == "allowed"
    kept = case.session().accounts["acme"].agents["signer"].gates[f"signed {ACTIONS}"][1]
    assert len(kept["seen"]) == MOST_NONCES
    assert "signed before" in reason_of(case.verdict(case.again(first)))


def test_a_fold_of_the_session_lets_nothing_in_again() -> None:
    case = Signing(limits=replace(Signing().limits, idle_timeout_ms=MINUTE, action_window_ms=MINUTE))
    first = case.sign(case.make(ACTIONS))
    case.put(first)
    case.now += MINUTE
    assert case.verdict(case.again(first))["verdict"] == "denied"


def test_a_rerun_checks_again_and_finds_the_same() -> None:
    case = Signing()
    first = case.sign(case.make(ACTIONS))
    write = case.sign(case.make(MEMORY_WRITES))
    for input_record in (
        first,
        case.again(first),
        case.make(ACTIONS),
        write,
        case.again(write),
        case.make(MEMORY_WRITES),
    ):
        case.put(input_record)
    assert {one.status for one in case.rerun_all()} == {"identical"}
    assert [one["verdict"] for one in case.verdicts] == ["allowed", "allowed", "denied"]


def test_a_rerun_without_the_header_differs() -> None:
    case = Signing()
    found = case.verdict(case.sign(case.make(ACTIONS)))
    case.input_records[found["verdict_id"]] = replace(
        case.input_records[found["verdict_id"]], signature_header=None
    )
    assert case.rerun(found).status == "different"


def test_an_input_on_which_the_core_fails_counts_only_signed() -> None:
    case = Signing()
    where = point(*SIGNERS)
    made = case.make(ACTIONS, mode="standard")
    message, state = read_input_message(made), case.session()
    assert not isinstance(message, Unreadable)
    unsigned = where.fault(made, message, state, "raised")
    signed = where.fault(case.sign(made), message, state, "raised")
    assert (unsigned.session, signed.session == ()) == ((), False)
    assert [one.records[0].body["verdict"] for one in (unsigned, signed)] == ["denied", "allowed"]


def test_a_key_under_which_anyone_can_sign_is_refused() -> None:
    weak = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    with pytest.raises(RegistryError, match="small order"):
        registry(make_signing_agent("weak", {"public_key": weak}))
