"""Mend 22.7: what a hostile MCP server sends is judged or dropped, and it gets no secret (`hostile_mcp`).

Mend 22: sessions of tasks and threads stay apart, and no cancelled call runs its tool (`interrupted_calls`).

Mend 22.attacks: answers at one moment end an escalation once, and use a grant no further (`raced_answers`).

Mend 22.attacks: a review counts once, and for nothing else than it names (`reused_reviews`).

Mend 22.8: no worker starts on control topics put back with less, until two people sign it (`lost_topics`).

Each attack that needs a broker, in its short form: nothing gets through, and honest input passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from load.attacks.attack_list import ATTACKS

if TYPE_CHECKING:
    from load.attacks.attempt import Attack

pytestmark = pytest.mark.kafka


@pytest.mark.timeout(600)  # workers that sleep for longer than their sessions and their producer ids last
@pytest.mark.parametrize("attack", [one for one in ATTACKS if one.needs_broker], ids=lambda one: one.name)
def test_nothing_gets_through(attack: Attack, kafka: str) -> None:
    run_on = attack.run_on
    attempts = list(attack.run("short") if run_on is None else run_on("short", kafka))
    assert [one for one in attempts if not one.held and not one.known_limit] == []
    assert any(not one.harmless for one in attempts), "an attack that tries nothing shows nothing"
    assert any(one.harmless for one in attempts), (
        "without a control, a system that refuses everything would pass"
    )
