"""What a stage of the action pipeline is, and what a shipped one, a gate, declares of itself.

Seed 001, "Gate Pipeline". A stage is a name and one pure method, from the context to a result. A stage that
needs something slow is a generator of requests (see sluice/core/foundation/requests.py).

All that is said of gates follows from the one list in stages.py: a bundle's schema and defaults, `sluice
bundle diff`, the verdict's schema, docs/reference/gates.md, `sluice show` and `sluice evaluate` read it.
docs/adding-a-gate.md takes a person through one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

from pydantic import BaseModel, Field

from sluice.core.foundation.errors import UnknownStageError
from sluice.core.state.acknowledgement import NOTHING, Acknowledgement
from sluice.detection.call_inspection import inspect_call

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.bundles import Bundle, BundlePart
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Org, Tool
    from sluice.core.state.recent_retrieval import ReadSoFar
    from sluice.core.state.remembered import GateMemory
    from sluice.detection.call_inspection import Inspection
    from sluice_topics.records import ProposedAction

_NO_DETAIL: Mapping[str, Any] = {}
StageOutcome = Literal["pass", "block", "escalate", "skip"]
"""A stage gives one of the first three; "skip" is the pipeline's, for a budget overrun in standard mode."""


class StageResult(NamedTuple):
    """`reason` is set unless the stage passed; `detail` goes into the verdict's gateResults (JSON values,
    finite numbers), `evidence` into its evidence_refs, `rules` into its rule_results. `entries`: further
    registry entries that the stage rests on, "kind/id@revision" to hash."""

    outcome: StageOutcome
    reason: str | None = None
    detail: Mapping[str, Any] = _NO_DETAIL
    evidence: tuple[str, ...] = ()
    obligations: tuple[str, ...] = ()
    rules: tuple[dict[str, Any], ...] = ()
    entries: Mapping[str, str] = _NO_DETAIL


@dataclass(slots=True)
class ActionContext:
    """All that a stage may look at.

    `bundle` is the agent's own, or the default if the agent is not known; `bundle_granted` says whether it is
    the one `bundle_asked_for`. `now_ms` is the input's broker time. `action_type` is the registry's or the
    classified one, `types` this and the one that the caller claims; `reversible` (None for unknown), `tier`
    and `risk` (per mille) are the strictest of both, `reversibilities` what each of them says. `rows` is
    what this action counts for, `rows_before` the session's total without it, `tightened` whether the
    caller's word made the action stricter than it is known to be, `inspection` what Gate 1 has read already,
    `escalated` the reason of an earlier stage that escalated, `flags` what was read in the session and is
    flagged, `read` what untrusted content came into it, by kind, `remembered` what the bundle's gates
    remember of the agent in the session, by name. `approved`: a person has approved exactly this action.
    `tool` is None when unregistered. `grading` is the grader's state while the action is judged (grader.py).
    `resemblance`: the band in which similarity to known actions put it (action_similarity.py); None: it was
    not compared. `replacement`: the parameters as the gates of the checkpoints `front` and `back` would have
    them, so far; None: as they are. `due_ns`: what the stopwatch shows when
    the caller's deadline is over; None: there is none.
    """

    action: ProposedAction
    mode: Literal["standard", "high_stakes"]
    tenant: str
    agent: Agent | None
    tool: Tool | None
    org: Org
    freezes: tuple[Freeze, ...]
    bundle: Bundle
    bundle_asked_for: str
    bundle_granted: bool
    action_type: str
    types: tuple[str, ...]
    reversible: bool | None
    risk: int
    reversibilities: tuple[bool | None, ...]
    rows: int
    tightened: bool
    tier: str
    rows_before: int
    actions_before: int
    entries: dict[str, str]
    registry: Registry
    now_ms: int
    inspection: Inspection | None = None
    escalated: str | None = None
    flags: Acknowledgement = NOTHING
    remembered: Mapping[str, Any] = field(default_factory=dict)
    approved: bool = False
    grading: Any = None
    resemblance: str | None = None
    replacement: dict[str, Any] | None = None
    read: Mapping[str, ReadSoFar] = field(default_factory=dict)
    due_ns: int | None = None

    def reading(self) -> Inspection:
        """Everything that is found in the action's parameters, read once for all that ask."""
        if self.inspection is None:
            self.inspection = inspect(self.bundle, self.types, self.action)
        return self.inspection


def inspect(bundle: Bundle, types: tuple[str, ...], action: ProposedAction) -> Inspection:
    """Everything found in an action's parameters, read as a call of each of these types."""
    return inspect_call(bundle.library, action.tool_name, types, action.parameters)


if TYPE_CHECKING:
    Asking = Generator[Request, Answer, StageResult]
    """A stage that asks: it yields a request, is sent the answer to it, and returns its result."""


class Stage(Protocol):
    """One gate. `name` is the gate's name in bundles, verdicts and docs."""

    @property
    def name(self) -> str:
        """The gate's name."""

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Decide, without changing anything. A generator is sent answers alone that were given in time: over
        its budget or without an answer it is closed, and the pipeline says what that means. (One that
        decides that itself is sent every answer.)"""


PASSED = StageResult("pass")


def in_order(names: Iterable[str], stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """The stages of these names, in the names' order. Raises UnknownStageError."""
    known = {stage.name: stage for stage in stages}
    for name in names:
        if name not in known:
            raise UnknownStageError(f"$.stages: no stage is called {name!r}; there are {', '.join(known)}")
    return tuple(known[name] for name in names)


class Detail(BaseModel):
    """The shape of what a gate writes into `gateResults[].detail`. A field may be missing unless it is
    required; its `title` is what `sluice show` calls it."""


class ObjectionDetail(Detail):
    """What the details of gates with a mode have in common. Where the bundle lets an objection pass: `would`
    is the outcome that it had, `objection` its reason, `guidance` what the agent is to mind (mode
    `nudge`)."""

    would: Annotated[Literal["block", "escalate"] | None, Field(title="would")] = None
    objection: Annotated[str | None, Field(title="objection")] = None
    guidance: Annotated[str | None, Field(title="guidance")] = None


class Gate(ABC):
    """A stage that ships. A subclass says all of this and decides in `evaluate`.

    `detail`: the shape of its results' detail. `judges_content`: whether it judges what an action does;
    False: who acts and who permits it. `part`: its part of the bundle; None: it has none. `analyses`: a model
    judges the agent's reasoning for it, which is seed 002's checkpoint `integrity`. `decides_unanswered`: it
    says itself what a missing answer means; else the pipeline does. `leaves_denials`: where it escalates, the
    gates behind it that need no answer from outside may still block.
    """

    name: ClassVar[str]
    detail: ClassVar[type[Detail]] = Detail
    judges_content: ClassVar[bool] = True
    part: ClassVar[BundlePart[Any] | None] = None
    analyses: ClassVar[bool] = False
    decides_unanswered: ClassVar[bool] = False
    leaves_denials: ClassVar[bool] = False

    @abstractmethod
    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Decide, without changing anything; see `Stage`."""


class Decided(NamedTuple):
    """What came of an action. `real` is the outcome before shadow mode, `carried` whether its caller carries
    it out, `known` whether its id was known before, with another content."""

    real: str
    carried: bool
    known: bool

    @property
    def may_happen(self) -> bool:
        """Whether it is carried out, or may be once a person agrees."""
        return self.carried or self.real != "BLOCK"

    @property
    def is_denial(self) -> bool:
        """Whether it was denied, or would have been; an id that was known is counted once."""
        return self.real == "BLOCK" and not self.known


class RememberingGate(Gate):
    """A gate that remembers something of each agent in each session.

    `memory`: the shape of what it remembers, a JSON value that is bounded by the gate's own part of the
    bundle. Before an action is judged it is `context.remembered[name]`, absent where there is nothing; the
    verdict says what it was (`session.remembered`), and a rerun judges on that.
    """

    memory: ClassVar[type[BaseModel]]

    @abstractmethod
    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What is remembered after an action that was decided; None: nothing. Called for every action that is
        new, that has room in its session and whose agent is registered, whether or not the gate was reached.
        Only `context` and `decided` may be looked at."""


def what_gates_keep(
    gates: tuple[RememberingGate, ...], context: ActionContext, decided: Decided
) -> dict[str, GateMemory | None]:
    """By their names what gates remember of the agent after an action."""
    return {gate.name: gate.keep(context, decided) for gate in gates}


class StageOrder(NamedTuple):
    """The stages of one bundle in their order, and those of them that remember something of an agent."""

    stages: tuple[Stage, ...]
    remembering: tuple[RememberingGate, ...]

    @classmethod
    def of(cls, names: Iterable[str], stages: Iterable[Stage]) -> StageOrder:
        """As `in_order` has them. Raises UnknownStageError."""
        ordered = in_order(names, stages)
        return cls(ordered, tuple(one for one in ordered if isinstance(one, RememberingGate)))
