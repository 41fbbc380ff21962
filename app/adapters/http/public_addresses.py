"""Which addresses are somebody else's on the public internet: the only ones that a reference may lead to.

By IANA's registries of special-purpose addresses for IPv4 and IPv6 (RFC 6890 and its updates), which are
said twice, here and by `ipaddress`, whose lists differ between releases of Python. Most providers of machines
answer at one of those (169.254.169.254 and others of 169.254.0.0/16, 100.100.100.200, 192.0.0.192,
fd00:ec2::254, fd20:ce::254); what answers at a public address or by a name of its own is listed beside them.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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


def refusal_of(address: str, *, allow_loopback: bool) -> str | None:
    """Why nothing may connect to this address, None if it may. `allow_loopback`: for tests and the demo."""
    try:
        found = ip_address(address)
    except ValueError:
        return "it is no address"
    if allow_loopback and any(found in network for network in _LOOPBACK):
        return None
    return None if _is_public(found) else f"{found} is no public address"


def is_providers_name(host: str) -> bool:
    """Whether a host, in lower case, is one by which providers tell a machine about itself, or below one."""
    name = host.removesuffix(".")
    return any(name == one or name.endswith(f".{one}") for one in _PROVIDERS_NAMES)


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
