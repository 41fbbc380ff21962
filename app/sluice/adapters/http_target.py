"""Where a reference may lead on the web: a URI taken apart by the rules, and public addresses alone. Pure.

A URI is taken apart once, and what is asked for is put together of the parts that were judged: no second
parser reads it differently after the check.

Public are addresses outside IANA's registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890 and
its updates). The registries are written here and also known to `ipaddress`, whose lists differ between
releases of Python; both must agree. Most providers of machines offer their metadata at a special-purpose
address (169.254.169.254 and others of 169.254.0.0/16, 100.100.100.200, 192.0.0.192, fd00:ec2::254,
fd20:ce::254); the ones at public addresses and under names of their own are listed beside the registries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urljoin, urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from sluice.ports import Failure

Address = IPv4Address | IPv6Address

_NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",  # behind a carrier's translation
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local: a cloud's metadata
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved, broadcast
        ),
    )
)
_OF_PROVIDERS = tuple(
    map(
        IPv4Network,
        (
            "168.63.129.16/32",  # Azure: wire server, health probes and DNS of every virtual network
            "161.26.0.0/16",  # IBM Cloud: services that answer its machines alone
            "166.8.0.0/14",  # the same
        ),
    )
)
"""Public by their number, and answered by the machine's own provider."""
_PROVIDERS_NAMES = (
    "metadata.google.internal",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.azure.com",
    "metadata.tencentyun.com",
    "metadata.packet.net",
    "metadata.platformequinix.com",
    "instance-data",
    "instance-data.ec2.internal",
    "rancher-metadata",
)
"""Names by which a machine is told about itself: Google, Azure, Tencent, Equinix Metal, EC2, Rancher."""
_GLOBAL_V6 = IPv6Network("2000::/3")
"""All that is given out; unspecified, loopback, mapped and private addresses lie outside."""
_NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocols' own, Teredo among them, which carries an IPv4 address
            "2001:db8::/32",
            "2002::/16",  # 6to4, which carries an IPv4 address
            "3fff::/20",
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
"""What DNS64 makes of an IPv4 host where the network has no IPv4 (RFC 6052): judged by the address inside."""
_LOW_32_BITS = 0xFFFFFFFF
_LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))


def find_refusal(address: str, *, allow_loopback: bool) -> str | None:
    """Why nothing may connect to this address, None if it may. `allow_loopback`: for tests and the demo."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "it is no address"
    if allow_loopback and any(parsed in network for network in _LOOPBACK):
        return None
    return None if _is_public(parsed) else f"{parsed} is no public address"


def is_providers_name(host: str) -> bool:
    """Whether a host, in lower case, is one by which providers tell a machine about itself, or below one."""
    name = host.removesuffix(".")
    return any(name == provider or name.endswith(f".{provider}") for provider in _PROVIDERS_NAMES)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        refused = (*_NOT_PUBLIC_V4, *_OF_PROVIDERS)
        return address.is_global and not any(address in network for network in refused)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return _is_public(IPv4Address(int(address) & _LOW_32_BITS))
    return (
        address in _GLOBAL_V6
        and address.is_global
        and not any(address in network for network in _NOT_PUBLIC_V6)
    )


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


class HttpTarget(NamedTuple):
    """One request's goal. `host` in lower case, `path` with its query, as on the wire."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host field (RFC 9110, section 7.2)."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def read_target(uri: str, rules: HttpRules) -> HttpTarget:
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
    return HttpTarget(parts.scheme, host, port, _build_path(parts))


def follow_redirect(target: HttpTarget, location: str, rules: HttpRules) -> HttpTarget:
    """Return the target that a redirect leads to, held to the same rules. Raises Unresolvable."""
    if _CHARACTERS.fullmatch(location) is None:
        raise Unresolvable("redirected to what is no URI")
    try:
        uri = urljoin(f"{target.scheme}://{target.authority}{target.path}", location)
        goal = read_target(uri, rules)
    except Unresolvable as refused:
        raise Unresolvable(f"redirected, and {refused}") from None
    except ValueError:
        raise Unresolvable("redirected to what is no URI") from None
    if (target.scheme, goal.scheme) == ("https", "http"):
        raise Unresolvable("redirected from https to http")
    return goal


def _build_path(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path
