"""The yardsticks: the same work by the libraries alone, nothing decided or bounded.

For the pure pipeline: parsers, rules, canonical form and hash. For the gate with embeddings: tokenizers and
onnxruntime in one process with one thread. They encode a list of texts sorted by length, in batches of 32,
and compare with nothing; of a text 256 word pieces are read and the rest is dropped unsaid.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import orjson
import sqlglot
import tree_sitter_bash
from cel_expr_python import cel
from sqlglot.errors import SqlglotError
from tokenizers import Tokenizer
from tree_sitter import Language, Parser

from sluice.adapters.encoder_model import MODEL, MODELS, PIECES, TOKENIZER, TOKENS
from sluice.core.rules.rule import Rule
from sluice.core.rules.variables import VARIABLES
from sluice.detection.commands.languages import language_of
from sluice.detection.commands.leaves import leaves
from sluice_topics.records import ProposedAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sluice.offline.panels import ActionRow


Kind = Literal["plain", "sql", "shell"]
_INSERTED = "action_sqli_libinjection"
"""The panel's source of values that go into SQL: the harmful ones carry SQL with them."""
_UNTYPED = "OTHER"


class ParsedText(NamedTuple):
    """A text of an action that a parser can read."""

    language: Literal["sql", "shell"]
    text: str


def kind_of(row: ActionRow) -> Kind:
    """`plain`: a row without SQL and without shell."""
    found = {language_of(row.tool, _UNTYPED, leaf.key) for leaf in leaves(row.parameters)}
    if "shell" in found:
        return "shell"
    carries = row.file == _INSERTED and row.label == "harmful"
    return "sql" if carries or "sql" in found else "plain"


def texts_of(tool: str, kind: Kind, parameters: dict[str, object]) -> list[ParsedText]:
    """What the parsers would read of an action of this kind."""
    if kind == "plain":
        return []
    named = [(language_of(tool, _UNTYPED, leaf.key), leaf.text) for leaf in leaves(parameters)]
    own = [ParsedText(kind, text) for language, text in named if language == kind]
    return own or [ParsedText(kind, text) for _, text in named]


def by_kind(rows: Iterable[ActionRow]) -> dict[Kind, Sequence[ActionRow]]:
    """The rows, sorted."""
    found: dict[Kind, list[ActionRow]] = defaultdict(list)
    for row in rows:
        found[kind_of(row)].append(row)
    return dict(found)


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

    def parse(self, texts: Iterable[ParsedText]) -> None:
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


BATCH = 32


class BareEncoder:
    """The same weights as the gate's, loaded into this process."""

    def __init__(self) -> None:
        import onnxruntime  # noqa: PLC0415 - the other yardsticks need none

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        self._model: Any = onnxruntime.InferenceSession(MODELS / MODEL, options)
        self._tokenizer = Tokenizer.from_file(str(MODELS / TOKENIZER))
        self._tokenizer.enable_truncation(TOKENS)
        self._tokenizer.enable_padding()
        self._counting = Tokenizer.from_file(str(MODELS / TOKENIZER))
        self._counting.no_truncation()
        self._counting.no_padding()

    def encode(self, texts: Sequence[str], batch: int = BATCH) -> None:
        """All of the texts."""
        by_length = sorted(texts, key=len)
        for start in range(0, len(texts), batch):
            tokens = self._tokenizer.encode_batch(by_length[start : start + batch])
            ids = np.array([one.ids for one in tokens])
            self._model.run(None, {"ids": ids, "mask": np.array([one.attention_mask for one in tokens])})

    def read_of(self, texts: Sequence[str]) -> float:
        """The share of the texts' word pieces that it reads of them."""
        pieces = [len(self._counting.encode(text, add_special_tokens=False).ids) for text in texts]
        return sum(min(one, PIECES) for one in pieces) / sum(pieces)
