"""Retrievals on a real broker, under the fault runs' neutral quality bundle."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from load.installations import neutral_policy, quality_policy
from sluice.core.policy.bundle_frame import ORDER_OF_OLD
from sluice_topics.catalog import DEAD_LETTERS, QUALITY_DECISIONS, SERVED
from tests.kafka.installation import installation_on, read_stored, records, wait_for, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

BETWEEN = (quality_policy.minimum(1) + quality_policy.minimum(2)) / 2
"""A score that the first revision's minimum for prices lets pass, and the second's does not."""
OLD = "1990-01-01T00:00:00Z"


def retrieval_installation(kafka: str, folder: Path, name: str, **settings: str) -> TestInstallation:
    """An installation whose decisions the installation's own commands can execute again."""
    return installation_on(kafka, folder, name, ORDER_OF_OLD, SLUICE_POLICY__REFRESH_S="0.05", **settings)


def item(name: str, **more: Any) -> dict[str, Any]:
    """A price that passes, some fields changed."""
    return {
        "item_id": name,
        "content_class": "price",
        "timestamp": "2026-01-01T00:00:00Z",
        "confidence_score": 0.99,
        "provenance_uri": quality_policy.RECORDED_URI,
        "provenance_hash": quality_policy.RECORDED_HASH,
        "body": f"a price of {name}",
    } | more


def retrieval(session: str, request: str, *items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request of the neutral policy's agent, at the bounded tier."""
    return {
        "request_id": request,
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "items": items or [item("good")],
        "autonomy_tier": "bounded",
    } | more


def report(session: str, request: str, *items: str) -> dict[str, Any]:
    """A store's."""
    return {
        "report_id": f"of-{request}",
        "request_id": request,
        "agent_id": neutral_policy.AGENT,
        "session_id": session,
        "items": items,
        "reported_by": "store",
    }


def serve(
    installation: TestInstallation, session: str, count: int, worker: WorkerProcess
) -> list[dict[str, Any]]:
    """What the session's requests got, once there are so many answers."""
    return wait_for(installation, SERVED, session, count, worker)


def events(installation: TestInstallation, session: str) -> list[dict[str, Any]]:
    """The session's decisions on items, in the ledger's order."""
    return sorted(records(installation, QUALITY_DECISIONS, session), key=lambda one: int(one["sequence"]))


def letters(
    installation: TestInstallation, topic: str, worker: WorkerProcess, count: int
) -> list[dict[str, Any]]:
    """Dead letters of a topic's records, once there are so many."""
    found: list[dict[str, Any]] = []

    def enough() -> bool:
        every = [json.loads(one.value or b"null") for one in read_stored(installation, DEAD_LETTERS)]
        found[:] = [one for one in every if one["topic"] == topic]
        return len(found) >= count

    wait_until(enough, worker)
    return found


def quality(revision: int, **changes: Any) -> dict[str, Any]:
    """A revision of the neutral quality bundle."""
    return {**quality_policy.document(revision), **changes}
