"""What the ledger shows of a class in flag-only, as far as it says how enforcing would go.

Seed 004, "Safe rollout". A decision counts if a revision took it that judges the class as the bundle in force
does: what laxer tables let through says nothing of stricter ones. At a tier whose tables can never deny the
class nothing could be a false deny, so its decisions would only thin the rate out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.foundation.clock import rfc3339
from app.core.quality_bundle.severity import TIERS
from app.core.reports.report_figures import FALSE_DENY, FLAG_ONLY
from app.core.reports.report_tally import QualityTally, Scope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from app.core.quality_bundle.quality_bundle import QualityBundle
    from app.core.reports.report_figures import Rate

_DAY = len("2026-01-01")
_DENY = "deny"


class Observed:
    """Decisions on a class since it has been in flag-only under this bundle.

    `other_tables` and `never_denied` are how many of them do not count: for the revision, else for the tier.
    """

    def __init__(self, bundle: QualityBundle, content_class: str, hashes: Collection[str]) -> None:
        """`hashes`: of the revisions whose decisions count, as `judging_alike` gives them.

        The class must be one that the bundle has a rollout for.
        """
        self._bundle_id = bundle.id
        self._class = content_class
        self._hashes = frozenset(hashes)
        self._tiers = denying_tiers(bundle, content_class)
        self._since = rfc3339(bundle.rollout_since_ms[content_class])
        self._tally = QualityTally(Scope(since=self._since[:_DAY]))
        self.other_tables = 0
        self.never_denied = 0

    def decision(self, event: Mapping[str, Any]) -> None:
        """Take one record of gate.memory.quality_decision, of any class. Raises NotADecisionError."""
        if not self._concerns(event):
            return
        if event.get("quality_bundle_hash") not in self._hashes:
            self.other_tables += 1
        elif event.get("autonomy_tier") not in self._tiers:
            self.never_denied += 1
        else:
            self._tally.decision(event)

    def _concerns(self, event: Mapping[str, Any]) -> bool:
        return (
            event.get("content_class") == self._class
            and event.get("quality_bundle_id") == self._bundle_id
            and event.get("rollout") == FLAG_ONLY
            and str(event.get("timestamp")) >= self._since
        )

    @property
    def days(self) -> int:
        """UTC days with a decision that counts."""
        return len({one.day for one, _ in self._tally.situations if FALSE_DENY.whole(one)})

    @property
    def false_denies(self) -> Rate:
        """Of the decisions that count: items that enforcing would have denied."""
        return FALSE_DENY.of(self._tally.situations)


def judging_alike(
    bundle: QualityBundle, content_class: str, revisions: Iterable[QualityBundle]
) -> frozenset[str]:
    """The hashes of the revisions that judge the class as the bundle does, and the bundle's own.

    The same times to live (each tool's too), minimum, requirement and outcomes at every tier, registered
    schemes and greatest age of a resolution; what else a revision changed does not matter.
    """
    due = _tables(bundle, content_class)
    return frozenset({bundle.hash, *(one.hash for one in revisions if _tables(one, content_class) == due)})


def denying_tiers(bundle: QualityBundle, content_class: str) -> frozenset[str]:
    """The tiers at which the class can be denied for quality: for one of the three dimensions, or for a
    reference of an unregistered scheme."""
    cells = {tier: bundle.lookup.cell(tier, content_class) for tier in TIERS}
    return frozenset(
        tier
        for tier, one in cells.items()
        if _DENY in (one.freshness, one.confidence, one.provenance, one.unregistered)
    )


def _tables(bundle: QualityBundle, content_class: str) -> tuple[object, ...]:
    limits = bundle.lookup.tool_limits.items()
    return (
        [bundle.lookup.cell(tier, content_class) for tier in TIERS],
        {tool: limit.ms for (tool, name), limit in limits if name == content_class},
        bundle.schemes,
        bundle.provenance_max_age_ms,
    )
