"""A bundle is taken whole or refused with the place of what is wrong."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from sluice.core.actions.stages import load_bundle
from sluice.core.foundation.errors import BundleError
from tests.unit.core.scene import BUNDLE_BYTES, ROOT, bundle

SHIPPED: dict[str, Any] = json.loads(BUNDLE_BYTES)


def change(path: str, value: Any) -> bytes:
    document = copy.deepcopy(SHIPPED)
    place: Any = document
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("patterns.text.0.pattern", "(?=x)", r"\$\.patterns\.text\[0\]\.pattern: .* does not compile"),
        ("patterns.text.1.pattern", "(", r"\$\.patterns\.text\[1\]\.pattern: .* does not compile"),
        ("patterns.text.1.id", SHIPPED["patterns"]["text"][0]["id"], "two patterns have the same id"),
        ("patterns.text.0.severity", "high", r"\$\.patterns\.text\[0\]\.severity"),
        ("topology.max_chain_depth", -1, r"\$\.topology\.max_chain_depth"),
        ("consequence.weights.rows", 401, "sum to 1000"),
        ("consequence.escalate_at", 900, "above block_at"),
        ("consequence.row_steps.0.from_rows", 1, "start at 0 rows"),
        ("consequence.row_steps.3.score", 0, "never fall in score"),
        ("action_types.PAYMENT", ..., "lacks PAYMENT"),
        ("action_types.PAYMENT.rows_upper_bound", 0, "rows_upper_bound"),
        ("action_types.PAYMENT.risk", 0.5, r"\$\.action_types\.PAYMENT\.risk"),
        ("revision", "1", r"\$\.revision"),
        ("surprise", 1, r"\$\.surprise"),
    ],
)
def test_a_wrong_bundle_is_refused_with_its_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        load_bundle(change(path, value))


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b'{"id":1,"id":2}', b"\xff", b"{}"])
def test_what_is_no_bundle_is_refused(raw: bytes) -> None:
    with pytest.raises(BundleError, match=r"^\$"):
        load_bundle(raw)


def test_the_hash_is_of_the_content_not_of_the_writing() -> None:
    again = load_bundle(json.dumps(SHIPPED, indent=7, sort_keys=True).encode())
    assert again.hash == bundle().hash
    assert bundle(revision=2).hash != bundle().hash


def test_each_action_type_has_a_row_bound_that_the_gates_let_pass() -> None:
    loaded = bundle()
    bounds = [one.rows_upper_bound for one in loaded.action_types.values()]
    assert max(bounds) <= loaded.irreversible_row_threshold


@pytest.mark.parametrize(
    ("name", "action_type"),
    [
        ("run_shell_command", "CODE_EXECUTION"),
        ("SQLQuery", "DATABASE_READ"),
        ("delete-records", "DATABASE_WRITE"),
        ("rm", "FILE_DELETE"),
        ("read_file", "FILE_READ"),
        ("sendEmail", "MESSAGE"),
        ("transfer_funds", "PAYMENT"),
        ("readingList", "DATABASE_READ"),
        ("😀", "OTHER"),
    ],
)
def test_a_tools_name_is_read_word_by_word(name: str, action_type: str) -> None:
    assert bundle().classified(name) == action_type


def test_the_shipped_bundle_includes_every_pattern_set_that_ships() -> None:
    source = json.loads((ROOT / "config" / "bundles" / "default.json").read_bytes())
    folders = ("patterns", "content")
    beside = ROOT / "config" / "bundles"
    shipped = {f"{name}/{path.name}" for name in folders for path in (beside / name).iterdir()}
    assert set(source["include"]) == shipped
