"""Mend 22.24: what a settings file of an earlier version lacks is put into it, beside what it says."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from sluice.cli.machine.init_settings import NotExtendedError, extended, missing_settings

if TYPE_CHECKING:
    from sluice.cli.machine.init_settings import OwnSettings

OWN: OwnSettings = {
    "redis": {"key_file": "/h/redis.keys"},
    "verdicts": {"signing_key": "/h/verdicts.pem", "public_keys": ["K"]},
    "policy": {"root_keys": ["R"], "installation": "i"},
}
EARLIER = '# mine\n[policy] # trust\nroot_keys = ["R"]\n\n[redis]\nurl = "redis://r"'


def test_each_line_stays_and_what_was_missing_stands_in_its_group() -> None:
    missing = missing_settings(EARLIER, OWN)
    assert missing == {**OWN, "policy": {"installation": "i"}}
    whole = extended(EARLIER, missing)
    added = ['installation = "i"', 'key_file = "/h/redis.keys"', "", "[verdicts]"]
    added += ['signing_key = "/h/verdicts.pem"', 'public_keys = ["K"]']
    mine = EARLIER.splitlines()
    assert whole.splitlines() == [*mine[:2], added[0], *mine[2:5], added[1], mine[5], *added[2:]]
    assert tomllib.loads(whole)["redis"] == {"url": "redis://r", "key_file": "/h/redis.keys"}
    assert missing_settings(whole, OWN) == {}


def test_a_file_that_says_anything_of_the_workers_keys_says_it_all() -> None:
    other = f'{EARLIER}\n[verdicts]\npublic_keys = ["of another machine"]\n'
    assert "verdicts" not in missing_settings(other, OWN)


@pytest.mark.parametrize("text", ['policy = {root_keys = ["R"]}\n', 'policy.root_keys = ["R"]\n'])
def test_a_file_that_would_say_something_else_is_left_alone(text: str) -> None:
    with pytest.raises(NotExtendedError, match="installation"):
        extended(text, missing_settings(text, OWN))
