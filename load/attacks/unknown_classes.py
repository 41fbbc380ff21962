"""Attack: misspell an item's content class, so that the limits of the right one do not hold for it.

Items of every class of the shipped quality bundle, good and bad in each way, under the class's own name and
under names that the bundle does not have: a wrong name must never be served laxer than a right one would be.
The controls are sound items under their right names, which must be served.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from load.attacks.attempt import Attempt
from sluice.core.metadata.provenance import ProvenanceState
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.quality_bundle.severity import SEVERITY, TIERS
from sluice.core.retrieval.dimensions import ItemFacts, judge_item
from sluice.shipped import SHIPPED_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from sluice.core.metadata.provenance import ProvenanceStatus

SHIPPED = SHIPPED_FILES / "quality" / "default.json"
FRESH_MS, STALE_MS = 1000, 10**15
STATES: tuple[ProvenanceStatus, ...] = ("verified", "missing", "unverified", "unregistered_scheme")


def run(extent: Extent) -> Iterator[Attempt]:
    """Every class, tier and fault under every wrong name."""
    bundle = load_quality_bundle(SHIPPED.read_bytes())
    classes = sorted(bundle.lookup.classes)[: 2 if extent == "short" else None]
    for tier, name in product(TIERS, classes):
        sound = ItemFacts(name, FRESH_MS, None, 1.0, None, ProvenanceState("verified", "it is"), None)
        right = judge_item(bundle, tier, sound).outcome
        yield Attempt(f"a sound item of {name} at {tier}", right == "pass", right, harmless=True)
        for age_ms, score, state in product((FRESH_MS, STALE_MS, None), (1.0, 0.0, None), STATES):
            facts = sound._replace(
                age_ms=age_ms,
                age_problem=None if age_ms else "missing",
                confidence=score,
                confidence_problem=None if score is not None else "missing",
                provenance=ProvenanceState(state, state),
            )
            right = judge_item(bundle, tier, facts).outcome
            for wrong in (f"{name}s", name.upper(), name.replace("_", "-"), "unheard_of", None):
                outcome = judge_item(bundle, tier, facts._replace(content_class=wrong)).outcome
                description = f"{name} written {wrong} at {tier}, {age_ms} ms old, {score}, {state}"
                yield Attempt(
                    description, SEVERITY[outcome] >= SEVERITY[right], f"{outcome} instead of {right}"
                )
