"""Mend 22.6: whoever writes to the Redis of gateways and workers plants nothing that counts.

What is planted in a real Redis, by kind and purpose: `load/attacks/planted_entries.py`.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.gateway.idempotency import RedisAnswers, name_request
from sluice.secrets.redis_seal import (
    Purpose,
    Seal,
    SealKeys,
    SealKeysError,
    add_password,
    load_seal_keys,
    read_seal_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.redis_server import RedisServer

OLD, NEW = b"o" * 32, b"n" * 32
PURPOSES: tuple[Purpose, ...] = ("idempotent answer", "model answer", "log-in")


def seal(*keys: bytes, purpose: Purpose = "idempotent answer") -> Seal:
    return Seal(lambda: keys, purpose)


@given(
    name=st.binary(max_size=40),
    other=st.binary(max_size=40),
    text=st.binary(max_size=200),
    cut=st.integers(0, 300),
    bit=st.integers(0, 7),
)
def test_an_entry_counts_whole_under_its_name_for_its_purpose_and_until_its_time_alone(
    name: bytes, other: bytes, text: bytes, cut: int, bit: int
) -> None:
    entry = seal(NEW).seal(name, text, 100.0)
    assert seal(NEW).unseal(name, entry, 99.0) == text
    assert seal(NEW).unseal(name, entry, 100.0) is None
    assert name == other or seal(NEW).unseal(other, entry, 99.0) is None
    assert seal(OLD).unseal(name, entry, 99.0) is None
    assert seal(NEW, purpose="model answer").unseal(name, entry, 99.0) is None
    assert cut >= len(entry) or seal(NEW).unseal(name, entry[:cut], 99.0) is None
    if cut < len(entry):
        turned = entry[:cut] + bytes([entry[cut] ^ 1 << bit]) + entry[cut + 1 :]
        assert seal(NEW).unseal(name, turned, 99.0) is None
    assert len(text) < 8 or text not in entry, "who reads the Redis reads no text"


def test_a_wrong_seal_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert seal(NEW).unseal(b"n", b"anything", 0.0) is None
    assert "not sealed by this installation" in caplog.text


def test_a_key_is_changed_while_every_entry_goes_on_to_count(tmp_path: Path) -> None:
    file = tmp_path / "redis.keys"

    def keys(*words: str) -> int:
        return CliRunner().invoke(cli, ["keys", "seal", str(file), *words]).exit_code

    assert keys() == 0
    assert file.stat().st_mode & 0o077 == 0
    running = SealKeys(file)
    entries = [Seal(running, "log-in").seal(b"n", b"0", 1e12)]
    assert keys("--use") == 1, "there is no other key yet"
    for step in ([], ["--use"]):
        assert keys(*step) == 0
        entries.append(Seal(running, "log-in").seal(b"n", b"0", 1e12))
        for entry in entries:
            assert Seal(running, "log-in").unseal(b"n", entry, 0.0) == b"0"
    assert entries[0] == entries[1] != entries[2], "a new key opens before it seals"
    assert keys("--retire") == 0
    opened = [Seal(running, "log-in").unseal(b"n", entry, 0.0) for entry in entries]
    assert opened == [None, None, b"0"]


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"c2hvcnQ=\n", b64encode(NEW) + b"\nx\n", (b64encode(NEW) + b"\n") * 9]
)
def test_a_file_that_is_none_is_refused_and_counts_for_nothing_later(tmp_path: Path, text: bytes) -> None:
    file = tmp_path / "redis.keys"
    file.write_bytes(b64encode(NEW))
    file.chmod(0o600)
    running = SealKeys(file)
    file.write_bytes(text)
    with pytest.raises(SealKeysError, match=r"redis\.keys"):
        read_seal_keys(file)
    assert running() == (NEW,)
    file.write_bytes(b64encode(OLD))
    assert running() == (OLD,)
    file.chmod(0o640)
    with pytest.raises(SealKeysError, match="chmod 600"):
        SealKeys(file)
    with pytest.raises(SealKeysError, match=r"redis\.key_file"):
        load_seal_keys(None)


def test_a_password_comes_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("a b/c@d\n")
    assert add_password("redis://r:6379/0", file) == "redis://:a%20b%2Fc%40d@r:6379/0"
    assert add_password("redis://u@r/0", file) == "redis://u:a%20b%2Fc%40d@r/0"
    for url in ("redis://:own@r/0", "redis://u:own@r/0"):
        assert add_password(url, file) == url
    assert add_password("redis://r/0", None) == "redis://r/0"
    with pytest.raises(SealKeysError, match="missing"):
        add_password("redis://r/0", tmp_path / "missing")


@pytest.fixture(scope="module")
def redis(real_redis: type[RedisServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with real_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


async def test_of_two_gateways_that_find_a_planted_entry_one_alone_puts_its_own_there(
    redis: RedisServer,
) -> None:
    name = name_request("acme/1", "k")
    with Redis.from_url(redis.url) as raw:
        raw.set(f"x.sluice:idempotency:{name}", b"planted")
        stores = [RedisAnswers(redis.url, "x.", seal(NEW)) for _ in range(8)]
        found = [await one.add(name, b"%d" % number, "acme/1") for number, one in enumerate(stores)]
        assert found == [None] + [b"0"] * 7
        assert 0 < int(raw.ttl(f"x.sluice:idempotency:{name}")) <= 86_400
    for one in stores:
        await one.close()


def test_names_of_requests_of_different_callers_differ_whatever_they_are_called() -> None:
    assert name_request("t/a:q/b", "k") != name_request("t/a", "q/b:k")
