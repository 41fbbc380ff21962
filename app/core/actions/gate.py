"""What a gate declares of itself, so that all that is said of gates follows from the one list in stages.py.

A bundle's schema and defaults, `sluice bundle diff`, the verdict's schema, docs/reference/gates.md, `sluice
show` and `sluice evaluate` read it. docs/adding-a-gate.md takes a person through one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from pydantic import BaseModel

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext, Asking, StageResult
    from app.core.policy.bundle_parts import BundlePart
    from app.core.state.remembered import GateMemory


class Detail(BaseModel):
    """The shape of what a gate writes into `gateResults[].detail`. A field may be missing unless it is
    required; its `title` is what `sluice show` calls it."""


class Gate:
    """A stage that ships. A subclass says all of this and decides in `evaluate`.

    `detail`: the shape of its results' detail. `judges_content`: whether it judges what an action does;
    False: who acts, and with whose leave. `part`: its part of the bundle; None: it has none.
    """

    name: ClassVar[str]
    detail: ClassVar[type[Detail]] = Detail
    judges_content: ClassVar[bool] = True
    part: ClassVar[BundlePart[Any] | None] = None

    def evaluate(self, context: ActionContext) -> StageResult | Asking:
        """Decide, without changing anything; see `Stage`."""
        raise NotImplementedError


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

    def keep(self, context: ActionContext, decided: Decided) -> GateMemory | None:
        """What is remembered after an action that was decided; None: nothing. Called for every action that is
        new, that has room in its session and whose agent is registered, whether or not the gate was reached.
        Only `context` and `decided` may be looked at."""
        raise NotImplementedError
