"""The ledger's layout in the verifier's own words: which record lies in which topic, and its decision id.

Written from the published description of the records, not taken from the writer's models: if the two part, a
verification says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a schema's records lie and which field, if any, names the decision.

    The id is "<word>:<topic>:<partition>:<offset>" of the record's own input; no word: it is not made from
    that input (the end of an escalation or of a held memory carries the id that its beginning was
    given). `many`: one input may
    have several such records, the second and later with ":2", ":3" … at the end. `of`: the topic of the
    inputs that it decides, where there is only one.
    """

    topic: str
    id_field: str | None = None
    word: str | None = None
    many: bool = False
    of: str | None = None


ACTIONS, WRITES, RETRIEVALS = (
    "gate.actions.proposed",
    "gate.memory.writes.proposed",
    "gate.memory.retrievals.proposed",
)

KINDS: dict[str, Kind] = {
    "sluice/verdict/v1": Kind("gate.verdicts", "verdict_id", "verdict", of=ACTIONS),
    "sluice/escalation_opened/v1": Kind("gate.escalations", "escalation_id", "escalation", of=ACTIONS),
    "sluice/escalation_resolved/v1": Kind("gate.escalations", "escalation_id"),
    "sluice/escalation_expired/v1": Kind("gate.escalations", "escalation_id"),
    "sluice/session_folded/v1": Kind("gate.session.events"),
    "sluice/reservation_settled/v1": Kind(
        "gate.session.events", "outcome_id", "outcome", many=True, of="gate.outcomes"
    ),
    "sluice/input_refused/v1": Kind("gate.session.events", "refusal_id", "refusal"),
    "sluice/memory_decision/v1": Kind("gate.memory.decisions", "memory_id", "memory", of=WRITES),
    "sluice/quarantine_entered/v1": Kind("gate.quarantine", "memory_id", "memory", of=WRITES),
    "sluice/quarantine_approved/v1": Kind("gate.quarantine", "memory_id"),
    "sluice/quarantine_rejected/v1": Kind("gate.quarantine", "memory_id"),
    "sluice/quarantine_expired/v1": Kind("gate.quarantine", "memory_id"),
    "sluice/quarantine_evicted/v1": Kind("gate.quarantine", "memory_id"),
    "sluice/quality_decision/v1": Kind(
        "gate.memory.quality_decision", "ledger_event_id", "quality", many=True, of=RETRIEVALS
    ),
    "sluice/retrieval_escalation_opened/v1": Kind("gate.escalations", "escalation_id", "escalation"),
    "sluice/retrieval_reported/v1": Kind("gate.session.events", "report_event_id", "report"),
    "sluice/alarm/v1": Kind("gate.alarms", "alarm_id"),
    "sluice/outcome_alarm/v1": Kind("gate.alarms", "alarm_id"),
    "sluice/dead_letter/v1": Kind("gate.dead_letters", "dead_letter_id", "dead_letter"),
}
