"""The yardstick of the pure pipeline: the same work by the libraries alone, nothing decided or bounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import sqlglot
import tree_sitter_bash
from cel_expr_python import cel
from sqlglot.errors import SqlglotError
from tree_sitter import Language, Parser

from app.core.rules.rule_set import Rule
from app.core.rules.variables import VARIABLES
from topics.records import ProposedAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from load.bench.kinds import Text


class BareRules:
    """The rules' expressions on one activation for each action, by cel-expr-python alone."""

    def __init__(self, rules: Sequence[Mapping[str, Any]]) -> None:
        """As they stand in rules.json."""
        known = [Rule.model_validate(rule) for rule in rules]
        sources = [text for rule in known for text in (rule.when, rule.condition) if text is not None]
        self._names = [name for name in VARIABLES if any(name in source for source in sources)]
        self._environment = cel.NewEnv(variables={name: VARIABLES[name].type for name in self._names})
        self._pairs = [
            (self._program(rule.when), self._environment.compile(rule.condition)) for rule in known
        ]

    def _program(self, source: str | None) -> cel.Expression | None:
        return None if source is None else self._environment.compile(source)

    def values(self, action: ProposedAction) -> dict[str, Any]:
        """The variables of an action: the same types and sizes as the gates give, prepared beforehand."""
        fixed = {"agent.tenant": "bench", "agent.tier": "T3", "action.type": "OTHER", "action.tier": "T2"}
        of_session = {"session.aggregateRowsAffected": 1, "session.aggregateActionCount": 1}
        of_action = {
            "action.mode": "high_stakes",
            "action.tool": action.tool_name,
            "action.parameters": action.parameters,
            "tool.registered": True,
        }
        every = {**fixed, **of_session, **of_action}
        return {name: every[name] for name in self._names}

    def evaluate(self, values: dict[str, Any]) -> list[Any]:
        """Every rule that applies, as a plain value."""
        activation = self._environment.Activation(values)
        return [
            condition.eval(activation).plain_value()
            for when, condition in self._pairs
            if when is None or when.eval(activation).plain_value()
        ]


@dataclass(slots=True)
class BareParsers:
    """sqlglot and tree-sitter-bash on whole texts; what they cannot parse costs what it costs."""

    shell: Parser = field(default_factory=lambda: Parser(Language(tree_sitter_bash.language())))

    def parse(self, texts: Iterable[Text]) -> None:
        """Build the trees and drop them."""
        for language, text in texts:
            if language == "shell":
                self.shell.parse(text.encode())
                continue
            try:
                sqlglot.parse(text)
            except SqlglotError:
                continue


def read(raw: bytes) -> ProposedAction:
    """The bytes as a record, by pydantic alone."""
    return ProposedAction.model_validate_json(raw)


def written(body: dict[str, Any]) -> bytes:
    """The canonical form of a ledger record, by orjson alone."""
    return orjson.dumps(body, option=orjson.OPT_SORT_KEYS)


def hashed(value: bytes) -> str:
    """The record's SHA-256."""
    return sha256(value).hexdigest()
