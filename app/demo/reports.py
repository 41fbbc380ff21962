"""What the stores say that they returned: of each reading its items, and once more than was decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.demo.plan import input_of
from app.demo.retrievals import STORY_READ
from topics.catalog import REPORTED

if TYPE_CHECKING:
    from app.demo.answers import Answers
    from app.demo.plan import Planned

STORE = "vector-store"
UNDECIDED = "story-shared-drive"
"""An item that the store returned without asking the gate."""


def make_reports(answers: Answers, time: str) -> list[Planned]:
    """A report on every retrieval of which the agent was shown something; `time` as for `make_plan`."""
    served = [one.served for one in answers.retrievals() if one.served["items"]]
    return [_report(one, time) for one in served]


def _report(served: dict[str, Any], time: str) -> Planned:
    request = served["request_id"]
    returned = [item["item_id"] for item in served["items"]]
    fields = {
        "report_id": f"{request}-report",
        "request_id": request,
        "agent_id": served["agent_id"],
        "session_id": served["session_id"],
        "items": [*returned, UNDECIDED] if request == STORY_READ else returned,
        "reported_by": STORE,
    }
    return input_of("report", REPORTED, fields["report_id"], fields, time)
