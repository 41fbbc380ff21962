"""Executing one decision again (seed 000, "Rerunnability"). Pure: everything is handed in.

The input comes by its coordinates, bundle and registry entries from what was in force then (or by hash, where
nobody can tell that), model outputs as they were. What the decision saw of state the record says, and on that
the same core judges; its record is held against the recorded one. What is particular to a kind of decision is
in its row of the table (sluice/core/decide/kinds.py).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sluice.core.decide.kinds import ANSWERS, BY_MODEL, DECISIONS, read_input_message
from sluice.core.decide.replay import drive
from sluice.core.foundation.errors import BundleError, RegistryError, run_guarded
from sluice.core.foundation.sealed_input import NO_KEYS
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.rerun.evidence import (
    ErasedWhereUnknown,
    Gone,
    KeysErased,
    PointsOfThen,
    RecordedAnswers,
)
from sluice.core.rerun.rerun_result import Difference, Rerun, compare_records
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.decide.kinds import Message
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.rerun.evidence import Points, PolicyEvidence
    from sluice.core.rerun.policy_then import PolicyThen
    from sluice_topics.sealing import Keyring

NO_INPUTS: Mapping[tuple[str, int, int], InputRecord] = {}
REMEMBERED_INPUTS = 8
"""Decisions on the items of one request lie together, and each is executed by itself."""
NO_ROOTS = "which policy was in force: no root keys are set, or the record's time is not known"
CHANGED = "what the record does not name: policy changed while it was decided"
NOT_IN_FORCE = "was not in force between the coming of the input and the writing of the record"
Differences = tuple[Difference, ...]


class Rerunner:
    """Executes decisions again over one body of evidence. `stage_of` gives a stage by its name, or raises
    UnknownStageError: an installation's own stages are its own to bring. `version`: this code's own. `then`:
    what was in force when; None: nobody can tell, and what a record names is believed. `audience`: the
    installation. `keyring`: persons' keys, for what was sealed."""

    def __init__(
        self,
        evidence: PolicyEvidence,
        stage_of: Callable[[str], Stage],
        version: str | None = None,
        then: PolicyThen | None = None,
        audience: Audience = UNNAMED,
        keyring: Keyring = NO_KEYS,
    ) -> None:
        self.keyring = keyring
        self._erased = evidence.list_erased()
        self._points = PointsOfThen(evidence, stage_of, audience)
        self._version = version
        self._then = then

    def rerun(
        self,
        recorded: dict[str, Any],
        input_record: InputRecord | None,
        written_ms: int | None = None,
        inputs: Mapping[tuple[str, int, int], InputRecord] = NO_INPUTS,
    ) -> Rerun:
        """A decision (the fields of a valid Verdict, MemoryDecision or QualityDecision) against what comes of
        its input today.

        `input_record` is what lies at the input's coordinates, None for nothing; `written_ms` the broker's
        time of the record, None where it is not known: then what was in force is not checked. `inputs`:
        earlier ones that it may rest on, by topic, partition and offset.
        """
        word, named = DECISIONS[recorded["schema"]].word, recorded[ANSWERS[recorded["schema"]].id_field]
        versions = recorded.get("decider_version"), self._version
        try:
            differences, not_checked = self._check_record(
                recorded, _InputEvidence(recorded, input_record, inputs), written_ms
            )
        except Gone as gone:
            return Rerun(word, named, missing=gone.missing)
        except KeysErased as erased:
            return Rerun(word, named, erased=erased.key_ids)
        never = any(difference.rerun == NOT_IN_FORCE for difference in differences)
        return Rerun(word, named, differences, (), *versions, not_checked, never)

    def _check_record(
        self, recorded: dict[str, Any], evidence: _InputEvidence, written_ms: int | None
    ) -> tuple[Differences, tuple[str, ...]]:
        """What differs, and what could not be told."""
        if self._then is None or written_ms is None:
            return self._execute(recorded, evidence, self._points), (NO_ROOTS,)
        possible = self._then.find_possible(recorded, evidence.input_record.timestamp_ms, written_ms)
        if possible.never:
            named = self._execute(recorded, evidence, self._points)
            return (*_list_not_in_force(recorded, possible.never), *named), ()
        tried = [self._execute(recorded, evidence, points) for points in possible.points]
        if tried and not any(tried):
            return (), ()
        if any(not differences for differences in tried):
            return (), (CHANGED,)
        if not tried or possible.changed:
            named = self._execute(recorded, evidence, self._points)
            return named, () if named else (CHANGED,)
        between = self._then.find_between(recorded, evidence.input_record.timestamp_ms, written_ms)
        explained = len(tried) > 1 and any(
            not self._execute(recorded, evidence, points) for points in between
        )
        return () if explained else tried[-1], ()

    def _execute(self, recorded: dict[str, Any], evidence: _InputEvidence, points: Points) -> Differences:
        tenant = UNREGISTERED if recorded["tenant_id"] is None else recorded["tenant_id"]
        keyring = ErasedWhereUnknown(self.keyring, self._erased, tenant)
        answers = RecordedAnswers(recorded.get("model_outputs", []), evidence.inputs, keyring)
        try:
            again = _decide_again(points.get_point(recorded), recorded, evidence.input_record, answers)
        except BundleError as error:
            return (Difference("bundle_hash", recorded["bundle_hash"], f"does not load: {error}"),)
        except RegistryError as error:
            return (Difference("registry_hashes", recorded["registry_hashes"], f"do not load: {error}"),)
        return _compare(recorded, again, answers)


def _list_not_in_force(recorded: dict[str, Any], never: frozenset[str]) -> Iterator[Difference]:
    named = {
        "bundle_hash": recorded["bundle_hash"],
        "quality_bundle_hash": recorded.get("quality_bundle_hash"),
        **{f"registry_hashes.{key}": entry_hash for key, entry_hash in recorded["registry_hashes"].items()},
    }
    return (Difference(name, value, NOT_IN_FORCE) for name, value in named.items() if value in never)


class _InputEvidence:
    """The inputs that a decision rests on: its own, and earlier ones by their places. Raises Gone."""

    def __init__(
        self,
        recorded: dict[str, Any],
        input_record: InputRecord | None,
        inputs: Mapping[tuple[str, int, int], InputRecord],
    ) -> None:
        self.input_record = _check_input(recorded, input_record)
        self.inputs = inputs


def _check_input(recorded: dict[str, Any], input_record: InputRecord | None) -> InputRecord:
    coordinates = recorded["input"]
    name = f"input {coordinates['topic']}:{coordinates['partition']}:{coordinates['offset']}"
    if input_record is None:
        raise Gone(name)
    if input_record.coordinates() != coordinates:
        raise Gone(f"{name} (another record lies there now)")
    return input_record


def _decide_again(
    point: DecisionPoint, recorded: dict[str, Any], input_record: InputRecord, answers: RecordedAnswers
) -> list[OutRecord]:
    """The records that the core gives today, the decision again among them."""
    schema = recorded["schema"]
    message = None if recorded[DECISIONS[schema].read_field] is None else _read(input_record)
    if isinstance(message, Unreadable):
        return point.unreadable(input_record, message).records
    if message is None or BY_MODEL[type(message)].answer is not ANSWERS[schema]:
        return point.unread(input_record).records
    return run_guarded(
        lambda: drive(point.judge_again(input_record, message, recorded), answers.next),
        lambda reason: point.fault_again(input_record, message, recorded, reason),
    )


@lru_cache(maxsize=REMEMBERED_INPUTS)
def _read(input_record: InputRecord) -> Message | Unreadable | None:
    return run_guarded(lambda: read_input_message(input_record), lambda _: None)


def _compare(
    recorded: dict[str, Any], again: Sequence[OutRecord], answers: RecordedAnswers
) -> tuple[Difference, ...]:
    answer, decision = ANSWERS[recorded["schema"]], DECISIONS[recorded["schema"]]
    if answers.erased:
        raise KeysErased(*answers.erased)
    if answers.gone:
        raise Gone(*answers.gone)
    if answers.beyond:
        if decision.kept_no_answers(recorded):
            raise Gone(*(f"answer of {port}" for port in answers.beyond))
        asked = [f"asked {port} too, of which no answer is recorded" for port in answers.beyond]
        return (Difference("model_outputs", recorded.get("model_outputs"), asked),)
    named = recorded[answer.id_field]
    same = [
        record.body
        for record in again
        if record.body.get(answer.id_field) == named and record.topic == answer.topic
    ]
    if not same:
        return (Difference(answer.id_field, named, _describe_instead(again)),)
    return compare_records(decision.rerun_fields, recorded, same[0])


def _describe_instead(again: Sequence[OutRecord]) -> str:
    """What became of the input in place of a decision."""
    for record in again:
        if record.kind == "DeadLetter":
            return f"unreadable: {record.body['code']} at {record.body['path']}: {record.body['message']}"
    refusal = next(out_record.body for out_record in again if out_record.kind == "InputRefused")
    return f"refused: {refusal['reason']}: {refusal['message']}"
