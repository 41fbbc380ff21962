"""The model outputs of a recorded decision, as answers: in a rerun no model is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.core.foundation.requests import Answer

if TYPE_CHECKING:
    from app.core.foundation.requests import Request


class RecordedAnswers:
    """In their order; what was asked `beyond` them is kept by its port."""

    def __init__(self, outputs: list[dict[str, Any]]) -> None:
        self._left = [Answer(one["status"], one["payload"], one["detail"]) for one in outputs]
        self.beyond: list[str] = []

    def next(self, request: Request) -> Answer:
        """The answer to the next request."""
        if self._left:
            return self._left.pop(0)
        self.beyond.append(request.port)
        return Answer("unavailable", detail="no answer is recorded")
