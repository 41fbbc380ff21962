"""A bundle's `memory` section: every number and table that the memory gate uses (seeds 003, 004).

The numbers of the trust score are `memory.trust` (product.md, "Memory writes"). Shares, losses and thresholds
are 0..1. A field that the seed names may have the seed's name or be in snake_case.
"""

from __future__ import annotations

from functools import cached_property
from math import isclose
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from sluice.core.foundation.content_judge import OFTENER, JudgeWhen
from sluice.core.foundation.strict import StrictModel
from sluice.core.metadata.write_quality import WriteQuality
from sluice.core.policy.similarity_settings import SimilaritySettings  # noqa: TC001 - pydantic reads the annotations
from sluice.detection.text_inspection import ContentSets, Kind
from sluice_topics.catalog import INPUT_RETENTION_MS
from sluice_topics.relaxations import Members, Neutral, Scale, StricterWhen, Unordered

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Milliseconds = Annotated[int, Field(ge=0, le=2**53 - 1)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
AtLeastOne = Annotated[int, Field(ge=1, le=2**53 - 1)]
HIGHER, LOWER = StricterWhen("higher"), StricterWhen("lower")
Counted = Members("more", "{path} lacks {members}")
Margin = Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)]
"""Far enough below a threshold that rounding a total never raises it back to the threshold."""


REVIEWS = "reviews change a source's reliability by other numbers, which may hold less"


class SeedNames(StrictModel):
    """A model that reads the seed's names and ours; it refuses a field that is given under both names."""

    model_config = ConfigDict(populate_by_name=True)


class TrustWeights(SeedNames):
    """The weight of each dimension in the total; together they are 1."""

    unmarked: ClassVar = Unordered("other weights of the dimensions, which may hold less")

    source_reliability: Annotated[Share, Field(alias="sourceReliability")] = 0.25
    content_consistency: Annotated[Share, Field(alias="contentConsistency")] = 0.35
    temporal_coherence: Annotated[Share, Field(alias="temporalCoherence")] = 0.15
    instruction_alignment: Annotated[Share, Field(alias="instructionAlignment")] = 0.25

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        if not isclose(sum(self.by_dimension.values()), 1, abs_tol=1e-9):
            raise ValueError("the weights must sum to 1")
        return self

    @cached_property
    def by_dimension(self) -> dict[str, float]:
        """By the dimensions' wire names."""
        return self.model_dump(by_alias=True)


class Bases(StrictModel):
    """A source's reliability by its type, before any review."""

    system: Annotated[Share, LOWER] = 1.0
    agent: Annotated[Share, LOWER] = 0.8
    user: Annotated[Share, LOWER] = 0.7
    plugin: Annotated[Share, LOWER] = 0.6
    external: Annotated[Share, LOWER] = 0.4


class HistoryPolicy(StrictModel):
    """How reviews change a source's reliability: r = h w + base (1 - w), where for n reviews
    h = (positive + prior_positive) / (n + prior_reviews) and w = min(weight_cap, n / (n + half_weight_at)).

    Fewer reviews than `min_reviews` change nothing. With fewer positive reviews than `positives_to_raise` a
    history may lower the reliability but not raise it: by the formula alone a negative third review would
    raise an external source.
    """

    unmarked: ClassVar = Unordered(REVIEWS)

    min_reviews: Count = 3
    prior_positive: Count = 2
    prior_reviews: AtLeastOne = 4
    weight_cap: Share = 0.8
    half_weight_at: AtLeastOne = 10
    positives_to_raise: Count = 3
    type_mismatch: Share = 0.2

    @model_validator(mode="after")
    def _check_share(self) -> Self:
        if self.prior_positive > self.prior_reviews:
            raise ValueError("prior_positive is above prior_reviews")
        return self


class Hits(StrictModel):
    """The loss for hits: `first` once, plus `each` for every hit (also the first one), at most `most`."""

    first: Annotated[Share, HIGHER]
    each: Annotated[Share, HIGHER]
    most: Annotated[Share, HIGHER]

    def loss(self, hits: int) -> float:
        """The loss for this many hits; 0 for none."""
        return min(self.most, self.first + self.each * hits) if hits else 0.0


class OverShare(StrictModel):
    """The loss if more than this share of the characters has the property."""

    share: Annotated[Share, LOWER]
    loss: Annotated[Share, HIGHER]


class OverLength(StrictModel):
    """The loss for a text with more characters than this."""

    characters: Annotated[Count, LOWER]
    loss: Annotated[Share, HIGHER]


def _list_kinds(*kinds: Kind) -> list[Kind]:
    return list(kinds)


class ConsistencyPolicy(StrictModel):
    """The losses of a content from 1, by the kinds of its findings and by its form.

    `removed`: characters that normalising removes (invisible characters, tags); `special`: characters that
    are neither letter, digit nor white space.
    """

    injection: Hits = Hits(first=0.3, each=0.1, most=0.6)
    injection_kinds: Annotated[list[Kind], Counted] = Field(
        default_factory=lambda: _list_kinds(
            "instruction_override", "tool_smuggling", "hidden_markup", "exfiltration"
        )
    )
    manipulation: Hits = Hits(first=0.15, each=0.05, most=0.4)
    manipulation_kinds: Annotated[list[Kind], Counted] = Field(
        default_factory=lambda: _list_kinds(
            "persistence", "memory_poisoning", "disguise", "harmful_capability"
        )
    )
    removed: OverShare = OverShare(share=0.1, loss=0.15)
    long: OverLength = OverLength(characters=10_000, loss=0.1)
    special: OverShare = OverShare(share=0.3, loss=0.1)


class CoherencePolicy(StrictModel):
    """`loss` for a write within `within_ms` of the source's last."""

    base: Annotated[Share, LOWER] = 0.8
    within_ms: Annotated[Milliseconds, HIGHER] = 100
    loss: Annotated[Share, HIGHER] = 0.2


class AlignmentPolicy(StrictModel):
    """`identity` and `goal`: the losses, each once, for any finding of its kinds."""

    base: Annotated[Share, LOWER] = 0.8
    identity: Annotated[Share, HIGHER] = 0.3
    identity_kinds: Annotated[list[Kind], Counted] = Field(
        default_factory=lambda: _list_kinds("identity_change")
    )
    goal: Annotated[Share, HIGHER] = 0.1
    goal_kinds: Annotated[list[Kind], Counted] = Field(default_factory=lambda: _list_kinds("goal_change"))


class CapPolicy(StrictModel):
    """How far below its threshold a cap is: `definite` below the quarantine threshold, the others below the
    write threshold."""

    strong: Annotated[Margin, HIGHER] = 0.1
    definite: Annotated[Margin, HIGHER] = 0.1
    unknown_parent: Annotated[Margin, HIGHER] = 0.05
    inconclusive: Annotated[Margin, HIGHER] = 0.05


def _read_when(value: object) -> object:
    """The seed's boolean, in our words."""
    return ("always" if value else "off") if isinstance(value, bool) else value


class TrustPolicy(SeedNames):
    """The numbers of the score. `llm_analysis`: when a model is asked, whose answer can only lower the score;
    true, as the seed has it, is always, false is off, and AnalysisPolicy says what is in doubt.
    `history_window`: the number of reviews that count; more are scaled down to it. A text of more than
    `max_characters` is rejected. Weak findings count as hits only if enough different ones come together.
    """

    write_threshold: Annotated[Share, Field(alias="writeThreshold"), HIGHER] = 0.7
    quarantine_threshold: Annotated[Share, Field(alias="quarantineThreshold"), HIGHER] = 0.3
    llm_analysis: Annotated[
        JudgeWhen,
        BeforeValidator(_read_when, json_schema_input_type=bool | JudgeWhen),
        Field(alias="llmAnalysis"),
        Scale(OFTENER, "a model is asked {new}, not {old}"),
    ] = "off"
    history_window: Annotated[AtLeastOne, Field(alias="historyWindow"), Unordered(REVIEWS)] = 100
    weights: TrustWeights = TrustWeights()
    bases: Bases = Bases()
    history: HistoryPolicy = HistoryPolicy()
    consistency: ConsistencyPolicy = ConsistencyPolicy()
    coherence: CoherencePolicy = CoherencePolicy()
    alignment: AlignmentPolicy = AlignmentPolicy()
    caps: CapPolicy = CapPolicy()
    max_characters: Annotated[AtLeastOne, LOWER] = 1_000_000
    hints_that_count: Annotated[AtLeastOne, LOWER] = 1

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not 0 < self.quarantine_threshold < self.write_threshold:
            raise ValueError("the thresholds must be 0 < quarantine_threshold < write_threshold")
        widest = max(self.caps.strong, self.caps.unknown_parent, self.caps.inconclusive)
        if self.write_threshold - widest < self.quarantine_threshold:
            raise ValueError("a cap below the write threshold lies below the quarantine threshold too")
        if self.history_window < self.history.min_reviews:
            raise ValueError("history_window is below history.min_reviews")
        return self


class AnalysisPolicy(StrictModel):
    """A bundle's `memory.analysis`: how a model is asked if `memory.trust.llmAnalysis` says so.

    The model sees only the first and last characters of a longer content. `on_failure` is the effect of a
    missing answer (down, over `budget_ms`, unreadable): "quarantine" keeps the write below the write
    threshold.

    A write is in doubt if the detectors found something weak or framed (quoted, reported) in it and nothing
    graver; if they or the encoder came to no conclusion; if it is similar to a known attack; and if its score
    is at most `doubt_within` from the write or the quarantine threshold.
    """

    on_failure: Annotated[
        Literal["quarantine", "ignore"],
        Scale(("ignore", "quarantine"), "a model's missing answer changes nothing"),
    ] = "quarantine"
    budget_ms: Annotated[
        int, Field(ge=1, le=600_000), StricterWhen("higher", "a model has {new} ms to answer, not {old}")
    ] = 10_000
    head_characters: Annotated[int, Field(ge=1, le=200_000), HIGHER] = 16_000
    tail_characters: Annotated[int, Field(ge=0, le=200_000), HIGHER] = 8_000
    doubt_within: Annotated[Share, HIGHER] = 0.05

    def idle_fields(self) -> frozenset[str]:
        """The budget, where an answer that is missing holds the memory back."""
        return frozenset() if self.on_failure == "ignore" else frozenset({"budget_ms"})


MOST_REVIEW_MS = INPUT_RETENTION_MS
"""After a longer wait a memory could not be released: its content would have left the input topic."""


class MemoryPolicy(SeedNames):
    """`enabled: false` allows every write with a score of -1. `review_after_ms`: how long a quarantined
    memory waits for a reviewer before it expires. `lineage_budget_ms`: the deadline for finding parents of
    other sessions in the ledger.

    Without `similarity` no encoder is asked; a model is asked if `trust.llmAnalysis` says so.
    """

    about: ClassVar[str] = "memory: "

    enabled: Annotated[bool, StricterWhen("true", "every memory write is allowed")] = True
    review_after_ms: Annotated[AtLeastOne, Field(alias="quarantineReviewMs", le=MOST_REVIEW_MS), LOWER] = (
        3_600_000
    )
    lineage_budget_ms: Annotated[
        AtLeastOne, Field(le=600_000), Neutral("a parent that is not found in time lowers the trust")
    ] = 2_000
    trust: TrustPolicy = TrustPolicy()
    quality: WriteQuality = WriteQuality()
    content: ContentSets = ContentSets()
    similarity: Annotated[
        SimilaritySettings | None, StricterWhen("present", "no memory is compared with known attacks")
    ] = None
    analysis: AnalysisPolicy = AnalysisPolicy()

    def idle_fields(self) -> frozenset[str]:
        """Everything, where no memory is judged."""
        return frozenset() if self.enabled else frozenset(type(self).model_fields)
