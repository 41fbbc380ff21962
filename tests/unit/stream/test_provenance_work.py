"""Who is resolved when, and how far the wanted references are worked off."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sluice.stream.feeds.provenance_work import Places, Reference, Shares, Work, host_name

SHARES = Shares(
    concurrency=4, per_host=2, per_tenant=4, max_waiting=20, max_waiting_per_host=5, max_waiting_per_tenant=20
)


def ref(host: str, number: int = 0, tenant: str = "acme") -> Reference:
    return Reference(tenant, f"https://{host}.example/{number}")


def take(work: Work) -> list[Reference]:
    found = []
    while (one := work.take()) is not None:
        found.append(one)
    return found


def fill_topics(*references: Reference) -> Work:
    work = Work(SHARES)
    for offset, reference in enumerate(references):
        work.enter((0, offset), reference)
    return work


def test_a_host_gets_its_share_and_no_more_however_much_of_it_waits() -> None:
    work = fill_topics(*(ref("slow", n) for n in range(5)), ref("quick"))
    assert take(work) == [ref("slow", 0), ref("quick"), ref("slow", 1)]
    work.note_end(ref("slow", 0))
    assert take(work) == [ref("slow", 2)]


def test_no_more_are_in_work_than_altogether_allowed() -> None:
    work = fill_topics(*(ref(host, n) for n in range(2) for host in "abc"))
    assert take(work) == [ref("a"), ref("b"), ref("c"), ref("a", 1)]


def test_tenants_of_one_host_take_turns() -> None:
    many = [ref("docs", n) for n in range(5)]
    work = fill_topics(*many, ref("docs", tenant="globex"))
    assert take(work) == [many[0], ref("docs", tenant="globex")]


def test_a_tenant_that_names_many_hosts_has_no_more_turns_than_one_that_names_one() -> None:
    many = [ref(f"h{n}") for n in range(10)]
    work = fill_topics(*many, ref("docs", 0, "globex"), ref("docs", 1, "globex"))
    others = [ref("docs", 0, "globex"), ref("docs", 1, "globex")]
    assert take(work) == [many[0], others[0], many[1], others[1]]


def test_a_tenant_gets_its_share_and_leaves_the_rest_to_others() -> None:
    work = Work(replace(SHARES, per_tenant=3, max_waiting_per_tenant=6))
    entered = [work.enter((0, n), ref(f"h{n}")) for n in range(8)]
    assert entered == [True] * 6 + [False] * 2
    assert len(take(work)) == 3
    assert work.enter((0, 9), ref("docs", 0, "globex"))
    assert take(work) == [ref("docs", 0, "globex")]
    work.note_end(ref("h0"))
    assert take(work) == [ref("h3")]


def test_one_more_of_a_host_than_may_wait_is_left_and_its_place_is_done() -> None:
    work = fill_topics(*(ref("slow", n) for n in range(5)))
    assert not work.enter((1, 7), ref("slow", 5))
    assert work.enter((1, 8), ref("slow", 5, "globex"))
    assert work.positions() == {0: 0, 1: 8}


def test_there_is_room_until_too_many_wait() -> None:
    work = Work(SHARES)
    for number in range(20):
        assert work.has_capacity
        work.enter((0, number), ref(f"h{number}"))
    assert not work.has_capacity
    take(work)
    assert work.has_capacity


def test_what_is_wanted_again_while_in_work_is_resolved_once_and_done_everywhere() -> None:
    work = fill_topics(ref("a"), ref("a"))
    assert take(work) == [ref("a")]
    work.enter((3, 5), ref("a"))
    assert take(work) == []
    work.note_end(ref("a"))
    assert work.positions() == {0: 0, 3: 5}
    work.note_recorded(ref("a"))
    assert work.positions() == {0: 2, 3: 6}


def test_partitions_that_others_work_off_are_forgotten() -> None:
    work = fill_topics(ref("a"), ref("b"))
    work.forget([0])
    work.note_end(take(work)[0])
    work.note_recorded(ref("a"))
    assert work.positions() == {}
    work.enter((0, 1), ref("b"))
    assert work.positions() == {0: 1}


def test_an_equal_path_on_another_port_or_in_capitals_is_the_same_hosts() -> None:
    uris = ["https://A.example:8443/x", "http://a.example./y", "http://u@a.example"]
    assert {host_name(uri) for uri in uris} == {"a.example"}
    assert [host_name(uri) for uri in ("urn:x", "http://[::1/", "")] == ["", "", ""]


@given(st.lists(st.integers(0, 30), unique=True), st.randoms())
def test_no_place_is_passed_before_everything_below_it_is_done(offsets: list[int], order: object) -> None:
    places, given_ = Places(), sorted(offsets)
    for offset in given_:
        places.enter((0, offset))
    left = list(given_)
    order.shuffle(offsets)  # type: ignore[attr-defined]
    for offset in offsets:
        places.done([(0, offset)])
        left.remove(offset)
        assert places.positions() == {0: left[0] if left else given_[-1] + 1}


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.sampled_from(["x", "y"]))))
def test_the_shares_hold_whatever_is_wanted(wanted: list[tuple[str, int, str]]) -> None:
    work = fill_topics(*(ref(*one) for one in wanted))
    running = take(work)
    assert len(running) <= SHARES.concurrency
    assert all(count <= SHARES.per_host for count in Counter(host_name(one.uri) for one in running).values())
    seen = list(running)
    while running:
        work.note_end(running[0])
        running = [*running[1:], *(more := take(work))]
        seen += more
    assert len(seen) == len(set(seen))
