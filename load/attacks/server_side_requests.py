"""Server-side requests: have a worker's resolver ask what only it can reach, or hang on what it asked.

The attacker chooses references (`provenance_uri`), runs the servers that they lead to and answers for names.
The resolver is that of workers and the servers are real; nothing may reach the one inside.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from load.attacks.attempt import Attempt
from load.attacks.two_servers import (
    ANSWER_S,
    FLOODS,
    MOST_TAKEN,
    PATIENCE_S,
    body_of,
    count,
    open_servers,
    time_for,
)
from sluice.adapters.checked_network import HostNames
from sluice.adapters.http_provenance import HttpProvenance
from sluice.adapters.http_target import HttpRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from load.attacks.attempt import Extent
    from load.attacks.two_servers import ServersScene

HOST = "docs.example.com"


def run(extent: Extent) -> Iterator[Attempt]:
    """Every way in; both forms are the same."""
    del extent
    yield from asyncio.run(_attack())


async def _attack() -> list[Attempt]:
    async with open_servers() as scene:
        return [
            *[await _reference(scene, uri) for uri in _references(scene.port)],
            *[await _redirect(scene, location) for location in _locations(scene.port)],
            *[await _name(scene, names) for names in NAMES],
            await _rebound(scene),
            *[await _try_flood(scene, *flood) for flood in FLOODS],
            *count(scene),
        ]


def _references(port: int) -> Sequence[str]:
    """Each leads to this machine or to its provider in some reader's eyes; the last is honest."""
    hosts = (
        *("127.0.0.2", "127.2", "2130706434", "0x7f000002", "0177.0.0.2", "0x7f.2", "localhost", "0"),
        *("[::ffff:127.0.0.2]", "[::ffff:7f00:2]", "[::1]", "[::]", "[64:ff9b::7f00:2]", "[fe80::1%25lo]"),
        *("169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "127.0.0.2."),
        *(f"{HOST}@127.0.0.2", f"user:pass@{HOST}", f"127.0.0.2\\@{HOST}", f"127.0.0.2#@{HOST}"),
        *(f"{HOST}.127.0.0.2.nip.io", f"{HOST}%2f@127.0.0.2", f"127.0.0.2%23.{HOST}", "127。0。0。2"),
    )
    return (
        *(f"http://{host}:{port}/" for host in hosts),
        *(f"{scheme}://127.0.0.2:{port}/" for scheme in ("gopher", "ftp", "dict", "ldap", "jar:http")),
        *("file:///etc/passwd", "file://127.0.0.2/etc/passwd", "data:text/plain,x", f"//127.0.0.2:{port}/"),
        f"http://{HOST}:{port}/\r\nHost: 127.0.0.2",
        f"http://{HOST}:{port}/",
    )


async def _reference(scene: ServersScene, uri: str) -> Attempt:
    scene.outside.will(body_of(b"a page"))
    honest = uri == f"http://{HOST}:{scene.port}/"
    result = await _resolve(scene, uri)
    plain = not any(word in "".join(scene.outside.heads).lower() for word in ("authorization", "cookie"))
    return Attempt(f"a reference {uri!r}", plain and (result[0] == honest), result[1], harmless=honest)


async def _resolve(
    scene: ServersScene, uri: str, lookup: Any = None, *, pinned: bool = True, timeout_s: float = ANSWER_S
) -> tuple[bool, str]:
    """Whether something was fetched, and what the record says. `lookup` None: the system's."""
    rules = HttpRules(
        (HOST,), 100_000, int(timeout_s * 1000), 3, (scene.port,), allow_loopback=True,
        pinned={HOST: "127.0.0.1"} if pinned else {},
    )  # fmt: skip
    source = HttpProvenance(rules, lookup or HostNames().look_up, ssl.create_default_context())
    asked = len(scene.inside.heads)
    async with asyncio.timeout(PATIENCE_S):
        answer = await source.resolve("acme", uri, None)
    inside = len(scene.inside.heads) - asked
    return answer.resolution is not None or inside > 0, f"{answer.detail or 'fetched'}; inside {inside}"


def _locations(port: int) -> Sequence[str]:
    return (
        *(f"http://127.0.0.2:{port}/", f"//127.0.0.2:{port}/", f"http://localhost:{port}/", "file:///etc/passwd"),
        *(f"http://[::1]:{port}/", f"http://2130706434:{port}/", "http://169.254.169.254/latest/meta-data/"),
        *(f"http://{HOST}@127.0.0.2:{port}/", f"http://user:pass@{HOST}:{port}/", f"http://{HOST}:22/", "/"),
        *(f"\\\\127.0.0.2:{port}/", f"http://127.0.0.2:{port}\\@{HOST}/", "", "http://[", "gopher://127.0.0.2"),
    )  # fmt: skip


async def _redirect(scene: ServersScene, location: str) -> Attempt:
    scene.outside.will(b"HTTP/1.1 302 Found\r\ncontent-length: 0\r\nlocation: %s\r\n\r\n" % location.encode())
    fetched, reason = await _resolve(scene, f"http://{HOST}:{scene.port}/")
    return Attempt(f"a redirect to {location!r}", not fetched, reason)


NAMES: Sequence[Sequence[str]] = (
    *(["10.0.0.5"], ["192.168.1.1"], ["169.254.169.254"], ["100.100.100.200"], ["168.63.129.16"]),
    *(["0.0.0.0"],  # noqa: S104 - refused
      ["::ffff:10.0.0.5"], ["::ffff:127.0.0.2"], ["64:ff9b::a00:5"], ["2002:a00:5::"], ["fd00::5"]),
    *(["fe80::1%lo"], ["127.0.0.1", "10.0.0.5"], ["not an address"], []),
)  # fmt: skip


async def _name(scene: ServersScene, addresses: Sequence[str]) -> Attempt:
    async def lookup(_: str, __: str) -> Sequence[str]:
        return addresses

    fetched, reason = await _resolve(scene, f"http://{HOST}:{scene.port}/", lookup, pinned=False)
    return Attempt(f"a name that leads to {addresses}", not fetched, reason)


async def _rebound(scene: ServersScene) -> Attempt:
    """The name leads outside when it is looked at, and inside from then on."""
    asked: list[str] = []

    async def lookup(_: str, host: str) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    scene.outside.will(body_of(b"a page"))
    fetched, reason = await _resolve(scene, f"http://{HOST}:{scene.port}/", lookup, pinned=False)
    held = fetched and len(asked) == 1 and reason.endswith("inside 0")
    return Attempt("a name that leads elsewhere after it was checked", held, reason)


async def _try_flood(scene: ServersScene, tried: str, first: bytes, again: bytes, pause_s: float) -> Attempt:
    scene.outside.will(first, again, pause_s)
    fetched, reason = await _resolve(scene, f"http://{HOST}:{scene.port}/", timeout_s=time_for(again))
    taken = scene.outside.sent
    return Attempt(
        f"{tried}, behind a reference", not fetched and taken < MOST_TAKEN, f"{reason}, {taken} bytes"
    )
