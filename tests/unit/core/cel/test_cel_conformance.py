"""The condition language is CEL: cel-spec's own vectors, through the adapter that rules go through.

Every row comes out as the specification says, or is in one of the lists below with the reason.
"""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import pytest
from cel_expr_python import cel

from sluice.core.cel.language import Expression, ExpressionError, Failure, Language

VECTORS = Path(__file__).parents[1] / "data" / "cel_core.jsonl"
ROWS = [json.loads(line) for line in VECTORS.read_text().splitlines()]
SECTIONS = sorted({row["note"].partition("; ")[2] for row in ROWS})

TYPES = {
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "bool": cel.Type.BOOL,
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "null": cel.Type.NULL,
    "list": cel.Type.LIST,
    "map": cel.Type.MAP,
}
TYPE_NAMES = {
    "google.protobuf.Timestamp": "TIMESTAMP",
    "google.protobuf.Duration": "DURATION",
    "null_type": "NULL",
}
LENIENT = {"cel-fields-qualified_identifier_resolution-map_value_repeat_key_heterogeneous"}
"""`{0: 1, 0u: 2}`: the evaluator keeps both keys where the specification wants an error. JSON has no such
keys, and a rule that writes them down means nothing by it."""
NESTED = {"cel-macros-nested-filter_all", "cel-macros-nested-all_all"}
"""A macro inside a macro: refused, because it multiplies the work."""
ZONES = "cel-timestamps-timestamp_selectors_tz-"
"""A time zone by name: refused, because its meaning is in the machine's tables, which a rerun may lack."""
TWO_VARIABLES = "cel-macros2-"
"""Macros with two variables are an extension of CEL that this evaluator does not offer in Python."""


def plain(value: dict[str, Any]) -> Any:
    """A value of the vectors as the adapter gives it."""
    kind, given = value["type"], value["value"]
    if kind == "bytes":
        return base64.b64decode(given)
    if kind == "double":
        return float(given)
    if kind == "list":
        return [plain(item) for item in given]
    return {plain(key): plain(item) for key, item in given} if kind == "map" else given


def compile_row(row: dict[str, Any]) -> tuple[Language, Expression | ExpressionError]:
    """The row's expression, or its refusal."""
    variables = row["input"]["bindings"] or {}
    language = Language({name: TYPES[value["type"]] for name, value in variables.items()})
    try:
        return language, language.compile(row["input"]["expr"])
    except ExpressionError as refused:
        return language, refused


def is_as_expected(row: dict[str, Any], language: Language, expression: Expression) -> bool:
    """Whether the evaluation comes to what the vector says."""
    variables, wanted = row["input"]["bindings"] or {}, row["input"]["expected"]
    found = expression.evaluate(
        language.make_activation({name: plain(one) for name, one in variables.items()})
    )
    if "error" in wanted:
        return isinstance(found, Failure)
    if wanted["type"] == "type":
        return same_type(found, wanted["value"])
    right = plain(wanted)
    found = bytes(found) if isinstance(found, bytearray) else found
    both_nan = isinstance(found, float) and math.isnan(found) and math.isnan(right)
    return type(found) is type(right) and (found == right or both_nan)


def same_type(found: Any, wanted: str) -> bool:
    """A CEL type as the binding shows it ("LIST<DYN>") and as the specification writes it ("list")."""
    return repr(found).partition("<")[0] == TYPE_NAMES.get(wanted, wanted.upper())


def refusal_is_explained(row: dict[str, Any], refused: ExpressionError) -> bool:
    """A row that has a value and is refused all the same must be in one of the lists, for its reason."""
    if row["id"] in NESTED:
        return refused.message.startswith("a macro inside or after another")
    if row["id"].startswith(ZONES):
        return refused.message.startswith("a time zone by name")
    untyped: bool = row["input"].get("disable_check", False)
    if row["id"].startswith(TWO_VARIABLES) or untyped:
        return "undeclared reference" in refused.message or "no matching overload" in refused.message
    return False


def wrong(row: dict[str, Any]) -> str | None:
    """What is not as the specification says and not explained either."""
    language, expression = compile_row(row)
    if isinstance(expression, ExpressionError):
        fine = row["label"] == "error" or refusal_is_explained(row, expression)
        return None if fine else f"{row['id']}: {expression.message}"
    fine = is_as_expected(row, language, expression) is (row["id"] not in LENIENT)
    return None if fine else f"{row['id']}: another value"


@pytest.mark.parametrize("section", SECTIONS)
def test_the_vectors_of_a_section_come_out_as_the_specification_says(section: str) -> None:
    rows = [row for row in ROWS if row["note"].partition("; ")[2] == section]
    assert [problem for row in rows if (problem := wrong(row)) is not None] == []


def test_few_rows_are_refused_and_for_three_reasons() -> None:
    refused = [row for row in ROWS if isinstance(compile_row(row)[1], ExpressionError)]
    with_value = [row for row in refused if row["label"] == "value"]
    untyped = [row for row in with_value if row["input"].get("disable_check")]
    extended = [row for row in with_value if row["id"].startswith(TWO_VARIABLES)]
    bounded = [row for row in with_value if row["id"] in NESTED or row["id"].startswith(ZONES)]
    assert (len(ROWS), len(with_value)) == (1137, 73)
    assert (len(untyped), len(extended), len(bounded)) == (28, 38, 7)
