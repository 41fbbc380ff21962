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


def read_moment(text: str) -> int | None:
    """A time as a person writes it, to the minute or finer and in UTC, in ms since 1970; None: nothing was
    written. Raises HttpError."""
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise HttpError(400, "invalid_value", "write a time like 2026-11-24 10:00, in UTC") from None
    return int((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


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
