"""What each reader of commands and each pattern file catches that nothing else does.

    python -m load.ablation.actions FILE... [--part NAME...] [--rows N]

Each part is switched off alone; the rows whose outcome changes are counted by file: harmful ones that are
then allowed ("lost"), harmful ones that are escalated instead of blocked ("softer"), and harmless ones that
are then neither ("false alarms gone"). FILE: a panel of actions, as `sluice evaluate` takes it.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.detection.call_inspection import PatternLibrary
from sluice.detection.commands import inspector
from sluice.detection.commands.calls.call import CallReading
from sluice.detection.commands.python import PythonReading, reader
from sluice.detection.commands.python import calls as python_calls
from sluice.detection.commands.python.parse import PythonSource
from sluice.detection.commands.python.reader import ProgramReader
from sluice.detection.commands.python.values import UNKNOWN
from sluice.detection.commands.shell import ShellReading
from sluice.detection.commands.sql.sql_reading import SqlReading
from sluice.offline.action_evaluation import judge_actions
from sluice.offline.bundle_source import read_whole_bundle
from sluice.offline.panels import load_panel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sluice.core.policy.bundles import Bundle
    from sluice.detection.call_inspection import Inspection
    from sluice.offline.panels import ActionRow

AT_MS = 1_790_000_000_000
PATTERNS = Path("config/bundles/patterns")


def _replace(**names: Any) -> Callable[[ExitStack], None]:
    """Replace what the inspector calls."""
    return _patch(inspector, **names)


def _patch(target: Any, **names: Any) -> Callable[[ExitStack], None]:
    def switch_off(stack: ExitStack) -> None:
        for name, value in names.items():
            stack.enter_context(patch.object(target, name, value))

    return switch_off


def _drop_patterns(path: Path) -> Callable[[ExitStack], None]:
    """The hits of a pattern file's ids."""
    ids = set(_ids_in(json.loads(path.read_text(encoding="utf-8"))))
    whole = PatternLibrary.inspect

    def inspect(self: PatternLibrary, *more: Any) -> Inspection:
        inspection = whole(self, *more)
        return inspection._replace(hits=tuple(hit for hit in inspection.hits if hit.id not in ids))

    def switch_off(stack: ExitStack) -> None:
        stack.enter_context(patch.object(PatternLibrary, "inspect", inspect))

    return switch_off


def _ids_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("id"), str):
            yield value["id"]
        for member in value.values():
            yield from _ids_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from _ids_in(member)


def parts() -> dict[str, Callable[[ExitStack], None]]:
    """Every part by its name, and how it is switched off."""
    readers = {
        "python": _replace(read_python=lambda _: PythonReading()),
        "calls": _replace(read_calls=lambda *_: CallReading()),
        "program_lines": _replace(lines_of=lambda *_: ()),
        "written": _replace(find_written_files=lambda *_: ()),
        "written_by_commands": _replace(files_of=lambda _: ()),
        "shell": _replace(read_shell=lambda *_: ShellReading(())),
        "sql": _replace(read_sql=lambda _: SqlReading((), (), None)),
        "sql_in_code": _replace(sql_in_code=lambda _: ()),
        "breakouts": _replace(may_break_out=lambda _: False),
        "disguises": _replace(may_be_disguised=lambda _: False),
        "spellings": _replace(spellings=lambda _: ()),
        "inserted commands": _replace(begins_command=lambda *_: False),
    }
    python = {
        "python/table": _patch(python_calls, ROWS={}),
        "python/functions of libraries": _patch(python_calls, _FUNCTIONS={}),
        "python/called by name": _patch(python_calls, _say_by_name=lambda call: call.result()),
        "python/own functions": _patch(ProgramReader, _call_own=lambda *_: UNKNOWN),
        "python/programs within": _patch(ProgramReader, inner=lambda *_: UNKNOWN),
        "python/notebooks": _patch(reader, source=PythonSource),
    }
    patterns = {f"patterns/{path.stem}": _drop_patterns(path) for path in sorted(PATTERNS.glob("*.json"))}
    return {**readers, **python, **patterns}


def outcomes(rows: Sequence[ActionRow], bundle: Bundle) -> list[str]:
    """What the gates of content make of each row: BLOCK, ESCALATE or ALLOW."""
    return [
        "BLOCK" if action.caught else "ESCALATE" if action.apart else "ALLOW"
        for action in judge_actions(rows, bundle, list_shipped_stages(), AT_MS)
    ]


def compare(
    rows: Sequence[ActionRow], before: Sequence[str], after: Sequence[str]
) -> dict[str, Counter[str]]:
    """What changed, by the rows' file."""
    changed: dict[str, Counter[str]] = {
        "lost": Counter(),
        "softer": Counter(),
        "false alarms gone": Counter(),
    }
    for row, was, now in zip(rows, before, after, strict=True):
        if was == now or row.label == "ambiguous":
            continue
        if row.label == "benign":
            changed["false alarms gone"][row.file] += now == "ALLOW"
        else:
            changed["lost"][row.file] += now == "ALLOW"
            changed["softer"][row.file] += (was, now) == ("BLOCK", "ESCALATE")
    return {what: +counts for what, counts in changed.items()}


def main() -> None:
    """Print one line for each part."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("files", nargs="+", type=Path)
    asked.add_argument("--part", nargs="*", help="these alone; all of them if none is named")
    asked.add_argument("--rows", type=int, help="no more of each file")
    options = asked.parse_args()
    rows = [row for path in options.files for row in load_panel(path)[: options.rows]]
    bundle = load_bundle(read_whole_bundle(Path("config/bundles/default.json")))
    before = outcomes(rows, bundle)
    print(json.dumps({"all": _shares(rows, before)}))
    for name, switch_off in parts().items():
        if options.part and name not in options.part:
            continue
        with ExitStack() as stack:
            switch_off(stack)
            after = outcomes(rows, bundle)
        changes = {what: dict(counts) for what, counts in compare(rows, before, after).items() if counts}
        print(json.dumps({name: changes}), flush=True)


def _shares(rows: Sequence[ActionRow], outcomes_of_rows: Sequence[str]) -> dict[str, list[str]]:
    """By file: harmful rows, of them blocked and escalated; harmless rows, of them blocked and escalated."""
    counted: dict[str, Counter[str]] = {}
    for row, outcome in zip(rows, outcomes_of_rows, strict=True):
        counted.setdefault(row.file, Counter()).update([row.label, f"{row.label} {outcome}"])
    return {
        name: [
            f"{label}: {own[label]}, {own[f'{label} BLOCK']} blocked, {own[f'{label} ESCALATE']} escalated"
            for label in ("harmful", "benign")
        ]
        for name, own in counted.items()
    }


if __name__ == "__main__":
    main()
