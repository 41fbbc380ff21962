"""`sluice rewrap --retire` removes those master keys alone which were read back to wrap nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from sluice.adapters.kafka.kafka_key_erasure import KeyRemains
from sluice.cli.main import cli
from sluice.cli.policy.rewrap import Rewrapped, retire_masters
from sluice.secrets.key_wrapping import make_master_id
from sluice.secrets.redis_seal import make_seal_key, read_seal_keys, write_seal_keys

if TYPE_CHECKING:
    from pathlib import Path

OLD, NEW, NEWEST = (make_seal_key() for _ in range(3))


def make_outcome(master: bytes, *old: bytes) -> Rewrapped:
    return Rewrapped(
        make_master_id(master), [make_master_id(key) for key in old], [], [], KeyRemains(frozenset(), 0.0)
    )


def test_a_key_that_came_into_the_file_while_it_waited_stays(tmp_path: Path) -> None:
    file = tmp_path / "master.keys"
    write_seal_keys(file, (NEW, NEWEST, OLD))
    retire_masters(file, make_outcome(NEW, OLD))
    assert read_seal_keys(file) == (NEW, NEWEST)


def test_where_another_key_wraps_by_now_nothing_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "master.keys"
    write_seal_keys(file, (NEWEST, NEW, OLD))
    with pytest.raises(typer.Exit) as ended:
        retire_masters(file, make_outcome(NEW, OLD))
    assert ended.value.exit_code == 2
    assert "another key" in capsys.readouterr().err
    assert read_seal_keys(file) == (NEWEST, NEW, OLD)


def test_transit_has_no_file_from_which_keys_could_be_taken(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch(mode=0o600)
    environment = {
        "SLUICE_SEALING__TRANSIT_URL": "http://127.0.0.1:9",
        "SLUICE_SEALING__TRANSIT_TOKEN_FILE": str(file),
    }
    ran = CliRunner().invoke(cli, ["rewrap", "--retire"], env=environment)
    assert (ran.exit_code, "min_decryption_version" in ran.output) == (2, True), ran.output
