"""What changed in policy, who signed it, and how many decisions came out how before and after each change.

Decisions are counted by the policy in force: each partition's chain says under which set of entries a
decision falls (PolicyInForce). So nothing depends on clocks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import DECISIONS
from sluice.core.reports.audit_rows import AuditQuestion, AuditRecord, AuditRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sluice.core.reports.audit_rows import AuditScope, Cell, PolicyChange

_IN_FORCE = "policy_in_force"
_CHANGES = ("added", "replaced", "lowered", "gone")
_NONE = "none"
"""Of a decision that no gate held up."""


@dataclass
class _Change:
    """One set of entries that took the place of another; `first`: the row of the first partition's record."""

    before: str
    now: str
    first: AuditRow


class PolicyChanges(AuditQuestion):
    """The records of the control topics, those that a partition took as in force, and for each change of what
    is in force the decisions by gate and outcome under the set before it and under the one that it made."""

    name = "policy"
    title = "What changed in policy, and what did that change in decisions?"
    own = (
        "what", "state", "signed_by", "why", "policy_before", "policy_now", "gate", "outcome",
        "decisions_before", "decisions_after",
    )  # fmt: skip
    needs_policy = True

    def __init__(self, scope: AuditScope, changes: Sequence[PolicyChange] = ()) -> None:
        """See AuditQuestion."""
        super().__init__(scope, changes)
        self._counts: dict[str, Counter[tuple[str, str]]] = {}
        self._steps: dict[tuple[str, str], _Change] = {}

    def begin_partition(self) -> None:
        """Each partition says for itself what is in force."""
        self._policy: str | None = None

    def take(self, record: AuditRecord) -> Iterator[AuditRow]:
        """See AuditQuestion. Decisions count whenever they were made: those before a change lie before it."""
        fields = record.fields
        if record.kind == _IN_FORCE:
            before, self._policy = self._policy or fields.get("previous"), str(fields.get("digest"))
            if self.scope.has_time(str(fields.get("decided_at"))):
                yield from self._take_change(record, before)
        elif fields.get("schema") in DECISIONS and self._policy is not None and self._is_counted(fields):
            self._counts.setdefault(self._policy, Counter())[_classify(fields)] += 1

    def finish(self) -> Iterator[AuditRow]:
        """The control records, and the counts of each change."""
        for change in self.changes if self.scope.agent is None else ():
            if change.concerns(self.scope.tenant):
                why = "; ".join(filter(None, (change.rationale, change.refused_for, *change.relaxations)))
                yield self.make_control_row(
                    change, what=change.name, state=change.state, signed_by=change.signed_by, why=why or None
                )
        for step in self._steps.values():
            before, now = (self._counts.get(digest, Counter()) for digest in (step.before, step.now))
            for gate, outcome in sorted(before.keys() | now.keys()):
                cells: dict[str, Cell] = {"gate": gate, "outcome": outcome}
                cells |= {"decisions_before": before[gate, outcome], "decisions_after": now[gate, outcome]}
                yield step.first | {"kind": "decisions", "what": "decisions", **_NO_RECORD, **cells}

    def _take_change(self, record: AuditRecord, before: str | None) -> Iterator[AuditRow]:
        """The row of a record that says that another set is in force; none for a start with the same one."""
        fields = record.fields
        now = str(fields.get("digest"))
        if before == now:
            return
        what = _describe_entries(fields) if self.scope.tenant is None else "another set of entries"
        row = self.make_row(record, what=what, policy_before=before, policy_now=now)
        row = row | {"state": str(fields.get("trigger"))}
        yield row
        if before is not None:
            self._steps.setdefault((before, now), _Change(before, now, row))

    def _is_counted(self, fields: Mapping[str, Any]) -> bool:
        scope = self.scope
        of_agent = scope.agent is None or fields.get("agent_id") == scope.agent
        return of_agent and scope.has_tenant(fields) and not fields.get("duplicate_of")


_NO_RECORD: dict[str, Cell] = {
    "topic": None, "partition": None, "sequence": None, "event_hash": None, "state": None,
}  # fmt: skip
"""A count rests on no single record."""


def _classify(fields: Mapping[str, Any]) -> tuple[str, str]:
    """The gate that held a decision up first, and what it came to."""
    named = (fields.get(name) for name in ("verdict", "action", "outcome"))
    outcome = next((value for value in named if isinstance(value, str)), "none")
    results = fields.get("gateResults") or ()
    failed = [str(result.get("gate")) for result in results if result.get("passed") is not True]
    stages = [stage for stage in fields.get("stages") or () if isinstance(stage, dict)]
    held = [str(stage["stage"]) for stage in stages if stage.get("outcome") != "pass"]
    own = ["memory"] if "trustScore" in fields and outcome != "allow" else []
    gates = failed[-1:] if outcome == "denied" else failed
    return [*gates, *held, *own, _NONE][0], outcome


def _describe_entries(fields: Mapping[str, Any]) -> str:
    """The entries that are other ones now, as far as the record names them."""
    parts = []
    for word in _CHANGES:
        changes = fields.get(word) or {}
        if not (total := changes.get("total")):
            continue
        named = [f"{each['entry']} {each['before'] or ''}→{each['now'] or ''}" for each in changes["named"]]
        more = ", …" if total != len(named) else ""
        parts.append(f"{total} {word} ({', '.join(named)}{more})")
    return "; ".join(parts) or "the same entries"
