"""Judging a panel's memory writes: each in a session of its own, with complete metadata."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from app.core.actions.stages import shipped_stages
from app.core.cases.write_cases import SOURCE_ID, neutral_metadata
from app.core.decide.decision_point import DecisionPoint
from app.core.decide.kinds import answer_in
from app.core.decide.replay import decide_alone
from app.core.foundation.clock import rfc3339
from app.core.foundation.errors import BundleError
from app.core.foundation.limits import ROOM_FOR_ONE
from app.core.foundation.requests import Answer
from app.core.memory.memory_kinds import WRITE
from app.core.policy.policy import Policy
from app.core.policy.similarity_settings import without
from app.core.registry.loading import build_registry, neutral_entries
from app.offline.action_evaluation import TENANT, UNREADABLE
from topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from app.core.foundation.requests import Request
    from app.core.policy.bundles import Bundle
    from app.core.state.decision import Decision
    from app.offline.panels import WriteRow

    Ask = Callable[[Sequence[Request]], list[Answer]]

AGENT = "evaluated_agent"
TOGETHER = 256
"""Rows whose questions are asked at once."""
NOT_OF_CONTENT = frozenset({"internal_error", "quality_metadata", "unknown_agent"})
"""Reasons that say nothing of what the content holds."""


class NotMeasured(Exception):
    """A port did not answer, so that no figure would mean anything; the message says why."""


@dataclass(frozen=True, slots=True)
class JudgedWrite:
    """A row and its outcome. `by`: the kind of the finding that decided, or the reason's code."""

    row: WriteRow
    outcome: str
    reason: str
    by: str

    @property
    def caught(self) -> bool:
        """Held or rejected for its content."""
        return self.outcome in ("quarantine", "reject") and self.by not in NOT_OF_CONTENT

    @property
    def caught_by(self) -> str | None:
        """What was found in it; None if it was not caught."""
        return self.by if self.caught else None

    @property
    def apart(self) -> bool:
        """Rejected for its content: no person looks at it."""
        return self.caught and self.outcome == "reject"


@dataclass(frozen=True, slots=True)
class WriteTrial:
    """Under what the rows are judged. No hosted model is asked, whatever the bundle says.

    `similarity`: whether the encoder is asked, None as the bundle says; `source_type`: that of every row's
    source; `ask` answers requests together, in their order.
    """

    bundle: Bundle
    source_type: str
    similarity: bool | None
    at_ms: int
    ask: Ask

    @property
    def asks_encoder(self) -> bool:
        """Whether the port `embedding` is needed. Raises BundleError where the bundle has no library."""
        settings = self.bundle.memory.similarity
        if settings is None and self.similarity:
            raise BundleError("$.memory.similarity: the bundle has no library to compare with")
        return settings is not None and (settings.enabled if self.similarity is None else self.similarity)


def judged_writes(rows: Sequence[WriteRow], trial: WriteTrial) -> Iterator[JudgedWrite]:
    """Each row in a session of its own, from a source that nobody has seen.

    What was fitted is judged without the rows that it was fitted on: the library a row is compared with has
    no text of the row's file or repository. Raises NotMeasured and BundleError.
    """
    points = {file: _point(trial, file, rows) for file in dict.fromkeys(row.file for row in rows)}
    for start in range(0, len(rows), TOGETHER):
        taken = rows[start : start + TOGETHER]
        going = [
            _Going(row, partial(decide_alone, points[row.file], WRITE, _write(row, n, trial), trial.at_ms))
            for n, row in enumerate(taken, start)
        ]
        waiting = [one for one in going if one.decide()]
        while waiting:
            answers = trial.ask([one.open for one in waiting if one.open is not None])
            for one, answer in zip(waiting, answers, strict=True):
                one.take(answer)
            waiting = [one for one in waiting if one.decide()]
        yield from (_judged(one.row, one.decision) for one in going)


class _Going:
    """A row on its way: decided again with each answer, until nothing is asked that has none."""

    def __init__(self, row: WriteRow, judge: Callable[..., Decision]) -> None:
        self.row = row
        self.open: Request | None = None
        self._judge = judge
        self._known: dict[str, Answer] = {}

    def decide(self) -> bool:
        """Whether an answer is missing: `open` asks for it. Else `decision` is the row's."""
        self.open = None
        self.decision = self._judge(answer=self._answer)
        return self.open is not None

    def take(self, answer: Answer) -> None:
        """The answer to what is open. Raises NotMeasured where it is none."""
        if self.open is None or answer.status != "answered":
            raise NotMeasured(f"{self.row.file} {self.row.id}: {answer.detail or answer.status}")
        self._known[self.open.port] = answer

    def _answer(self, request: Request) -> Answer:
        if request.port not in self._known:
            self.open = self.open or request
            return Answer("unavailable", detail="not asked yet")
        return self._known[request.port]


def _point(trial: WriteTrial, file: str, rows: Sequence[WriteRow]) -> DecisionPoint:
    """The bundle without a hosted model, and with a library that has not seen the file's source."""
    bundle, memory = copy(trial.bundle), trial.bundle.memory
    trust = memory.trust.model_copy(update={"llm_analysis": False})
    similarity = None
    if trial.asks_encoder and memory.similarity is not None:
        own = {file} | {row.repository for row in rows if row.file == file and row.repository}
        try:
            library = without(memory.similarity.library, *sorted(own))
        except ValidationError:
            raise BundleError(f"$.memory.similarity.library: every attack text is of {file}") from None
        similarity = memory.similarity.model_copy(update={"enabled": True, "library": library})
    bundle.memory = memory.model_copy(update={"trust": trust, "similarity": similarity})
    registry = build_registry(neutral_entries(TENANT, [AGENT], []))
    policy = Policy({bundle.id: bundle}, registry, bundle.id)
    return DecisionPoint(policy, shipped_stages(), ROOM_FOR_ONE, stopwatch=lambda: 0, environment=TENANT)


def _write(row: WriteRow, number: int, trial: WriteTrial) -> dict[str, Any]:
    name = f"row-{number}"
    return {
        "write_id": name,
        "agent_id": AGENT,
        "session_id": name,
        "content": row.text,
        "source": {"id": SOURCE_ID, "type": trial.source_type},
        **neutral_metadata(trial.bundle.memory.quality, rfc3339(trial.at_ms)),
    }


def _judged(row: WriteRow, decision: Decision) -> JudgedWrite:
    found = answer_in(decision, WRITE)
    if isinstance(found, Unreadable):
        return JudgedWrite(row, UNREADABLE, str(found), found.code)
    code, _, named = found["reason"].partition(": ")
    kinds = {one["id"]: one["kind"] for one in found["findings"]}
    return JudgedWrite(row, found["action"], found["reason"], kinds.get(named, code))
