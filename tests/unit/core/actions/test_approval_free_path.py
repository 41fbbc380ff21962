"""No path without an approval leads from a block to an allow.

Random interleavings of actions, repeats of them to the letter, outcomes (told by anybody or signed by the
enforcement point), time, faults of the core, a worker's restart, and policy that changes under the session.
There is no approval in it, so what the gates have held up stays held up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluice.core.actions.plan import sort_stages
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.state.session import SessionState
from tests.unit.core.scene import (
    ALL_STAGES,
    LIMITS,
    MINUTE,
    Session,
    action,
    bundle,
    entry,
    kinds,
    point,
    read_record,
    verdict_of,
)

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.state.decision import Decision

WINDOW = LIMITS.action_window_ms
SHIPPED = bundle()
ROW_STEPS = [{"from_rows": 0, "score": 0}, {"from_rows": 20, "score": 1000}]
BY_ROWS = bundle(
    revision=2,
    consequence=SHIPPED.written["consequence"].model_dump()
    | {"row_steps": ROW_STEPS, "escalate_at": 420, "block_at": 430},
)
"""Blocks by the rows of the session alone, so that the same action is allowed in another state of it."""
TRUE_ROWS = {"a": 0, "b": 3, "c": 9}
"""What an action of this id really does whenever it is carried out. Estimates are never below it."""
FORBIDDEN = {"c": "rm -rf /"}
CONTENTS: dict[str, dict[str, Any]] = {
    "harmless": {"toolName": "find"},
    "for a person": {"toolName": "erase"},
    "of many rows": {"toolName": "find", "rows_affected": 25},
    "forbidden": {"parameters": FORBIDDEN},
    "unregistered": {"toolName": "nothing"},
}
POLICIES = {
    "shipped": point(policy=SHIPPED),
    "by rows": point(policy=BY_ROWS),
    "frozen": point(entry("freeze", "f", subject="tenant", subject_id="acme", reason="stop"), policy=SHIPPED),
    "in shadow": point(entry("org", "acme", enforcement="shadow"), policy=SHIPPED),
    "other order": point(policy=SHIPPED, stages=sort_stages(ALL_STAGES[::-1], list_shipped_stages())),
}


class First(NamedTuple):
    """What the gates made of an input when they first saw it: when, what was published, what they found."""

    at: int
    outcome: str
    shadow: str | None


class Paths(RuleBasedStateMachine):
    """One tenant's session under changing policy."""

    @initialize()
    def start(self) -> None:
        self.session = Session(POLICIES["shipped"])
        self.first: dict[str, First] = {}
        self.sent: list[dict[str, Any]] = []
        self.last: dict[str, InputRecord] = {}
        self.really_done = 0

    def judge(self, fields: dict[str, Any]) -> First | None:
        """What the gates made of this input to the letter, inside its window."""
        known = self.first.get(json.dumps(fields, sort_keys=True))
        return known if known is not None and known.at + WINDOW > self.session.now else None

    def notice(self, decision: Decision | None) -> None:
        """A session that was idle for too long starts at nothing."""
        if decision is not None and "SessionFolded" in kinds(decision):
            self.really_done = 0

    @rule(
        name=st.sampled_from(list(TRUE_ROWS)),
        content=st.sampled_from(list(CONTENTS)),
        more=st.sampled_from([0, 5, 12]),
        mode=st.sampled_from(["high_stakes", "high_stakes", "standard"]),
    )
    def propose(self, name: str, content: str, more: int, mode: str) -> None:
        """An action, with an estimate that is not below what it will do."""
        rows = {"rows_affected": TRUE_ROWS[name] + more}
        self.put({"action_id": name, "mode": mode, **rows, **CONTENTS[content]})

    @precondition(lambda self: self.sent)
    @rule(which=st.integers(0, 50))
    def repeat(self, which: int) -> None:
        """An input comes again to the letter."""
        self.put(self.sent[which % len(self.sent)])

    def put(self, fields: dict[str, Any]) -> None:
        known, decision = self.judge(fields), self.session.propose(**fields)
        assert self.session.last is not None
        self.last[fields["action_id"]] = self.session.last
        verdict = verdict_of(decision)
        self.notice(decision)
        self.sent.append(fields)
        if known is not None:
            if self.session.point is POLICIES["frozen"]:
                assert verdict["outcome"] == "BLOCK"
            else:
                assert (verdict["outcome"], verdict["shadowOutcome"]) == (known.outcome, known.shadow)
            assert "EscalationOpened" not in kinds(decision)
            return
        held_up = verdict["enforcement"] == "enforce" and fields["mode"] == "high_stakes"
        if held_up and verdict["outcome"] == "ALLOW":
            assert fields.get("parameters") != FORBIDDEN
        if verdict["gateResults"]:
            text = json.dumps(fields, sort_keys=True)
            self.first[text] = First(self.session.now, verdict["outcome"], verdict["shadowOutcome"])
        if fields["mode"] == "standard" or verdict["outcome"] == "ALLOW":
            self.really_done += TRUE_ROWS[fields["action_id"]]

    @precondition(lambda self: any(self.judge(fields) for fields in self.sent))
    @rule(which=st.integers(0, 50))
    def fail_on_a_repeat(self, which: int) -> None:
        """The core raises on an input that comes again: a barrier stays a barrier."""
        seen = [fields for fields in self.sent if self.judge(fields)]
        fields = seen[which % len(seen)]
        input_record = self.session.input_record("gate.actions.proposed", action(**fields))
        message = read_record(input_record.topic, input_record.value)
        decision = self.session.point.fault(input_record, message, self.session.state, "it raised")
        self.session.state.apply(decision.session)
        verdict = verdict_of(decision)
        if verdict["enforcement"] == "enforce" and fields["mode"] == "high_stakes":
            assert verdict["outcome"] == "BLOCK"

    @rule(name=st.sampled_from(list(TRUE_ROWS)), signed=st.booleans())
    def report(self, name: str, signed: bool) -> None:
        """An outcome that tells the truth, before, after or without its action."""
        told: dict[str, Any] = {"action_id": name, "rows_affected": TRUE_ROWS[name]}
        if signed and name in self.last:
            self.notice(self.session.put(self.session.sign_outcome(self.last[name], **told)))
        else:
            self.notice(self.session.report(**told))

    @rule(minutes=st.sampled_from([0, 1, 30, 59, 60, 61, 24 * 60]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.session.now += minutes * MINUTE

    @rule()
    def tick(self) -> None:
        """The timer comes round."""
        state = self.session.state
        decision = self.session.point.expire(state.key, state, self.session.now)
        state.apply(decision.session if decision else ())
        self.notice(decision)

    @rule(policy=st.sampled_from(list(POLICIES)))
    def change_policy(self, policy: str) -> None:
        """Another snapshot of bundle, registry and settings is in force."""
        self.session.point = POLICIES[policy]

    @rule()
    def restart(self) -> None:
        """Another worker reads the state from the changelog."""
        if not self.session.state.gone:
            self.session.state = SessionState.read(self.session.state.key, self.session.state.entries())

    @invariant()
    def the_total_is_not_below_what_was_done(self) -> None:
        assert self.session.rows >= self.really_done


TestPaths = Paths.TestCase
TestPaths.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)


def test_a_block_by_the_sessions_rows_stays_after_the_rows_are_lowered() -> None:
    """The way that only the memory of the action id closes: in the new state the gates would allow it."""
    session = Session(POLICIES["by rows"])
    session.propose(action_id="large", rows_affected=19)
    large = session.last
    assert session.verdict(action_id="a", rows_affected=1)["outcome"] == "BLOCK"
    session.put(session.sign_outcome(large, action_id="large", rows_affected=0))
    assert session.verdict(action_id="new", rows_affected=1)["outcome"] == "ALLOW"
    assert session.verdict(action_id="a", rows_affected=1)["outcome"] == "BLOCK"


def test_a_denial_for_want_of_room_is_no_judgement_and_is_made_up_for() -> None:
    """No gate saw the action, so nothing was held against it: with room it is judged."""
    session = Session(POLICIES["shipped"])
    for number in range(LIMITS.max_recent_actions):
        session.propose(action_id=f"act-{number}")
    full = session.verdict(action_id="late")
    assert (full["blockReason"], full["gateResults"]) == ("session_capacity", [])
    session.now += WINDOW
    assert session.verdict(action_id="late")["outcome"] == "ALLOW"


def test_what_was_allowed_in_shadow_does_not_start_again_under_a_freeze() -> None:
    """Shadow allows everything, and hides what would have been; a freeze is of now."""
    paths = Paths()
    paths.start()
    paths.change_policy(policy="in shadow")
    paths.propose(content="harmless", mode="high_stakes", more=0, name="a")
    paths.change_policy(policy="frozen")
    paths.repeat(which=0)
    paths.teardown()
