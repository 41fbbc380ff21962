"""What a browser sends: the fields of a form of these pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from sluice.gateway.http.http_errors import HttpError

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_FIELDS = 32
"""Of a form without lists."""
LAST_MS = 253_402_300_799_999
"""The end of the year 9999, in ms since 1970."""
MOST_DIGITS = 9


def read_moment(text: str) -> int | None:
    """A time as a person writes it, to the minute or finer and in UTC, in ms since 1970; None: nothing was
    written. Raises HttpError, also for one before 1970 or after 9999."""
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise HttpError(400, "invalid_value", "write a time like 2026-11-24 10:00, in UTC") from None
    at_ms = int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)
    if not 0 <= at_ms <= LAST_MS:
        raise HttpError(400, "invalid_value", "write a time from 1970 to 9999, in UTC")
    return at_ms


def read_number(text: str) -> int:
    """A whole number as a person writes it; 0 for another text, and past MOST_DIGITS."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 0


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, the last of each name. Raises HttpError for another content type."""
    return dict(await read_fields(request, MOST_FIELDS))


async def read_fields(request: Request, most: int) -> list[tuple[str, str]]:
    """The fields of a form in their order, at most so many. Raises HttpError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HttpError(415, "wrong_content_type", "send the page's form")
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return parse_qsl(body, keep_blank_values=True, max_num_fields=most)
    except ValueError:
        raise HttpError(400, "invalid_value", "a form of these pages has fewer fields") from None
