"""Mend 22.23: lines of Kafka's client are thinned out, and a broker that goes and comes is two lines."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import NotLeaderForPartitionError

from sluice.client.kafka_lines import (
    CLIENTS,
    EVERY_S,
    MOST_KINDS,
    PASSING_S,
    KafkaLines,
    thin_out_kafka_lines,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    """Goes on when it is told."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def said() -> Iterator[list[str]]:
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    kept = Kept()
    logging.getLogger().addHandler(kept)
    yield found
    logging.getLogger().removeHandler(kept)


def line(
    text: str, *args: object, name: str = "aiokafka.conn", level: int = logging.INFO
) -> logging.LogRecord:
    return logging.LogRecord(name, level, __file__, 1, text, args, None)


def test_the_first_line_of_a_kind_passes_and_then_one_in_a_while_with_a_count(said: list[str]) -> None:
    clock = Clock()
    lines = KafkaLines(now_s=clock)
    for node in range(1000):
        lines.handle(line("Unable connect to node with id %s", node))
        lines.handle(line("another matter"))
    assert said == ["Unable connect to node with id 0", "another matter"]
    clock.s = EVERY_S
    lines.handle(line("Unable connect to node with id %s", "last"))
    assert said[2:] == ["Unable connect to node with id last (999 more of this kind before)"]


def test_what_the_client_tries_again_is_told_once_it_lasts(said: list[str]) -> None:
    """A healthy start on a fresh broker has some, as errors; the demo had 17 of them."""
    clock = Clock()
    lines, moved = KafkaLines(now_s=clock), NotLeaderForPartitionError()
    for second in (0.0, 0.1, PASSING_S - 0.1):
        clock.s = second
        lines.handle(line("Got error produce response: %s", moved))
    assert said == []
    clock.s = PASSING_S
    lines.handle(line("Got error produce response: %s", moved))
    assert len(said) == 1
    assert "3 more of this kind" in said[0]


def test_kinds_are_bounded(said: list[str]) -> None:
    lines = KafkaLines(now_s=Clock())
    for number in range(3 * MOST_KINDS):
        lines.handle(line(f"kind {number}"))
    assert len(said) == 3 * MOST_KINDS
    lines.handle(line("kind 0"))
    lines.handle(line(f"kind {3 * MOST_KINDS - 1}"))
    assert said[3 * MOST_KINDS :] == ["kind 0"], "the oldest kinds are forgotten"


@contextmanager
def listen(port: int = 0) -> Iterator[int]:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        yield server.getsockname()[1]


def wait_until(said: list[str], word: str) -> None:
    deadline = time.monotonic() + 30
    while not any(word in one for one in said):
        assert time.monotonic() < deadline, said
        time.sleep(0.01)


def test_a_broker_that_goes_and_comes_is_told_in_two_lines_and_one_that_is_there_in_none(
    said: list[str],
) -> None:
    lines = KafkaLines(look_s=0.05)
    with listen() as other:
        with listen() as port:
            servers, there = f"127.0.0.1:{port}", f"127.0.0.1:{other}"
            lines.watch(servers)
            lines.watch(there)
            lines.handle(line("a heartbeat failed", level=logging.WARNING))
        deadline = time.monotonic() + 30
        while not lines.is_away(servers):
            assert time.monotonic() < deadline
            lines.handle(line("a heartbeat failed", level=logging.WARNING))
            time.sleep(0.01)
        assert not lines.is_away(there)
        with listen(port):
            wait_until(said, "broker back after")
    assert not lines.is_away(servers)
    ours = [one for one in said if one.startswith("broker ")]
    assert [one.partition(" since")[0].partition(" after")[0] for one in ours] == [
        "broker away",
        "broker back",
    ]
    assert all(servers in one and there not in one for one in ours)


def test_it_is_installed_once_whoever_asks() -> None:
    first, second = thin_out_kafka_lines("127.0.0.1:1"), thin_out_kafka_lines("127.0.0.1:2")
    assert first is second
    assert all(logging.getLogger(one).handlers.count(first) == 1 for one in CLIENTS)
    first.unwatch("127.0.0.1:1")
    first.unwatch("127.0.0.1:2")


def test_nobody_is_told_of_a_broker_whose_last_client_has_disconnected(said: list[str]) -> None:
    lines = KafkaLines(look_s=0.01)
    with listen() as port:
        left, used = f"127.0.0.1:{port}", f"localhost:{port}"
    for servers in (left, left, used):
        lines.watch(servers)
    lines.unwatch(left)
    lines.handle(line("gone", level=logging.ERROR))
    wait_until(said, left)
    wait_until(said, used)
    lines.unwatch(left)
    assert not lines.is_away(left)
    with listen(port):
        wait_until(said, "broker back after")
        time.sleep(0.1)
    assert [one for one in said if left in one and "back" in one] == []


def test_an_address_without_a_port_is_looked_for_at_kafka_s(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def connect(address: tuple[str, int], _within_s: float) -> socket.socket:
        asked.append(address)
        if address[0] != "there":
            raise ConnectionRefusedError
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    lines = KafkaLines(look_s=0.01)
    lines.watch("kafka, [::1]:9093,there")
    lines.handle(line("gone", level=logging.ERROR))
    until = time.monotonic() + 5
    while len(asked) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert asked == [("kafka", 9092), ("::1", 9093), ("there", 9092)]
    assert not lines.is_away("kafka, [::1]:9093,there")
