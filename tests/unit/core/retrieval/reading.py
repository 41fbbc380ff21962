"""What came of one retrieval, as it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sluice.core.foundation.canonical import canonical

if TYPE_CHECKING:
    from sluice.core.state.decision import Decision


@dataclass(slots=True)
class Reading:
    """What came of one request."""

    decision: Decision

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """The records of a kind, as they are written."""
        found = [one.body for one in self.decision.records if one.kind == kind]
        return [orjson.loads(canonical(body)) for body in found]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The decision on each item, in the request's order."""
        return self.bodies("QualityDecision")

    @property
    def event(self) -> dict[str, Any]:
        """The one decision."""
        (event,) = self.events
        return event

    @property
    def served(self) -> dict[str, Any]:
        """What the agent may see."""
        (served,) = self.bodies("ServedRetrieval")
        return served

    @property
    def outcomes(self) -> list[str]:
        """Of each item."""
        return [event["outcome"] for event in self.events]

    @property
    def event_ids(self) -> list[str]:
        """Of each item's decision."""
        return [event["ledger_event_id"] for event in self.events]

    @property
    def stages(self) -> list[str]:
        """Of the one item: the stages that ran."""
        return [one["stage"] for one in self.event["stages"]]
