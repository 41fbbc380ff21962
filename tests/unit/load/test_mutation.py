"""Each mutant is one change of one function, and is code that runs."""

from __future__ import annotations

import ast

import pytest

from load import ROOT
from load.mutation.__main__ import FILES
from load.mutation.mutants import changes, codes_in, compile_mutant, places


@pytest.mark.parametrize("file", FILES)
def test_a_mutant_changes_its_own_function_and_nothing_else(file: str) -> None:
    whole = compile((ROOT / file).read_bytes(), str(ROOT / file), "exec", dont_inherit=True)
    before = {one.co_qualname: one for one in whole.co_consts if hasattr(one, "co_qualname")}
    known = places(file)
    assert [one.at for one in known] == list(range(len(known)))
    for one in known[::5]:
        after = {code.co_qualname: code for code in codes_in(compile_mutant(one))}
        assert one.function in after
        changed = {name for name, code in before.items() if code != after[name]}
        assert changed <= {one.function, one.function.partition(".")[0]}, one


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("a < b", "a <= b"),
        ("a and b", "a or b"),
        ("not a", "a"),
        ("7", "8"),
        ("a if b else c", "a if not b else c"),
        ("a + b", "a - b"),
    ],
)
def test_a_change_reads_as_a_slip_would(was: str, now: str) -> None:
    (change,) = changes(ast.parse(was, mode="eval").body)
    assert ast.unparse(change) == now
