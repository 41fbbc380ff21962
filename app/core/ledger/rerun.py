"""Executing one decision again (seed 000, "Rerunnability"). Pure: everything is handed in.

The input comes by its coordinates, bundle and registry entries by hash, the session by the values that the
record has of it, model outputs as they were. Then the same core decides, and its record is held against the
recorded one. What is particular to verdicts, to decisions on memories and on retrieved items is in a file for
each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.actions import verdict
from app.core.errors import BundleError, RegistryError
from app.core.ledger.recorded_answers import RecordedAnswers
from app.core.ledger.rerun_evidence import Gone, PointsOfThen
from app.core.ledger.rerun_memory import MEMORY
from app.core.ledger.rerun_result import Difference, Rerun, differences
from app.core.ledger.rerun_retrieval import QUALITY
from app.core.ledger.rerun_verdict import VERDICT
from app.core.memory import record as memory_decision
from app.core.retrieval import record as quality_decision

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.actions.stage import Stage
    from app.core.arrival import Arrival
    from app.core.decision import Decision
    from app.core.ledger.evidence import PolicyEvidence
    from app.core.ledger.rerun_way import Way

WAYS = {verdict.SCHEMA: VERDICT, memory_decision.SCHEMA: MEMORY, quality_decision.SCHEMA: QUALITY}
"""By the record's `schema`."""


class Rerunner:
    """Executes decisions again over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring."""

    def __init__(self, evidence: PolicyEvidence, stage_of: Callable[[str], Stage]) -> None:
        self._points = PointsOfThen(evidence, stage_of)

    def rerun(self, recorded: dict[str, Any], arrival: Arrival | None) -> Rerun:
        """A decision (the fields of a valid Verdict, MemoryDecision or QualityDecision) against what comes of
        its input today.

        `arrival` is what lies at the input's coordinates, None for nothing.
        """
        way = WAYS[recorded["schema"]]
        try:
            found = self._executed(way, recorded, _same_input(recorded, arrival))
        except Gone as gone:
            return Rerun(way.kind, recorded[way.id_field], missing=gone.missing)
        except BundleError as error:
            found = (Difference("bundle_hash", recorded["bundle_hash"], f"does not load: {error}"),)
        except RegistryError as error:
            found = (Difference("registry_hashes", recorded["registry_hashes"], f"do not load: {error}"),)
        return Rerun(way.kind, recorded[way.id_field], found)

    def _executed(self, way: Way, recorded: dict[str, Any], arrival: Arrival) -> tuple[Difference, ...]:
        answers = RecordedAnswers(recorded.get("model_outputs", []))
        decision = way.execute(self._points, recorded, arrival, answers)
        return _compared(way, recorded, decision, answers)


def _same_input(recorded: dict[str, Any], arrival: Arrival | None) -> Arrival:
    place = recorded["input"]
    name = f"input {place['topic']}:{place['partition']}:{place['offset']}"
    if arrival is None:
        raise Gone(name)
    if arrival.coordinates() != place:
        raise Gone(f"{name} (another record lies there now)")
    return arrival


def _compared(
    way: Way, recorded: dict[str, Any], decision: Decision, answers: RecordedAnswers
) -> tuple[Difference, ...]:
    if answers.beyond:
        if way.kept_no_answers(recorded):
            raise Gone(*(f"answer of {port}" for port in answers.beyond))
        asked = [f"asked {port} too, of which no answer is recorded" for port in answers.beyond]
        return (Difference("model_outputs", recorded["model_outputs"], asked),)
    answered = [one.body for one in decision.records if one.kind == way.record]
    same = [one for one in answered if one[way.id_field] == recorded[way.id_field]]
    if not same:
        letter = next(one.body for one in decision.records if one.kind == "DeadLetter")
        told = f"unreadable: {letter['code']} at {letter['path']}: {letter['message']}"
        return (Difference(way.id_field, recorded[way.id_field], told),)
    return differences(way.fields, recorded, same[0])
