"""The models' answers that a decision recorded, by the question that each of them answers.

A record has the answers in the order in which they were given, and no questions. To know those, the decision
is executed once more on what it saw then, which asks them again.
"""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.actions.closest import NamedTexts
from sluice.core.decide.kinds import DECISIONS, read_input_message
from sluice.core.decide.replay import drive
from sluice.core.foundation.errors import run_guarded
from sluice.core.foundation.requests import HELD_INPUT, Answer
from sluice.core.foundation.sealed_input import NO_KEYS, SUBJECT_KEYS, find_keys
from sluice.core.rerun.evidence import RecordedAnswers
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.core.decide.decision_point import DecisionPoint
    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.foundation.requests import Request
    from sluice_topics.sealing import Keyring

    Question = tuple[str, bytes]


class AskedAnswers:
    """Answers by question; the same question asked twice gets its answers in their order. `unanswered`: the
    ports of the questions that nobody had asked. `inputs`: earlier ones, by their places; `keyring`: of
    persons' keys."""

    def __init__(
        self,
        by_question: Mapping[Question, Sequence[Answer]],
        inputs: Sequence[Mapping[tuple[str, int, int], InputRecord]],
        keyring: Keyring = NO_KEYS,
    ) -> None:
        self._keyring = keyring
        self._left = {question: deque(answers) for question, answers in by_question.items()}
        self._inputs = inputs
        self.unanswered: list[str] = []

    def next(self, request: Request) -> Answer:
        """The answer to a question."""
        if request.port == HELD_INPUT:
            payload: Any = request.payload
            location = payload["topic"], payload["partition"], payload["offset"]
            for inputs in self._inputs:
                if location in inputs:
                    return Answer("answered", inputs[location].value or b"")
        if request.port == SUBJECT_KEYS:
            return find_keys(self._keyring, request)
        answers = self._left.get(_name_question(request))
        if not answers:
            self.unanswered.append(request.port)
            return Answer("unavailable", detail="nobody asked this")
        return answers.popleft() if len(answers) > 1 else answers[0]


def collect_answers(
    point: DecisionPoint,
    input_record: InputRecord,
    recorded: Iterable[Mapping[str, Any]],
    inputs: Mapping[tuple[str, int, int], InputRecord],
    keyring: Keyring = NO_KEYS,
) -> dict[Question, list[Answer]]:
    """The answers that decisions on one input recorded. `point`: under what was in force then."""
    by_question: defaultdict[Question, list[Answer]] = defaultdict(list)
    message = None
    for record in recorded:
        if record["schema"] not in DECISIONS or not record.get("model_outputs"):
            continue
        message = message or read_input_message(input_record)
        if isinstance(message, Unreadable):
            break
        answers = RecordedAnswers(record["model_outputs"], inputs, keyring)

        def listen(request: Request, answers: RecordedAnswers = answers) -> Answer:
            answer = answers.next(request)
            if not answers.beyond:
                by_question[_name_question(request)].append(answer)
            return answer

        evaluation = point.judge_again(input_record, message, record)
        run_guarded(partial(drive, evaluation, listen), _get_nothing)
    return by_question


def _get_nothing(_: str) -> list[OutRecord]:
    """Of a decision that made the core raise."""
    return []


def _name_question(request: Request) -> Question:
    """A port and what it is asked. In what scope an answer may be cached is no part of the question: it names
    the bundle, and under another bundle the question is the same."""
    payload = request.payload
    if isinstance(payload, dict) and isinstance(payload.get("scope"), dict):
        payload = {**payload, "scope": {**payload["scope"], "bundle": ""}}
    try:
        return request.port, orjson.dumps(payload, option=orjson.OPT_SORT_KEYS, default=_name_value)
    except TypeError:
        return request.port, repr(payload).encode()


def _name_value(value: object) -> str:
    """What travels by reference, by its digest."""
    return value.hash if isinstance(value, NamedTexts) else repr(value)
