"""Functions begin with a verb, values are named after what they hold, and no two classes have one name."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SLUICE = ROOT / "app" / "sluice"
BESIDE = (ROOT / "topics", ROOT / "docs" / "examples" / "demo", ROOT / "load")
PREPOSITIONS = re.compile(
    r"about|above|after|against|among|around|as|at|before|behind|below|beside|between|beyond|by|"
    r"during|for|from|in|into|near|of|off|on|over|per|since|through|to|under|until|up|via|with|"
    r"within|without"
)
PARTICIPLES = re.compile(
    r"begun|broken|brought|built|caught|chosen|drawn|felt|found|given|gone|grown|held|hidden|"
    r"kept|known|laid|left|lost|made|met|paid|said|seen|sent|shown|sold|spoken|stood|taken|taught|"
    r"thought|told|won|written"
)
_REGULAR = re.compile(r"[a-z]{2,}(?:ed|ing)")
_VERBS = re.compile(r"embed|exceed|feed|need|ping|proceed|ring|seed|shed|spring|string")
EXCEPTIONS = {
    "of": "the constructor of a value from another, as everywhere in the tree",
    "in_session": "read with its `with`",
    "guarded": "what a decorator puts in place of a function",
    "malformed": "a fault run, which is called by its function's name",
    "scaling": "a fault run, which is called by its function's name",
    "to_end": "of a protocol of the worker's",
    "from_lines": "a constructor, as datetime.fromisoformat",
    "from_pem": "a constructor, as datetime.fromisoformat",
    "from_text": "a constructor, as datetime.fromisoformat",
    "_on_agent_error": "Faust's",
    "on_rebalance": "Faust's",
    "on_recovery_completed": "Faust's",
    "on_start": "mode's",
    "on_stop": "mode's",
    "on_partitions_revoked": "aiokafka's",
    "on_partitions_assigned": "aiokafka's",
    "before_model_callback": "ADK's",
    "before_tool_callback": "ADK's",
    "after_tool_callback": "ADK's",
    "on_tool_error_callback": "ADK's",
    "before_model_request": "Pydantic AI's",
    "before_tool_execute": "Pydantic AI's",
    "after_tool_execute": "Pydantic AI's",
    "on_tool_execute_error": "Pydantic AI's",
}

INHERITED = {"Tokenizer"}  # of a dialect, as sqlglot looks for it


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _is_value(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A property is read as a value."""
    return any(
        ast.unparse(decorator).endswith(("property", ".setter")) for decorator in function.decorator_list
    )


def _list_functions(folder: Path) -> Iterator[tuple[str, str]]:
    """File and name of each function below a folder that is no property."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(_parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_value(node):
                yield str(path.relative_to(ROOT)), node.name


def is_no_verb(name: str) -> bool:
    """Whether a function's name begins with a preposition or a participle."""
    if name.startswith("__"):
        return False
    first = name.strip("_").partition("_")[0]
    if PREPOSITIONS.fullmatch(first) or PARTICIPLES.fullmatch(first):
        return True
    return _REGULAR.fullmatch(first) is not None and not _VERBS.fullmatch(first)


@pytest.mark.parametrize("name", ["_told", "of_broker", "as_json", "signed", "asking", "held_write"])
def test_participles_and_prepositions_are_no_verbs(name: str) -> None:
    assert is_no_verb(name)


@pytest.mark.parametrize(
    "name", ["tell", "read_broker", "needs_encoder", "string", "feed", "__init__", "is_held"]
)
def test_verbs_are_verbs(name: str) -> None:
    assert not is_no_verb(name)


FOLDERS = (
    *sorted(path for path in SLUICE.iterdir() if path.is_dir() and path.name != "__pycache__"),
    *BESIDE,
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_name_of_a_function_begins_with_a_verb(folder: Path) -> None:
    wrong = [(file, name) for file, name in _list_functions(folder) if is_no_verb(name)]
    assert [(file, name) for file, name in wrong if name not in EXCEPTIONS] == []


def test_each_exception_is_still_there() -> None:
    names = {name for folder in FOLDERS for _, name in _list_functions(folder)}
    assert EXCEPTIONS.keys() <= names


VAGUE = re.compile("_*(?:one|found|place|known|said|told|given|seen|kept)")
NAMED_SO = {
    "docs/examples/demo/sluice_demo/judged_actions.py": {"said"},  # fields of the answer in JSON
    "docs/examples/demo/sluice_demo/refunds.py": {"told"},
    "app/sluice/cli/ledger/witness.py": {"seen"},  # of the option --seen
    "app/sluice/core/actions/policies.py": {"place"},  # of a policy's file, and of the record
    "app/sluice/core/reports/promotion.py": {"found"},  # of the answer in JSON
    "app/sluice/detection/commands/patterns/file_patterns.py": {"said"},  # of the patterns' file
    "topics/sluice_topics/records/escalation_events.py": {"told"},  # of records, as below
    "topics/sluice_topics/records/memory.py": {"known", "seen"},
    "topics/sluice_topics/records/retrievals.py": {"place", "seen"},
    "topics/sluice_topics/records/verdicts.py": {"known"},
    "app/sluice/core/actions/consequence.py": {"one"},  # of two that are alike, as below
    "app/sluice/core/quality_bundle/class_relaxations.py": {"one"},
    "app/sluice/core/quality_bundle/severity.py": {"one"},
    "app/sluice/core/state/statistics.py": {"one"},
}


def _list_values(path: Path) -> Iterator[str]:
    """The names that a file gives to values: variables, parameters, fields and attributes."""
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_a_value_has_the_name_of_what_it_holds() -> None:
    vague: defaultdict[str, set[str]] = defaultdict(set)
    for folder in (SLUICE, *BESIDE):
        for path in sorted(folder.rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            vague[file].update(name for name in _list_values(path) if VAGUE.fullmatch(name))
    assert {file: names for file, names in vague.items() if names} == NAMED_SO


def test_no_class_has_the_name_of_another() -> None:
    files = defaultdict(list)
    for folder in (SLUICE, *BESIDE):
        for path in sorted(folder.rglob("*.py")):
            for node in ast.walk(_parse(path)):
                if isinstance(node, ast.ClassDef):
                    files[node.name].append(path.relative_to(ROOT))
    twice = {
        name: [str(path) for path in paths]
        for name, paths in files.items()
        if len(paths) > 1 and name not in INHERITED
    }
    assert twice == {}
