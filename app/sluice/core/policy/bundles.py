"""Policy bundles: every number and table that the gates use, validated and compiled when loaded.

This package is below the gates and names none of them. It gets the gates' parts as values of one form
(BundlePart; sluice/core/actions/stages.py lists the gates) and joins them with the fields that all gates
share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Generic, Self, TypeVar

from pydantic import Field, ValidationError, create_model, field_validator, model_validator

from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import BundleError
from sluice.core.foundation.strict import (
    LONGEST_WAIT_MS,
    MAX_CASES,
    Installations,
    Name,
    StrictModel,
    first_error,
    json_object,
)
from sluice.core.policy.approval_policy import ApprovalPolicy, find_approval_loosenings
from sluice.core.policy.bundle_cases import Case  # noqa: TC001 - pydantic reads the annotations
from sluice.core.policy.frame_loosenings import find_frame_loosenings
from sluice.core.policy.gate_modes import mode_of
from sluice.core.policy.memory_loosenings import find_memory_loosenings
from sluice.core.policy.memory_policy import MemoryPolicy
from sluice.core.quality_bundle.loosenings import Loosening
from sluice.detection.call_inspection import PatternLibrary, PatternSets
from sluice.detection.text_inspection import ContentInspector, ContentSets
from sluice.text.name_words import words_of
from sluice_topics.records.base import Tier  # noqa: TC001 - pydantic reads the annotations
from sluice_topics.records.inputs import ActionType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


FIRST_STAGE, LAST_STAGE = "controls", "tier_auth"
"""The first gate handles freezes, which stop everything else; the last one says who must approve an
escalation."""
ORDER_OF_OLD = (FIRST_STAGE, "fast_reject", "rules", "consequence", "topology", LAST_STAGE)
"""The order of a bundle that names none, for ever: it was signed before bundles named an order."""

NO_MODEL_BEFORE = "fast_reject"
"""A gate that asks a model runs behind this one: what Gate 1 denies at once waits for no model."""
PER_MILLE = 1000
PerMille = Annotated[int, Field(ge=0, le=PER_MILLE)]
Rows = Annotated[int, Field(ge=0, le=2**53 - 1)]
StageName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
REMEMBERED_TOOL_NAMES = 4096
REMEMBERED_CONTENT = 2
MAX_STAGES = 64
_ABOUT_FILE = """A bundle as it is written down. `stages`: the gates of actions in their order; no other one
runs.

What stands under a gate's name is that gate's own part ([gates.md](gates.md))."""


class TierByReversibility(StrictModel):
    """An action type's tier for tools without a registered tier."""

    reversible: Tier
    irreversible: Tier
    unknown: Tier = "T3"

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

    risk: PerMille
    reversible: bool | None
    rows_upper_bound: Annotated[int, Field(ge=1, le=2**53 - 1)]
    tier: TierByReversibility
    words: list[Annotated[str, Field(pattern=r"^[a-z0-9]+$")]] = Field(default_factory=list)


class OutcomePolicy(StrictModel):
    """The limits of an unsigned outcome: it counts up to `unsigned_factor` times the rows reserved for its
    action. An outcome that claims more raises an alarm to `alarm_recipient`."""

    unsigned_factor: Annotated[int, Field(ge=1, le=1000)] = 10
    alarm_recipient: Name = "operator"


class BundleFrame(StrictModel):
    """The fields of a bundle that do not belong to one gate. `stages`: the gates of actions in their order;
    no other gate runs. `installations`: those that the bundle is for; null: any that trusts its signer."""

    id: Name
    revision: Annotated[int, Field(ge=1, le=2**53 - 1)]
    installations: Installations | None = None
    description: str
    stages: Annotated[list[StageName], Field(min_length=2, max_length=MAX_STAGES)] = Field(
        default_factory=lambda: list(ORDER_OF_OLD)
    )
    action_types: dict[ActionType, ActionTypePolicy]
    irreversible_row_threshold: Rows
    patterns: PatternSets = PatternSets()
    memory: MemoryPolicy = MemoryPolicy()
    outcomes: OutcomePolicy = OutcomePolicy()
    escalation_ttl_ms: Annotated[int, Field(ge=1, le=LONGEST_WAIT_MS)]
    approvals: ApprovalPolicy = ApprovalPolicy()
    cases: Annotated[list[Case], Field(max_length=MAX_CASES)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        missing = set(ActionType.__args__) - set(self.action_types)  # type: ignore[attr-defined]
        if missing:
            raise ValueError(f"action_types lacks {', '.join(sorted(missing))}")
        self.approvals.check_within(self.escalation_ttl_ms)
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
    """A loaded bundle: its file's fields, its hash and its compiled parts.

    `written` and `parts` have each gate's part by its key, as it is in the file and as it was compiled, and
    `modes` its mode.
    """

    def __init__(self, file: BundleFrame, bundle_hash: str, parts: Sequence[BundlePart[Any]] = ()) -> None:
        """Raises BundleError when a pattern or a gate's part does not compile."""
        self.id = file.id
        self.revision = file.revision
        self.hash = bundle_hash
        self.stages = tuple(file.stages)
        self.action_types: dict[str, ActionTypePolicy] = dict(file.action_types.items())
        self.irreversible_row_threshold = file.irreversible_row_threshold
        self.escalation_ttl_ms = file.escalation_ttl_ms
        self.approvals = file.approvals
        self.largest_rows_upper_bound = max(one.rows_upper_bound for one in file.action_types.values())
        self.library = PatternLibrary(file.patterns)
        self.written: dict[str, Any] = {one.key: getattr(file, one.key) for one in parts}
        self.parts: dict[str, Any] = {one.key: one.compile(self.written[one.key]) for one in parts}
        self.modes = {key: mode_of(one) for key, one in self.written.items()}
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
        """A tool's action type by the words of its name: the riskiest type that has one of them, and among
        equally risky types the first by name. The order in the file does not count, because a JSON object
        has no order."""


@lru_cache(maxsize=REMEMBERED_CONTENT)
def _inspector(content: str) -> ContentInspector:
    """Most revisions of a bundle leave the content library as it is, and it takes seconds to compile."""
    return ContentInspector(ContentSets.model_validate_json(content))


class BundleForm:
    """The form of a policy bundle: the frame, and each gate's part under its key.

    `parts` are the gates' in their order; `model` is the pydantic model of a whole bundle.
    """

    def __init__(self, parts: Iterable[BundlePart[Any]]) -> None:
        """Raises ValueError for a part whose key is a field of the frame, or another part's."""
        self.parts = tuple(parts)
        keys = [one.key for one in self.parts]
        if len({*keys, *BundleFrame.model_fields}) != len(keys) + len(BundleFrame.model_fields):
            raise ValueError(f"a key of {keys} is taken already")
        fields: dict[str, Any] = {one.key: (one.written, one.default) for one in self.parts}
        self.model: type[BundleFrame] = create_model(
            "BundleFile", __base__=BundleFrame, __doc__=_ABOUT_FILE, **fields
        )

    def load(self, raw: bytes) -> Bundle:
        """The bundle in a file's bytes. Raises BundleError with the path and the reason."""
        try:
            document: dict[str, Any] = json_object(raw)
            file = self.model.model_validate(document)
            self._check_models_come_late(file)
            return Bundle(file, digest(document), self.parts)
        except ValidationError as error:
            raise BundleError(first_error(error)) from None
        except ValueError as error:
            raise BundleError(str(error)) from None

    def _check_models_come_late(self, file: BundleFrame) -> None:
        """Raises BundleError for a gate that asks a model and comes before `fast_reject`."""
        if NO_MODEL_BEFORE not in file.stages:
            return
        early = file.stages[: file.stages.index(NO_MODEL_BEFORE)]
        for part in self.parts:
            if part.key in early and part.asks(getattr(file, part.key)):
                told = f"$.stages: {part.key} asks a model and must come after {NO_MODEL_BEFORE}"
                raise BundleError(told)

    def find_loosenings(self, before: Bundle, after: Bundle) -> Iterator[Loosening]:
        """Where the second bundle's gates, the memory gate among them, what they share, or its terms for
        approvals are less strict than the first's."""
        for name in before.stages:
            if name not in after.stages:
                yield Loosening(f"the gate {name} no longer runs", ("stages", name))
        for part in self.parts:
            if part.key in before.stages and part.key in after.stages:
                pair = before.written[part.key], after.written[part.key]
                for one in part.find_loosenings(*pair):
                    yield Loosening(one.sentence, tuple(_below(part.key, path) for path in one.paths))
        yield from find_frame_loosenings(before, after)
        for one in find_memory_loosenings(before.memory, after.memory):
            yield Loosening(one.sentence, tuple(f"memory.{path}" for path in one.paths))
        yield from find_approval_loosenings(before.approvals, after.approvals)
        waits_ms = before.escalation_ttl_ms, after.escalation_ttl_ms
        if waits_ms[0] < waits_ms[1]:
            sentence = f"an escalation can be answered for {waits_ms[1]} ms, not for {waits_ms[0]} ms"
            yield Loosening(sentence, ("escalation_ttl_ms",))


def _below(key: str, path: str) -> str:
    """A path in a gate's part, as one in the bundle: elements of the part itself begin with a bracket."""
    return f"{key}{path}" if path.startswith("[") or not path else f"{key}.{path}"


Written = TypeVar("Written")


def as_written(part: Any) -> Any:
    """A part that needs no compiling."""
    return part


def never(part: Any) -> bool:
    """Of a gate that asks no model."""
    del part
    return False


def always(part: Any) -> bool:
    """Of a gate that is there to ask one."""
    del part
    return True


@dataclass(frozen=True, slots=True)
class BundlePart(Generic[Written]):
    """`key`: the field of the bundle, the gate's name. `written`: the field's type, a pydantic model or a
    list of them. `default`: its value where a bundle leaves it out; `...`: it must be there.

    `find_loosenings` yields where a newer part (second) is less strict than an older one (first): each time a
    sentence for people, and the paths below the key that may cause it ("" for the whole part). If two
    parts cannot be compared, the change counts as less strict. `compile` returns the form that the gate uses;
    it raises BundleError, with the path in the bundle. `asks`: whether the gate may ask a model.
    """

    key: str
    written: type[Written]
    find_loosenings: Callable[[Written, Written], Iterable[Loosening]]
    default: Any = ...
    compile: Callable[[Written], Any] = as_written
    asks: Callable[[Written], bool] = never
