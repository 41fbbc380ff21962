"""Policy bundles: every number and table that the gates decide with, validated and compiled when loaded."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from app.core.commands.library import Library, PatternSets
from app.core.content.inspector import ContentInspector
from app.core.content.sets import ContentSets
from app.core.foundation.canonical import digest
from app.core.foundation.errors import BundleError
from app.core.foundation.strict import LONGEST_WAIT_MS, MAX_CASES, Name, StrictModel, first_error, json_object
from app.core.foundation.words import words_of
from app.core.policy.bundle_cases import Case  # noqa: TC001 - pydantic reads the annotations
from app.core.policy.memory_policy import MemoryPolicy
from app.core.registry.topology import Topology
from app.core.rules.rule import Rule  # noqa: TC001 - pydantic reads the annotations
from app.core.rules.rule_set import RuleSet
from topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from topics.records.inputs import ActionType

FIRST_STAGE, LAST_STAGE = "controls", "tier_auth"
"""A freeze stops everything else; what was escalated goes on to the gate that says who must agree."""
ORDER_OF_OLD = (FIRST_STAGE, "fast_reject", "rules", "consequence", "topology", LAST_STAGE)
"""What a bundle that names no order means, for ever: it was signed before bundles named one."""

PER_MILLE = 1000
PerMille = Annotated[int, Field(ge=0, le=PER_MILLE)]
Rows = Annotated[int, Field(ge=0, le=2**53 - 1)]
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
REMEMBERED_TOOL_NAMES = 4096
REMEMBERED_CONTENT = 2
MAX_STAGES = 64


class ByReversibility(StrictModel):
    """A per-mille value for each answer to "can it be undone?"."""

    reversible: PerMille
    irreversible: PerMille
    unknown: PerMille

    def of(self, reversible: bool | None) -> int:
        """The value for True, False or None (unknown)."""
        if reversible is None:
            return self.unknown
        return self.reversible if reversible else self.irreversible


class TierByReversibility(StrictModel):
    """An action type's tier where the tool has no registered one."""

    reversible: Tier
    irreversible: Tier
    unknown: Tier = "T3"

    def of(self, reversible: bool | None) -> str:
        """The tier for True, False or None (unknown)."""
        if reversible is None:
            return self.unknown
        return self.reversible if reversible else self.irreversible


class ActionTypePolicy(StrictModel):
    """What holds for an action type where neither registry nor caller say more.

    `rows_upper_bound` counts for an action that gives no row estimate, so it may not be zero; `words` are
    those of a tool's name that classify it.
    """

    risk: PerMille
    reversible: bool | None
    rows_upper_bound: Annotated[int, Field(ge=1, le=2**53 - 1)]
    tier: TierByReversibility
    words: list[Annotated[str, Field(pattern=r"^[a-z0-9]+$")]] = Field(default_factory=list)


class ConsequenceWeights(StrictModel):
    """Shares of the consequence score, in per mille, 1000 together."""

    reversibility: PerMille
    rows: PerMille
    action_type: PerMille

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.reversibility + self.rows + self.action_type != PER_MILLE:
            raise ValueError("the weights must sum to 1000")
        return self


class RowStep(StrictModel):
    """From this many rows on, the row part of the score."""

    from_rows: Rows
    score: PerMille


class Consequence(StrictModel):
    """Gate 2's layer 2: parts, weights and thresholds of the score, in per mille."""

    weights: ConsequenceWeights
    reversibility: ByReversibility
    row_steps: Annotated[list[RowStep], Field(min_length=1)]
    escalate_at: PerMille
    block_at: Annotated[int, Field(ge=0, le=1001, description="1001 never blocks")]

    @model_validator(mode="after")
    def _rising(self) -> Self:
        rows = [step.from_rows for step in self.row_steps]
        scores = [step.score for step in self.row_steps]
        if rows[0] != 0 or rows != sorted(set(rows)) or scores != sorted(scores):
            raise ValueError("row_steps must start at 0 rows, rise in rows and never fall in score")
        if self.escalate_at > self.block_at:
            raise ValueError("escalate_at is above block_at")
        return self


class OutcomePolicy(StrictModel):
    """What an outcome that is not signed may do: count up to `unsigned_factor` times the rows reserved for
    its action. `alarm_recipient` is told of one that claims more."""

    unsigned_factor: Annotated[int, Field(ge=1, le=1000)] = 10
    alarm_recipient: Name = "operator"


class BundleFile(StrictModel):
    """A bundle as it is written down. `stages`: the gates of actions in their order; no other one runs."""

    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    description: str
    stages: Annotated[list[StageName], Field(min_length=2, max_length=MAX_STAGES)] = Field(
        default_factory=lambda: list(ORDER_OF_OLD)
    )
    action_types: dict[ActionType, ActionTypePolicy]
    irreversible_row_threshold: Rows
    patterns: PatternSets = PatternSets()
    rules: list[Rule] = Field(default_factory=list)
    consequence: Consequence
    topology: Topology = Topology()
    memory: MemoryPolicy = MemoryPolicy()
    outcomes: OutcomePolicy = OutcomePolicy()
    escalation_ttl_ms: Annotated[int, Field(ge=1, le=LONGEST_WAIT_MS)]
    cases: Annotated[list[Case], Field(max_length=MAX_CASES)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = set(ActionType.__args__) - set(self.action_types)  # type: ignore[attr-defined]
        if missing:
            raise ValueError(f"action_types lacks {', '.join(sorted(missing))}")
        return self

    @field_validator("stages")
    @classmethod
    def _in_their_order(cls, stages: list[str]) -> list[str]:
        if len(set(stages)) != len(stages):
            raise ValueError("a stage is named twice")
        if stages[0] != FIRST_STAGE or stages[-1] != LAST_STAGE:
            raise ValueError(f"{FIRST_STAGE} must be the first and {LAST_STAGE} the last")
        return stages


class Bundle:
    """A loaded bundle: its file's fields, its hash and what was compiled from it."""

    def __init__(self, file: BundleFile, bundle_hash: str) -> None:
        """Raises BundleError when a pattern or a rule does not compile."""
        self.id = file.id
        self.revision = file.revision
        self.hash = bundle_hash
        self.stages = tuple(file.stages)
        self.action_types: dict[str, ActionTypePolicy] = dict(file.action_types.items())
        self.irreversible_row_threshold = file.irreversible_row_threshold
        self.consequence = file.consequence
        self.row_steps = [step.from_rows for step in file.consequence.row_steps]
        self.row_scores = [step.score for step in file.consequence.row_steps]
        self.escalation_ttl_ms = file.escalation_ttl_ms
        self.largest_rows_upper_bound = max(one.rows_upper_bound for one in file.action_types.values())
        self.library = Library(file.patterns)
        self.rules = RuleSet(file.rules)
        self.topology = file.topology
        self.memory = file.memory
        self.outcomes = file.outcomes
        self.inspector = _inspector(file.memory.content.model_dump_json())
        self.cases = file.cases
        ranked = sorted(file.action_types, key=lambda name: (-file.action_types[name].risk, name))
        table = {word: name for name in reversed(ranked) for word in file.action_types[name].words}

        @lru_cache(maxsize=REMEMBERED_TOOL_NAMES)
        def classified(tool_name: str) -> str:
            found = {table[word] for word in words_of(tool_name) if word in table}
            return min(found, key=ranked.index, default="OTHER")

        self.classified = classified
        """A tool's action type by the words of its name: the riskiest type that has one of them, of equally
        risky ones the first by name. Not the first that is written: a JSON object has no order."""


@lru_cache(maxsize=REMEMBERED_CONTENT)
def _inspector(content: str) -> ContentInspector:
    """Most revisions of a bundle leave the content library as it is, and it takes seconds to compile."""
    return ContentInspector(ContentSets.model_validate_json(content))


def load_bundle(raw: bytes) -> Bundle:
    """The bundle in a file's bytes. Raises BundleError with the path and the reason."""
    try:
        document: dict[str, Any] = json_object(raw)
        return Bundle(BundleFile.model_validate(document), digest(document))
    except ValidationError as error:
        raise BundleError(first_error(error)) from None
    except ValueError as error:
        raise BundleError(str(error)) from None
