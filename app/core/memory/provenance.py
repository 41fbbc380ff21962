"""Whether a provenance reference could lead anywhere but to the memory itself (seed 004, "Failure modes").

Only the form is judged, by RFC 3986; nothing is resolved here.
"""

from __future__ import annotations

import ipaddress
import re
from socket import inet_aton
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2}){0,252}")
_NUMBERS = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)(?:\.(?:0[xX][0-9A-Fa-f]*|[0-9]+)){0,3}\.?")
SHORTEST_TELLING = 3
_DECODINGS = 3
"""Layers of percent-encoding that are taken off: one is usual, two are a mistake, three a trick."""
_DELIMITERS = frozenset("/?#&=;:@,!$'()*[] ")
_END = re.compile(r"(?:\.[a-z0-9]+)*(?:\Z|[/?#&=;:@,!$'()*\[\] ])")
"""A component ends where a delimiter stands, or the URI; a file's extension may follow the name."""


def fault_of(uri: str, schemes: Collection[str], own_ids: Collection[str]) -> str | None:
    """What is wrong with a reference, None if nothing is. `own_ids`: names of the memory and its write."""
    if _URI.fullmatch(uri) is None:
        return "not an absolute URI (RFC 3986)"
    if uri.split(":", 1)[0].lower() not in schemes:
        return f"the scheme is none of {', '.join(sorted(schemes))}"
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "the host or the port cannot be read"
    return _host_fault(parts, host) or _self_reference(parts, host or "", own_ids)


def _host_fault(parts: SplitResult, host: str | None) -> str | None:
    if not host:
        return "no host"
    if parts.username is not None:
        return "names a user before the host"
    address = _address(host)
    if address is None and _HOST.fullmatch(host) is None:
        return "the host is no name and no address"
    name = host.rstrip(".")
    own = name == "localhost" or name.endswith(".localhost")
    if own or (address is not None and (address.is_loopback or address.is_unspecified)):
        return "not external: the host is the writer's own machine"
    return None


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Also in the forms that resolvers take: 127.1, 0x7f000001, 2130706433."""
    try:
        if _NUMBERS.fullmatch(host):
            return ipaddress.IPv4Address(inet_aton(host.rstrip(".")))
        address = ipaddress.ip_address(host)
    except (ValueError, OSError):
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _self_reference(parts: SplitResult, host: str, own_ids: Collection[str]) -> str | None:
    """An id as the whole host, or as a component of what follows it, in any case and encoding."""
    behind = _plain(f"/{parts.path}?{parts.query}#{parts.fragment}")
    whole = _plain(host).rstrip(".")
    for own in sorted(own_ids):
        name = _folded(own)
        if _is_telling(name) and (name == whole or _is_component(name, behind)):
            return f"refers to itself: {own}"
    return None


def _is_telling(name: str) -> bool:
    """An id that is only a number, or of few characters, stands in other people's URIs too."""
    return len(name) >= SHORTEST_TELLING and any(map(str.isalpha, name))


def _is_component(name: str, text: str) -> bool:
    """Searched without a pattern of its own: names differ with every write, and compiling one is slow."""
    at = text.find(name, 1)
    while at > 0:
        if text[at - 1] in _DELIMITERS and _END.match(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _plain(text: str) -> str:
    for _ in range(_DECODINGS if "%" in text else 0):
        text = unquote(text)
    return _folded(text)


def _folded(text: str) -> str:
    return text.casefold().replace("+", " ")
