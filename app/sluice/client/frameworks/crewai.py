"""CrewAI: hooks that ask the gate before each tool call, and tools that run only what it has allowed.

CrewAI runs a tool after any error of a hook but HookAborted, and a model that calls tools in text has a tool
that raised run again without another hook. So each tool that a hook sees takes a permission for each run.
"""

from __future__ import annotations

import functools
import inspect
import logging
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crewai.hooks import HookAborted, InterceptionPoint, register_hook, unregister_hook
from pydantic import ValidationError

from sluice.client.answers import ActionDenied, ClientError
from sluice.client.frameworks.tool_calls import EqualCalls, ToolCall, ToolCallGate, reveal, warn_of_hosted
from sluice.client.guarded_calls import resolve_session_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from typing import Self

    from sluice.client.sync_client import GateClient

logger = logging.getLogger(__name__)

_GUARDED = "_guarded_by_sluice"
_permits: dict[str, tuple[Any, dict[str, Any], Callable[[Any, Any], None]]] = {}
"""By a call's id: the tool that may run once, its parameters as JSON, and what reports a result and an error.
Whoever takes one out of here has it."""


class CrewGuard:
    """Every tool call of this process's crews and agents asks the gate, while the block of this context
    manager runs; where two such blocks run, both gates must allow it. Register other hooks before it.

    `client`: a GateClient, since CrewAI calls its hooks without an event loop. `session_id` None: that of
    `in_session`. `more`: `delegates`, the GateClients of agents that are registered themselves, by their
    roles; `approval_timeout_s`, `describe` and `accept_narrowed` of ToolCallGate. A held call waits
    `approval_timeout_s` for its person, then the model reads that it waits. CrewAI tells no id of a call:
    equal calls of a session are the same action until it has run or was denied, also in another process. A
    tool that was guarded once stays guarded.
    """

    def __init__(self, client: GateClient, session_id: str | None = None, **more: Any) -> None:
        self._session_id = session_id
        self._gates = {
            role: (own, ToolCallGate(client.asynchronous, delegates={role: own.asynchronous}, **more))
            for role, own in {**more.pop("delegates", {}), "": client}.items()
        }
        self._equal = EqualCalls()
        self._waiting: dict[Future[Any], str] = {}
        self._ended: set[str] = set()
        self._asked: dict[int, tuple[Any, str, str | None]] = {}
        self._hooks = {
            InterceptionPoint.PRE_MODEL_CALL: self.warn_of_tools,
            InterceptionPoint.PRE_TOOL_CALL: self.check_call,
            InterceptionPoint.POST_TOOL_CALL: self.close_call,
        }

    def __enter__(self) -> Self:
        """Register the hooks."""
        for point, hook in self._hooks.items():
            register_hook(point, hook)
        return self

    def __exit__(self, *_: object) -> None:
        """Take the hooks back, and refuse what still waits."""
        for point, hook in self._hooks.items():
            unregister_hook(point, hook)
        for session in set(self._waiting.values()):
            self.end_session(session)

    def end_session(self, session_id: str) -> None:
        """Refuse what waits in a session, and its later calls: a thread of CrewAI's cannot be cancelled."""
        self._ended.add(session_id)
        for future, session in list(self._waiting.items()):
            if session == session_id:
                future.cancel()

    def warn_of_tools(self, context: Any) -> None:
        """Warn once of tools that the model's provider runs."""
        warn_of_hosted(getattr(context.llm, "builtin_tools", None) or ())

    def check_call(self, context: Any) -> None:
        """Raises HookAborted for a call that may not run, whatever went wrong. The end of the process passes:
        no tool runs then either."""
        call_id, reason = "", None
        try:
            call_id = self._ask(context)
        except (KeyboardInterrupt, SystemExit):
            raise
        except ClientError as error:
            reason = error.for_model
        except BaseException as error:
            logger.exception("a call of %s is refused", context.tool_name)
            reason = f"the gate could not be asked ({type(error).__name__}). The tool did not run."
        self._asked[id(context.tool_input)] = context.tool_input, call_id, reason
        if reason is not None:
            raise HookAborted(reason, "sluice")

    def close_call(self, context: Any) -> str | None:
        """The reason of a refused call, for the model. Reports an allowed one that CrewAI did not run, since
        it had the result in its cache or another hook stopped it."""
        _, call_id, reason = self._asked.pop(id(context.tool_input), (None, "", None))
        if left := _permits.pop(call_id, None):
            left[2](None, "ToolNotRun")
        return reason

    def _ask(self, context: Any) -> str:
        """The id of a call that may run, once its permit is there."""
        session, role = resolve_session_id(self._session_id), getattr(context.agent, "role", "")
        client, gate = self._gates.get(role, self._gates[""])
        gate = replace(gate, session_id=session)
        tool = _guard_tool(context.tool)
        parameters = reveal(_complete(tool, context.tool_input))
        call_id, give_back = self._equal.name(session, context.tool_name, parameters)
        future = client.submit(gate.start(ToolCall(context.tool_name, parameters, call_id, role), wait=True))
        self._waiting[future] = session
        try:
            if session in self._ended:
                future.cancel()
            judged = future.result()
        except BaseException as error:
            if not isinstance(error, ActionDenied):
                give_back()
            raise
        finally:
            del self._waiting[future]
        if judged != parameters:
            context.tool_input.clear()
            context.tool_input.update(judged)
        _permits[call_id] = tool, judged, lambda *end: client.submit(gate.finish(call_id, *end)).result()
        return call_id


@contextmanager
def _run_once(tool: Any, parameters: dict[str, Any]) -> Iterator[list[Any]]:
    """Run the block, which puts its result into the list, under a permit for exactly this. Raises ClientError
    without one: also for another run after an error, or with what a later hook has changed."""
    plain, results = reveal(parameters), [None]
    fitting = [
        key for key, (permitted, judged, _) in [*_permits.items()] if permitted is tool and judged == plain
    ]
    taken = next(filter(None, (_permits.pop(key, None) for key in fitting)), None)
    if taken is None:
        raise ClientError("the gate has not allowed this run of the tool", "Let the agent call it once more")
    try:
        yield results
    except BaseException as error:
        taken[2](None, error)
        raise
    taken[2](results[0], None)


def _guard_tool(tool: Any) -> Any:
    """Have a tool take a permit for each run; the tool itself, where CrewAI made a copy of it."""
    original = getattr(tool, "_original_tool", None) or tool
    if original is None:
        raise ClientError("CrewAI does not say which tool it is", "Give each tool a name of its own")
    name = "func" if hasattr(original, "func") else "_run"
    function = getattr(original, name)  # read once: another thread may guard it now
    if not hasattr(function, _GUARDED):
        object.__setattr__(original, name, _guard_function(function, original))  # no field of the model
    if original is not tool and name == "_run":
        tool.func = original._run  # noqa: SLF001 - the copy has the method from before
    return original


def _guard_function(function: Callable[..., Any], tool: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(**parameters: Any) -> Any:
        with _run_once(tool, parameters) as results:
            results[0] = function(**parameters)
        return results[0]

    @functools.wraps(function)
    async def run_async(**parameters: Any) -> Any:
        with _run_once(tool, parameters) as results:
            results[0] = await function(**parameters)
        return results[0]

    guarded = run_async if inspect.iscoroutinefunction(function) else run
    setattr(guarded, _GUARDED, True)
    return guarded


def _complete(tool: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as CrewAI hands them to the tool: coerced, and with the defaults."""
    schema = getattr(tool, "args_schema", None)
    if schema is None or not schema.model_fields:
        return arguments
    try:
        return dict(schema.model_validate(arguments).model_dump())
    except ValidationError as error:
        raise ClientError(f"{tool.name}: {error}", "Call it with what it takes") from None
