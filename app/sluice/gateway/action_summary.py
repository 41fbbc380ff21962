"""An action that waits, in a line of a list: its tool, and the parameters that decided. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SHOWN_PARAMETERS = 3
LONGEST_VALUE = 60
LONGEST_SEARCHED = 4_000
PARAMETERS = "$.parameters"
"""How findings name them in their paths: by `.name`, or by `[place]` where the name is no identifier."""


@dataclass(frozen=True, slots=True)
class WaitingContent:
    """An action in a line. `parameters`: names and values, cut short; those that decided if `decided`, else
    the first ones; `more`: how many are not among them. `text`: what a search looks through."""

    tool: str
    rows: int | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    decided: bool = False
    more: int = 0
    text: str = ""


def summarize(content: Any, verdict: Mapping[str, Any] | None) -> WaitingContent | None:
    """Summarize an action from its input and the verdict that escalated it, None where that was not found.
    Returns None for what is no action."""
    call = find_call(content) if isinstance(content, dict) else None
    if call is None:
        return None
    tool, arguments = call
    parameters = (
        arguments if isinstance(arguments, dict) else {} if arguments is None else {"value": arguments}
    )
    named = [name for name in parameters if name in _find_deciding(parameters, verdict)]
    shown = (named or list(parameters))[:SHOWN_PARAMETERS]
    rows = content.get("rows_affected", content.get("rowsAffected"))
    return WaitingContent(
        tool,
        rows if isinstance(rows, int) else None,
        tuple((_shorten(name), _shorten(_write_value(parameters[name]))) for name in shown),
        bool(named),
        len(parameters) - len(shown),
        _write_value(parameters)[:LONGEST_SEARCHED],
    )


def _find_deciding(parameters: Mapping[str, Any], verdict: Mapping[str, Any] | None) -> set[str]:
    """The parameters that a gate which did not pass names: by the path of a finding, or by a word of its
    reason or of a rule's."""
    if verdict is None:
        return set()
    failed = [result for result in verdict.get("gateResults", ()) if not result.get("passed")]
    texts = list(_collect_texts([result.get("detail") for result in failed]))
    reasons = [str(result.get("failureReason")) for result in failed]
    reasons += [
        str(result.get("reason")) for result in verdict.get("rule_results", ()) if not result.get("passed")
    ]
    words = {word.strip(".,:;()'\"`") for reason in reasons for word in reason.replace(".", " ").split()}
    paths = {text.removeprefix(PARAMETERS) for text in texts if text.startswith(PARAMETERS)}
    steps = {name: (f".{name}", f"[{index}]") for index, name in enumerate(parameters)}
    return {name for name, own in steps.items() if name in words or is_below(paths, own)}


def is_below(paths: set[str], steps: tuple[str, str]) -> bool:
    """Whether a path begins with one of these steps, as a whole one."""
    return any(path == step or path.startswith((f"{step}.", f"{step}[")) for path in paths for step in steps)


def _collect_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from _collect_texts(member)
    elif isinstance(value, list):
        for element in value:
            yield from _collect_texts(element)


def _write_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
