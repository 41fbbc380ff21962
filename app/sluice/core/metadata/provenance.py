"""The form of a provenance reference (seed 004, "Failure modes"), and its recorded resolution.

This module judges by RFC 3986 whether the reference leads only to the memory itself; it resolves nothing.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from socket import inet_aton
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from sluice.text.places import normal_uri

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2}){0,252}")
_NUMBERS = re.compile(r"(?:0[xX][0-9A-Fa-f]*|[0-9]+)(?:\.(?:0[xX][0-9A-Fa-f]*|[0-9]+)){0,3}\.?")
SHORTEST_TELLING = 3
_DECODINGS = 3
"""Layers of percent-encoding that are decoded: one is usual, two are a mistake, three a trick."""
_DELIMITERS = frozenset("/?#&=;:@,!$'()*[] ")
_END = re.compile(r"(?:\.[a-z0-9]+)*(?:\Z|[/?#&=;:@,!$'()*\[\] ])")
"""A component ends at a delimiter or at the end of the URI; a file's extension may follow the name."""


def find_fault(uri: str, schemes: Collection[str], own_ids: Collection[str]) -> str | None:
    """The fault of a reference, None if it has none. `own_ids`: names of the memory and its write."""
    if not is_uri(uri):
        return "not an absolute URI (RFC 3986)"
    if uri.split(":", 1)[0].lower() not in schemes:
        return f"the scheme is none of {', '.join(sorted(schemes))}"
    try:
        parts = urlsplit(uri)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "the host or the port cannot be read"
    return _host_fault(parts, host) or _self_reference(parts, host or "", own_ids)


def is_uri(text: str) -> bool:
    """Whether it has the form of an absolute URI."""
    return _URI.fullmatch(text) is not None


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
    """The address of a host, also in the forms that resolvers accept: 127.1, 0x7f000001, 2130706433."""
    try:
        if _NUMBERS.fullmatch(host):
            return ipaddress.IPv4Address(inet_aton(host.rstrip(".")))
        address = ipaddress.ip_address(host)
    except (ValueError, OSError):
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _self_reference(parts: SplitResult, host: str, own_ids: Collection[str]) -> str | None:
    """The fault of an id that is the whole host or a component after it, in any case and encoding."""
    behind = _plain(f"/{parts.path}?{parts.query}#{parts.fragment}")
    whole = _plain(host).rstrip(".")
    for own in sorted(own_ids):
        name = _fold(own)
        if _is_telling(name) and (name == whole or _is_component(name, behind)):
            return f"refers to itself: {own}"
    return None


def _is_telling(name: str) -> bool:
    """Whether an id is specific enough: a number or a few characters also appear in unrelated URIs."""
    return len(name) >= SHORTEST_TELLING and any(map(str.isalpha, name))


def _is_component(name: str, text: str) -> bool:
    """Whether the id is a component. No pattern is compiled for it: names differ with every write, and
    compiling is slow."""
    at = text.find(name, 1)
    while at > 0:
        if text[at - 1] in _DELIMITERS and _END.match(text, at + len(name)):
            return True
        at = text.find(name, at + 1)
    return False


def _plain(text: str) -> str:
    for _ in range(_DECODINGS if "%" in text else 0):
        text = unquote(text)
    return _fold(text)


def _fold(text: str) -> str:
    return text.casefold().replace("+", " ")


MAX_URI_CHARACTERS = 8192
"""The longest URI that a request for a resolution can carry."""
GATE_SOURCE = "gate-source"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USUAL = re.compile(
    r"(?:http|https)://(?!(?:[A-Za-z0-9-]+\.)*(?i:localhost)(?:[/?#]|\Z))"
    r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}\.){1,3}[A-Za-z]{2,24}(?:[/?#][A-Za-z0-9._~:/?#@!$&'()*,;=-]*)?"
)
"""The usual form has no address, number, port, user or encoding. The only open question is then whether it
names the item. This check takes 1 us; the general rules take 20 us."""


_CACHED, LONGEST_CACHED = 4096, 256
"""Size of the cache and longest text in it: the same references come again and again, and reading one takes
2 us."""


class Spelling(NamedTuple):
    """The parts of a reference's text. `name`: its normal form, under which registry and records know it.
    `folded`: the text in lower case if it has the usual form, else None.

    It is used to judge whether a reference leads only to the item itself (seed 004, "Failure modes").
    """

    scheme: str
    name: str
    folded: str | None

    def is_usual(self, schemes: Collection[str], own_ids: Iterable[str]) -> bool:
        """Whether it is of the usual form, of one of the schemes, and no id of `own_ids` is in it: then the
        reference has no fault. False says nothing."""
        folded = self.folded
        if folded is None or self.scheme not in schemes:
            return False
        return not [own for own in own_ids if own.casefold() in folded]


def spell(uri: str) -> Spelling:
    """The parts of a reference; they are cached for recent references that are not too long."""
    return _cached_spelling(uri) if len(uri) <= LONGEST_CACHED else _read_spelling(uri)


def find_form_fault(uri: Any, schemes: frozenset[str], item_id: str) -> ProvenanceState | None:
    """Why a reference can lead only to the item itself; None if it can lead elsewhere."""
    if not isinstance(uri, str):
        return make_unverified("provenance_uri is not a string")
    if len(uri) > MAX_URI_CHARACTERS:
        return make_unverified(f"provenance_uri has over {MAX_URI_CHARACTERS} characters")
    if spell(uri).is_usual(schemes, (item_id,)):
        return None
    scheme = read_scheme(uri)
    if scheme and scheme not in schemes:
        return _judge_unregistered(uri, scheme, item_id)
    fault = find_fault(uri, schemes, (item_id,))
    return None if fault is None else make_unverified(fault)


def read_scheme(uri: str) -> str:
    """The scheme of a reference in lower case; "" without one."""
    match = _SCHEME.match(uri)
    return "" if match is None else match[1].lower()


def make_unverified(detail: str) -> ProvenanceState:
    """The state of a reference that is present but not verified, and why."""
    return ProvenanceState("unverified", detail)


def _read_spelling(uri: str) -> Spelling:
    usual = _USUAL.fullmatch(uri) is not None
    return Spelling(read_scheme(uri), normal_uri(uri), uri.casefold() if usual else None)


_cached_spelling = lru_cache(maxsize=_CACHED)(_read_spelling)


def _judge_unregistered(uri: str, scheme: str, item_id: str) -> ProvenanceState:
    """The state of a reference with an unregistered scheme. A reference to the item itself is the graver
    fault, whatever the scheme: it can never be resolved. A host is inserted, because other schemes have
    other forms."""
    behind = uri[len(scheme) + 1 :].lstrip("/")
    fault = find_fault(f"{GATE_SOURCE}://elsewhere.example/{behind}", (GATE_SOURCE,), (item_id,))
    if fault is not None:
        return make_unverified(fault)
    return ProvenanceState("unregistered_scheme", f"nobody registered the scheme {scheme}")


RESOLVABLE = frozenset({"http", "https"})


class Resolution(NamedTuple):
    """A reference's newest recorded resolution.

    `hash`: "sha256:<hex>" over the fetched bytes, None if there were none; `seen_ms`: ms since 1970;
    `detail`: why it could not be resolved, else empty.
    """

    status: Literal["resolved", "unresolvable"]
    hash: str | None
    resolver: str
    seen_ms: int
    detail: str


ProvenanceStatus = Literal["missing", "verified", "unverified", "unregistered_scheme"]


class ProvenanceState(NamedTuple):
    """The state of an item's reference; `detail` in words, never empty."""

    status: ProvenanceStatus
    detail: str
