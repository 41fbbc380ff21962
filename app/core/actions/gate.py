"""What a gate declares of itself, so that all that is said of gates follows from the one list in stages.py.

A bundle's schema and defaults, `sluice bundle diff`, the verdict's schema, docs/reference/gates.md, `sluice
show` and `sluice evaluate` read it. docs/adding-a-gate.md takes a person through one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel

if TYPE_CHECKING:
    from app.core.actions.stage import ActionContext, Asking, StageResult
    from app.core.policy.bundle_parts import BundlePart


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
