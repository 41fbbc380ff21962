"""Signed reviews of what the fault runs hold: in time, too late, twice, and such as do not count."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from typing import TYPE_CHECKING, Any

import rfc8785

from app.demo.inputs.trust import REVIEWER
from load.sites.events import Event
from topics.catalog import REVIEWS

if TYPE_CHECKING:
    import random

    from app.core.registry.keys import SigningKey
    from load.sites.events import Write

KIND = "review:"
RECENT = 30
"""Memories among which the next subject is drawn: of the last seconds, so some are past their time."""
KINDS = {
    "approve": 0.42,
    "reject": 0.26,
    "again": 0.12,
    "wrong_digest": 0.05,
    "wrong_signature": 0.05,
    "stranger": 0.04,
    "deny": 0.03,
    "unheard_of": 0.03,
}


class ReviewTraffic:
    """Draws from `rng` among what was placed; `reviewer` signs."""

    def __init__(self, rng: random.Random, reviewer: SigningKey) -> None:
        self._rng = rng
        self._reviewer = reviewer
        self._placed: deque[Write] = deque(maxlen=RECENT)
        self._reviewed: deque[Write] = deque(maxlen=RECENT)

    def placed(self, write: Write) -> None:
        """A write whose memory's id is known by now."""
        if "derived_from" in write.fields:
            self._placed.append(write)

    def next(self) -> Event | None:
        """A review; None while there is nothing to review."""
        kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
        subjects = self._reviewed if kind == "again" and self._reviewed else self._placed
        if not subjects:
            return None
        write = self._rng.choice(subjects)
        self._reviewed.append(write)
        fields = self._fields(write, kind)
        value = json.dumps(fields | {"signature": self._signature(fields, kind)}).encode()
        return Event(REVIEWS, fields["session_id"].encode(), value, f"{KIND}{kind}")

    def _fields(self, write: Write, kind: str) -> dict[str, Any]:
        content = write.fields["content"] + ("?" if kind == "wrong_digest" else "")
        decision = self._rng.choice(("approve", "reject")) if kind == "again" else kind
        return {
            "subject_id": f"{write.memory_id}0000" if kind == "unheard_of" else write.memory_id,
            "session_id": write.fields["session_id"],
            "decision": decision if decision in {"reject", "deny"} else "approve",
            "approver_id": "load-stranger" if kind == "stranger" else REVIEWER,
            "digest": "sha256:" + hashlib.sha256(content.encode()).hexdigest(),
            "justification": f"a load run's {kind} {self._rng.getrandbits(64):016x}",
        }

    def _signature(self, fields: dict[str, Any], kind: str) -> str:
        signed = fields | ({"justification": "another"} if kind == "wrong_signature" else {})
        return base64.b64encode(self._reviewer.sign(rfc8785.dumps(signed))).decode()
