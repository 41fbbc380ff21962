"""Flag-only that outlives its window: an alarm to a named recipient, once for each window that passed."""

from __future__ import annotations

from sluice.core.foundation.chain import Chain
from sluice.core.foundation.clock import rfc3339
from sluice.core.state.book import Book
from sluice.core.state.decision import Decision
from tests.unit.core.retrieval.held import hold
from tests.unit.core.retrieval.scene import Scene, quality
from tests.unit.core.scene import START

DAY = 86_400_000
CHAIN = Chain(0)


def rollout(**modes: str) -> bytes:
    """The shipped bundle with these classes' modes, all since START."""
    since = rfc3339(START)
    named = ("legal_text", "product_pricing", "internal_policy", "public_reference")
    return quality(rollout={name: {"mode": modes.get(name, "enforce"), "since": since} for name in named})


def collect_alarms(scene: Scene, book: Book, days: float) -> list[tuple[str, str]]:
    """Subject and severity of the alarms of a moment, counted in the book."""
    decision = scene.point.alarms(book, START + int(days * DAY))
    if decision is None:
        return []
    assert isinstance(decision, Decision)
    book.apply(decision.book)
    return [(one.body["subject"], one.body["severity"]) for one, _ in hold(decision, CHAIN)]


def test_nothing_is_raised_within_the_window() -> None:
    scene, book = Scene(quality=rollout(legal_text="flag_only")), Book({})
    assert collect_alarms(scene, book, 0) == collect_alarms(scene, book, 13.999) == []


def test_each_window_that_passed_is_raised_once() -> None:
    scene, book = Scene(quality=rollout(legal_text="flag_only")), Book({})
    assert collect_alarms(scene, book, 14) == [("legal_text", "warn")]
    assert collect_alarms(scene, book, 14) == collect_alarms(scene, book, 27.9) == []
    assert collect_alarms(scene, book, 28) == [("legal_text", "critical")]
    assert collect_alarms(scene, book, 100) == [("legal_text", "critical")]
    assert collect_alarms(scene, book, 100) == []


def test_every_overdue_class_is_raised_and_none_that_is_enforced() -> None:
    scene = Scene(quality=rollout(legal_text="flag_only", internal_policy="flag_only"))
    assert collect_alarms(scene, Book({}), 15) == [("internal_policy", "warn"), ("legal_text", "warn")]
    assert collect_alarms(Scene(quality=rollout()), Book({}), 1000) == []


def test_an_alarm_names_its_recipient_and_since_when() -> None:
    decision = Scene(quality=rollout(legal_text="flag_only")).point.alarms(Book({}), START + 15 * DAY)
    assert decision is not None
    ((_, _),) = [(one, value) for one, value in hold(decision, Chain(0))]
    body = decision.records[0].body
    assert body["recipient"] == "data-quality@operator.example"
    assert (body["since"], body["overdue_since"]) == (rfc3339(START), rfc3339(START + 14 * DAY))
    assert (body["input"], body["quality_bundle_id"]) == (None, "sluice.quality")


def test_what_was_raised_is_known_to_the_next_owner_of_the_partition() -> None:
    scene = Scene(quality=rollout(legal_text="flag_only"))
    table: dict[bytes, bytes] = {}
    book = Book(table)
    assert collect_alarms(scene, book, 14)
    table.update({key: value for key, value in book.flush().items() if value is not None})
    assert collect_alarms(scene, Book(table), 15) == []


def test_without_a_quality_bundle_there_is_nothing_to_raise() -> None:
    assert collect_alarms(Scene(quality=None), Book({}), 1000) == []


def test_an_alarm_of_a_bundle_with_a_long_name_is_a_valid_record() -> None:
    since = {"mode": "flag_only", "since": rfc3339(START)}
    named = ("legal_text", "product_pricing", "internal_policy", "public_reference")
    scene = Scene(quality=quality(id="q" * 256, rollout=dict.fromkeys(named, since)))
    assert len(collect_alarms(scene, Book({}), 15)) == len(named)


def test_a_longer_window_silences_nothing_that_is_overdue_by_it() -> None:
    book = Book({})
    since = {"mode": "flag_only", "since": rfc3339(START)}
    named = ("legal_text", "product_pricing", "internal_policy", "public_reference")
    short = Scene(quality=quality(rollout=dict.fromkeys(named, since), rollout_window_days=1))
    assert len(collect_alarms(short, book, 20)) == len(named)
    long = Scene(quality=quality(rollout=dict.fromkeys(named, since), revision=2, rollout_window_days=14))
    assert collect_alarms(long, book, 21) == []
    assert len(collect_alarms(long, book, 28)) == len(named)


def test_a_clock_that_went_ahead_once_silences_nothing_for_long() -> None:
    scene, book = Scene(quality=rollout(legal_text="flag_only")), Book({})
    assert collect_alarms(scene, book, 700) == [("legal_text", "critical")]
    assert collect_alarms(scene, book, 15) == [("legal_text", "warn")]
    assert collect_alarms(scene, book, 16) == []
    assert collect_alarms(scene, book, 28) == [("legal_text", "critical")]


def test_no_two_alarms_have_one_id_whatever_the_window_and_the_clock_do() -> None:
    book, ids = Book({}), []
    since = {"mode": "flag_only", "since": rfc3339(START)}
    named = ("legal_text", "product_pricing", "internal_policy", "public_reference")
    weekly = Scene(quality=quality(rollout=dict.fromkeys(named, since), rollout_window_days=7))
    fortnightly = Scene(quality=quality(rollout=dict.fromkeys(named, since), revision=2))
    for scene, days in [
        (weekly, 7),
        (weekly, 14),
        (weekly, 21),
        (fortnightly, 28),
        (fortnightly, 300),
        (fortnightly, 42),
    ]:
        decision = scene.point.alarms(book, START + days * DAY)
        assert decision is not None
        book.apply(decision.book)
        ids += [record.body["alarm_id"] for record in decision.records]
    assert len(set(ids)) == len(ids) == 6 * len(named)
