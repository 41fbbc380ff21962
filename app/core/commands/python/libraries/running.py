"""Text that is run as Python, and functions that others call later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.commands.python.values import HOLE, UNKNOWN, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called


def run(call: Called) -> Value:
    """`exec(text)`, `eval(text)`: read here and now where the text is known."""
    program = call.arg(0, "source")
    if program.text is not None and HOLE not in program.text:
        before = call.walker.found.started
        value = call.walker.inner(program.text)
        if call.name == "eval" and call.walker.found.started > before:
            call.runs("python.eval")
        return value
    if program.feeds:
        return call.result(call.runs("python3", "-", fed_by=program.feeds))
    return UNKNOWN


def compiled(call: Called) -> Value:
    """`compile(text, ...)`: the text."""
    return call.arg(0, "source")


def thread(call: Called) -> Value:
    """`threading.Thread(target=f, args=(...))`: f is called with them."""
    target = call.arg(1, "target")
    args = list(call.arg(3, "args").items or ())
    if target.name:
        call.walker.found_call(target, args)
    return call.result()


def unpickled(call: Called) -> Value:
    """`pickle.loads(data)`: runs what the data says."""
    data = call.arg(0)
    words = (" ".join(data.text.split()),) if data.text is not None else ()
    return call.result(call.runs("pickle.loads", *words, fed_by=data.feeds))


FUNCTIONS: dict[str, Callable[[Called], Value]] = {
    "exec": run,
    "eval": run,
    "compile": compiled,
    "threading.Thread": thread,
    "threading.Timer": thread,
    "multiprocessing.Process": thread,
    "pickle.loads": unpickled,
    "pickle.load": unpickled,
}
