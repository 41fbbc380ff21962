"""The crash guard, driven by a simulated partition whose inputs may kill their worker."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sluice.stream.engine.crash_guard import CrashGuard, Marker, Trial
from sluice.stream.engine.intake import Intake

TOPIC = "t"
WINDOW, GROUP = 32, 4


@dataclass
class Disk:
    """What has committed."""

    next: int = 0
    marker: Marker = field(default_factory=Marker)
    decided: dict[int, str] = field(default_factory=dict)


def run_until_crash(disk: Disk, total: int, poison: set[int]) -> bool:
    """One worker's life; True when it reached the end, False when an input killed it."""
    intake = Intake(TOPIC, disk.next)
    guard = CrashGuard(disk.marker, {TOPIC: intake.resume_at}, {TOPIC: total}, window=WINDOW, group=GROUP)
    disk.marker = guard.marker(open_=True)
    while intake.next < total:
        calm = guard.calm({TOPIC: intake.resume_at})
        if calm:
            guard.clear()
            disk.marker = guard.marker(open_=True)
        size = WINDOW if calm else guard.size_from(TOPIC, intake.next)
        group = range(intake.next, min(total, intake.next + size))
        if not calm:
            guard.announce(TOPIC, group.start, group.stop)
            disk.marker = Marker.decode(guard.marker(open_=True).encode())
        answers = {}
        for offset in group:
            condemned = guard.is_condemned(TOPIC, offset)
            if offset in poison and not condemned:
                return False
            answers[offset] = "unread" if condemned else "decided"
            intake.admit(offset)
            intake.done(offset)
        disk.decided |= answers
        disk.next, disk.marker = intake.next, guard.marker(open_=True)
    return True


@given(st.sets(st.integers(0, 59), max_size=3))
def test_exactly_the_inputs_that_kill_are_denied_unread_and_the_worker_gets_through(poison: set[int]) -> None:
    disk = Disk()
    lives = 1
    while not run_until_crash(disk, 60, poison):
        lives += 1
        assert lives <= 1 + 3 * len(poison)
    assert {o for o, answer in disk.decided.items() if answer == "unread"} == poison
    assert len(disk.decided) == 60


def test_a_single_poison_takes_three_crashes() -> None:
    disk = Disk()
    crashes = 0
    while not run_until_crash(disk, 60, {17}):
        crashes += 1
    assert crashes == 3


def test_a_partition_that_was_closed_has_no_suspects() -> None:
    guard = CrashGuard(Marker(open=False), {TOPIC: 5}, {TOPIC: 50}, window=WINDOW, group=GROUP)
    assert guard.calm({TOPIC: 5})


def test_only_inputs_that_existed_at_the_crash_are_suspects() -> None:
    guard = CrashGuard(Marker(open=True), {TOPIC: 5}, {TOPIC: 7}, window=WINDOW, group=GROUP)
    assert not guard.calm({TOPIC: 6})
    assert guard.calm({TOPIC: 7})


def test_a_group_that_crashed_is_tried_one_by_one() -> None:
    left = Marker(True, Trial(TOPIC, 4, 8, crashes=1), {}, {TOPIC: 36})
    guard = CrashGuard(left, {TOPIC: 4}, {TOPIC: 99}, window=WINDOW, group=GROUP)
    assert [guard.size_from(TOPIC, offset) for offset in (4, 7, 8)] == [1, 1, GROUP]


@given(
    st.builds(Trial, st.text(max_size=3), st.integers(0, 9), st.integers(0, 9), st.integers(1, 3)) | st.none()
)
def test_a_marker_survives_its_stored_form(trial: Trial | None) -> None:
    marker = Marker(True, trial, {"a": 1}, {"b": 2})
    assert Marker.decode(marker.encode()) == marker


def test_a_condemnation_survives_an_owner_that_dies_before_it_is_carried_out() -> None:
    left = Marker(True, Trial(TOPIC, 4, 5, crashes=2), {TOPIC: 8}, {})
    guard = CrashGuard(left, {TOPIC: 4}, {TOPIC: 99}, window=WINDOW, group=GROUP)
    again = CrashGuard(guard.marker(open_=True), {TOPIC: 4}, {TOPIC: 99}, window=WINDOW, group=GROUP)
    assert again.is_condemned(TOPIC, 4)
