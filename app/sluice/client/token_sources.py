"""Where OAuth tokens come from: a program that prints one, or an endpoint that grants one."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from pathlib import Path

FETCH_S = 10.0
RENEW_AT = 0.8
"""Of a token's life, as Kafka's Java client has it; a token whose end nobody says serves one login."""
MAX_BYTES = 1_000_000


class TokenUnavailable(OSError):
    """No valid token could be had. The message says why, and holds no secret."""


@dataclass(frozen=True, slots=True)
class TokenCommand:
    """A program that prints an OAuth token: `words` are its name and arguments, without a shell. It prints
    the token alone, or JSON with `access_token` (or `token`) and, in seconds, `expires_in`."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """Where tokens are granted for client credentials (RFC 6749, 4.4). `ca_file`: the CA that signed the
    endpoint's certificate; None: those of the system."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """`ends_s` and `renew_s`: seconds of the clock by which it was fetched."""

    text: str = field(repr=False)
    renew_s: float
    ends_s: float


def fetch_token(tokens: TokenCommand | TokenEndpoint) -> str:
    """What the command printed or the endpoint answered. Raises TokenUnavailable."""
    return _run_command(tokens) if isinstance(tokens, TokenCommand) else _ask_endpoint(tokens)


def read_token(answer: str, now_s: float) -> Token:
    """The token of an answer: JSON with `access_token` or `token`, or the text itself. Raises
    TokenUnavailable, also for one that has ended."""
    text, ends_s = answer.strip(), None
    if text.startswith("{"):
        document = _read_object(text)
        token = document.get("access_token", document.get("token"))
        text = token if isinstance(token, str) else ""
        lasts_s = document.get("expires_in")
        ends_s = now_s + float(lasts_s) if isinstance(lasts_s, int | float) else None
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise TokenUnavailable("what was answered is no token")
    if ends_s is None:
        ends_s = _read_end(text)
    if ends_s is None:
        return Token(text, now_s, now_s)
    if ends_s <= now_s:
        raise TokenUnavailable(f"the token that was answered ended {now_s - ends_s:.0f} s ago")
    return Token(text, now_s + RENEW_AT * (ends_s - now_s), ends_s)


def _read_end(token: str) -> float | None:
    """The `exp` of a JWT, seconds since 1970; None: it says none, or the token is of another kind."""
    parts = token.split(".")
    if len(parts) != 3:  # noqa: PLR2004 - header, claims, signature
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else None


def _read_object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        raise TokenUnavailable("what was answered is not JSON") from None
    return document if isinstance(document, dict) else {}


def _run_command(command: TokenCommand) -> str:
    program = command.words[0]
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own command, without a shell
            command.words,
            capture_output=True,
            text=True,
            check=False,
            timeout=FETCH_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise TokenUnavailable(f"{program} printed no token within {FETCH_S:g} s") from None
    except (OSError, UnicodeDecodeError) as error:
        raise TokenUnavailable(f"{program} cannot be run: {error}") from None
    if done.returncode != 0:
        # Not what it wrote: such programs print requests with their credentials when they fail.
        raise TokenUnavailable(f"{program} ended with status {done.returncode}: run it by hand to see why")
    return done.stdout


def _ask_endpoint(endpoint: TokenEndpoint) -> str:
    """One POST without redirects: the credentials go to the address of the settings and to no other."""
    url = urlsplit(endpoint.url)
    credentials = f"{quote(endpoint.client_id, safe='')}:{quote(endpoint.client_secret, safe='')}"
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {base64.b64encode(credentials.encode()).decode()}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    connection = None
    try:
        connection = _open(endpoint)
        target = f"{url.path or '/'}{f'?{url.query}' if url.query else ''}"
        connection.request("POST", target, urlencode(form), headers)
        answered = connection.getresponse()
        text = answered.read(MAX_BYTES).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        raise TokenUnavailable(f"{endpoint.url} does not answer: {error or type(error).__name__}") from None
    finally:
        if connection is not None:
            connection.close()
    if answered.status != http.client.OK:
        raise TokenUnavailable(f"{endpoint.url} answered {answered.status}{_describe_refusal(text)}")
    return text


def _open(endpoint: TokenEndpoint) -> http.client.HTTPConnection:
    url = urlsplit(endpoint.url)
    host = url.hostname or ""
    if url.scheme == "http":
        return http.client.HTTPConnection(host, url.port, timeout=FETCH_S)
    ca_file = None if endpoint.ca_file is None else str(endpoint.ca_file.expanduser())
    context = ssl.create_default_context(cafile=ca_file)
    return http.client.HTTPSConnection(host, url.port, timeout=FETCH_S, context=context)


def _describe_refusal(text: str) -> str:
    """The endpoint's `error` and its description (RFC 6749, 5.2)."""
    try:
        document = json.loads(text)
    except ValueError:
        return ""
    if not isinstance(document, dict):
        return ""
    texts = [str(document[name]) for name in ("error", "error_description") if document.get(name)]
    return f": {_shorten(' '.join(texts))}" if texts else ""


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return "".join(c for c in line if c.isprintable())[:200] or "it says nothing"
