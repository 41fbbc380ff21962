"""What became of retrievals: a decision for each item, and what the agent was shown."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.ids import coordinates_of
from topics.catalog import QUALITY_DECISIONS

if TYPE_CHECKING:
    from app.demo.plan import Planned

Coordinates = tuple[str, int, int]
"""An input's topic (without prefix), partition, offset."""


class Read(NamedTuple):
    """A retrieval with its items' decisions, in their order, and its ServedRetrieval; by wire names."""

    planned: Planned
    decisions: list[dict[str, Any]]
    served: dict[str, Any]

    @property
    def escalated(self) -> list[dict[str, Any]]:
        """The decisions that wait for a person."""
        return [one for one in self.decisions if one["escalation_id"] is not None]

    @property
    def unfounded(self) -> list[str]:
        """Items that the agent was shown, or told of, without a decision of this retrieval on them."""
        known = {(one["ledger_event_id"], one["item_id"]) for one in self.decisions}
        shown = [*self.served["items"], *self.served["withheld"]]
        return [one["item_id"] for one in shown if (one["ledger_event_id"], one["item_id"]) not in known]


class ReadAnswers:
    """Fed with decisions on items and with what was served, in any order."""

    def __init__(self) -> None:
        self.twice = 0
        self._decisions: defaultdict[Coordinates, dict[int, dict[str, Any]]] = defaultdict(dict)
        self._served: dict[Coordinates, dict[str, Any]] = {}

    def take(self, topic: str, body: dict[str, Any]) -> None:
        """A QualityDecision or a ServedRetrieval."""
        if topic == QUALITY_DECISIONS:
            came = body["input"]
            found = self._decisions[came["topic"], came["partition"], came["offset"]]
            self.twice += body["place"] in found
            found[body["place"]] = body
        else:
            where = coordinates_of(body["served_id"])
            self.twice += where in self._served
            self._served[where] = body

    def of(self, where: Coordinates, planned: Planned) -> Read | None:
        """The retrieval that lies there, once it is answered whole: every item, and what is shown of them."""
        decisions, served = self._decisions.get(where, {}), self._served.get(where)
        if served is None or decisions.keys() != set(range(len(planned.fields["items"]))):
            return None
        return Read(planned, [decisions[place] for place in sorted(decisions)], served)
