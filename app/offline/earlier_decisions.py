"""The port `lineage` without a ledger: what was decided on the memories of the lines above."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from app.core.decision import Decision

Place = tuple[str | None, float | None, bool | None]
"""Tenant, trust when decided, and whether a person let it through (None: nobody was asked)."""


class EarlierDecisions:
    """Of every line so far: its memory's tenant and trust, and what a reviewer said."""

    def __init__(self) -> None:
        self._known: dict[str, Place] = {}

    def note(self, decision: Decision) -> None:
        """Take in what was just decided."""
        for record in decision.records:
            body = record.body
            if record.kind == "MemoryDecision":
                score = body["trustScore"]
                trust = None if score is None else score["total"]
                self._known[body["memory_id"]] = (body["tenant_id"], trust, None)
            elif record.kind in ("QuarantineApproved", "QuarantineRejected"):
                tenant, trust, _ = self._known[body["memory_id"]]
                self._known[body["memory_id"]] = (tenant, trust, record.kind == "QuarantineApproved")

    async def ask(self, payload: object) -> object:
        """`payload` {tenant, memories, approved}: {parents: trust by id}, null for what is no such memory."""
        asked: Any = payload
        return {
            "parents": {
                one: self._trust(one, asked["tenant"], asked["approved"]) for one in asked["memories"]
            }
        }

    def _trust(self, memory_id: str, tenant: str, approved: float) -> float | None:
        """What a person approved counts as at least `approved`, what a person rejected as nothing."""
        owner, trust, let_through = self._known.get(memory_id, (None, None, None))
        if owner != tenant or trust is None:
            return None
        if let_through is None:
            return trust
        return max(trust, approved) if let_through else 0
