"""An error as an HTTP response: a status, and `{"error": {"code", "message", "details"}}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice_topics.json_text import Unreadable


class HttpError(Exception):
    """A request that is not answered with what it asked for."""

    def __init__(self, status: int, code: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.retry_after_s: int | None = None

    def set_retry_after(self, seconds: int) -> HttpError:
        """Set Retry-After, and return the error."""
        self.retry_after_s = seconds
        return self

    @property
    def body(self) -> dict[str, Any]:
        """The response's body."""
        return build_error_body(self.code, self.message, self.details)


def build_error_body(code: str, message: str, details: Mapping[str, Any]) -> dict[str, Any]:
    """The body of every error."""
    return {"error": {"code": code, "message": message, "details": dict(details)}}


def make_unreadable(why: Unreadable) -> HttpError:
    """A body that is not what the route takes."""
    status = 413 if why.code == "too_large" else 400
    return HttpError(status, why.code, why.message, path=why.path)


def make_unauthorized(message: str) -> HttpError:
    """No API key, or none that counts. What exactly is wrong with it is not told."""
    return HttpError(401, "unauthorized", message)


def make_not_found(what: str) -> HttpError:
    """Nothing there, or of another tenant: both look the same."""
    return HttpError(404, "not_found", f"{what}: there is no such thing here")
