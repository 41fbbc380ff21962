"""What a partition keeps beside its sessions, and how it comes back out of the table."""

from __future__ import annotations

import pytest

from sluice.core.state.book import Book, Entered, HistoryReduced, Left, WriteDecided
from sluice.core.state.history import History, SourceName
from sluice.core.state.quarantined import QuarantinedMemory
from sluice.core.state.statistics import Whose

MAIL = SourceName("acme", "mail")


def make_held(offset: int, expires_ms: int = 100, agent: str = "operator") -> QuarantinedMemory:
    """A memory in quarantine, from the write at this offset."""
    return QuarantinedMemory(
        f"memory:t:3:{offset}",
        f"w{offset}",
        agent,
        "s-1",
        "acme",
        "mail",
        "user",
        "sha256:c",
        "sha256:i",
        "t",
        3,
        offset,
        0.65,
        0.7,
        expires_ms - 50,
        expires_ms,
    )


def recover(book: Book, table: dict[bytes, bytes] | None = None) -> tuple[Book, dict[bytes, bytes]]:
    """The book as its next owner makes it of the table."""
    found = dict(table or {})
    for key, value in book.flush().items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return Book(found), found


def test_a_change_is_seen_before_it_is_flushed_and_after_a_recovery() -> None:
    book = Book({})
    book.apply(
        [WriteDecided(Whose("acme", "operator"), "quarantine"), Entered(make_held(1)), Entered(make_held(2))]
    )
    book.apply([Left(make_held(1)), HistoryReduced(MAIL, History("user", 1, 0, 1))])
    for seen in (book, recover(book)[0]):
        assert (seen.find_quarantined("memory:t:3:1"), seen.find_quarantined("memory:t:3:2"), len(seen)) == (
            None,
            make_held(2),
            1,
        )
        assert seen.statistics[Whose("acme", "operator")] == (1, 0, 1, 0, 1)
    again, _ = recover(Book({}), recover_table())
    assert again.history(MAIL) == History("user", 1, 0, 1)


def recover_table() -> dict[bytes, bytes]:
    book = Book({})
    book.apply([HistoryReduced(MAIL, History("user", 1, 0, 1))])
    return recover(book)[1]


def test_only_what_changed_is_flushed_and_what_left_is_deleted() -> None:
    book = Book({})
    book.apply([Entered(make_held(1))])
    assert set(book.flush()) == {b"q:memory:t:3:1", b'n:["acme","operator"]'}
    assert book.flush() == {}
    book.apply([Left(make_held(1))])
    assert book.flush() == {b"q:memory:t:3:1": None, b'n:["acme","operator"]': b"[0,0,0,0,0]"}


def test_the_oldest_is_that_of_the_lowest_offset_whoever_entered_first() -> None:
    book = Book({})
    book.apply([Entered(make_held(9)), Entered(make_held(4)), Entered(make_held(7))])
    assert [one.offset for one in book.select_crowding(2)] == [4, 7]
    book.apply([Left(make_held(4))])
    assert [one.offset for one in book.select_crowding(5)] == [7, 9]
    assert [one.offset for one in recover(book)[0].select_crowding(5)] == [7, 9]


def test_room_is_made_by_the_agent_that_holds_the_most_and_never_by_one_that_holds_less() -> None:
    """Mend 3: an agent that fills the quarantine evicts its own memories, not another's older ones."""
    book = Book({})
    book.apply([Entered(make_held(1, agent="victim")), Entered(make_held(2, agent="victim"))])
    book.apply([Entered(make_held(offset, agent="flood")) for offset in range(3, 8)])
    for seen in (book, recover(book)[0]):
        assert [one.offset for one in seen.select_crowding(3)] == [3, 4, 5]
        assert [one.offset for one in seen.select_crowding(9)] == [3, 4, 5, 1, 6, 2, 7]


def test_what_is_due_comes_in_the_order_of_its_times_and_stays_until_it_has_left() -> None:
    book = Book({})
    book.apply([Entered(make_held(1, 300)), Entered(make_held(2, 100)), Entered(make_held(3, 200))])
    assert book.due(99, 10) == []
    for _ in range(2):
        assert [one.offset for one in book.due(250, 10)] == [2, 3]
    assert [one.offset for one in book.due(250, 1)] == [2]
    book.apply([Left(make_held(2, 100))])
    assert [one.offset for one in recover(book)[0].due(1000, 10)] == [3, 1]


def test_nothing_leaves_that_is_not_there() -> None:
    book = Book({})
    book.apply([Entered(make_held(1)), Left(make_held(1))])
    with pytest.raises(KeyError, match="nothing waits"):
        book.apply([Left(make_held(1))])


def test_a_long_coming_and_going_leaves_nothing_behind() -> None:
    """The queues hold what is held, and not what a day of reviews has let go."""
    book = Book({})
    stays = make_held(0, 10**9)
    book.apply([Entered(stays)])
    for offset in range(1, 5_000):
        book.apply([Entered(make_held(offset, 10**9)), Left(make_held(offset, 10**9))])
        book.flush()
    assert book.all_held == book.due(10**9, 10) == [stays]
    assert len(book._quarantined._by_agent) + len(book._quarantined._due) < 1_000  # noqa: SLF001 - memory is what the test is about
