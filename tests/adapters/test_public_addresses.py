"""Which addresses a reference may lead to: public ones, and no form of any other."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.adapters.http_target import HttpRules, Unresolvable, find_refusal, read_target

INSIDE = ["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
          "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"]  # fmt: skip
FORMS = {
    "mapped": lambda v4: ipaddress.IPv6Address((0xFFFF << 32) | int(v4)),
    "compatible": lambda v4: ipaddress.IPv6Address(int(v4)),
    "translated (RFC 6052)": lambda v4: ipaddress.IPv6Address((0x64FF9B << 96) | int(v4)),
    "translated locally (RFC 8215)": lambda v4: ipaddress.IPv6Address((0x64FF9B0001 << 80) | int(v4)),
    "6to4": lambda v4: ipaddress.IPv6Address((0x2002 << 112) | (int(v4) << 80)),
    "Teredo": lambda v4: ipaddress.IPv6Address((0x20010000 << 96) | (0xFFFFFFFF ^ int(v4))),
}
inside = st.sampled_from([ipaddress.IPv4Network(one) for one in INSIDE]).flatmap(
    lambda network: st.integers(int(network[0]), int(network[-1])).map(ipaddress.IPv4Address)
)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::101:101"]
)
def test_a_public_address_may_be_asked(address: str) -> None:
    assert find_refusal(address, allow_loopback=False) is None


@pytest.mark.parametrize(
    "address",
    ["::", "::1", "fe80::1", "fe80::1%eth0", "2606:4700::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1",
     "2001:db8::1", "3fff::1", "100::1", "5f00::1", "2001::1", "2001:10::1", "4000::1", "192.0.2.1",
     "203.0.113.9", "192.88.99.1", "255.255.255.255", "127.1", "0x7f000001", "", "localhost", "1.1.1.1/32"],
)  # fmt: skip
def test_whatever_is_no_public_address_is_refused(address: str) -> None:
    assert find_refusal(address, allow_loopback=False) is not None


@pytest.mark.parametrize(
    "address",
    ["168.63.129.16", "::ffff:168.63.129.16", "64:ff9b::a83f:8110", "2002:a83f:8110::1",  # Azure
     "169.254.169.254", "169.254.170.2", "169.254.170.23", "fd00:ec2::254", "fd00:ec2::23",  # AWS
     "fd20:ce::254",  # Google
     "100.100.100.200",  # Alibaba
     "192.0.0.192", "fd00:c1::a9fe:a9fe",  # Oracle
     "169.254.0.23",  # Tencent
     "169.254.42.42", "fd00:42::42",  # Scaleway
     "fd00:a9fe:a9fe::1",  # Akamai (Linode)
     "161.26.0.10", "166.9.250.220"],  # IBM
)  # fmt: skip
def test_mend_10_what_tells_a_machine_about_itself_is_refused(address: str) -> None:
    assert find_refusal(address, allow_loopback=False) is not None
    assert find_refusal(address, allow_loopback=True) is not None


@pytest.mark.parametrize("address", ["168.63.129.15", "168.63.129.17", "161.25.255.255", "166.12.0.1"])
def test_the_neighbours_of_such_an_address_may_be_asked(address: str) -> None:
    assert find_refusal(address, allow_loopback=False) is None


@pytest.mark.parametrize(
    "host",
    ["metadata.google.internal", "Metadata.Google.Internal", "metadata.google.internal.", "metadata.goog",
     "a.metadata.google.internal", "metadata.tencentyun.com", "metadata.packet.net", "instance-data",
     "instance-data.ec2.internal", "metadata.azure.com"],
)  # fmt: skip
def test_mend_10_such_a_name_is_refused_even_where_it_is_allowed(host: str) -> None:
    rules = HttpRules(
        (host.lower().removesuffix("."), "*.google.internal", "*.metadata.google.internal"), 1, 1, 1
    )
    with pytest.raises(Unresolvable, match="host not allowed"):
        read_target(f"http://{host}/computeMetadata/v1/", rules)


def test_a_name_that_only_looks_like_one_may_be_asked() -> None:
    rules = HttpRules(("metadata.acme.com", "my-metadata.goog.example"), 1, 1, 1)
    assert read_target("https://metadata.acme.com/", rules).host == "metadata.acme.com"
    assert read_target("https://my-metadata.goog.example/", rules).host == "my-metadata.goog.example"


@given(inside, st.sampled_from(sorted(FORMS)))
def test_an_inner_address_is_refused_in_every_form(address: ipaddress.IPv4Address, form: str) -> None:
    assert find_refusal(str(address), allow_loopback=False) is not None
    assert find_refusal(str(FORMS[form](address)), allow_loopback=False) is not None


@given(inside | st.ip_addresses())
def test_loopback_adds_this_machine_and_nothing_else(address: ipaddress.IPv4Address) -> None:
    opened = find_refusal(str(address), allow_loopback=True) != find_refusal(
        str(address), allow_loopback=False
    )
    assert opened == (address.is_loopback and getattr(address, "ipv4_mapped", None) is None)


@given(st.ip_addresses())
def test_what_python_knows_as_private_is_never_asked(address: ipaddress.IPv4Address) -> None:
    if not address.is_global or address.is_multicast:
        assert find_refusal(str(address), allow_loopback=False) is not None
