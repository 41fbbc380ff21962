"""Malformed memory writes and reviews of named kinds, for the fault runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from load.malformed_kinds import Fields, kinds_of
from load.memory_traffic import QUALITY
from load.policy import AGENT
from topics.catalog import MEMORY_WRITES, REVIEWS

if TYPE_CHECKING:
    from load.malformed import Maker


def memory_kinds() -> dict[str, dict[str, Maker]]:
    """Every kind of unreadable write and review by base topic and name."""
    return {
        MEMORY_WRITES: kinds_of("write", _write, ("write_id", "agent_id", "content", "source"), "content"),
        REVIEWS: kinds_of(
            "review",
            _review,
            ("subject_id", "decision", "approver_id", "digest", "justification", "signature"),
            "justification",
        ),
    }


def _write(session: str, salt: str) -> Fields:
    return {
        "write_id": f"malformed-{salt}",
        "agent_id": AGENT,
        "session_id": session,
        "content": f"malformed {salt}",
        "source": {"id": "load-malformed", "type": "user"},
        **QUALITY,
    }


def _review(session: str, salt: str) -> Fields:
    return {
        "subject_id": f"memory:{MEMORY_WRITES}:0:{int(salt.rpartition('-')[2])}",
        "session_id": session,
        "decision": "approve",
        "approver_id": "load-malformed",
        "digest": f"sha256:{0:064x}",
        "justification": f"malformed {salt}",
        "signature": "AAAA",
    }
