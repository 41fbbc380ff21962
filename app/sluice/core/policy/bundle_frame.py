"""The fields of a policy bundle that do not belong to one gate: action types, bounds, what gates share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, field_validator, model_validator

from sluice.core.foundation.strict import LONGEST_WAIT_MS, MAX_CASES, Installations, Name, StrictModel
from sluice.core.policy.approval_policy import TIERS, ApprovalPolicy
from sluice.core.policy.bundle_cases import Case, expects_stricter
from sluice.core.policy.memory_policy import MemoryPolicy
from sluice.core.policy.personal_fields import MAX_PERSONAL, PersonalMark
from sluice.detection.call_inspection import PatternSets
from sluice.text.name_words import words_of
from sluice_topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records.inputs import ActionType
from sluice_topics.relaxations import (
    ComparedBy,
    Members,
    Neutral,
    PartOf,
    Relaxation,
    Scale,
    StricterWhen,
    Unordered,
    compare_cases,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FIRST_STAGE, LAST_STAGE = "controls", "tier_auth"
"""The first gate handles freezes, which stop everything else; the last one says who must approve an
escalation."""
ORDER_OF_OLD = (FIRST_STAGE, "fast_reject", "rules", "consequence", "topology", LAST_STAGE)
"""The order of a bundle that names none, for ever: it was signed before bundles named an order."""

PER_MILLE = 1000
PerMille = Annotated[int, Field(ge=0, le=PER_MILLE)]
Rows = Annotated[int, Field(ge=0, le=2**53 - 1)]
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
MAX_STAGES = 64
OTHER: ActionType = "OTHER"
OfTier = Scale(TIERS, "{id} of {name} effect has tier {new}, not {old}")


class TierByReversibility(StrictModel):
    """An action type's tier for tools without a registered tier."""

    reversible: Annotated[Tier, OfTier]
    irreversible: Annotated[Tier, OfTier]
    unknown: Annotated[Tier, OfTier] = "T3"

    def of(self, reversible: bool | None) -> str:
        """The tier for True, False or None (unknown)."""
        if reversible is None:
            return self.unknown
        return self.reversible if reversible else self.irreversible


class ActionTypePolicy(StrictModel):
    """The defaults for an action type, if neither registry nor caller say more.

    `rows_upper_bound` counts for an action without a row estimate, so it may not be zero. `words` are the
    words of a tool's name that give it this type.
    """

    risk: Annotated[PerMille, StricterWhen("higher", "{id} counts as {new} per mille of risk, not {old}")]
    reversible: Annotated[
        bool | None, Scale((True, None, False), "{id} is no longer taken for what cannot be undone")
    ]
    rows_upper_bound: Annotated[
        int,
        Field(ge=1, le=2**53 - 1),
        StricterWhen("higher", "unknown rows of {id} count as {new}, not {old}"),
    ]
    tier: TierByReversibility
    words: Annotated[list[Annotated[str, Field(pattern=r"^[a-z0-9]+$")]], PartOf("action_types")] = Field(
        default_factory=list
    )


class EffectTiers(StrictModel):
    """The tier of a call by what it does, where no registry entry gives its tool one.

    It is for tools whose action type is among `action_types`; the tier of every other type is never lowered.
    `reads`: the tier of a call that only reads. `own`: of one that besides changes only what is the agent's
    own (its registered workspace), or what can be undone. With `working_folder`, what is written below the
    folder in which the commands run counts as its own; what is deleted there does not. A call of which
    anything is not known keeps the tier of its type.
    """

    action_types: Annotated[
        list[ActionType], Members("fewer", "calls of {member} take their tier from what they do")
    ] = Field(default_factory=list)
    reads: Annotated[Tier, Scale(TIERS, "a call that only reads has tier {new}, not {old}")] = "T1"
    own: Annotated[
        Tier, Scale(TIERS, "a call that changes only what is the agent's own has tier {new}, not {old}")
    ] = "T2"
    working_folder: Annotated[
        bool, StricterWhen("false", "what is below the working folder counts as the agent's own")
    ] = False


class OutcomePolicy(StrictModel):
    """The limits of an unsigned outcome: it counts up to `unsigned_factor` times the rows reserved for its
    action. An outcome that claims more raises an alarm to `alarm_recipient`."""

    unsigned_factor: Annotated[
        int,
        Field(ge=1, le=1000),
        StricterWhen(
            "lower", "an outcome without a signature may claim {new} times the reserved rows, not {old} times"
        ),
    ] = 10
    alarm_recipient: Annotated[Name, Unordered("alarms of outcomes go to {new}, who may not read them")] = (
        "operator"
    )


def build_classifier(action_types: Mapping[ActionType, ActionTypePolicy]) -> Callable[[str], ActionType]:
    """A tool's action type by the words of its name: the riskiest type that has one of them, and among
    equally risky types the first by name. The order in the file does not count, because a JSON object has no
    order."""
    ranked = sorted(action_types, key=lambda name: (-action_types[name].risk, name))
    table = {word: name for name in reversed(ranked) for word in action_types[name].words}

    def classify(tool_name: str) -> ActionType:
        matches = {table[word] for word in words_of(tool_name) if word in table}
        return min(matches, key=ranked.index, default=OTHER)

    return classify


def find_word_relaxations(before: BundleFrame, after: BundleFrame) -> Iterator[Relaxation]:
    """Words of tools' names that give another action type, of lower risk."""
    classify_before, classify_after = (
        build_classifier(before.action_types),
        build_classifier(after.action_types),
    )
    for name, policy in before.action_types.items():
        for word in policy.words:
            old, new = classify_before(word), classify_after(word)
            if old != new and after.action_types[new].risk < after.action_types[old].risk:
                sentence = f"a tool called {word!r} counts as {new}, not as {old}"
                yield Relaxation(sentence, f"action_types.{name}.words", old, new)


class BundleFrame(StrictModel):
    """The fields of a bundle that do not belong to one gate. `stages`: the gates of actions in their order;
    no other gate runs. `installations`: those that the bundle is for; null: any that trusts its signer."""

    id: Annotated[Name, Neutral("names the bundle")]
    revision: Annotated[int, Field(ge=1, le=2**53 - 1), Neutral("a newer one counts")]
    installations: Annotated[Installations | None, Neutral("says where it counts")] = None
    description: Annotated[str, Neutral("for people")]
    stages: Annotated[
        list[StageName],
        Field(min_length=2, max_length=MAX_STAGES),
        Members("more", "the gate {member} no longer runs"),
    ] = Field(default_factory=lambda: list(ORDER_OF_OLD))
    action_types: Annotated[
        dict[ActionType, ActionTypePolicy],
        Members("more", "{member} is no longer an action type"),
        ComparedBy(find_word_relaxations),
    ]
    irreversible_row_threshold: Annotated[
        Rows, StricterWhen("lower", "what cannot be undone is denied above {new} rows, not above {old}")
    ]
    patterns: PatternSets = PatternSets()
    memory: MemoryPolicy = MemoryPolicy()
    outcomes: OutcomePolicy = OutcomePolicy()
    effect_tiers: EffectTiers = EffectTiers()
    escalation_ttl_ms: Annotated[
        int,
        Field(ge=1, le=LONGEST_WAIT_MS),
        StricterWhen("lower", "an escalation can be answered for {new} ms, not for {old} ms"),
    ]
    approvals: ApprovalPolicy = ApprovalPolicy()
    personal: Annotated[
        list[PersonalMark],
        Field(max_length=MAX_PERSONAL),
        Members("more", "no longer sealed as personal: {member}"),
    ] = Field(default_factory=list)
    cases: Annotated[list[Case], Field(max_length=MAX_CASES), compare_cases(expects_stricter)] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        missing = set(ActionType.__args__) - set(self.action_types)  # type: ignore[attr-defined]
        if missing:
            raise ValueError(f"action_types lacks {', '.join(sorted(missing))}")
        self.approvals.check_within(self.escalation_ttl_ms)
        return self

    @field_validator("stages")
    @classmethod
    def _check_order(cls, stages: list[str]) -> list[str]:
        if len(set(stages)) != len(stages):
            raise ValueError("a stage is named twice")
        if stages[0] != FIRST_STAGE or stages[-1] != LAST_STAGE:
            raise ValueError(f"{FIRST_STAGE} must be the first and {LAST_STAGE} the last")
        return stages

    def idle_fields(self) -> frozenset[str]:
        """The parts of gates that do not run."""
        parts = type(self).model_fields.keys() - BundleFrame.model_fields.keys()
        return frozenset(parts - set(self.stages))
