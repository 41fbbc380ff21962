"""What is usual for an agent: who can teach it, who cannot, and how it ends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import Replay, decide, nobody
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.requests import HELD_INPUT, Answer, Request
from sluice.core.policy.policy import Policy
from sluice.core.state import usual
from sluice.core.state.book import Book
from sluice.core.state.decision import Shared
from sluice.core.state.session import SessionState
from sluice.core.state.usual import AgentName, UseCount, UsualName
from sluice_topics.catalog import ACTIONS, DESTINATION_USES, REVIEWS
from sluice_topics.values import derive_tenant_key, fingerprint, read_value
from tests.unit.core.actions.escalation_scene import APPROVERS, KEYS, Office, answer_to
from tests.unit.core.actions.test_approvals import refusal
from tests.unit.core.actions.test_destinations import (
    ENFORCED,
    HONEST,
    HOSTILE,
    MASTER,
    TOOLS,
    make_values,
    origin_of,
)
from tests.unit.core.scene import (
    LIMITS,
    START,
    action,
    bundle,
    entry,
    kinds,
    make_counted,
    only,
    outcome,
    public_key,
    registry,
    sign,
    verdict_of,
)

DAY = 86_400_000
MINUTE = 60_000
KNOWN_TO_ACME = entry("org", "acme", destinations=[HONEST])
SENDING = make_counted(
    "send",
    tier="T2",
    action_type="MESSAGE",
    reversible=True,
    roles={"destination": ["$.to"], "object": ["$.file"]},
)


class Weeks:
    """Sessions of one installation after one another, as a worker decides them."""

    def __init__(self, *entries: dict[str, Any], **part: Any) -> None:
        self.judge(*entries, **part)
        self.now, self.offset = START, 0
        self.inputs: dict[int, bytes] = {}
        self.replay = Replay(self.point, self._read_input)

    def _read_input(self, asked: Request) -> Answer:
        if asked.port != HELD_INPUT:
            return nobody(asked)
        place: Any = asked.payload
        if asked.port != HELD_INPUT:
            return Answer("unavailable", detail="no port")
        return Answer("answered", self.inputs[place["offset"]])

    def judge(self, *entries: dict[str, Any], **part: Any) -> None:
        """From here on under these entries."""
        judging = bundle(destinations={**ENFORCED, **part})
        known = {(one["kind"], one["id"]): one for one in (*APPROVERS, *TOOLS, SENDING, *entries)}
        policy = Policy({judging.id: judging}, registry(*known.values()), judging.id)
        self.point = DecisionPoint(
            policy, list_shipped_stages(), LIMITS, stopwatch=lambda: 0, environment="t", values_key=MASTER
        )
        if hasattr(self, "replay"):
            self.replay.point = self.point

    def take(self, topic: str, record: dict[str, Any]) -> tuple[InputRecord, Any]:
        """The next input."""
        self.offset += 1
        raw = self.inputs[self.offset] = json.dumps(record).encode()
        input_record = InputRecord(topic, 0, self.offset, self.now, record["session_id"].encode(), raw)
        return input_record, self.replay.take(input_record)

    def pay(
        self,
        iban: str,
        *,
        agent: str = "operator",
        signed: bool = True,
        ends: bool = True,
        answered: dict[str, Any] | None = None,
        tool: str = "transfer",
        **more: Any,
    ) -> dict[str, Any]:
        """A payment in a session of its own, where it waits with `answered` an approver's answer to it, and
        where it may run its outcome; its first verdict."""
        name = f"s-{self.offset}"
        parameters = {"payee": {"iban": iban}, "amount": 1}
        proposed = action(
            action_id=name, session_id=name, agent_id=agent, toolName=tool, parameters=parameters
        )
        input_record, decision = self.take(ACTIONS, proposed)
        verdict = verdict_of(decision)
        may_run = verdict["outcome"] == "ALLOW"
        if answered is not None:
            said = {"decision": "approve", **answered}
            opened = only(decision, "EscalationOpened")
            _, self.end = self.take(REVIEWS, answer_to(opened, said.pop("by", "ann"), **said))
            may_run = "EscalationResolved" in kinds(self.end) and said["decision"] == "approve"
        if may_run and ends:
            self.carry_out(input_record, name, name, signed=signed, **more)
        self.now += DAY
        return verdict

    def carry_out(
        self, input_record: InputRecord, name: str, session: str, *, signed: bool = True, **more: Any
    ) -> None:
        """The outcome of an action."""
        report = outcome(action_id=name, session_id=session, **more)
        if signed:
            bound = {"action_digest": input_record.digest, "input": input_record.coordinates()}
            report = sign({**report, "reported_by": "door", **bound})
        self.take("gate.outcomes", report)

    def propose_sending(
        self, to: list[str], session: str | None = None, **more: str
    ) -> tuple[InputRecord, Any, str]:
        """A message by the tool `send`, in a session of its own unless that is named: its arrival, the
        decision, and its id."""
        name = f"m-{self.offset}"
        session = name if session is None else session
        proposed = action(
            action_id=name,
            session_id=session,
            toolName="send",
            parameters={"to": to, **more},
            rows_affected=0,
        )
        return *self.take(ACTIONS, proposed), name

    def try_sending(self, to: list[str], **more: str) -> dict[str, Any]:
        """The verdict on a message that is not sent."""
        return verdict_of(self.propose_sending(to, **more)[1])

    def send(
        self,
        to: list[str],
        *,
        session: str | None = None,
        waits_ms: int = 0,
        remember_days: int,
        **more: str,
    ) -> dict[str, Any]:
        """A message that an approver is asked about, and that is sent: what the approver was shown."""
        input_record, decision, name = self.propose_sending(to, session, **more)
        opened = only(decision, "EscalationOpened")
        self.now += waits_ms
        self.take(REVIEWS, answer_to(opened, "ann", remember_days=remember_days))
        self.carry_out(input_record, name, name if session is None else session)
        return opened


def test_what_was_known_otherwise_and_carried_out_is_usual_from_then_on() -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    assert origin_of(weeks.pay(HONEST)) == {"registry": 1}
    weeks.judge()
    verdict = weeks.pay(HONEST)
    assert (verdict["outcome"], origin_of(verdict)) == ("ALLOW", {"history": 1})
    (use,) = verdict["session"]["values"]["uses"].values()
    assert (use["agent"], use["times"], use["days"], use["revision"]) == ("operator", 1, 1, 1)
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"


@pytest.mark.parametrize(
    "way",
    [
        {"signed": False},
        {"ends": False},
        {"error": "timed out"},
    ],
    ids=["unsigned", "no outcome", "failed"],
)
def test_only_what_was_carried_out_under_a_signature_teaches(way: dict[str, Any]) -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    weeks.pay(HONEST, **way)
    weeks.judge()
    assert weeks.pay(HONEST)["outcome"] == "ESCALATE"


def test_an_agent_teaches_itself_nothing_by_doing_it_again() -> None:
    lenient = {
        "tiers": {"T2": {"unknown": "pass", "nowhere": "pass", "untainted": "pass", "untrusted_read": "pass"}}
    }
    weeks = Weeks(**lenient)
    for _ in range(20):
        assert weeks.pay(HOSTILE)["outcome"] == "ALLOW"
    weeks.judge()
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"


def test_what_is_usual_alone_keeps_nothing_usual() -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    weeks.pay(HONEST)
    weeks.judge(history_days=5)
    assert [weeks.pay(HONEST)["outcome"] for _ in range(6)] == ["ALLOW"] * 5 + ["ESCALATE"]


def test_days_that_are_asked_for_must_have_been() -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    weeks.pay(HONEST)
    weeks.judge(KNOWN_TO_ACME, history_least_days=2)
    weeks.pay(HONEST)
    weeks.judge(history_least_days=2)
    assert origin_of(weeks.pay(HONEST)) == {"history": 1}
    weeks.judge(history_least_days=3)
    assert weeks.pay(HONEST)["outcome"] == "ESCALATE"


def test_an_agents_entry_can_forget_what_was_before() -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    weeks.pay(HONEST)
    later = {"tenant_id": "acme", "tier": "T3", "usual_since": "2025-11-22T00:00:00.000Z"}
    weeks.judge(entry("agent", "operator", 2, **later))
    assert weeks.pay(HONEST)["outcome"] == "ESCALATE"


def test_agents_of_one_role_and_tenant_are_peers() -> None:
    def named(name: str, tenant: str, *roles: str) -> dict[str, Any]:
        return entry("agent", name, 2, tenant_id=tenant, tier="T3", roles=list(roles))

    agents = [named("operator", "acme", "payer"), named("chief", "acme", "payer", "other")]
    agents += [named("other", "globex", "payer"), named("reader", "acme", "clerk")]
    weeks = Weeks(KNOWN_TO_ACME, *agents)
    weeks.pay(HONEST)
    weeks.judge(*agents)
    verdict = weeks.pay(HONEST, agent="chief")
    assert (verdict["outcome"], origin_of(verdict)) == ("ALLOW", {"peers": 1})
    assert weeks.pay(HONEST, agent="other")["outcome"] == "ESCALATE", "of another tenant"
    assert weeks.pay(HONEST, agent="reader")["outcome"] != "ALLOW", "of another role"
    weeks.judge(*agents, tiers={"T2": {"peers": "ask"}})
    verdict = weeks.pay(HONEST, agent="chief")
    assert verdict["blockReason"].startswith("usual_destination: the account at $.payee.iban was not found")
    assert verdict["blockReason"].endswith("operator used it 1 times")


FOR_A_WEEK = {"remember_days": 7}


def test_an_approval_alone_makes_nothing_known() -> None:
    weeks = Weeks()
    assert weeks.pay(HOSTILE, answered={})["outcome"] == "ESCALATE"
    assert only(weeks.end, "ResolvedVerdict")["outcome"] == "ALLOW"
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"


def test_an_answer_with_days_is_for_this_agent_tool_and_value_until_they_are_over() -> None:
    roles = {"tenant_id": "acme", "tier": "T3", "roles": ["payer"]}
    agents = [entry("agent", name, 2, **roles) for name in ("operator", "chief")]
    weeks = Weeks(*agents, history_least_days=3)
    weeks.pay(HOSTILE, answered=FOR_A_WEEK)
    until = "2025-11-28T13:00:00.000Z"
    assert only(weeks.end, "EscalationResolved")["known_until"] == until
    verdict = weeks.pay(HOSTILE)
    assert (verdict["outcome"], origin_of(verdict)) == ("ALLOW", {"history": 1})
    (use,) = verdict["session"]["values"]["uses"].values()
    assert (use["times"], use["until_ms"] - use["answered_ms"]) == (0, 7 * DAY)
    assert weeks.pay(HOSTILE, agent="chief")["outcome"] == "ESCALATE", "a peer"
    assert weeks.pay(HOSTILE, tool="mail")["outcome"] == "ESCALATE", "another tool"
    assert weeks.pay(HONEST)["outcome"] == "ESCALATE", "another value"
    assert [weeks.pay(HOSTILE)["outcome"] for _ in range(3)] == ["ALLOW", "ALLOW", "ESCALATE"]
    verdict = weeks.pay(HOSTILE, answered={"remember_days": 30})
    assert verdict["blockReason"].endswith(f"a person made it known until {until}")
    assert weeks.pay(HOSTILE)["outcome"] == "ALLOW"
    weeks.judge(*(entry("agent", one["id"], 3, **roles, usual_since=rfc3339(weeks.now)) for one in agents))
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE", "forgotten"


def test_an_answer_lengthens_nothing_that_is_known_otherwise_and_ends_apart_from_it() -> None:
    weeks = Weeks(KNOWN_TO_ACME)
    weeks.pay(HONEST)
    weeks.judge(history_days=3)
    weeks.now += 4 * DAY
    assert weeks.pay(HONEST, answered={"remember_days": 2})["outcome"] == "ESCALATE"
    assert [weeks.pay(HONEST)["outcome"] for _ in range(2)] == ["ALLOW", "ESCALATE"]
    weeks.judge(history_days=300)
    assert weeks.pay(HONEST)["outcome"] == "ALLOW"


@pytest.mark.parametrize(
    "way",
    [{"signed": False}, {"ends": False}, {"error": "timed out"}],
    ids=["unsigned", "no outcome", "failed"],
)
def test_an_answer_counts_only_once_the_action_was_carried_out(way: dict[str, Any]) -> None:
    weeks = Weeks()
    weeks.pay(HOSTILE, answered=FOR_A_WEEK, **way)
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        ({"decision": "deny"}, "wrong_decision"),
        ({"by": "operator", "key": "mallory"}, "own_action"),
        ({"by": "mallory"}, "not_an_approver"),
        ({"key": "mallory"}, "wrong_signature"),
    ],
)
def test_who_may_not_answer_makes_nothing_known(answered: dict[str, Any], reason: str) -> None:
    agent = entry("approver", "operator", public_key=public_key(KEYS["mallory"]), roles=["approver"])
    weeks = Weeks(agent)
    weeks.pay(HOSTILE, answered={**FOR_A_WEEK, **answered})
    assert only(weeks.end, "InputRefused")["reason"] == reason
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"


@pytest.mark.parametrize("days", [0, 31])
def test_no_answer_is_for_longer_than_thirty_days(days: int) -> None:
    with pytest.raises(ValidationError):
        Weeks().pay(HOSTILE, answered={"remember_days": days})


def test_where_actions_are_approved_one_by_one_no_answer_makes_anything_known() -> None:
    def of_tier(tier: str) -> dict[str, Any]:
        return {**TOOLS[0], "revision": 2, "spec": {**TOOLS[0]["spec"], "tier": tier}}

    weeks = Weeks(of_tier("T4"))
    weeks.pay(HOSTILE, answered={**FOR_A_WEEK, "by": "vera"})
    assert only(weeks.end, "InputRefused")["reason"] == "cannot_remember"
    weeks.judge()
    weeks.pay(HOSTILE, answered=FOR_A_WEEK)
    assert weeks.pay(HOSTILE)["outcome"] == "ALLOW"
    weeks.judge(of_tier("T4"))
    verdict = weeks.pay(HOSTILE)
    assert (verdict["outcome"], origin_of(verdict)) == ("ESCALATE", {"untainted": 1})
    office = Office(policy={"approvals": {"quorum": {"T3": 2}}})
    assert refusal(office.answer(office.open_escalation(), "ann", remember_days=7)) == "cannot_remember"


def test_with_other_parameters_an_answer_makes_these_known() -> None:
    weeks = Weeks()
    other = {"payee": {"iban": HONEST}, "amount": 1}
    weeks.pay(HOSTILE, answered={**FOR_A_WEEK, "parameters": other})
    assert weeks.pay(HOSTILE)["outcome"] == "ESCALATE"
    assert weeks.pay(HONEST)["outcome"] == "ALLOW"


def list_asked(opened: dict[str, Any]) -> list[str]:
    return [one["path"] for one in opened["values"]]


def test_an_answer_is_for_what_was_asked_about_and_not_for_what_was_known_beside_it() -> None:
    weeks = Weeks()
    first, second = "x@new.example", "y@new.example"
    weeks.send([first], remember_days=1)
    weeks.now += DAY // 2
    assert list_asked(weeks.send([first, second], remember_days=30)) == ["$.to[1]"]
    weeks.now += DAY
    assert origin_of(weeks.try_sending([second])) == {"history": 1}
    assert weeks.try_sending([first])["outcome"] == "ESCALATE"


def test_what_ceased_to_be_known_while_the_action_waited_was_not_asked_about() -> None:
    weeks = Weeks()
    first, second = "x@new.example", "y@new.example"
    weeks.send([first], remember_days=1)
    weeks.now += DAY - MINUTE
    assert list_asked(weeks.send([first, second], waits_ms=2 * MINUTE, remember_days=30)) == ["$.to[1]"]
    assert origin_of(weeks.try_sending([second])) == {"history": 1}
    assert weeks.try_sending([first])["outcome"] == "ESCALATE"


def test_a_value_that_passed_by_a_mere_result_becomes_no_usual_one() -> None:
    weeks = Weeks()
    first, second = "x@new.example", "y@new.example"
    name = f"s-{weeks.offset}"
    called = action(action_id="look", session_id=name, toolName="contacts", parameters={}, rows_affected=0)
    input_record, _ = weeks.take(ACTIONS, called)
    weeks.carry_out(input_record, "look", name, values=make_values([first]))
    assert list_asked(weeks.send([first, second], session=name, remember_days=30)) == ["$.to[1]"]
    assert weeks.try_sending([first])["outcome"] == "ESCALATE"
    assert weeks.try_sending([second])["outcome"] == "ALLOW"


def test_an_object_that_nobody_was_asked_about_stays_new() -> None:
    weeks = Weeks()
    assert list_asked(weeks.send(["y@new.example"], file="/srv/secret", remember_days=30)) == ["$.to[0]"]
    weeks.judge(roles=["destination", "object"])
    verdict = weeks.try_sending(["y@new.example"], file="/srv/secret")
    assert (verdict["outcome"], origin_of(verdict)) == ("ESCALATE", {"history": 1, "untainted": 1})


@pytest.mark.parametrize("reverse", [False, True], ids=["in order", "reversed"])
def test_the_later_answer_counts_in_whichever_order_the_actions_are_carried_out(reverse: bool) -> None:
    weeks = Weeks()
    waiting = [weeks.propose_sending(["x@new.example"]) for _ in range(2)]
    for days, by, (_, decision, _) in zip((30, 1), ("ann", "ben"), waiting, strict=True):
        weeks.take(REVIEWS, answer_to(only(decision, "EscalationOpened"), by, remember_days=days))
        weeks.now += MINUTE
    for input_record, _, name in reversed(waiting) if reverse else waiting:
        weeks.carry_out(input_record, name, name)
        weeks.now += MINUTE
    assert weeks.try_sending(["x@new.example"])["outcome"] == "ALLOW"
    weeks.now += 2 * DAY
    assert weeks.try_sending(["x@new.example"])["outcome"] == "ESCALATE"


def test_an_answer_from_before_all_was_forgotten_teaches_nothing_after_it() -> None:
    weeks = Weeks()
    input_record, decision, name = weeks.propose_sending(["x@new.example"])
    weeks.take(REVIEWS, answer_to(only(decision, "EscalationOpened"), "ann", remember_days=30))
    weeks.now += MINUTE
    since = {"tenant_id": "acme", "tier": "T3", "usual_since": rfc3339(weeks.now)}
    weeks.judge(entry("agent", "operator", 2, **since))
    weeks.now += MINUTE
    weeks.carry_out(input_record, name, name)
    assert weeks.try_sending(["x@new.example"])["outcome"] == "ESCALATE"


def count_uses(book: Book, *, fingerprints: list[str], at_ms: int, tool: str = "transfer") -> list[Any]:
    """What the owner of the agent's partition makes of a use."""
    point = Weeks().point
    lesson = usual.Lesson(tool, {"destination": fingerprints})
    record = usual.record_use(AgentName("acme", "operator"), lesson, "a", at_ms)
    raw = json.dumps(record.body).encode()
    input_record = InputRecord(DESTINATION_USES, 0, 0, at_ms, record.subject.encode(), raw)
    decision = decide(point, input_record, SessionState(b""), shared=Shared(book))
    book.apply(decision.book)
    return [one.body for one in decision.records]


def test_an_agents_counts_are_bounded_and_what_is_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usual, "MOST_OF_ROLE", 3)
    monkeypatch.setattr(usual, "MOST_OF_AGENT", 5)
    table: dict[bytes, bytes] = {}
    book = Book(table)
    for number in range(6):
        records = count_uses(book, fingerprints=[f"{number:032x}"], at_ms=START + number)
    assert [(one["fingerprint"][-1], one["times"]) for one in records] == [("2", 0), ("5", 1)]
    for number in range(3):
        count_uses(book, fingerprints=[f"{number:032x}"], at_ms=START + DAY, tool="mail")
    for key, value in book.flush().items():
        table.pop(key, None) if value is None else table.update({key: value})
    assert sum(key.startswith(usual.KEY_PREFIX) for key in table) == 5
    restored = Book(table)
    name = UsualName("acme", "operator", "mail", "destination", f"{0:032x}")
    assert restored.uses.get(name) == UseCount(START + DAY, START + DAY, 1, 1, 1)


def test_a_use_of_many_destinations_keeps_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds what those before it in the same record have taken."""
    monkeypatch.setattr(usual, "MOST_OF_ROLE", 4)
    monkeypatch.setattr(usual, "MOST_OF_AGENT", 6)
    book = Book({})
    for tool, numbers in (("transfer", range(3)), ("mail", range(3, 9)), ("transfer", range(9, 19))):
        prints = [f"{number:032x}" for number in numbers]
        records = count_uses(book, fingerprints=prints, at_ms=START + numbers[0], tool=tool)
    kept = [key for key, value in book.flush().items() if value is not None]
    names = [UsualName.read(key) for key in kept if key.startswith(usual.KEY_PREFIX)]
    assert sorted((one.tool, int(one.fingerprint, 16)) for one in names) == [
        *(("mail", number) for number in (7, 8)),
        *(("transfer", number) for number in range(15, 19)),
    ]
    assert len(records) == 20


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 50)), max_size=80))
def test_counts_of_a_table_and_those_that_were_kept_are_the_same(uses: list[tuple[int, int, int]]) -> None:
    book, table = Book({}), dict[bytes, bytes]()
    for tool, number, at_ms in uses:
        count_uses(book, fingerprints=[f"{number:032x}"], at_ms=START + at_ms, tool=f"tool-{tool}")
        for key, value in book.flush().items():
            table.pop(key, None) if value is None else table.update({key: value})
    restored = Book(table)
    for tool, number, _ in uses:
        name = UsualName("acme", "operator", f"tool-{tool}", "destination", f"{number:032x}")
        assert restored.uses.get(name) == book.uses.get(name) != usual.NEVER_USED
        assert [*restored.uses.list_oldest(name.bounds[0])] == [*book.uses.list_oldest(name.bounds[0])]


def test_a_use_that_comes_late_changes_neither_the_last_day_nor_the_first_wrongly() -> None:
    known = usual.NEVER_USED.add_use(START).add_use(START + 2 * DAY).add_use(START + DAY)
    assert (known.first_ms, known.last_ms, known.times, known.days) == (START, START + 2 * DAY, 3, 2)


def test_a_fingerprint_needs_the_tenants_key() -> None:
    value = read_value(HONEST)
    keys = [derive_tenant_key(MASTER, one) for one in ("acme", "globex")]
    assert fingerprint(keys[0], value) != fingerprint(keys[1], value)
