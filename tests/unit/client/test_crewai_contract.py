"""CrewAI's adapter on the contract of its hooks, without the package (835 MB): every error of a hook but
HookAborted is swallowed and the tool runs, and a tool that a model calls in text is run again after an error.

tests/frameworks/test_crewai.py runs the same with the package.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import enum
import importlib
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, PrivateAttr, SecretStr

from sluice.client import ClientError, in_session
from sluice.client.frameworks import tool_calls
from sluice.client.frameworks.tool_calls import EqualCalls
from tests.frameworks.scripted_gate import TOOL, Scenario, ScriptedThread, ToolFailed, raise_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MOST_RUNS = 6


class HookAborted(Exception):
    """Blocks a call."""


class InterceptionPoint(enum.StrEnum):
    PRE_MODEL_CALL = enum.auto()
    PRE_TOOL_CALL = enum.auto()
    POST_TOOL_CALL = enum.auto()


class Arguments(BaseModel):
    kind: str
    place: int
    notes: list[str] = []


class ToolOfClass(BaseModel):
    """As crewai.tools.BaseTool: `run` validates and calls `_run`."""

    name: str = TOOL
    args_schema: type[BaseModel] = Arguments
    body: Any

    def run(self, **given: Any) -> Any:
        return self._run(**self.args_schema.model_validate(given).model_dump())

    def _run(self, **given: Any) -> Any:
        return self.body(**given)


class ToolOfFunction(ToolOfClass):
    """As crewai.tools.Tool, which the decorator makes: `run` calls `func`."""

    body: Any = None
    func: Any

    def run(self, **given: Any) -> Any:
        return self.func(**self.args_schema.model_validate(given).model_dump())

    def _run(self, **given: Any) -> Any:
        return self.func(**given)


class StructuredTool(BaseModel):
    """As crewai.tools.structured_tool.CrewStructuredTool, which hooks see."""

    name: str = TOOL
    args_schema: type[BaseModel] = Arguments
    func: Any
    _original_tool: Any = PrivateAttr(default=None)

    def invoke(self, given: dict[str, Any]) -> Any:
        return self.func(**self.args_schema.model_validate(given).model_dump())


class Crew:
    """How CrewAI 1.15 calls its hooks and tools; `hooks` by point."""

    def __init__(self) -> None:
        self.hooks: dict[InterceptionPoint, list[Callable[[Any], Any]]] = {
            point: [] for point in InterceptionPoint
        }
        self.role = "mover"

    def register(self, point: InterceptionPoint, hook: Callable[[Any], Any]) -> None:
        self.hooks[point].append(hook)

    def unregister(self, point: InterceptionPoint, hook: Callable[[Any], Any]) -> None:
        self.hooks[point].remove(hook)

    def call(self, tool: Any, given: dict[str, Any], *, in_text: bool = False, cached: bool = False) -> str:
        """What the model reads."""
        copied = StructuredTool(func=tool._run)  # noqa: SLF001
        copied._original_tool = tool  # noqa: SLF001
        agent = SimpleNamespace(role=self.role)
        context = SimpleNamespace(tool_name=tool.name, tool_input=given, tool=copied, agent=agent)
        result = "from the cache"
        if self._is_aborted(context):
            result = "Tool execution blocked by hook"
        elif not cached:
            result = self._run_in_text(copied, given) if in_text else self._run(tool, given)
        replaced = None
        for hook in self.hooks[InterceptionPoint.POST_TOOL_CALL]:
            replaced = hook(SimpleNamespace(**vars(context), tool_result=result)) or replaced
        return replaced or result

    def _is_aborted(self, context: Any) -> bool:
        for hook in self.hooks[InterceptionPoint.PRE_TOOL_CALL]:
            try:
                hook(context)
            except HookAborted:
                return True
            except Exception:  # noqa: BLE001, S110 - as CrewAI does
                pass
        return False

    @staticmethod
    def _run(tool: Any, given: dict[str, Any]) -> str:
        try:
            return str(tool.run(**given))
        except Exception as error:  # noqa: BLE001
            return f"Error executing tool: {error}"

    @staticmethod
    def _run_in_text(tool: Any, given: dict[str, Any]) -> str:
        for _ in range(MOST_RUNS):
            try:
                return str(tool.invoke(given))
            except Exception as error:  # noqa: BLE001
                said = f"Error executing tool: {error}"
        return said


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crew]:
    """The hooks, in place of the package's."""
    made, hooks = Crew(), ModuleType("crewai.hooks")
    for name, value in {
        "HookAborted": HookAborted,
        "InterceptionPoint": InterceptionPoint,
        "register_hook": made.register,
        "unregister_hook": made.unregister,
    }.items():
        setattr(hooks, name, value)
    monkeypatch.setitem(sys.modules, "crewai", ModuleType("crewai"))
    monkeypatch.setitem(sys.modules, "crewai.hooks", hooks)
    monkeypatch.delitem(sys.modules, "sluice.client.frameworks.crewai", raising=False)
    yield made
    sys.modules.pop("sluice.client.frameworks.crewai", None)


def guard_crew(client: Any, session: str | None = "scripted", **more: Any) -> Any:
    adapter = importlib.import_module("sluice.client.frameworks.crewai")
    return adapter.CrewGuard(client, session, approval_timeout_s=0.01, **more)


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return Scenario(tmp_path)


@pytest.fixture
def client(scenario: Scenario) -> Iterator[ScriptedThread]:
    with scenario.open_thread() as started:
        yield started


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize("of_class", [False, True])
def test_200_calls_run_what_is_allowed_once_and_as_it_was_judged(
    crew: Crew, scenario: Scenario, client: ScriptedThread, in_text: bool, of_class: bool
) -> None:
    tool = ToolOfClass(body=scenario.move_records) if of_class else ToolOfFunction(func=scenario.move_records)
    calls = [call for call in scenario.calls if call.kind != "cancelled"]
    with guard_crew(client):
        said = {call.kind: crew.call(tool, dict(call.arguments), in_text=in_text) for call in calls}
        scenario.check(frozenset(("allowed", "slow", "fails")))
        assert said["allowed"].startswith("moved")
        assert "scripted: denied. The tool did not run" in said["denied"]
        assert "a person must agree first" in said["waiting"]
        scenario.answer_as_people()
        for call in calls:
            if call.kind in {"approved", "refused", "waiting", "killed"}:
                crew.call(tool, dict(call.arguments), in_text=in_text)
    scenario.check(frozenset(("allowed", "approved", "slow", "fails", "killed")))


def test_a_call_that_ran_is_another_one_when_it_comes_again_but_not_in_a_new_process(
    crew: Crew, scenario: Scenario
) -> None:
    tool = ToolOfFunction(func=scenario.move_records)
    given, held = scenario.calls[0].arguments, scenario.calls[2].arguments
    with scenario.open_thread() as client, guard_crew(client):
        assert crew.call(tool, dict(given)).startswith("moved")
        assert crew.call(tool, dict(given)).startswith("moved")
        assert "a person must agree first" in crew.call(tool, dict(held))
    assert (len(scenario.ran), len(scenario.exchange.outcomes)) == (2, 2)
    scenario.answer_as_people()
    with scenario.open_thread() as anew, guard_crew(anew):
        assert "was started before" in crew.call(tool, dict(given))
        assert crew.call(tool, dict(held)).startswith("moved")
    assert len(scenario.ran) == 3


def test_equal_calls_take_the_lowest_number_that_is_free_and_no_two_threads_the_same() -> None:
    equal = EqualCalls()

    def name(_: int = 0) -> tuple[str, Callable[[], None]]:
        return equal.name("scripted", TOOL, {"place": 1})

    first, second, third = name(), name(), name()
    second[1]()
    first[1]()
    assert [name()[0], name()[0]] == [first[0], second[0]]
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        later = {call_id for call_id, _ in threads.map(name, range(200))}
    assert len(later - {first[0], second[0], third[0]}) == 200


def test_an_equal_call_is_named_at_the_same_cost_as_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[Any] = []

    def name(*call: Any) -> str:
        named.append(call)
        return str(call)

    monkeypatch.setattr(tool_calls, "name_action", name)
    equal = EqualCalls()
    for _ in range(100):
        equal.name("scripted", TOOL, {"place": 1})
    assert len(named) == 2 * 100


@pytest.mark.parametrize("error", [ValueError, concurrent.futures.CancelledError, asyncio.CancelledError])
def test_every_error_of_the_guard_s_own_aborts(
    crew: Crew, scenario: Scenario, client: ScriptedThread, error: type[BaseException]
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    for describe in (fail, raise_fault):
        with guard_crew(client, describe=describe):
            said = crew.call(ToolOfFunction(func=scenario.move_records), dict(scenario.calls[0].arguments))
        assert "The tool did not run" in said
    assert scenario.ran == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_ends_the_call(
    crew: Crew,
    scenario: Scenario,
    client: ScriptedThread,
    error: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(step: Any) -> Any:
        step.close()
        raise error

    with guard_crew(client):
        monkeypatch.setattr(client, "submit", fail)
        with pytest.raises(error):
            crew.call(ToolOfFunction(func=scenario.move_records), dict(scenario.calls[0].arguments))
        monkeypatch.undo()
    assert scenario.ran == []


def test_a_tool_that_crewai_does_not_name_and_arguments_that_it_does_not_take_do_not_run(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    tool = ToolOfFunction(func=scenario.move_records)
    with guard_crew(client) as guard:
        nameless = SimpleNamespace(tool_name=TOOL, tool_input={}, tool=None, agent=None)
        with pytest.raises(HookAborted):
            guard.check_call(nameless)
        assert "place" in crew.call(tool, {"kind": "allowed", "place": "nowhere"})
    with guard_crew(client, None):
        assert "no session" in crew.call(tool, dict(scenario.calls[0].arguments))
        with in_session("scripted"):
            assert crew.call(tool, dict(scenario.calls[0].arguments)).startswith("moved")
    assert len(scenario.ran) == 1


def test_what_a_later_hook_changes_or_the_cache_answers_does_not_run(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    tool = ToolOfFunction(func=scenario.move_records)
    with guard_crew(client):
        assert crew.call(tool, dict(scenario.calls[0].arguments), cached=True) == "from the cache"
        crew.register(InterceptionPoint.PRE_TOOL_CALL, lambda context: context.tool_input.update(place=99))
        assert "has not allowed this run" in crew.call(tool, dict(scenario.calls[10].arguments))
    assert scenario.ran == []
    assert [one["error"] for one in scenario.exchange.outcomes.values()] == ["ToolNotRun"] * 2


def test_a_secret_that_would_be_judged_as_asterisks_does_not_run(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    class Hidden(BaseModel):
        kind: SecretStr
        place: int

    tool = ToolOfFunction(func=scenario.move_records, args_schema=Hidden)
    with guard_crew(client):
        said = crew.call(tool, {"kind": "allowed", "place": 1})
    assert "a secret that the gate cannot read" in said
    assert (scenario.ran, scenario.exchange.judged) == ([], {})


def test_a_tool_stays_guarded_when_the_guard_has_ended(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    tool, given = ToolOfFunction(func=scenario.move_records), dict(scenario.calls[0].arguments)
    with guard_crew(client):
        crew.call(tool, given)
    assert crew.hooks[InterceptionPoint.PRE_TOOL_CALL] == []
    with pytest.raises(ClientError, match="has not allowed"):
        tool.run(**given)
    assert len(scenario.ran) == 1


def test_what_waits_in_a_session_is_refused_when_it_ends(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    tool = ToolOfFunction(func=scenario.move_records)
    cancelled = next(call for call in scenario.calls if call.kind == "cancelled")
    said: list[str] = []
    with guard_crew(client) as guard:
        thread = threading.Thread(target=lambda: said.append(crew.call(tool, dict(cancelled.arguments))))
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            guard.end_session("scripted")
        said.append(crew.call(tool, dict(scenario.calls[0].arguments)))
    assert all("The tool did not run" in one for one in said)
    assert (len(said), scenario.ran) == (2, [])


def test_a_coroutine_function_runs_once_and_reports(
    crew: Crew, scenario: Scenario, client: ScriptedThread
) -> None:
    async def move(**given: Any) -> str:
        return scenario.move_records(**given)

    tool = ToolOfFunction(func=move)
    with guard_crew(client) as guard:
        context = SimpleNamespace(tool_name=TOOL, tool=tool, agent=None)
        context.tool_input = dict(next(call for call in scenario.calls if call.kind == "fails").arguments)
        guard.check_call(context)
        with pytest.raises(ToolFailed):
            asyncio.run(tool.run(**context.tool_input))
        with pytest.raises(ClientError, match="has not allowed"):
            asyncio.run(tool.run(**context.tool_input))
    assert [one["error"] for one in scenario.exchange.outcomes.values()] == ["ToolFailed"]


def test_an_agent_that_is_registered_itself_acts_as_a_delegate(
    crew: Crew, scenario: Scenario, client: ScriptedThread, tmp_path: Path
) -> None:
    asked: list[Any] = []
    exchange = type(scenario.exchange)()
    ask = exchange.ask

    async def note(sent: Any, *more: Any) -> Any:
        asked.append(sent)
        return await ask(sent, *more)

    exchange.ask = note  # type: ignore[method-assign, assignment]
    with (
        ScriptedThread(exchange, tmp_path / "own", "scripted-mover") as own,
        guard_crew(client, delegates={"mover": own}),
    ):
        tool = ToolOfFunction(func=scenario.move_records)
        assert crew.call(tool, dict(scenario.calls[0].arguments)).startswith("moved")
    assert len(asked) == 1
    assert b"scripted-agent" in asked[0].value


def test_hosted_tools_are_warned_of_once(
    crew: Crew, client: ScriptedThread, caplog: pytest.LogCaptureFixture
) -> None:
    with guard_crew(client) as guard:
        for _ in range(2):
            guard.warn_of_tools(SimpleNamespace(llm=SimpleNamespace(builtin_tools=["search_of_crew"])))
            guard.warn_of_tools(SimpleNamespace(llm=SimpleNamespace()))
    assert caplog.text.count("search_of_crew") == 1
