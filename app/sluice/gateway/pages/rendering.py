"""From templates to responses: an agent's text escaped, what cannot be seen shown, no script inline."""

from __future__ import annotations

import json
import re
import shlex
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sluice.core.foundation.clock import read_milliseconds, rfc3339, span
from sluice.core.reports.gate_marks import describe_passing, mark_gate
from sluice.text.plurals import count_noun
from sluice.text.visible import is_seen
from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from sluice.gateway.http.http_errors import HttpError

_FOLDER = Path(__file__).parent
STATIC = {
    "pages.css": "text/css; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "hx-sse.min.js": "text/javascript; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
LONGEST = 20_000
"""Characters of one text on a page; the ledger has all."""
_SECOND_MS = 1000
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def write_visible(value: object) -> Markup:
    """A text as a reader may trust it: a code point that cannot be seen stands by its number, marked. A long
    name breaks after "_"."""
    text = value if isinstance(value, str) else _write_json(value)
    parts: list[str] = []
    for character in text[:LONGEST]:
        if character == "_":
            parts.append("_<wbr>")
        elif character == "\n" or is_seen(character):
            parts.append(str(escape(character)))
        else:
            parts.append(f'<span class="unseen">U+{ord(character):04X}</span>')
    if len(text) > LONGEST:
        parts.append(f'<span class="more">… {count_noun(len(text) - LONGEST, "character")} more</span>')
    return Markup("".join(parts))  # noqa: S704 - each part is escaped above


def write_plain(value: object) -> str:
    """The value as `seen` shows it, where no markup can be: in an attribute or an option."""
    return "".join(
        character if is_seen(character) else f"U+{ord(character):04X}" for character in str(value)[:LONGEST]
    )


def write_moment(at: object) -> Markup:
    """An RFC 3339 time, to the minute."""
    text = str(at)
    return Markup('<time datetime="{}">{}</time>').format(text, text[:16].replace("T", " "))


def write_time_left(at_ms: int, now_ms: int) -> str:
    """Write how long it is until a time, or since when it is over, in words."""
    return f"in {span(at_ms - now_ms)}" if at_ms > now_ms else f"over since {span(now_ms - at_ms)}"


def write_age(at: object, now_ms: int) -> str:
    """Write how long ago an RFC 3339 time was, in words."""
    ms = now_ms - read_milliseconds(str(at))
    return f"{span(ms)} ago" if ms >= _SECOND_MS else "now"


def write_dated(at: object, now_ms: int) -> str:
    """An RFC 3339 time to the minute, and how long ago it was, or how long until it is."""
    text = str(at)
    return f"{text[:16].replace('T', ' ')} UTC, {_describe_age(text, now_ms)}" if text else ""


def write_aged(at: object, now_ms: int) -> Markup:
    """A time for a table: the age above it."""
    text = str(at)
    return (
        Markup('{} <span class="at">{} UTC</span>').format(_describe_age(text, now_ms), write_moment(text))
        if text
        else Markup()
    )


def write_command(words: Iterable[str | None]) -> str:
    """A line for a shell that runs `sluice` with these words."""
    return shlex.join(["sluice", *(word for word in words if word is not None)])


def render_page(name: str, status: int = 200, **context: Any) -> Response:
    """A page from its template."""
    return HTMLResponse(_build_environment().get_template(name).render(context), status, _HEADERS)


def render_error(error: HttpError, **context: Any) -> Response:
    """An error as a person reads it."""
    response = render_page("error.html", error.status, error=error, **context)
    if error.retry_after_s is not None:
        response.headers["Retry-After"] = str(error.retry_after_s)
    return response


def redirect(path: str) -> Response:
    """Redirect to another page, by GET."""
    return RedirectResponse(path, 303, _HEADERS)


def serve_static(name: str) -> Response | None:
    """A file of ours; None for any other name."""
    kind = STATIC.get(name)
    return None if kind is None else Response(_read(name), 200, _HEADERS, kind)


def serve_download(value: bytes, name: str) -> Response:
    """A JSON file of ours, to be saved under a name without special characters."""
    headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(value, 200, headers, "application/json")


def serve_csv(value: bytes, name: str) -> Response:
    """A table, to be saved under a name without special characters."""
    headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(value, 200, headers, "text/csv; charset=utf-8")


def serve_document(html: str) -> Response:
    """A whole document of ours with one style element: the browser takes exactly this style."""
    style = html.partition("<style>")[2].partition("</style>")[0]
    digest = b64encode(sha256(style.encode()).digest()).decode()
    rules = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; frame-ancestors 'none'"
    return HTMLResponse(html, 200, {**_HEADERS, "Content-Security-Policy": rules})


@cache
def _read(name: str) -> bytes:
    return (_FOLDER / "static" / name).read_bytes()


@cache
def _build_environment() -> Environment:
    from jinja2 import ChainableUndefined, Environment, FileSystemLoader  # noqa: PLC0415 - with the first page

    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=ChainableUndefined,  # records of one kind differ in what they have
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def write_visible_if_there(value: object) -> Markup:
        return Markup("") if isinstance(value, ChainableUndefined) else write_visible(value)

    made.filters |= {
        "seen": write_visible_if_there,
        "moment": write_moment,
        "plain": write_plain,
        "left": write_time_left,
        "counted": count_noun,
        "mark": mark_gate,
        "passing": describe_passing,
        "ago": write_age,
        "dated": write_dated,
        "aged": write_aged,
        "span": span,
        "words": lambda name: re.sub(r"(?<=[a-z])([A-Z])", r" \1", str(name)).replace("_", " ").lower(),
        "rfc3339": rfc3339,
        "command": write_command,
        "minute": lambda at: str(at)[:16].replace("T", " "),
        "call": lambda content: find_call(content) or (None, None),
        "path": lambda text: quote(str(text), safe=":/"),
    }
    return made


def _describe_age(at: str, now_ms: int) -> str:
    at_ms = read_milliseconds(at)
    return write_time_left(at_ms, now_ms) if at_ms > now_ms else write_age(at, now_ms)


def _write_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
