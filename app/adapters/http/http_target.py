"""Where a reference may lead on the web: the rules, and a URI taken apart by them. Nothing is asked here.

A URI is taken apart once, and what is asked for is put together of the parts that were judged: no second
parser with an opinion of its own stands behind the rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

from app.adapters.http.public_addresses import is_providers_name

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from app.ports import Failure

_DEFAULT_PORTS = {"http": 80, "https": 443}
_CHARACTERS = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII, no space and no backslash, which some readers take for a slash."""
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?|[0-9a-f:]{2,45}")


class Unresolvable(Exception):
    """A reference cannot be resolved. The message is for the record: ours, without the server's words."""

    def __init__(self, detail: str, failure: Failure = "lasting") -> None:
        super().__init__(detail)
        self.failure: Failure = failure


@dataclass(frozen=True, slots=True)
class HttpRules:
    """Which hosts and ports may be asked, and how far a server is put up with.

    `allowed_hosts`: exact, in lower case, or "*.example.com" for the hosts one label below; none: nothing is
    fetched. `timeout_ms`: for all that a reference takes. `pinned`: addresses of hosts not to be looked up.
    """

    allowed_hosts: tuple[str, ...]
    max_bytes: int
    timeout_ms: int
    max_redirects: int
    allowed_ports: tuple[int, ...] = (80, 443)
    allow_loopback: bool = False
    pinned: Mapping[str, str] = field(default_factory=dict)

    def allow(self, host: str) -> bool:
        """Whether this host may be asked, wherever its name leads. A name by which a provider tells a machine
        about itself may not, also where it is listed."""
        if is_providers_name(host):
            return False
        parent = host.partition(".")[2]
        return host in self.allowed_hosts or (bool(parent) and f"*.{parent}" in self.allowed_hosts)


class Target(NamedTuple):
    """One request's goal. `host` in lower case, `path` with its query, as on the wire."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the Host field says (RFC 9110, section 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(uri: str, rules: HttpRules) -> Target:
    """The goal that a URI names, if the rules let it be asked. Raises Unresolvable."""
    if _CHARACTERS.fullmatch(uri) is None:
        raise Unresolvable("not a URI of printable ASCII characters")
    try:
        parts = urlsplit(uri)
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        raise Unresolvable("the host or the port cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise Unresolvable("the scheme is neither http nor https")
    if "@" in parts.netloc:
        raise Unresolvable("names a user before the host")
    if _HOST.fullmatch(host) is None or not rules.allow(host):
        raise Unresolvable("host not allowed")
    port = _DEFAULT_PORTS[parts.scheme] if port is None else port
    if port not in rules.allowed_ports:
        raise Unresolvable(f"port {port} is not allowed")
    return Target(parts.scheme, host, port, _path(parts))


def redirected(target: Target, location: str, rules: HttpRules) -> Target:
    """Where a redirect leads, held to the same rules. Raises Unresolvable."""
    if _CHARACTERS.fullmatch(location) is None:
        raise Unresolvable("redirected to what is no URI")
    try:
        uri = urljoin(f"{target.scheme}://{target.authority}{target.path}", location)
        goal = target_of(uri, rules)
    except Unresolvable as refused:
        raise Unresolvable(f"redirected, and {refused}") from None
    except ValueError:
        raise Unresolvable("redirected to what is no URI") from None
    if (target.scheme, goal.scheme) == ("https", "http"):
        raise Unresolvable("redirected from https to http")
    return goal


def _path(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path
