"""A guarded tool: what it may be, its call as the gate judges it, and the call that then runs.

The arguments of a call are bound once. What runs is made from the bytes that were judged, and from nothing
else but the arguments that the guard's `context` names.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future
from contextlib import AsyncContextDecorator, ContextDecorator, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sluice.client.answers import ClientError, check_count
from sluice.client.json_values import copy_faithfully, may_be_json

if TYPE_CHECKING:
    from sluice.client.answers import Permit

Mandate = Mapping[str, Any] | str
"""A signed mandate, or the digest of one."""
_session: ContextVar[str | None] = ContextVar("session", default=None)
_mandate: ContextVar[tuple[str, Mandate] | None] = ContextVar("mandate", default=None)

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
Context = Sequence[str] | Mapping[str, Callable[[], Any] | None]
"""Parameters that are not judged, and what gives their values; without that, the call brings an object."""
GOES_ON = (Awaitable, Iterator, AsyncIterator, Future, ContextDecorator, AsyncContextDecorator)
"""Results whose work is done only after the tool has returned them."""
_RETURN = "Return the finished result, or put the work into `with gate.action(...)`"


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """The options of `guard`. `more`: arguments of `permit`. Raises ClientError for what excludes itself."""

    tool_name: str | None = None
    rows: Callable[[Any], int] | None = None
    rows_before: Callable[..., Any] | int | None = None
    context: Context = ()
    on_refusal: Literal["raise", "return"] = "raise"
    more: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.on_refusal not in ("raise", "return"):
            raise ClientError(f"on_refusal={self.on_refusal!r}", 'Give "raise" or "return"')
        if self.rows_before is not None and "rows_affected" in self.more:
            raise ClientError("both rows_before and rows_affected are given", "Give one of them")


class ProposedCall(NamedTuple):
    """A call that is to be judged: its parameters, which are its own copy, and what is not judged of it."""

    parameters: dict[str, Any]
    context: dict[str, Any]


class GuardedTool:
    """A function behind the gate. Its work is done when it returns, so that its outcome is the whole one."""

    def __init__(self, function: Callable[..., Any], options: GuardOptions) -> None:
        """Raises ClientError for a function that cannot be guarded, with the name of what is in the way."""
        self._function = function
        self._options = options
        self.name = _choose_name(function, options)
        _refuse_kind(function, self.name)
        self._signature = inspect.signature(function)
        self._context = self._read_context(options.context)
        called = [
            parameter
            for parameter in self._signature.parameters.values()
            if self._context.get(parameter.name) is None
        ]
        self._called = self._signature.replace(parameters=called)
        for name, parameter in self._signature.parameters.items():
            if name not in self._context and parameter.default is not parameter.empty:
                copy_faithfully(parameter.default, f"{self.name}: the default of {name}")

    def propose(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProposedCall:
        """The call, with its defaults. What it passes for a name that has a source in `context` is not used.

        Raises TypeError as the function does for arguments that it has not, and ClientError for one that JSON
        does not keep, or that `context` names and a model may have sent."""
        sources = {name: source for name, source in self._context.items() if source is not None}
        bound = self._called.bind(*args, **{name: kwargs[name] for name in kwargs.keys() - sources.keys()})
        for name in self._context.keys() & bound.arguments.keys():
            self._refuse_plain(name, bound.arguments[name])
        bound.apply_defaults()
        judged, context = {}, {name: source() for name, source in sources.items()}
        for name, value in bound.arguments.items():
            if name in self._context:
                context[name] = value
            else:
                is_args = self._called.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
                judged[name] = copy_faithfully(list(value) if is_args else value, f"{self.name}: {name}")
        return ProposedCall(judged, context)

    def count_rows_before(self, call: ProposedCall) -> Any:
        """The rows that are known before the call; None: nothing is. It may be an awaitable of them."""
        wanted = self._options.rows_before
        if not callable(wanted):
            return wanted
        bound = self._bind(copy_faithfully(call.parameters, self.name), call.context)
        return wanted(*bound.args, **bound.kwargs)

    def run(self, permit: Permit, call: ProposedCall) -> Any:
        """Call the function with what was judged. Raises ClientError if an approver's parameters are not
        those of the tool."""
        bound = self._bind(dict(permit.parameters), call.context)
        return self._function(*bound.args, **bound.kwargs)

    def finish(self, permit: Permit, result: Any) -> None:
        """Take the rows to report from the result, and the result for its values. Raises ClientError for a
        result that goes on, and for rows that are no count."""
        if isinstance(result, GOES_ON):
            if isinstance(result, (Coroutine, Generator)):
                result.close()
            raise ClientError(f"{self.name} returned a {type(result).__name__}, which goes on later", _RETURN)
        if self._options.rows is not None:
            permit.rows_affected = self._options.rows(result)
        permit.result = result

    def refuse(self, error: ClientError) -> Any:
        """Return what a refused call gives its caller, a text for a model, or raise the error."""
        if self._options.on_refusal == "raise":
            raise error
        return error.for_model

    def resolve_session(self) -> str:
        """The session of a call. Raises ClientError if there is none."""
        return resolve_session_id(self._options.more.get("session_id"))

    def build_fields(self, session: str, rows: int | None) -> dict[str, Any]:
        """The arguments of `permit`, apart from the call."""
        rows_field = {} if rows is None else {"rows_affected": check_count(rows, "rows_before")}
        return {**self._options.more, **rows_field, "session_id": session}

    def _bind(self, parameters: dict[str, Any], context: dict[str, Any]) -> inspect.BoundArguments:
        """Exactly these as a call. A parameter that is left out would be the function's own choice, which
        nobody judged."""
        own = self._signature.parameters
        strange = parameters.keys() - (own.keys() - self._context.keys())
        absent = {name for name, parameter in own.items() if parameter.kind not in VARIADIC}
        absent -= self._context.keys() | parameters.keys()
        if strange or absent:
            what = (
                f"no parameter {', '.join(sorted(strange))}" if strange else f"no {', '.join(sorted(absent))}"
            )
            raise ClientError(
                f"{self.name}: {'the tool has' if strange else 'the approved parameters have'} {what}",
                "Tell the approver to name the tool's parameters, and every one of them",
            )
        bound = inspect.BoundArguments(self._signature, {})
        for name, parameter in own.items():
            if name in self._context:
                bound.arguments[name] = context[name]
            elif name in parameters:
                value = parameters[name]
                bound.arguments[name] = tuple(value) if parameter.kind is parameter.VAR_POSITIONAL else value
        return bound

    def _refuse_plain(self, name: str, value: Any) -> None:
        default = self._called.parameters[name].default
        if may_be_json(value) and value is not default:
            raise ClientError(
                f"{self.name}: {name} is named in guard(context=...) and came as plain data, "
                f"which a model could have sent",
                f"Say where it comes from: guard(context={{{name!r}: function}}); or let the gate judge it",
            )

    def _read_context(self, names: Context) -> Mapping[str, Callable[[], Any] | None]:
        if isinstance(names, str):
            raise ClientError(f"{self.name}: guard(context={names!r})", "Give a list of names")
        context = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names)
        parameters = self._signature.parameters
        strange = sorted(
            name for name in context if name not in parameters or parameters[name].kind in VARIADIC
        )
        if strange:
            raise ClientError(
                f"{self.name}: guard(context=...) names {', '.join(strange)}, which is no parameter of it",
                "Name parameters that the function itself lists",
            )
        return context


def _choose_name(function: Callable[..., Any], options: GuardOptions) -> str:
    name = options.tool_name or getattr(function, "__name__", None)
    if name is None:
        raise ClientError(f"{function!r} has no name", "Give it: guard(tool_name)")
    return str(name)


def _refuse_kind(function: Callable[..., Any], name: str) -> None:
    if isinstance(function, (classmethod, staticmethod)):
        raise ClientError(f"{name} is a {type(function).__name__}", "Put the guard below that decorator")
    if inspect.isclass(function) or not callable(function):
        raise ClientError(f"{name} is no function", "Guard a function that does the work")
    called = getattr(type(function), "__call__", function)  # noqa: B004 - of an object that can be called
    for candidate in (function, called):
        if inspect.isgeneratorfunction(candidate) or inspect.isasyncgenfunction(candidate):
            raise ClientError(f"{name} is a generator: its body would run after its outcome", _RETURN)


def refuse_coroutine(function: Callable[..., Any]) -> None:
    """Raises ClientError for a function that only an event loop can run."""
    called = getattr(type(function), "__call__", function)  # noqa: B004 - as above
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
        raise ClientError(f"{function!r} is a coroutine function", "Guard it with AsyncGateClient")


async def await_value(value: Any) -> Any:
    """A value, or that of an awaitable."""
    return await value if inspect.isawaitable(value) else value


def name_error(error: BaseException) -> str:
    """The class of an error. The message is left out, because it may hold content."""
    return type(error).__name__


@contextmanager
def in_session(session_id: str, mandate: Mandate | None = None) -> Iterator[None]:
    """Calls of guarded tools within the block belong to this session, also those of tasks started in it.

    `mandate`: under which they act, signed for this session (`issue_mandate`) or its digest. The client
    publishes a signed one before the first of them.
    """
    token, mandate_token = (
        _session.set(session_id),
        _mandate.set(None if mandate is None else (session_id, mandate)),
    )
    try:
        yield
    finally:
        _mandate.reset(mandate_token)
        _session.reset(token)


def find_mandate(session_id: str) -> Mandate | None:
    """The mandate of `in_session`, for a call in its session; None where there is none."""
    bound = _mandate.get()
    return None if bound is None or bound[0] != session_id else bound[1]


def resolve_session_id(session_id: str | None) -> str:
    """The session given, or that of `in_session`. Raises ClientError if there is neither."""
    resolved = session_id or _session.get()
    if resolved is None:
        raise ClientError("the action has no session", "Give session_id, or call it within `in_session`")
    return resolved
