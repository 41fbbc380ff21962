"""Where heads are sent besides the topic: a file that outlives a kill, an endpoint that may be away."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fcntl
import hmac
import socket
import time
from typing import TYPE_CHECKING

import pytest

from sluice.adapters import head_copies
from sluice.adapters.head_copies import HeadFile, HeadWebhook, open_alone, write_line
from sluice.adapters.kafka import kafka_head_copies
from sluice.adapters.kafka.kafka_head_copies import HeadCluster
from sluice.core.trust.tree_heads import HeadKeys, HeadRefused, digest_head, open_head
from sluice_topics.audience import Audience
from tests.unit.verifier.test_head_check import HEADS, OTHER_HEADS

if TYPE_CHECKING:
    from pathlib import Path

VALUES = [head.value or b"" for head in HEADS]
DIGESTS = [digest_head(open_head(value, 0)[0]) for value in VALUES]
SECRET = b"a secret of twenty-four bytes"


async def test_a_file_has_each_head_once_whatever_a_restart_gives_again(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"
    for upto in (1, 2, 3, 3):
        file = HeadFile(path)
        for number in range(upto):
            file.take(number + 1, DIGESTS[number], VALUES[number])
        await file.require_no_later(upto)
        assert path.read_bytes().splitlines() == VALUES[:upto]
        with path.open("ab") as cut:
            cut.write(b'{"cut off by a kill')


def test_two_signers_of_whom_one_is_about_to_end_leave_each_head_once(tmp_path: Path) -> None:
    """Both catch up with the topic until the broker has fenced the earlier one."""
    path = tmp_path / "heads.jsonl"
    path.write_bytes(VALUES[0] + b"\n")
    both = [HeadFile(path), HeadFile(path)]
    for number in range(3):
        for file in both:
            file.take(number + 1, DIGESTS[number], VALUES[number])
    assert path.read_bytes().splitlines() == VALUES[:3]
    late, other = HeadFile(tmp_path / "others.jsonl"), OTHER_HEADS[1].value or b""
    for number in range(2):
        HeadFile(tmp_path / "others.jsonl").take(number + 1, DIGESTS[number], VALUES[number])
    with pytest.raises(HeadRefused, match="head 2 is another than that in"):
        late.take(2, digest_head(open_head(other, 2)[0]), other)


async def test_a_file_shows_that_the_topic_lost_heads_or_has_others(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"
    path.write_bytes(b"".join(value + b"\n" for value in VALUES))
    with pytest.raises(HeadRefused, match=r"the topic ends with head 2, and .* has head 3"):
        await HeadFile(path).require_no_later(2)
    other = OTHER_HEADS[1].value or b""
    with pytest.raises(HeadRefused, match="head 2 is another than that in"):
        HeadFile(path).take(2, digest_head(open_head(other, 2)[0]), other)
    path.write_bytes(VALUES[1] + b"\n")
    with pytest.raises(HeadRefused, match="line 1 is head 2"):
        HeadFile(path)


def test_who_may_only_read_the_file_holds_up_no_head(tmp_path: Path) -> None:
    path = tmp_path / "heads.jsonl"
    HeadFile(path).take(1, DIGESTS[0], VALUES[0])
    with path.open("rb") as reading:
        fcntl.flock(reading, fcntl.LOCK_EX)
        file = HeadFile(path)
        file.take(1, DIGESTS[0], VALUES[0])
        file.take(2, DIGESTS[1], VALUES[1])
    assert path.read_bytes().splitlines() == VALUES[:2]
    assert [each.stat().st_mode & 0o777 for each in tmp_path.glob("*.lock")] == [0o600]


def test_a_file_that_somebody_holds_is_given_up_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_copies, "_LOCK_S", 0.2)
    path = tmp_path / "heads.jsonl"
    file = HeadFile(path)
    with open_alone(path), pytest.raises(OSError, match="is held by another process"):
        file.take(1, DIGESTS[0], VALUES[0])
    file.take(1, DIGESTS[0], VALUES[0])
    assert path.read_bytes() == VALUES[0] + b"\n"


@pytest.mark.parametrize("cut", [b'{"cut off', VALUES[0] + b"\n" + b"x" * 100_000])
def test_a_line_takes_the_place_of_one_that_a_kill_cut_off(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_bytes(cut)
    with open_alone(path) as file:
        write_line(file, VALUES[1])
    assert path.read_bytes() == cut[: cut.rfind(b"\n") + 1] + VALUES[1] + b"\n"


async def _drip(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nx-",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 1_000_000,
        b"HTTP/1.1 307 Elsewhere\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n",
        b"\xff\x00 no HTTP\r\n\r\n",
    ],
    ids=["silent", "dripping headers", "continue", "dripping body", "huge body", "redirect", "garbage"],
)
async def test_what_an_endpoint_answers_holds_the_signer_up_no_longer_than_its_time(answer: bytes) -> None:
    requests: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        with contextlib.suppress(OSError):
            await (_drip(writer) if answer else asyncio.sleep(20))

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    webhook = HeadWebhook(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/heads", SECRET, 1)
    webhook.take(1, DIGESTS[0], VALUES[0])
    began = time.monotonic()
    for _ in range(2):
        await webhook.deliver()
    assert time.monotonic() - began < 8
    assert not any(b"/again" in request for request in requests)
    await webhook.close()
    server.close()


async def test_a_second_cluster_that_never_answers_holds_the_signer_up_no_longer_than_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kafka_head_copies, "_START_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = f"127.0.0.1:{silent.getsockname()[1]}"
        copies = HeadCluster(cluster, "p.", (HeadKeys([]), Audience("", "p.")), 1)
        copies.take(1, DIGESTS[0], VALUES[0])
        began = time.monotonic()
        await copies.require_no_later(1)
        await copies.deliver()
        assert time.monotonic() - began < 6


async def test_an_endpoint_gets_the_newest_head_and_again_after_it_was_away() -> None:
    answers, taken = [b"503 Away", b"200 OK"], list[tuple[bytes, bytes]]()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        taken.append((head, await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 " + answers.pop(0) + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(receive, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        webhook = HeadWebhook(f"http://127.0.0.1:{port}/heads", SECRET, 30)
        webhook.take(1, DIGESTS[0], VALUES[0])
        webhook.take(2, DIGESTS[1], VALUES[1])
        for _ in range(3):
            await webhook.deliver()
        await webhook.close()
    assert [body for _, body in taken] == [VALUES[1]] * 2
    lines = [line.partition(b": ") for line in taken[0][0].split(b"\r\n")]
    fields = {name.lower(): value for name, _, value in lines}
    signed = b"head:2." + fields[b"webhook-timestamp"] + b"." + VALUES[1]
    signature = base64.b64encode(hmac.digest(SECRET, signed, "sha256"))
    assert (fields[b"webhook-id"], fields[b"webhook-signature"]) == (b"head:2", b"v1," + signature)


async def test_an_endpoint_that_does_not_answer_holds_nothing_up() -> None:
    webhook = HeadWebhook("http://127.0.0.1:1/heads", SECRET, 5)
    await webhook.deliver()
    webhook.take(1, DIGESTS[0], VALUES[0])
    await asyncio.wait_for(webhook.deliver(), 20)
    await webhook.close()
