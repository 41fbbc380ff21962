"""Only what is the id of a memory to the letter is looked up; anything else is an unknown parent at once."""

from __future__ import annotations

import pytest

from sluice.core.memory.lineage import list_unknown
from sluice.core.memory.plan import Parent

WRITES = "gate.memory.writes.proposed"


@pytest.mark.parametrize("known_as", ["0:5", "7:0", "12:9007199254740991"])
def test_the_id_of_a_memory_is_looked_up(known_as: str) -> None:
    memory = f"memory:{WRITES}:{known_as}"
    assert list_unknown([Parent(memory, None)]) == [memory]


@pytest.mark.parametrize(
    "text",
    [
        f"memory:{WRITES}:0:05",
        f"memory:{WRITES}:00:5",
        f"memory:{WRITES}:0:5:x",
        f"memory:{WRITES}:0:\u0665",
        f"memory:{WRITES}:0:-5",
        f"memory:{WRITES}:0:{'9' * 5000}",
        f"{WRITES}:0:5",
        f"verdict:{WRITES}:0:5",
        f"x:memory:{WRITES}:0:5",
        "memory:gate.actions.proposed:0:5",
        "memory:",
    ],
)
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert list_unknown([Parent(text, None)]) == []
