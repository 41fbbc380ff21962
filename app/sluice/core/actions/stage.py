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

from sluice.detection.call_inspection import inspect_call

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from sluice.core.foundation.requests import Answer, Request
    from sluice.core.policy.bundles import Bundle, BundlePart
    from sluice.core.registry.freezes import Freeze
    from sluice.core.registry.limits import Limit
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Agent, Org, Tool, ToolReturns
    from sluice.core.state.acknowledgement import Acknowledgement
    from sluice.core.state.remembered import GateMemory
    from sluice.core.state.session import Who
    from sluice.core.state.session_view import ActionSeen
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


Mode = Literal["standard", "high_stakes"]


class PlannedGate(NamedTuple):
    """A gate of the bundle, its evaluation under the plan, and the mode in which the bundle runs it.
    `settled`: the pass that it gives every action of the plan; None: it depends on the action."""

    name: str
    evaluate: Evaluate
    stage: Stage
    mode: str
    settled: StageResult | None
    leaves_denials: bool
    pauses: bool


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """`owner`: whose room in a session its actions use. `bundle` is the agent's registered bundle, else the
    default one; `bundle_asked_for` the id that the action names, else the agent's registered one, else the
    default; `granted`: `bundle` is that one; `accepted`: it is also in force, and the agent known. `tool` is
    None when unregistered. `action_type` is the registered type, else the classified one; `types` are this
    and the claimed one. `reversible` None is unknown; it, `tier`, `risk` (per mille) and `rows_upper_bound`
    are the strictest of known and claimed values; `reversibilities` are both values, and `tightened` says
    that a claim made it stricter. `entries` maps "kind/id@revision" to the hash of each registry entry used.
    `gates`: of the bundle, in its order; `remembering`: those of them that remember something of an agent,
    and whether the bundle has anything for them to remember, `remembers`: for any of them. `reads`: the tool,
    where what it returns is content of strangers; `returns`: where the session keeps the values of what it
    returns. `verdict_fields`: the verdict's members that are the same for all actions of the plan.
    `values_key`: the tenant's key of fingerprints, None: sessions keep none. `looks_up_values`: the session
    is asked about the destinations of its actions; `judges_destinations`: they may be held up for them.
    `type_tier`: the tier of the action's type, where the call does less than that; "": `tier` is that one.
    `by_tier`: the plans of the lower tiers that may follow from what a call does. `limits`: those above the
    session that may be about its actions."""

    agent_id: str
    tool_name: str
    agent: Agent | None
    tenant: str
    org: Org
    bundle: Bundle
    owner: Who
    mode: Mode
    bundle_asked_for: str
    granted: bool
    accepted: bool
    tool: Tool | None
    action_type: str
    types: tuple[str, ...]
    reversible: bool | None
    tier: str
    risk: int
    reversibilities: tuple[bool | None, ...]
    rows_upper_bound: int
    tightened: bool
    entries: dict[str, str]
    registry: Registry
    reads: str | None
    returns: ToolReturns | None
    verdict_fields: Mapping[str, Any]
    values_key: bytes | None = field(default=None, repr=False)
    looks_up_values: bool = False
    judges_destinations: bool = False
    type_tier: str = ""
    by_tier: Mapping[str, ActionPlan] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    gates: tuple[PlannedGate, ...] = ()
    remembering: tuple[tuple[RememberingGate, bool], ...] = ()
    remembers: bool = False


@dataclass(slots=True)
class ActionContext:
    """All that a stage may look at: the plan, the action, and what was seen of its session.

    `now_ms` is the input's broker time, `freezes` those in force on it. `rows` is what this action counts
    for, `session_rows` and `session_actions` are the session's totals with it, `read_untrusted` whether
    content of strangers came in before, `tightened` whether the caller's word made the action stricter than
    it is known to be. `flags`: what was read in the session and is flagged, parted by what the action
    acknowledges.

    The rest changes while the stages run. `inspection`: what Gate 1 has read already; `escalated`: the
    reason of an earlier stage that escalated; `approved`: a person has approved exactly this action;
    `grading`: the grader's state while the action is judged (grader.py); `resemblance`: the band in which
    similarity to known actions put it (action_similarity.py), None: it was not compared; `replacement`: the
    parameters as the gates of the checkpoints `front` and `back` would have them so far, None: as they are;
    `written`: the texts of its parameters, once they were asked for; `limit_uses`: what it adds to limits,
    once that was asked for (limits.py); `asks_destination`: who judges a destination that nobody knows, where
    a model may (destinations.py), None: nobody has to;
    `pauses`: others go along, so the pipeline pauses before some gates;
    `due_ns`: what the stopwatch shows when the caller's deadline is over, None: there is none.
    """

    plan: ActionPlan
    action: ProposedAction
    observed: ActionSeen
    now_ms: int
    freezes: tuple[Freeze, ...]
    rows: int
    session_rows: int
    session_actions: int
    read_untrusted: bool
    tightened: bool
    flags: Acknowledgement
    inspection: Inspection | None = None
    escalated: str | None = None
    approved: bool = False
    grading: Any = None
    resemblance: str | None = None
    replacement: dict[str, Any] | None = None
    due_ns: int | None = None
    written: list[tuple[str, str]] | None = None
    limit_uses: Any = None
    asks_destination: Literal["person", "model"] | None = None
    pauses: bool = False

    def inspect(self) -> Inspection:
        """Everything that is found in the action's parameters, read once for all that ask."""
        if self.inspection is None:
            plan, action = self.plan, self.action
            self.inspection = inspect_call(
                plan.bundle.library, action.tool_name, plan.types, action.parameters
            )
        return self.inspection

    def texts(self) -> list[tuple[str, str]]:
        """Every text and number in the action's parameters, names of fields too, each with its path before
        it; worked out once for all that ask."""
        if self.written is None:
            self.written = []
            _add_texts(self.written, ROOT, self.action.parameters)
        return self.written


if TYPE_CHECKING:
    Asking = Generator[Request, Answer, StageResult]
    """A stage that asks: it yields a request, is sent the answer to it, and returns its result."""
    Evaluate = Callable[["ActionContext"], StageResult | Asking]


def _add_texts(texts: list[tuple[str, str]], path: str, value: Any) -> None:
    """Add every text and number in a JSON value, each with its path before it; names of fields too, since
    they can carry anything."""
    if isinstance(value, str):
        texts.append((path, value))
    elif isinstance(value, dict):
        for index, (name, item) in enumerate(value.items()):
            below = f"{path}.{name}" if name.isidentifier() and len(name) <= 64 else f"{path}[{index}]"  # noqa: PLR2004
            texts.append((below, name))
            if type(item) is str:
                texts.append((below, item))
            else:
                _add_texts(texts, below, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _add_texts(texts, f"{path}[{index}]", item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        texts.append((path, str(value)))


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
ROOT = "$.parameters"


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
    gates behind it that need no answer from outside may still block. `pauses`: it reads so much that inputs
    which are decided together all come to it before any goes past it. `always_speaks`: it judges also what
    waits for a person already, and its objection is added to the reason. `grants_cover`: a standing grant for
    the tool answers its objection.
    """

    name: ClassVar[str]
    detail: ClassVar[type[Detail]] = Detail
    judges_content: ClassVar[bool] = True
    part: ClassVar[BundlePart[Any] | None] = None
    analyses: ClassVar[bool] = False
    decides_unanswered: ClassVar[bool] = False
    leaves_denials: ClassVar[bool] = False
    pauses: ClassVar[bool] = False
    always_speaks: ClassVar[bool] = False
    grants_cover: ClassVar[bool] = True

    @abstractmethod
    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Decide, without changing anything; see `Stage`."""

    def settle(self, plan: ActionPlan) -> StageResult | None:
        """The pass that this gate gives every action of the plan, so that it need not be asked; None: it
        depends on the action."""
        del plan
        return None

    def prepare(self, plan: ActionPlan) -> Evaluate:
        """Its `evaluate` for the actions of the plan, which may have worked out before what the plan
        settles."""
        del plan
        return self.evaluate


class ContentGate(Gate):
    """A gate that serves a checkpoint of content (seed 002): its detail has the checkpoint's state under the
    checkpoint's name, `findings` and `judged` with the kinds that it found, and `unjudged` where it could not
    judge to the end. `holds`: how a sentence begins that says what the action has. A verdict's checkpoints
    and advisories follow from these."""

    checkpoint: ClassVar[Literal["front", "back"]]
    holds: ClassVar[str]
    by_name: ClassVar[dict[str, type[ContentGate]]] = {}

    def __init_subclass__(cls) -> None:
        """Enter the gate among those of content."""
        ContentGate.by_name[cls.name] = cls

    @classmethod
    def remark(cls, detail: Mapping[str, Any]) -> Iterator[str]:
        """What the gate objects to by its detail, and what it could not judge to its end."""
        kinds = [finding["kind"] for finding in detail.get("findings", ())]
        if judged := detail.get("judged"):
            kinds += judged["categories"]
        if kinds and detail[cls.checkpoint] != "pass":
            yield f"{cls.holds}: {', '.join(dict.fromkeys(kinds))}"
        if unjudged := detail.get("unjudged"):
            yield f"{cls.checkpoint} was not judged to its end: {unjudged}"


class Decided(NamedTuple):
    """What came of an action. `real` is the outcome before shadow mode, `carried` whether its caller carries
    it out, `is_repeated` whether its id was known before, with another content."""

    real: str
    carried: bool
    is_repeated: bool

    @property
    def may_happen(self) -> bool:
        """Whether it is carried out, or may be once a person agrees."""
        return self.carried or self.real != "BLOCK"

    @property
    def is_denial(self) -> bool:
        """Whether it was denied, or would have been; an id that was known is counted once."""
        return self.real == "BLOCK" and not self.is_repeated


class RememberingGate(Gate):
    """A gate that remembers something of each agent in each session.

    `memory`: the shape of what it remembers, a JSON value that is bounded by the gate's own part of the
    bundle. Before an action is judged it is `context.observed.remembered[name]`, absent where there is
    nothing; the verdict says what it was (`session.remembered`), and a rerun judges on that.
    `counts_without_room`: it is asked to keep also what came of an action that was carried out although its
    session had no room for it; what it keeps is bounded whatever the session holds.
    """

    memory: ClassVar[type[BaseModel]]
    counts_without_room: ClassVar[bool] = False

    @abstractmethod
    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What is remembered after an action that was decided; None: nothing. Called for every action that is
        new, that has room in its session (see `counts_without_room`) and whose agent is registered, whether
        or not the gate was reached. Only `context` and `decided` may be looked at."""

    def may_remember(self, bundle: Bundle) -> bool:
        """Whether it can come to remember something under this bundle. What it remembers already it is asked
        to keep in any case."""
        del bundle
        return True
