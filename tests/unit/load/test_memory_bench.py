"""The memory benchmarks measure what they say: texts are fresh, are read, and repeat where they should."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import orjson
import pytest

from load.bench.fixtures import bench_policy, memory_writes
from load.bench.fixtures.hard_texts import BYTES, SHAPES, Marks, Mutation, long_text
from load.bench.fixtures.pure import Pipeline
from load.bench.gates import memory_gate
from load.bench.measurement import CpuClock
from sluice.core.decide.kinds import read_input_message
from sluice_topics.records import ProposedMemoryWrite

if TYPE_CHECKING:
    from sluice.core.decide.decision_point import DecisionPoint


def make_random() -> random.Random:
    """The same draws every time."""
    return random.Random(1)  # noqa: S311 - texts, not secrets


@pytest.fixture(scope="module")
def point() -> DecisionPoint:
    """Compiled once: it holds no state."""
    return bench_policy.point()


def test_a_text_is_1_kb_and_no_two_share_a_salted_row() -> None:
    first, second = memory_writes.texts("mixed", 2, make_random())
    assert len(first) == len(second) == memory_writes.CHARACTERS
    assert not set(first.split("\n\n")[:-1]) & set(second.split("\n\n")[:-1])


def test_salt_is_one_word_more_of_letters_alone() -> None:
    *_, last = memory_writes.add_salt("the meeting is on Friday", make_random()).split()
    assert last.isalpha()
    assert last.islower()


def test_harmless_texts_are_of_harmless_rows_alone() -> None:
    harmful = {row.text for row in memory_writes.panel() if row.label == "harmful"}
    assert not harmful & set(memory_writes.rows_of("benign"))
    assert harmful <= set(memory_writes.rows_of("mixed"))


def test_a_write_of_the_benchmark_is_read_and_judged_by_its_content_alone(point: DecisionPoint) -> None:
    texts = ["The meeting is on Friday.", "The report is due on Monday."]
    inputs = memory_writes.input_records(texts, sessions=2)
    assert all(isinstance(read_input_message(one), ProposedMemoryWrite) for one in inputs)
    decisions = [body for body in Pipeline(point).take(inputs) if "trustScore" in body]
    assert [one["action"] for one in decisions] == ["allow", "allow"]
    assert all(one["sequence"] for one in decisions)


def test_a_source_is_new_to_the_gate_only_once(point: DecisionPoint) -> None:
    pipeline = Pipeline(point)
    one_source = [
        memory_writes.input_records([f"Note {n}."], 10, n * memory_writes.SOURCES) for n in range(1, 3)
    ]
    revisions = [pipeline.take(inputs)[0]["seen"]["source"]["revision"] for inputs in one_source]
    assert revisions == [0, 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_long_text_takes_1_mb_of_a_message_and_is_read(shape: str) -> None:
    text = long_text(shape, 1)
    (input_record,) = memory_writes.input_records([text], 1)
    assert 0.9 * BYTES < len(orjson.dumps(text)) <= BYTES + 2
    assert isinstance(read_input_message(input_record), ProposedMemoryWrite)


def test_long_texts_of_two_salts_differ() -> None:
    assert all(long_text(shape, 1) != long_text(shape, 2) for shape in ("prose", "quotes", "Chinese"))


def test_fuzzed_memories_are_the_same_every_time_and_other_ones_with_another_seed() -> None:
    first, second = (list(memory_gate.fuzz(60)) for _ in range(2))
    assert first == second
    assert not set(first) & set(memory_gate.fuzz(60, memory_gate.SEED + 1))


def test_fuzzed_memories_are_of_every_size_and_hold_every_kind_of_disguise() -> None:
    every = list(memory_gate.fuzz(900))
    assert max(map(len, every)) == memory_gate.LONGEST
    assert min(map(memory_gate.kilobytes, every)) == 1
    assert memory_gate.CLASSES[-2] < max(map(memory_gate.kilobytes, every)) <= memory_gate.CLASSES[-1]
    together = "".join(every)
    assert all(mark in together for mark in ("\u200b", "aWdub3Jl", "%69", "1gn0r3", "\U000e0069", "\u0456"))


def test_layers_are_no_deeper_than_asked_for() -> None:
    marks = Marks(open=["("], close=[")"], join=[" "], atoms=[""], repeated=["a"], starts=[""])
    mutation = Mutation(make_random(), marks, [4], longest=64, depth=3)
    assert {mutation.nest("x") for _ in range(50)} == {"(x)", "((x))", "(((x)))"}


def test_a_clock_adds_the_cpu_seconds_of_each_step_to_its_name() -> None:
    clock = CpuClock()
    assert clock.take("sum", lambda: sum(range(200_000))) == 19_999_900_000
    first = clock.seconds["sum"]
    clock.take("sum", lambda: sum(range(200_000)))
    assert clock.seconds["sum"] > first > 0
