"""The pins of an MCP server: what was accepted is shown, all else is held back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sluice.adapters.mcp.pins import INSTRUCTIONS, Pins, PinsError, list_servers, name_key
from sluice.adapters.mcp.proxy_file import ProxyOptions
from sluice.core.registry.keys import SigningKey

if TYPE_CHECKING:
    from pathlib import Path

READ, WRITE = name_key("read"), name_key("write")
SEEN = {READ: {"name": "read", "inputSchema": {"maximum": 1}}, INSTRUCTIONS: "Read first."}
KEY, STRANGER = (SigningKey(Ed25519PrivateKey.generate()) for _ in range(2))


def test_the_first_sight_is_shown_whole_and_the_second_as_far_as_it_is_the_same(tmp_path: Path) -> None:
    pins = Pins(tmp_path, "notes")
    assert pins.admit(SEEN) == SEEN.keys()
    changed = {**SEEN, READ: {"name": "read", "inputSchema": {"maximum": True}}, WRITE: {}}
    assert pins.admit(changed) == {INSTRUCTIONS}
    assert pins.read_held() == {READ: changed[READ], WRITE: {}}
    pins.accept({READ: changed[READ]})
    assert pins.admit(changed) == {INSTRUCTIONS, READ}
    assert pins.admit({READ: changed[READ]}) == {READ}
    assert pins.read_held() == {}
    assert list_servers(tmp_path) == ["notes"]


def test_only_the_key_that_is_given_counts(tmp_path: Path) -> None:
    assert Pins(tmp_path, "seen", KEY.public).admit(SEEN) == frozenset()
    Pins(tmp_path, "seen", KEY).accept({READ: SEEN[READ]})
    assert Pins(tmp_path, "seen", KEY.public).admit(SEEN) == {READ}
    for other in (STRANGER, STRANGER.public, None):
        with pytest.raises(PinsError, match="signed"):
            Pins(tmp_path, "seen", other).admit(SEEN)
    Pins(tmp_path, "unsigned").admit(SEEN)
    with pytest.raises(PinsError, match="not signed with this key"):
        Pins(tmp_path, "unsigned", KEY).admit(SEEN)


def test_signed_pins_are_good_for_their_server_alone(tmp_path: Path) -> None:
    Pins(tmp_path, "one", KEY).admit(SEEN)
    (tmp_path / "one.pins.json").rename(tmp_path / "other.pins.json")
    with pytest.raises(PinsError, match="another server"):
        Pins(tmp_path, "other", KEY).admit(SEEN)


@pytest.mark.parametrize("name", ["", "../one", "a/b", ".", "a b", "a.b"])
def test_a_server_is_named_like_a_file_and_without_a_dot(tmp_path: Path, name: str) -> None:
    with pytest.raises(PinsError, match="a server's name"):
        Pins(tmp_path, name)


def test_no_tool_is_taken_for_another_one() -> None:
    """Mend 22.7: a tool's name in the registry says its server and its tool in one way alone."""
    one = ProxyOptions("a", "s", {"write": "shared.write", "send": "a.mail"})
    assert one.name_registered("b.c") == "a.b.c"
    assert [one.is_ambiguous(name) for name in ("b.c", "write", "send", "mail")] == [
        False,
        False,
        False,
        True,
    ]


def test_of_proxies_that_see_a_server_first_at_once_one_pins_it(tmp_path: Path) -> None:
    sights = [{READ: {"name": "read", "title": str(number)}} for number in range(16)]
    with ThreadPoolExecutor(16) as threads:
        shown = list(threads.map(Pins(tmp_path, "raced", KEY).admit, sights))
    assert sum(READ in one for one in shown) == 1
