"""The `analysis` port of a worker that has no model: it says so, and the record with it."""

from __future__ import annotations


class AnalysisOff:
    """Answers every question at once with why there is no analysis."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def ask(self, payload: object) -> object:
        """The answer that the core reads as "off"."""
        del payload
        return {"off": self._reason}
