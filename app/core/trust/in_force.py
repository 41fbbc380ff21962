"""From control records to the decision point in force: what a worker decides with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.core.cases.cases import run_cases
from app.core.policy.policy import DEFAULT_QUALITY, Policy
from app.core.trust.change_log import entries_in_force
from app.core.trust.compiled import Compiled
from app.core.trust.fold import fold
from topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.actions.stage import Stage
    from app.core.decide.decide import DecisionPoint
    from app.core.foundation.arrival import Arrival
    from app.core.registry.keys import Roots
    from app.core.trust.refused import Refused
    from app.core.trust.revisions import Accepted


class PolicyError(Exception):
    """Nothing can be decided with what the settings name; the message says what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class InForce:
    """`point` is None while the default bundle is not in force; `refused`: the records that do not count;
    `entries`: the bundles and registry entries that do, each topic's in its order."""

    point: DecisionPoint | None
    refused: tuple[Refused, ...]
    entries: tuple[Accepted, ...] = ()


class PolicyInForce:
    """Called with all control records so far. Remembers what it verified and compiled, so that a change costs
    what is new in it."""

    def __init__(
        self,
        roots: Roots,
        default_bundle: str,
        new_point: Callable[[Policy], DecisionPoint],
        default_quality: str = DEFAULT_QUALITY,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        """`stages`: those that there are; None: those that ship."""
        self._roots = roots
        self._default_bundle = default_bundle
        self._default_quality = default_quality
        self._new_point = new_point
        self._compiled = Compiled(partial(run_cases, stages=stages))

    def __call__(self, records: Sequence[Arrival]) -> InForce:
        """What is in force after these records, in any order."""
        folded = fold(records, self._roots, self._compiled)
        if self._default_bundle not in folded.bundles:
            return InForce(None, folded.refused)
        entries = (*entries_in_force(folded, BUNDLES), *entries_in_force(folded, REGISTRY))
        policy = Policy(
            folded.bundles, folded.registry, self._default_bundle, folded.quality, self._default_quality
        )
        return InForce(self._new_point(policy), folded.refused, entries)

    def first(self, records: Sequence[Arrival]) -> DecisionPoint:
        """The point to start with. Raises PolicyError with everything that was refused."""
        ruling = self(records)
        if ruling.point is None:
            refused = "".join(f"\n  refused: {one}" for one in ruling.refused)
            missing = f"the bundle {self._default_bundle!r} is not in force"
            raise PolicyError(f"{missing}: `sluice bundle publish` publishes it{refused}")
        return ruling.point
