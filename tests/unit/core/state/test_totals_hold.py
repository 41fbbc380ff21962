"""A session's totals, whatever comes in whatever order, against a model that counts by itself.

The model lists what happened under each action id and replays it from the start. Two claims: the table's
totals are exactly the model's, and they are never below what the carried-out actions really did as far as
anybody reported it and it may count (Mend 2: a signed outcome counts once, an unsigned one up to a factor of
the reservation). Every action has its true rows from the beginning; reports tell the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sluice.core.state.session import SessionState
from tests.unit.core.scene import LIMITS, MINUTE, Session, action, bundle, verdict_of

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord

IDS = st.sampled_from(["a", "b", "c"])
ROWS = st.integers(0, 40)
WINDOW, IDLE = LIMITS.action_window_ms, LIMITS.idle_timeout_ms
BLOCKED = {"c": "rm -rf /"}
FACTOR = bundle().outcomes.unsigned_factor
UNKNOWN_ROWS = 100
"""What counts for a deletion that is said to touch no row."""


@dataclass
class Report:
    """An outcome as it was sent."""

    action_id: str
    at: int
    rows: int
    signed: bool


@dataclass
class Carried:
    """An action that was carried out, with its estimate."""

    rows: int


@dataclass
class Shared:
    """Another action came under the id, with its estimate."""

    rows: int


@dataclass
class Known:
    """An action id inside its window: the first input, what happened since, the truth as far as reported."""

    text: str
    input_record: InputRecord
    most: int
    happened: list[Carried | Report | Shared] = field(default_factory=list)
    true_rows: list[int] = field(default_factory=list)
    reported: set[int] = field(default_factory=set)

    @property
    def at(self) -> int:
        return self.input_record.timestamp_ms

    def replay(self) -> tuple[int, int]:
        """Rows and actions that count."""
        rows, actions, peak, shared, signed, most = 0, 0, 0, False, False, self.most
        for event in self.happened:
            if isinstance(event, Carried):
                rows, actions = rows + event.rows, actions + 1
                continue
            if isinstance(event, Shared):
                shared, most = True, max(most, FACTOR * max(event.rows, 1))
                continue
            if signed and (event.rows <= peak if event.signed else not shared):
                continue
            said = event.rows if event.signed else min(event.rows, most)
            if event.signed and not shared and not signed:
                rows = peak = said
            else:
                peak = max(peak, said)
                rows = max(rows, peak * max(actions, 1))
            if said:
                actions = max(actions, 1)
            signed = signed or event.signed
        return rows, actions

    def note_dispute(self) -> bool:
        """Whether an unsigned claim is beyond what may count, and no signed one has come since."""
        found, signed, shared, peak, most = False, False, False, 0, self.most
        for event in self.happened:
            if isinstance(event, Shared):
                shared, most = True, max(most, FACTOR * max(event.rows, 1))
            if not isinstance(event, Report):
                continue
            if signed and (event.rows <= peak if event.signed else not shared):
                continue
            found = not event.signed and (found or event.rows > most)
            peak = max(peak, event.rows if event.signed else min(event.rows, most))
            signed = signed or event.signed
        return found

    def really_done(self) -> int:
        """The sum of what is known to have been done, and may count."""
        return sum(min(self.true_rows[which], self.most) for which in self.reported)


class Totals(RuleBasedStateMachine):
    """Random interleavings on one tenant's session."""

    @initialize()
    def start(self) -> None:
        self.session = Session()
        self.known: dict[str, Known] = {}
        self.folded: list[Known] = []
        self.early: list[Report] = []
        self.signed: list[dict[str, Any]] = []
        self.last = 0

    def pass_time(self) -> None:
        now = self.session.now
        self.early = [one for one in self.early if one.at + WINDOW > now]
        if self.last + IDLE <= now and (self.known or self.folded):
            self.known, self.folded = {}, []
        for name, one in list(self.known.items()):
            if one.at + WINDOW <= now:
                self.folded.append(self.known.pop(name))

    @rule(
        name=IDS,
        estimate=ROWS,
        really=ROWS,
        mode=st.sampled_from(["standard", "high_stakes"]),
        bad=st.booleans(),
    )
    def propose(self, name: str, estimate: int, really: int, mode: str, bad: bool) -> None:
        """An action; the same id may come with the same content, or with another."""
        fields: dict[str, Any] = {"action_id": name, "rows_affected": estimate, "mode": mode}
        if bad:
            fields["parameters"] = BLOCKED
        self.pass_time()
        verdict = verdict_of(self.session.propose(**fields))
        self.last = self.session.now
        text = json.dumps(action(**fields), sort_keys=True)
        known = self.known.get(name)
        if known is not None and known.text == text:
            assert verdict["duplicate_of"]
            return
        counted = UNKNOWN_ROWS if bad and not estimate else estimate
        denied, disputed = bad or known is not None, self.note_dispute()
        assert verdict["verdict"] == ("denied" if denied else "needs_human" if disputed else "allowed")
        if known is None:
            assert self.session.last is not None
            known = self.known[name] = Known(text, self.session.last, FACTOR * max(counted, 1))
        else:
            known.happened.append(Shared(counted))
        if mode == "standard" or not (denied or disputed):
            known.happened.append(Carried(counted))
            known.true_rows.append(really)
        self.meet_early(name, known)

    def note_dispute(self) -> bool:
        return any(one.note_dispute() for one in (*self.known.values(), *self.folded))

    def meet_early(self, name: str, known: Known) -> None:
        mine = [one for one in self.early if one.action_id == name]
        if mine:
            self.early = [one for one in self.early if one.action_id != name]
            known.happened += mine
            known.true_rows[:1] = [max(one.rows for one in mine)]
            known.reported = {0}

    @rule(name=IDS, which=st.integers(0, 3), otherwise=ROWS, signed=st.booleans())
    def report(self, name: str, which: int, otherwise: int, signed: bool) -> None:
        """An outcome, before or after its action, once or again; a denied action may have been done too."""
        self.pass_time()
        known = self.known.get(name)
        rows = otherwise
        if known is not None:
            known.true_rows = known.true_rows or [otherwise]
            which %= len(known.true_rows)
            rows = known.true_rows[which]
        signed = signed and known is not None and which == 0  # a signature is bound to the id's first action
        if signed and known is not None:
            self.signed.append(
                self.session.sign_outcome(known.input_record, action_id=name, rows_affected=rows)
            )
            self.session.put(self.signed[-1])
        else:
            self.session.report(action_id=name, rows_affected=rows)
        self.last = self.session.now
        sent = Report(name, self.session.now, rows, signed)
        if known is not None:
            known.happened.append(sent)
            known.reported.add(which)
        elif len(self.early) < LIMITS.max_early_outcomes:
            self.early.append(sent)

    @precondition(lambda self: self.signed)
    @rule(which=st.integers(0, 99))
    def replay_signed(self, which: int) -> None:
        """A signed outcome comes again, at whatever time: it is refused and changes nothing."""
        self.pass_time()
        decision = self.session.put(self.signed[which % len(self.signed)])
        self.last = self.session.now
        assert [one.body["reason"] for one in decision.records if one.kind == "InputRefused"][-1:] == [
            "outcome_replayed"
        ]
        assert "ReservationSettled" not in [one.kind for one in decision.records]

    @rule(minutes=st.sampled_from([0, 1, 30, 59, 60, 61, 24 * 60]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.session.now += minutes * MINUTE

    @rule()
    def tick(self) -> None:
        """The timer comes round."""
        decision = self.session.point.expire(self.session.state.key, self.session.state, self.session.now)
        self.session.state.apply(decision.session if decision else ())
        self.pass_time()

    @rule()
    def restart(self) -> None:
        """Another worker reads the state from the changelog."""
        if not self.session.state.gone:
            self.session.state = SessionState.read(self.session.state.key, self.session.state.entries())

    @invariant()
    def the_totals_hold(self) -> None:
        every = [*self.known.values(), *self.folded]
        assert self.session.rows == sum(one.replay()[0] for one in every)
        assert self.session.actions == sum(one.replay()[1] for one in every)
        assert self.session.rows >= sum(one.really_done() for one in every)


TestTotals = Totals.TestCase
TestTotals.settings = settings(max_examples=300, stateful_step_count=30, deadline=None)
