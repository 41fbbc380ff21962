"""A guarded tool's call: its arguments as parameters, its session, and the error text in its outcome."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sluice.client.answers import ClientError

if TYPE_CHECKING:
    import inspect
    from collections.abc import Iterator, Mapping

_session: ContextVar[str | None] = ContextVar("session", default=None)


def arguments_of(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """A call's arguments by name, defaults included; `self` and `cls` are left out."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return {name: value for name, value in bound.arguments.items() if name not in ("self", "cls")}


def narrowed_call(
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    narrowed: Mapping[str, Any] | None,
) -> inspect.BoundArguments:
    """The arguments with which the call may run: those that an approver narrowed replace the others.

    Raises ClientError for a parameter that the tool does not have.
    """
    bound = signature.bind(*args, **kwargs)
    if narrowed is not None:
        strange = narrowed.keys() - signature.parameters.keys()
        if strange:
            raise ClientError(f"the tool has no parameter {', '.join(sorted(strange))}", "Tell the approver")
        bound.arguments.update(narrowed)
    return bound


def error_text(error: BaseException) -> str:
    """The class of an error. The message is left out, because it may hold content."""
    return type(error).__name__


@contextmanager
def in_session(session_id: str) -> Iterator[None]:
    """Calls of guarded tools within the block belong to this session, also those of tasks started in it."""
    token = _session.set(session_id)
    try:
        yield
    finally:
        _session.reset(token)


def session_or_current(session_id: str | None) -> str:
    """The session given, or that of `in_session`. Raises ClientError if there is neither."""
    found = session_id or _session.get()
    if found is None:
        raise ClientError("the action has no session", "Give session_id, or call it within `in_session`")
    return found
