"""Mend 22.24: what a settings file of an earlier version lacks is put into it, beside what it says."""

from __future__ import annotations

import os
import stat
import tomllib
from typing import TYPE_CHECKING

import pytest

from sluice.cli.machine.init_settings import (
    NotExtendedError,
    extend,
    extend_or_stop,
    find_missing,
    write_settings,
)
from sluice.settings.reader import Settings, load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.cli.machine.init_settings import OwnSettings

OWN: OwnSettings = {
    "redis": {"key_file": "/h/redis.keys"},
    "verdicts": {"signing_key": "/h/verdicts.pem", "public_keys": ["K"]},
    "policy": {"root_keys": ["R"], "installation": "i"},
}
EARLIER = '# mine\n[policy] # trust\nroot_keys = ["R"]\n\n[redis]\nurl = "redis://r"'


def test_each_line_stays_and_what_was_missing_stands_in_its_group() -> None:
    missing = find_missing(EARLIER, OWN)
    assert missing == {**OWN, "policy": {"installation": "i"}}
    whole = extend(EARLIER, missing)
    added = ['installation = "i"', 'key_file = "/h/redis.keys"', "", "[verdicts]"]
    added += ['signing_key = "/h/verdicts.pem"', 'public_keys = ["K"]']
    mine = EARLIER.splitlines()
    assert whole.splitlines() == [*mine[:2], added[0], *mine[2:5], added[1], mine[5], *added[2:]]
    assert tomllib.loads(whole)["redis"] == {"url": "redis://r", "key_file": "/h/redis.keys"}
    assert find_missing(whole, OWN) == {}


def test_a_file_that_says_anything_of_the_workers_keys_says_it_all() -> None:
    other = f'{EARLIER}\n[verdicts]\npublic_keys = ["of another machine"]\n'
    assert "verdicts" not in find_missing(other, OWN)


@pytest.mark.parametrize("text", ['policy = {root_keys = ["R"]}\n', 'policy.root_keys = ["R"]\n'])
def test_a_file_that_would_say_something_else_is_left_alone(text: str) -> None:
    with pytest.raises(NotExtendedError, match="installation"):
        extend(text, find_missing(text, OWN))


def test_what_changes_the_meaning_of_earlier_records_is_left_to_a_person(tmp_path: Path) -> None:
    """Mend 22.26.1: until the person has added it, each run says so."""
    file = tmp_path / "sluice.toml"
    file.write_text(EARLIER)
    left = {"verdicts": {"public_keys": ["K"]}, "policy": {"installation": "i"}}
    added = ["redis.key_file", "verdicts.signing_key"]
    assert extend_or_stop(file, OWN, Settings(), fresh=False) == (added, left)
    assert tomllib.loads(file.read_text())["verdicts"] == {"signing_key": "/h/verdicts.pem"}
    assert extend_or_stop(file, OWN, Settings(), fresh=False) == ([], left)
    known = Settings.model_validate({"policy": {"installation": "i"}})
    assert extend_or_stop(file, OWN, known, fresh=False)[0] == ["policy.installation"]
    assert extend_or_stop(file, OWN, Settings(), fresh=True) == (["verdicts.public_keys"], {})


def test_the_file_is_replaced_whole_with_the_permissions_that_it_had(tmp_path: Path) -> None:
    """Mend 22.26.4: who reads it meanwhile reads all of the old one."""
    file, same = tmp_path / "sluice.toml", tmp_path / "same"
    file.write_text(EARLIER)
    file.chmod(0o640)
    os.link(file, same)
    extend_or_stop(file, OWN, Settings(), fresh=True)
    assert same.read_text() == EARLIER
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == ["same", "sluice.toml"]


def test_the_file_has_the_connection_and_no_secret_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("s3cret-word")
    given = {
        "BOOTSTRAP_SERVERS": "kafka.example.com:9093",
        "SECURITY_PROTOCOL": "SASL_SSL",
        "CA_FILE": "/etc/ca.pem",
        "SASL_MECHANISM": "PLAIN",
        "USERNAME": "x",
    }
    environment = {f"SLUICE_KAFKA__{name}": value for name, value in given.items()}
    by_text = load_settings(environment=environment | {"SLUICE_KAFKA__PASSWORD": "s3cret-word"})
    assert "s3cret-word" not in write_settings(by_text, {})
    by_file = environment | {"SLUICE_KAFKA__PASSWORD_FILE": str(tmp_path / "word")}
    (tmp_path / "own.toml").write_text(write_settings(load_settings(environment=by_file), {}))
    read = load_settings(tmp_path / "own.toml", environment={}).kafka
    assert read.connection == load_settings(environment=by_file).kafka.connection
    assert read.connection.password == "s3cret-word"  # noqa: S105 - of nobody
