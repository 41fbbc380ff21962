"""The traffic of the fault runs: what it draws does what its run needs."""

from __future__ import annotations

import json
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from load.inputs.traffic import Traffic
from load.installations.installation import Mix
from load.installations.neutral_policy import READ_TOOL
from sluice_demo.throwaway_trust import ThrowawayTrust


@settings(max_examples=50)
@given(st.integers(0, 2**32))
def test_no_gate_before_the_poisonous_one_stops_a_poisonous_action(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded
    poison = Traffic(rng, "t", Mix(sessions=2, slow=0.0), ThrowawayTrust().reviewer).poison()
    assert json.loads(poison.value)["toolName"] == READ_TOOL
