"""Judging a panel's memory writes: each in a session of its own, with complete metadata."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.cases.write_cases import SOURCE_ID, make_neutral_metadata
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import find_answer
from sluice.core.decide.replay import decide_alone
from sluice.core.foundation.clock import rfc3339
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.limits import ROOM_FOR_ONE
from sluice.core.memory.analysis import PORT as ANALYSIS
from sluice.core.memory.memory_kinds import WRITE
from sluice.core.policy.policy import Policy
from sluice.core.policy.similarity_settings import remove_sources
from sluice.core.registry.loading import build_registry, make_neutral_entries
from sluice.offline.action_evaluation import TENANT, UNREADABLE
from sluice.offline.asking import decide_together
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.core.policy.bundles import Bundle
    from sluice.core.state.decision import Decision
    from sluice.offline.asking import Ask
    from sluice.offline.panels import WriteRow

AGENT = "evaluated_agent"
NOT_OF_CONTENT = frozenset({"internal_error", "quality_metadata", "unknown_agent"})
"""Reasons that say nothing of what the content holds."""


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
        """The kind of finding that caught it; None if it was not caught."""
        return self.by if self.caught else None

    @property
    def apart(self) -> bool:
        """Rejected for its content: no person looks at it."""
        return self.caught and self.outcome == "reject"


@dataclass(frozen=True, slots=True)
class WriteTrial:
    """Under what the rows are judged.

    `similarity`: whether the encoder is asked, None as the bundle says; `source_type`: that of every row's
    source; `ask` answers requests together, in their order; `hosted`: whether a hosted model is asked,
    whatever the bundle says.
    """

    bundle: Bundle
    source_type: str
    similarity: bool | None
    at_ms: int
    ask: Ask
    hosted: bool = False

    @property
    def needs_encoder(self) -> bool:
        """Whether the port `embedding` is needed. Raises BundleError where the bundle has no library."""
        settings = self.bundle.memory.similarity
        if settings is None and self.similarity:
            raise BundleError("$.memory.similarity: the bundle has no library to compare with")
        return settings is not None and (settings.enabled if self.similarity is None else self.similarity)


def judge_writes(rows: Sequence[WriteRow], trial: WriteTrial) -> Iterator[JudgedWrite]:
    """Each row in a session of its own, from a source that nobody has seen.

    What was fitted is judged without the rows that it was fitted on: the library a row is compared with has
    no text of the row's file or repository. Raises NotMeasured and BundleError.
    """
    points = {
        file: _build_decision_point(trial, file, rows) for file in dict.fromkeys(row.file for row in rows)
    }
    judges = (
        partial(decide_alone, points[row.file], WRITE, _build_write(row, number, trial), trial.at_ms)
        for number, row in enumerate(rows)
    )
    for row, decision in zip(rows, decide_together(judges, trial.ask, (ANALYSIS,)), strict=True):
        yield _judge_decision(row, decision)


def _build_decision_point(trial: WriteTrial, file: str, rows: Sequence[WriteRow]) -> DecisionPoint:
    """The bundle with a hosted model or without, and with a library that has not seen the file's source."""
    bundle, memory = copy(trial.bundle), trial.bundle.memory
    trust = memory.trust.model_copy(update={"llm_analysis": "always" if trial.hosted else "off"})
    similarity = None
    if trial.needs_encoder and memory.similarity is not None:
        own = {file} | {row.repository for row in rows if row.file == file and row.repository}
        try:
            library = remove_sources(memory.similarity.library, *sorted(own))
        except ValidationError:
            raise BundleError(f"$.memory.similarity.library: every attack text is of {file}") from None
        similarity = memory.similarity.model_copy(update={"enabled": True, "library": library})
    bundle.memory = memory.model_copy(update={"trust": trust, "similarity": similarity})
    registry = build_registry(make_neutral_entries(TENANT, [AGENT], []))
    policy = Policy({bundle.id: bundle}, registry, bundle.id)
    return DecisionPoint(policy, list_shipped_stages(), ROOM_FOR_ONE, stopwatch=lambda: 0, environment=TENANT)


def _build_write(row: WriteRow, number: int, trial: WriteTrial) -> dict[str, Any]:
    name = f"row-{number}"
    return {
        "write_id": name,
        "agent_id": AGENT,
        "session_id": name,
        "content": row.text,
        "source": {"id": SOURCE_ID, "type": trial.source_type},
        **make_neutral_metadata(trial.bundle.memory.quality, rfc3339(trial.at_ms)),
    }


def _judge_decision(row: WriteRow, decision: Decision) -> JudgedWrite:
    answer = find_answer(decision, WRITE)
    if isinstance(answer, Unreadable):
        return JudgedWrite(row, UNREADABLE, str(answer), answer.code)
    code, _, named = answer["reason"].partition(": ")
    kinds = {finding["id"]: finding["kind"] for finding in answer["findings"]}
    return JudgedWrite(row, answer["action"], answer["reason"], kinds.get(named, code))
