"""Mend 22.attacks: no reference has a worker ask what only it can reach (`server_side_requests`).

Mend 22.attacks: no receiver leads a token astray or stops the notifier (`hostile_receivers`).

Mend 22.1: no answer of Slack's API ends, fills or holds up the notifier (`hostile_receivers`).

Mend 22.attacks: no tenant gets, spoils or finds out what a model answered for another (`others_answers`).

Each attack that needs no broker, in its short form: nothing gets through, and honest input passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from load.attacks.attack_list import ATTACKS

if TYPE_CHECKING:
    from load.attacks.attempt import Attack


@pytest.mark.parametrize("attack", [one for one in ATTACKS if not one.needs_broker], ids=lambda one: one.name)
def test_nothing_gets_through(attack: Attack, request: pytest.FixtureRequest) -> None:
    if attack.needs_redis:
        request.getfixturevalue("real_redis")
    attempts = list(attack.run("short"))
    assert [one for one in attempts if not one.held and not one.known_limit] == []
    assert any(not one.harmless for one in attempts), "an attack that tries nothing shows nothing"
    assert any(one.harmless for one in attempts), "a system that refuses everything would pass too"
