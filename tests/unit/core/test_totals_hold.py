"""A session's totals, whatever comes in whatever order, against a model that counts by itself.

The model knows nothing of reservations: it lists every action that was carried out with what is known of its
rows, and sums. Two claims: the table's totals are exactly the model's, and never below what was really done.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from app.core.session import SessionState
from tests.unit.core.scene import LIMITS, MINUTE, Session, action, verdict_of

IDS = st.sampled_from(["a", "b", "c"])
ROWS = st.integers(0, 20)
WINDOW, IDLE = LIMITS.action_window_ms, LIMITS.idle_timeout_ms
BLOCKED = {"c": "rm -rf /"}


@dataclass
class Known:
    """An action id inside its window, as the model sees it."""

    text: str
    at: int
    carried: list[int] = field(default_factory=list)
    reports: list[tuple[int, bool]] = field(default_factory=list)

    def rows(self) -> int:
        """What counts: estimates, replaced downwards only by a first signed report, upwards by any."""
        estimate = sum(self.carried)
        if not self.reports:
            return estimate
        first, lowers = self.reports[0]
        if lowers and len(self.carried) == 1 and first < estimate:
            estimate = first
        return max([estimate, *(max(len(self.carried), 1) * rows for rows, _ in self.reports)])

    def really_done(self) -> int:
        """The least that the reports prove."""
        return max((rows for rows, _ in self.reports), default=0)

    def times(self) -> int:
        """How many actions count."""
        return max(len(self.carried), 1 if self.really_done() else 0)


@dataclass
class Early:
    """An outcome before its action."""

    action_id: str
    at: int
    rows: int
    lowers: bool


class Totals(RuleBasedStateMachine):
    """Random interleavings on one tenant's session."""

    @initialize()
    def start(self) -> None:
        self.session = Session()
        self.known: dict[str, Known] = {}
        self.folded: list[Known] = []
        self.early: list[Early] = []
        self.last = 0

    def pass_time(self) -> None:
        now = self.session.now
        self.early = [one for one in self.early if one.at + WINDOW > now]
        if self.last and self.last + IDLE <= now and (self.known or self.folded):
            self.known, self.folded = {}, []
        for name, one in list(self.known.items()):
            if one.at + WINDOW <= now:
                self.folded.append(self.known.pop(name))

    @rule(name=IDS, rows=ROWS, mode=st.sampled_from(["standard", "high_stakes"]), bad=st.booleans())
    def propose(self, name: str, rows: int, mode: str, bad: bool) -> None:
        """An action; the same id may come with the same content, or with another."""
        fields: dict[str, Any] = {"action_id": name, "rows_affected": rows, "mode": mode}
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
        carried = mode == "standard" or not (bad or known)
        assert verdict["verdict"] == ("denied" if bad or known else "allowed")
        if known is None:
            known = self.known[name] = Known(text, self.session.now)
        elif carried:
            self.count_conflict(known, rows)
            return
        known.carried += [rows] if carried else []
        if not known.reports:
            known.reports += [(one.rows, one.lowers) for one in self.early if one.action_id == name]
            self.early = [one for one in self.early if one.action_id != name]

    def count_conflict(self, known: Known, rows: int) -> None:
        """A conflicting action that is carried out adds to what counts by then, once and for all."""
        counted, times = known.rows() + rows, known.times() + 1
        known.carried = [counted] + [0] * (times - 1)
        known.reports = [(known.really_done(), False)] if known.reports else []
        self.floor(known, counted)

    def floor(self, known: Known, counted: int) -> None:
        """Reports from before the conflict speak of the actions before it: they do not multiply."""
        if known.rows() > counted:
            known.reports = [(0, False)]

    @rule(name=IDS, rows=ROWS, signed=st.booleans())
    def report(self, name: str, rows: int, signed: bool) -> None:
        """An outcome, before or after its action, once or again."""
        self.pass_time()
        send = self.session.report_signed if signed else self.session.report
        send(action_id=name, rows_affected=rows)
        self.last = self.session.now
        known = self.known.get(name)
        if known is not None:
            if not known.carried and known.reports == [] and rows:
                known.carried = [0]
            known.reports.append((rows, signed))
        elif len(self.early) < LIMITS.max_early_outcomes:
            self.early.append(Early(name, self.session.now, rows, signed))

    @rule(minutes=st.sampled_from([0, 1, 30, 59, 60, 61, 24 * 60]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.session.now += minutes * MINUTE

    @rule()
    def tick(self) -> None:
        """The timer comes round."""
        decision = self.session.point.expire(self.session.state.key, self.session.state, self.session.now)
        self.session.state.apply(decision.transition if decision else None)
        self.pass_time()

    @rule()
    def restart(self) -> None:
        """Another worker reads the state from the changelog."""
        if not self.session.state.gone:
            self.session.state = SessionState.decode(self.session.state.key, self.session.state.encode())

    @invariant()
    def the_totals_are_the_models(self) -> None:
        if self.last and self.last + IDLE <= self.session.now:
            return  # folds with the next input or tick, which `pass_time` does then
        every = [*self.known.values(), *self.folded]
        assert self.session.rows == sum(one.rows() for one in every)
        assert self.session.rows >= sum(one.really_done() for one in every)
        assert self.session.actions == sum(one.times() for one in every)


TestTotals = Totals.TestCase
TestTotals.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
