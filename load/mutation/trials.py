"""What the tests say of a mutant: which of them enter its function, and whether one of them fails.

A mutant is tried in a forked process: nothing is written to the tree.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from functools import _lru_cache_wrapper, partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from load import ROOT
from load.mutation.mutants import codes_in, compile_mutant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from types import ModuleType

    from load.mutation.mutants import Mutant

TESTS = (
    *(f"tests/unit/core/{area}" for area in (
        "foundation", "actions", "state", "memory", "retrieval", "trust", "decide", "cases", "rerun",
        "rules", "policy",
    )),
    *sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("tests/unit/core/test_*.py")),
)  # fmt: skip
HEAVY = ("anthropic", "cel_expr_python", "cryptography", "numpy", "orjson", "pydantic", "re2", "rfc8785",
         "sqlglot", "tree_sitter")  # fmt: skip
CPU_S, WALL_S = 60, 900
"""Of one mutant: what runs longer is killed, and counts as found."""
BUDGET_S = 20.0
"""Of tests for one mutant, by the time that they took on the unchanged code. The others that enter its
function run when none of these has failed."""
TIMES = 10
"""So much longer may the others take."""


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _functions(file: str) -> dict[str, list[FunctionType]]:
    """The living functions of an imported file, by qualified name."""
    functions: dict[str, list[FunctionType]] = defaultdict(list)
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == str(ROOT / file):
            functions[function.__code__.co_qualname].append(function)
    return functions


def _caches(files: Sequence[str]) -> list[Any]:
    """The living caches of functions of imported files."""
    paths = {str(ROOT / file) for file in files}
    caches = [function for function in gc.get_objects() if isinstance(function, _lru_cache_wrapper)]
    return [cache for cache in caches if inspect.isfunction(cache.__wrapped__) and
            cache.__wrapped__.__code__.co_filename in paths]  # fmt: skip


class _Runner:
    """A pytest plugin: notes how long each test took, or picks and orders tests. Before each test it empties
    `caches`: an answer that an earlier test got is no answer of the function as it is."""

    def __init__(
        self, wanted: dict[str, float] | None = None, before: Callable[[], None] | None = None
    ) -> None:
        self._wanted, self._before = wanted, before
        self.current = ""
        self.caches: list[Any] = []
        self.took: dict[str, float] = defaultdict(float)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self._before is not None:  # before tests/conftest.py hides all functions from gc.get_objects
            self._before()
        if self._wanted is None:
            return
        wanted = self._wanted
        files: dict[str, list[float]] = defaultdict(list)
        for name, seconds in wanted.items():
            files[name.partition("::")[0]].append(seconds)
        rank = {file: sum(all_) / len(all_) for file, all_ in files.items()}
        items[:] = sorted(
            (item for item in items if item.nodeid in wanted),
            key=lambda item: (rank[item.nodeid.partition("::")[0]], item.nodeid.partition("::")[0],
                             wanted[item.nodeid]),
        )  # fmt: skip

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.current = nodeid
        for cache in self.caches:
            cache.cache_clear()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] += report.duration


def _pytest(plugin: _Runner, *words: str) -> int:
    calm = [
        "-x",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:timeout",
        "-o",
        "addopts=",
        "-W",
        "ignore",
    ]
    return int(pytest.main([*calm, *words], plugins=[plugin]))


def get_ready() -> None:
    """What is not ours is imported, and a property that fails is not made smaller."""
    for name in HEAVY:
        importlib.import_module(name)
    os.chdir(ROOT)
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile("mutation", phases=phases, derandomize=True, database=None)
    hypothesis.settings.load_profile("mutation")


def run_in_child(work: Callable[[], int], cpu_s: int = 3600, wall_s: float = 3600) -> int:
    """The exit status of a forked process that does the work; negative when it was ended."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        status = 70
        try:
            status = work()
        finally:
            os._exit(status)
    end = time.monotonic() + wall_s
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


Reach = dict[str, dict[str, float]]
"""By file and function ("file:function"), the tests that enter it and their seconds."""


def record_reach(files: Sequence[str], out: Path) -> int:
    """Run all tests once, each function saying that it was entered."""
    reached: dict[str, set[str]] = defaultdict(set)

    def instrument() -> None:
        runner.caches = _caches(files)
        for file in files:
            codes = {(code.co_qualname, code.co_firstlineno): code for code in codes_in(_instrument(file))}
            for name, functions in _functions(file).items():
                for function in functions:
                    function.__globals__[SAID] = lambda key: reached[key].add(runner.current)
                    function.__code__ = codes[name, function.__code__.co_firstlineno]

    runner = _Runner(before=instrument)
    status = _pytest(runner, *TESTS)
    seconds_by_test = {
        key: {test: runner.took[test] for test in tests if test} for key, tests in reached.items()
    }
    out.write_text(json.dumps(seconds_by_test), encoding="utf-8")
    return status


SAID = "_said"


def _instrument(file: str) -> CodeType:
    """The module with functions that say first that they were entered."""
    tree = ast.parse((ROOT / file).read_bytes())
    _say(file, "", tree.body)
    return compile(ast.fix_missing_locations(tree), str(ROOT / file), "exec", dont_inherit=True)


def _say(file: str, scope: str, body: Sequence[ast.stmt]) -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            _say(file, f"{scope}{node.name}.", node.body)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            key = ast.Constant(f"{file}:{scope}{node.name}")
            node.body.insert(0, ast.Expr(ast.Call(ast.Name(SAID, ast.Load()), [key], [])))


def find_entering(reach: Reach, mutant: Mutant) -> dict[str, float]:
    """The tests that enter a mutant's function.

    Where none does, because its answers are worked out when modules are imported: those that enter the file.
    """
    return reach.get(f"{mutant.file}:{mutant.function}") or {
        name: seconds
        for key, tests in reach.items()
        if key.startswith(f"{mutant.file}:")
        for name, seconds in tests.items()
    }


def affordable(reach: Reach, mutant: Mutant) -> dict[str, float]:
    """Of the tests that enter a mutant's function the quickest, for `BUDGET_S` of their time."""
    chosen: dict[str, float] = {}
    left = BUDGET_S
    for name, seconds in sorted(find_entering(reach, mutant).items(), key=lambda item: item[1]):
        left -= seconds
        if left < 0 and chosen:
            break
        chosen[name] = seconds
    return chosen


def _try(mutant: Mutant, tests: dict[str, float]) -> int:
    """In a process that has imported everything: the function gets the mutant's code, and the tests run."""
    code = next(each for each in codes_in(compile_mutant(mutant)) if each.co_qualname == mutant.function)
    for function in _functions(mutant.file)[mutant.function]:
        function.__code__ = code
    runner = _Runner(tests)
    runner.caches = _caches([mutant.file])
    return _pytest(runner, *sorted({name.partition("::")[0] for name in tests}))


KILLED, SURVIVED = "killed", "survived"
_FAILED = 1


def try_all(mutants: Sequence[Mutant], reach: Reach, out: Path) -> int:
    """Write what became of each, in their order. What neither failed nor passed counts as survived."""
    _pytest(_Runner(), "--collect-only", *TESTS)
    gc.unfreeze()
    fates = []
    for mutant in mutants:
        fates.append(_fate(mutant, affordable(reach, mutant), find_entering(reach, mutant)))
        out.write_text(json.dumps(fates), encoding="utf-8")
    return 0


def _fate(mutant: Mutant, first: dict[str, float], all_: dict[str, float]) -> str:
    others = {name: took for name, took in all_.items() if name not in first}
    for tests, times in ((first, 1), (others, TIMES)):
        if tests:
            status = run_in_child(partial(_try, mutant, tests), times * CPU_S, times * WALL_S)
            if status < 0 or status == _FAILED:
                return KILLED
    return SURVIVED


class _Mutating(MetaPathFinder, Loader):
    """Imports one module with its mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname == _module(self._mutant.file) else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile_mutant(self._mutant), module.__dict__)  # noqa: S102 - our own code


def _try_anew(mutant: Mutant, tests: dict[str, float]) -> int:
    """In a process that has imported nothing of ours."""
    sys.meta_path.insert(0, _Mutating(mutant))
    return _pytest(_Runner(tests), *sorted({name.partition("::")[0] for name in tests}))


def try_anew(mutant: Mutant, tests: dict[str, float]) -> str:
    """What becomes of a mutant whose module is imported after the change."""
    if not tests:
        return SURVIVED
    return SURVIVED if run_in_child(lambda: _try_anew(mutant, tests), CPU_S, WALL_S) == 0 else KILLED
