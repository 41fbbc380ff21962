"""A decision on one retrieved item, executed again: its reference leads where the decision's `seen` says."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from app.core.decide.inbound import message_of
from app.core.foundation.chain import OutRecord
from app.core.foundation.guarded import guarded
from app.core.foundation.limits import ROOM_FOR_ONE
from app.core.metadata.provenance import Resolution
from app.core.registry.registry_entries import UNREGISTERED
from app.core.rerun.rerun_way import Way
from app.core.retrieval.faults import INTERNAL_ERROR
from app.core.retrieval.record import RERUN_FIELDS
from app.core.state.decision import Decision, Shared
from app.core.state.session import SessionState, session_key
from app.core.text.places import normal_uri
from topics.catalog import QUALITY_DECISIONS
from topics.record_reading import Unreadable
from topics.records import ProposedRetrieval

if TYPE_CHECKING:
    from app.core.decide.kinds import Message
    from app.core.foundation.arrival import Arrival
    from app.core.rerun.recorded_answers import RecordedAnswers
    from app.core.rerun.rerun_evidence import Points

REMEMBERED_INPUTS = 8
"""Decisions on the items of one request lie together, and each is executed by itself."""


def _execute(points: Points, quality: dict[str, Any], arrival: Arrival, answers: RecordedAnswers) -> Decision:
    del answers
    point = points.point(quality, ROOM_FOR_ONE)
    if quality["item_id"] is None:
        return point.unread(arrival)
    message = _read(arrival)
    if isinstance(message, Unreadable):
        return point.unreadable(arrival, message)
    if not isinstance(message, ProposedRetrieval):
        return point.unread(arrival)
    shared = Shared(provenance=recorded_resolutions(quality))
    state = SessionState(session_key(message.session_id))
    place = quality["place"]
    return guarded(
        lambda: _alone(point.retrieved_item(arrival, message, place, shared)),
        lambda reason: point.fault(arrival, message, state, reason),
    )


def _alone(record: dict[str, Any]) -> Decision:
    return Decision(None, [OutRecord(QUALITY_DECISIONS, "QualityDecision", record, record["session_id"])])


@lru_cache(maxsize=REMEMBERED_INPUTS)
def _read(arrival: Arrival) -> Message | Unreadable | None:
    return guarded(lambda: message_of(arrival), lambda _: None)


def recorded_resolutions(quality: dict[str, Any]) -> dict[tuple[str, str], Resolution]:
    """Where the item's reference led, by tenant and normal form."""
    seen = quality["seen"]
    if seen is None or quality["provenance_uri"] is None:
        return {}
    tenant = UNREGISTERED if quality["tenant_id"] is None else quality["tenant_id"]
    known = Resolution(seen["status"], seen["hash"], seen["resolver"], seen["seen_at"], seen["detail"])
    return {(tenant, normal_uri(quality["provenance_uri"])): known}


def _kept_no_answers(quality: dict[str, Any]) -> bool:
    return INTERNAL_ERROR in quality["reason_codes"]


QUALITY = Way(
    "quality_decision", "QualityDecision", "ledger_event_id", RERUN_FIELDS, _execute, _kept_no_answers
)
