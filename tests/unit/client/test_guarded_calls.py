"""Mend 22.2: what runs is what was judged; and what cannot be judged as it is, is refused with its name."""

from __future__ import annotations

import contextlib
import functools
import json
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.client import ActionAnswer, AsyncGateClient, ClientError, GateClient, Permit
from sluice.client.guarded_calls import GuardedTool, GuardOptions
from sluice.client.json_values import copy_faithfully, may_be_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

VERDICT = ActionAnswer(
    "allowed", "v", None, None, "T1", None, None, (), 0, {}, {"action_id": "a", "session_id": "s"}
)
NOWHERE = "127.0.0.1:1"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


@dataclass
class Order:
    name: str


class Table(dict[str, Any]):
    pass


def permit(parameters: dict[str, Any]) -> Permit:
    return Permit(VERDICT, json.loads(json.dumps(parameters)))


def run(function: Callable[..., Any], *args: Any, context: tuple[str, ...] = (), **kwargs: Any) -> Any:
    tool = GuardedTool(function, GuardOptions(context=context))
    call = tool.propose(args, kwargs)
    return tool.run(permit(call.parameters), call)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_a_value_of_json_s_own_types_is_kept_exactly(value: Any) -> None:
    copy = copy_faithfully(value, "value")
    assert repr(json.loads(json.dumps(copy))) == repr(value)
    assert may_be_json(value)
    assert copy is not value or not isinstance(value, (list, dict))


def _circle() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


UNKEPT = {
    "tuple": (1, 2),
    "set": {1},
    "frozenset": frozenset(),
    "dict subclass": Table(a=1),
    "ordered dict": OrderedDict(a=1),
    "key that is no text": {1: "a"},
    "key that is a text of an enum": {Word.YES: 1},
    "NaN": float("nan"),
    "infinite": float("-inf"),
    "bytes": b"a",
    "date": datetime(2026, 1, 1, tzinfo=UTC),
    "whole number of an enum": Level.LOW,
    "text of an enum": Word.YES,
    "object": Order("o"),
    "complex": 1j,
    "lone surrogate": "\ud800",
    "lone surrogate in a key": {"\ud800": 1},
    "number too long to be read": 10**5000,
    "circle": _circle(),
}


@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: {"deep": [one]}], ids=["bare", "nested"])
@pytest.mark.parametrize("name", UNKEPT)
def test_what_json_does_not_keep_is_refused_with_its_name(name: str, wrap: Callable[[Any], Any]) -> None:
    def tool(first: Any, second: Any) -> None:
        raise AssertionError("it ran")

    guarded = GuardedTool(tool, GuardOptions())
    with pytest.raises(ClientError, match="tool: second"):
        guarded.propose((1, wrap(UNKEPT[name])), {})


def test_a_default_that_json_does_not_keep_is_refused_at_decoration_with_its_name() -> None:
    def tool(columns: Any = ("a", "b")) -> None: ...

    with pytest.raises(ClientError, match="the default of columns is a tuple"):
        GuardedTool(tool, GuardOptions())
    GuardedTool(tool, GuardOptions(context=["columns"]))


def test_every_argument_is_judged_whatever_it_is_called_and_however_it_is_passed() -> None:
    def tool(one: int, /, self: int, *more: int, cls: int = 4, force: bool = True, **rest: int) -> Any:
        return one, self, more, cls, force, rest

    guarded = GuardedTool(tool, GuardOptions())
    call = guarded.propose((1, 2, 3, 9), {"other": 5, "one": 7})
    judged = {"one": 1, "self": 2, "more": [3, 9], "cls": 4, "force": True, "rest": {"other": 5, "one": 7}}
    assert (call.parameters, call.context) == (judged, {})
    expected = (1, 2, (3, 9), 4, True, {"other": 5, "one": 7})
    assert guarded.run(permit(judged), call) == expected


def test_a_change_of_an_argument_after_it_was_judged_reaches_no_tool() -> None:
    def tool(where: dict[str, Any]) -> Any:
        return where

    guarded, where = GuardedTool(tool, GuardOptions()), {"ids": [1]}
    call = guarded.propose((where,), {})
    where["ids"].append(2)
    assert call.parameters == {"where": {"ids": [1]}}
    assert guarded.run(permit({"where": {"ids": [1]}}), call) == {"ids": [1]}


def test_the_rows_known_before_are_computed_on_a_copy() -> None:
    def count(ids: list[int], self: Any) -> int:
        ids.clear()
        return 7 + int(self.more)

    def tool(ids: list[int], self: Any) -> Any:
        return ids

    guarded = GuardedTool(tool, GuardOptions(rows_before=count, context=["self"]))
    call = guarded.propose(([1, 2], SimpleNamespace(more=1)), {})
    assert guarded.count_rows_before(call) == 8
    assert call.parameters == {"ids": [1, 2]}
    assert guarded.build_fields("s", 8) == {"rows_affected": 8, "session_id": "s"}


@pytest.mark.parametrize("rows", [-1, 2.0, True, "3", 2**53])
def test_rows_that_are_no_count_are_refused_and_it_is_said_what_was_wanted_and_got(rows: Any) -> None:
    """Mend 22.21: of the rows before and of those of the outcome."""
    guarded = GuardedTool(print, GuardOptions(tool_name="tool", rows=lambda _: rows, context=()))
    wanted = f"wanted a whole number from 0 to 9007199254740991, got {rows!r}"
    with pytest.raises(ClientError, match=f"rows_affected: {wanted}"):
        guarded.finish(permit({}), None)
    with pytest.raises(ClientError, match=f"rows_before: {wanted}"):
        guarded.build_fields("s", rows)


def test_an_approver_s_parameters_replace_all_and_have_to_name_all() -> None:
    def tool(table: str, force: bool = False, memo: str = "") -> Any:
        return table, force, memo

    guarded = GuardedTool(tool, GuardOptions())
    call = guarded.propose(("orders", True, "from the model"), {})
    whole = {"table": "one", "force": False, "memo": "seen"}
    assert guarded.run(permit(whole), call) == ("one", False, "seen")
    with pytest.raises(ClientError, match="the approved parameters have no force, memo"):
        guarded.run(permit({"table": "one"}), call)
    with pytest.raises(ClientError, match="the tool has no parameter color"):
        guarded.run(permit({**whole, "color": "red"}), call)


class Orders:
    def __init__(self) -> None:
        self.deleted: list[Any] = []

    def delete(self, status: str, config: Any = None) -> tuple[str, Any]:
        self.deleted.append(status)
        return status, config


def test_a_method_s_self_and_what_a_framework_fills_are_named_as_context() -> None:
    orders, config = Orders(), {"callbacks": [object()]}
    named = ("self", "config")
    assert run(Orders.delete, orders, "open", context=named, config=config) == ("open", config)
    assert run(Orders.delete, orders, "open", context=("self", "config")) == ("open", None)
    assert run(orders.delete, "open", context=("config",)) == ("open", None), "a bound method has no self"
    with pytest.raises(ClientError, match=r"delete: self is a Orders.*`self` too.*context"):
        run(Orders.delete, orders, "open")
    assert orders.deleted == ["open"] * 3


@pytest.mark.parametrize(
    "sent", ["x", 1, {}, {"a": [1, {"b": None}]}, [], (1,), {1}, Table(a=1), float("nan"), b"x"]
)
def test_a_context_name_that_a_model_may_have_filled_is_refused(sent: Any) -> None:
    with pytest.raises(ClientError, match=r"config is named in guard.*a model could have sent"):
        run(Orders.delete, Orders(), "open", context=("self", "config"), config=sent)


def test_what_has_a_source_comes_from_there_whatever_the_call_passes() -> None:
    """A framework's configuration is plain data as well: LangChain's is a table of texts and numbers."""
    context = {"self": None, "config": lambda: {"user": "ada"}}
    guarded, orders = GuardedTool(Orders.delete, GuardOptions(context=context)), Orders()
    for sent in ({}, {"config": {"user": "root"}}, {"config": object()}):
        call = guarded.propose((orders,), {"status": "open", **sent})
        assert call.parameters == {"status": "open"}
        assert guarded.run(permit(call.parameters), call) == ("open", {"user": "ada"})
    with pytest.raises(TypeError, match="too many positional"):
        guarded.propose((orders, "open", {"user": "root"}), {})


def test_a_context_argument_that_is_its_default_is_none_of_a_model_s_choice() -> None:
    assert run(Orders.delete, Orders(), "open", context=("self", "config"), config=None) == ("open", None)


def test_an_approver_cannot_fill_a_context_name_either() -> None:
    guarded = GuardedTool(Orders.delete, GuardOptions(context=["self", "config"]))
    call = guarded.propose((Orders(), "open"), {})
    with pytest.raises(ClientError, match="no parameter config"):
        guarded.run(permit({"status": "open", "config": {}}), call)


def test_a_context_is_no_bare_text() -> None:
    with pytest.raises(ClientError, match="a list of names"):
        GuardedTool(Orders.delete, GuardOptions(context="self"))


@pytest.mark.parametrize("names", ["nobody", "args", "kwargs"])
def test_a_context_name_has_to_be_a_parameter_of_its_own(names: str) -> None:
    def tool(*args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(ClientError, match=names):
        GuardedTool(tool, GuardOptions(context=[names]))


def _generate() -> Iterator[int]:
    yield 1


async def _generate_async() -> AsyncIterator[int]:
    yield 1


async def _work() -> int:
    return 1


class Lazy:
    def __call__(self) -> Iterator[int]:
        yield 1


KINDS: dict[str, Any] = {
    "generator": _generate,
    "async generator": _generate_async,
    "partial of a generator": functools.partial(_generate),
    "object that is called as a generator": Lazy(),
    "class": Orders,
    "class method": classmethod(lambda cls: cls),
    "static method": staticmethod(_work),
    "value": 1,
}


@pytest.mark.parametrize("client", [GateClient, AsyncGateClient])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_would_work_after_its_outcome_cannot_be_guarded(kind: str, client: Any) -> None:
    gate = client(NOWHERE, "agent")
    try:
        with pytest.raises(ClientError, match="tool is"):
            gate.guard("tool")(KINDS[kind])
    finally:
        closed = gate.close()
        if closed is not None:
            await closed


@contextlib.contextmanager
def _manage() -> Iterator[int]:
    yield 1


@contextlib.asynccontextmanager
async def _manage_async() -> AsyncIterator[int]:
    yield 1


GOES_ON: dict[str, Callable[[], Any]] = {
    "generator": lambda: (one for one in [1]),
    "map": lambda: map(print, [1]),
    "context manager": _manage,
    "async context manager": _manage_async,
    "async generator": _generate_async,
    "coroutine": _work,
    "future": Future,
}


@pytest.mark.parametrize("kind", GOES_ON)
def test_a_result_that_goes_on_later_is_refused_with_its_kind(kind: str) -> None:
    """Unawaited coroutines among them are closed: nothing warns of them afterwards."""
    found = GOES_ON[kind]
    tool = GuardedTool(lambda: found(), GuardOptions(tool_name="tool"))  # noqa: PLW0108 - not seen at decoration
    with pytest.raises(ClientError, match=r"tool returned a \w+, which goes on later"):
        tool.finish(permit({}), tool.run(permit({}), tool.propose((), {})))


def test_a_client_without_an_event_loop_guards_no_coroutine_function() -> None:
    gate = GateClient(NOWHERE, "agent")
    try:
        with pytest.raises(ClientError, match="AsyncGateClient"):
            gate.guard("tool")(_work)
    finally:
        gate.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"on_refusal": "retrun"}, "on_refusal"),
        ({"rows_before": 1, "more": {"rows_affected": 2}}, "both rows_before and rows_affected"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ClientError, match=said):
        GuardOptions(**options)
