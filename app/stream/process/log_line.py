"""How a fault or a text of somebody else's becomes one line of the worker's log."""

from __future__ import annotations

from mode.utils.logging import get_logger

MOST_SIGNS = 400


class Explained(Exception):
    """A fault whose message says all that the reader of the log needs: no traceback follows it."""


def one_line(text: str) -> str:
    """The text without line breaks, control characters and signs that change the direction of others."""
    shown = "".join(sign if sign.isprintable() else "·" for sign in text[:MOST_SIGNS])
    return shown if len(text) <= MOST_SIGNS else f"{shown}…"


def reasons(fault: BaseException) -> str:
    """The fault and what caused it, outermost first: a client wraps what the broker answered."""
    told = []
    cause: BaseException | None = fault
    while cause is not None:
        name, text = type(cause).__name__, str(cause)
        told.append(text if name in text else f"{name}: {text}" if text else name)
        cause = None if isinstance(cause, Explained) else cause.__cause__
    return one_line(" ← ".join(told))


service_log = get_logger("faust.service")
"""The log of Faust's services, quiet below WARNING.

mode names a service's logger after the module of its class, so our subclasses would speak for all of Faust.
"""
