"""200 rules of the kinds that policies are made of, and the actions that make them work hardest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from app.core.cel.values import MAX_ALL_ITEMS, MAX_ALL_TEXT, MAX_ITEMS, MAX_TEXT
from load.bench.given.policy import RULES

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 200
_TEMPLATES = (
    "action.rows <= {limit}",
    "action.type != 'PAYMENT' || session.aggregateRowsAffected < {limit}",
    "!(action.tool.startsWith('internal.{n}') && action.mode != 'high_stakes')",
    "!has(action.parameters.region_{n}) || action.parameters.region_{n} in ['eu', 'us', 'ap{n}']",
    "agent.tenant == 'bench' || session.aggregateActionCount < {limit}",
    "!action.tool.matches('^admin[._-]{n}[0-9]*$')",
    "!has(action.parameters.items) || !action.parameters.items.exists(item, item == 'forbidden-{n}')",
    "action.parameters.all(name, name != 'override_{n}')",
    "!has(action.parameters.text) || !action.parameters.text.contains('project-{n}')",
    "now < timestamp('2030-01-{day:02d}T00:00:00Z') || action.reversible == true",
)


def rules() -> list[dict[str, Any]]:
    """The eight, and templates with other constants in each."""
    few: list[dict[str, Any]] = json.loads(RULES.read_bytes())
    return few + [_rule(number) for number in range(COUNT - len(few))]


def _rule(number: int) -> dict[str, Any]:
    source = _TEMPLATES[number % len(_TEMPLATES)]
    condition = source.format(n=number, limit=1_000_000 + number, day=number % 28 + 1)
    return {"id": f"rule-{number}", "type": "invariant", "reason": "does not hold", "condition": condition}


def heaviest() -> Iterator[tuple[str, dict[str, Any]]]:
    """Parameters at the bounds of what rules are shown, and just past them, by name."""
    text = "project " * (MAX_TEXT // 8)
    yield "longest text", {"text": text}
    yield (
        "texts up to the bound on all",
        {"text": text, **{f"t{n}": text for n in range(MAX_ALL_TEXT // MAX_TEXT - 1)}},
    )
    yield "longest list", {"items": [f"item-{n}" for n in range(MAX_ITEMS)]}
    yield "longest map", {f"name_{n}": n for n in range(MAX_ITEMS)}
    yield "longest list of long texts", {"items": ["forbidden-" + "x" * 400] * MAX_ITEMS}
    lists = MAX_ALL_ITEMS // MAX_ITEMS - 1
    yield "values up to the bound on all", {f"list_{n}": list(range(MAX_ITEMS)) for n in range(lists)}
    yield "lists of maps", {"items": [{"a": n, "b": [n], "c": {"d": n}} for n in range(MAX_ITEMS - 1)]}
    yield "past every bound", {"text": text * 2, "items": list(range(MAX_ITEMS + 1)), "huge": 2**200}
