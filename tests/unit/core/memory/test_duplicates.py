"""A write's id seen again: the same answer and no count, a conflict, or a new write past the window."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.core.state.statistics import Statistics, Whose
from tests.unit.core.memory.write_scene import STRANGER, Place, place
from tests.unit.core.scene import MINUTE, kinds, only

OPERATOR = Whose("acme", "operator")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"derived_from": [STRANGER]},
        {"timestamp": None},
        {"agent_id": "trial", "timestamp": None},
    ],
)
def test_a_repeat_is_answered_alike_and_counts_nowhere(fields: dict[str, Any]) -> None:
    repeated = Place()
    first = repeated.decide(**fields)
    counted = dict(repeated.book.statistics)
    again = repeated.write(**fields)
    decided = only(again, "MemoryDecision")
    assert kinds(again) == ["MemoryDecision"]
    assert decided["duplicate_of"] == first["memory_id"] != decided["memory_id"]
    assert decided["reason"] == f"duplicate_of: {first['memory_id']}"
    assert (decided["action"], decided["shadowAction"]) == (first["action"], first["shadowAction"])
    assert (decided["reviewAfterMs"], decided["trustScore"]) == (None, None)
    assert (repeated.book.statistics, again.book) == (counted, ())
    assert decided["seen"]["known"]["offset"] == 1


def test_a_repeat_of_a_repeat_names_the_first() -> None:
    repeated = Place()
    first = repeated.decide()["memory_id"]
    assert [repeated.decide()["duplicate_of"] for _ in range(2)] == [first, first]


def test_a_repeat_of_what_a_reviewer_let_through_releases_nothing_again() -> None:
    repeated = Place()
    entered = repeated.hold()
    assert "AdmittedMemory" in kinds(repeated.review(entered, "approve"))
    again = repeated.write(derived_from=[STRANGER])
    assert (kinds(again), len(repeated.book)) == (["MemoryDecision"], 0)


def test_another_write_under_the_same_id_is_rejected_and_the_first_stays_what_it_is() -> None:
    place = Place()
    first = place.decide()
    conflict = place.write(content="Something else.")
    assert only(conflict, "MemoryDecision")["reason"] == "write_id_conflict: w-1"
    assert "AdmittedMemory" not in kinds(conflict)
    assert place.decide()["duplicate_of"] == first["memory_id"]
    assert place.book.statistics[OPERATOR] == Statistics(2, 1, 0, 1, 0)


def test_the_same_id_of_another_session_or_tenant_is_another_write() -> None:
    place = Place()
    place.write()
    assert place.decide(session_id="s-2")["duplicate_of"] is None
    other = place.decide(agent_id="other")
    assert (other["action"], other["duplicate_of"]) == ("allow", None)


def test_the_window_ends_after_its_length_in_the_brokers_time() -> None:
    place = Place()
    place.write()
    place.now += 60 * MINUTE - 1
    assert place.decide()["duplicate_of"] is not None
    place.now += 1
    assert place.decide()["duplicate_of"] is None


def test_a_session_that_remembers_all_the_writes_it_can_rejects_the_next() -> None:
    full = place(limits={"max_recent_writes": 3})
    for number in range(3):
        full.write(f"w{number}")
    decided = full.decide("w3")
    assert (decided["action"], decided["reason"]) == ("reject", "session_capacity")
    assert decided["seen"]["room"] is False
    assert full.decide("w0")["duplicate_of"] is not None
    full.now += 60 * MINUTE
    assert full.decide("w3")["action"] == "allow"


def test_what_a_session_remembers_of_an_agent_is_bounded() -> None:
    """Mend 3: each has room of its own, and those that nobody registered take none."""
    long = "\x01" * 251
    full = place(limits={"max_recent_writes": 6, "max_known_sources": 4})
    for number in range(9):
        for agent in ("operator", "other", "nobody"):
            source = {"id": f"{long}{number}", "type": "user"}
            full.write(f"{long}{agent[:2]}{number}", agent_id=agent, source=source)
    accounts = full.session("s-1").accounts
    assert {tenant: list(one.agents) for tenant, one in accounts.items()} == {
        "acme": ["operator"],
        "globex": ["other"],
    }
    for account in accounts.values():
        (known,) = account.agents.values()
        assert (len(known.writes), len(known.sources)) == (6, 4)


def test_the_oldest_source_makes_room_in_what_its_agent_knows() -> None:
    known = place(limits={"max_known_sources": 2})
    for number, name in enumerate(("one", "two", "one", "three")):
        known.write(f"w{number}", source={"id": name, "type": "user"})
    assert list(known.session("s-1").accounts["acme"].agents["operator"].sources) == ["one", "three"]


def test_agents_that_nobody_registered_do_not_fill_a_session_for_those_that_are() -> None:
    full = place(limits={"max_recent_writes": 3})
    for number in range(5):
        full.write(f"x{number}", agent_id="nobody")
    assert full.decide("w-1")["action"] == "allow"
