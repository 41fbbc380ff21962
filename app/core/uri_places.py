"""Where a URI leads, in one way of writing it: what is known of a place is found however it is spelt.

Normal form after RFC 3986, sections 6.2.2 and 6.2.3: scheme and host in lower case, unreserved characters not
encoded, no dot segments, no default port; and beyond it no user, no final dot of the host, no final slash.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_HOST_AND_PORT = re.compile(r"(.*?)(?::([0-9]{0,9}))?", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def place_of(uri: str) -> str | None:
    """The normal form of an absolute URI, without its fragment; None for what is none."""
    read = _PARTS.fullmatch(uri.strip())
    if read is None:
        return None
    scheme, authority, path, query = read.groups()
    above = f"{scheme.lower()}:" if authority is None else f"{scheme.lower()}://{_host(authority, scheme)}"
    below = _segments(_decoded(path)) + _decoded(query or "")
    return above + below if authority or below else None


def places_above(uri: str, longest: int) -> tuple[str, ...]:
    """The place itself, without its query, and all that it lies below up to scheme and host; the longest
    first. None is longer than `longest`, so that what a hostile URI costs is bounded."""
    place = place_of(uri)
    if place is None:
        return ()
    path, _, query = place.partition("?")
    found = [place] if query else []
    start = path.find("//") + 2 if "://" in path else path.find(":") + 1
    end = len(path) if len(path) <= longest else path.rfind("/", start, longest + 1)
    while end > start:
        found.append(path[:end])
        end = path.rfind("/", start, end)
    return tuple(one for one in found if len(one) <= longest)


def _host(authority: str, scheme: str) -> str:
    read = _HOST_AND_PORT.fullmatch(_decoded(authority.rpartition("@")[2]).casefold())
    host, port = ("", None) if read is None else read.groups()
    number = int(port) if port else None
    usual = number is None or number == _DEFAULT_PORTS.get(scheme.lower())
    return host.rstrip(".") if usual else f"{host.rstrip('.')}:{number}"


def _segments(path: str) -> str:
    """Dot segments and empty ones taken out, as a server reads them."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return ("/" if path.startswith("/") and kept else "") + "/".join(kept)


def _decoded(text: str) -> str:
    return _ENCODED.sub(_plain, text) if "%" in text else text


def _plain(encoded: re.Match[str]) -> str:
    character = chr(int(encoded[1], 16))
    return character if character in _UNRESERVED else encoded[0].upper()
