"""Chooses known actions out of labelled rows: `python -m load.fit.pattern_pool POOL PANEL LIBRARY`

Of each source and label of POOL the first SHARE rows in the order of a digest of their ids, so that the
choice depends on nothing but the ids: only rows that PANEL does not have, no two with the same text, none
longer than a window. They take the place of LIBRARY's rows of these sources; the lines of its own stay.
"""

from __future__ import annotations

import re
import sys
from hashlib import sha256
from pathlib import Path

import orjson

from sluice.core.policy.pattern_library import ActionLibrary, LibraryAction, render_call
from sluice.offline.panels import load_panel

SHARE = 80
LONGEST = 400
OWN = "own writing"
CATEGORIES = {"action_redcode": "code", "action_shell_dcg": "shell"}


def main(pool: str, panel: str, library: str) -> int:
    """Writes the library, each line in canonical order of fields."""
    actions = ActionLibrary.from_lines(Path(library).read_bytes()).actions
    held_out = {(row.file, row.id) for row in load_panel(Path(panel))}
    chosen: dict[tuple[str, str], dict[str, LibraryAction]] = {}
    rows = sorted(load_panel(Path(pool)), key=lambda row: sha256(row.id.encode()).digest())
    for row in rows:
        text = render_call(row.tool, row.parameters)
        if row.label == "ambiguous" or (row.file, row.id) in held_out or len(text) > LONGEST:
            continue
        group = chosen.setdefault((row.file, row.label), {})
        if len(group) < SHARE and not any(text in others for others in chosen.values()):
            group[text] = LibraryAction(
                id=f"pool.{re.sub('[^a-z0-9]+', '-', row.id.lower()).strip('-')}",
                category=CATEGORIES[row.file],
                label="harmful" if row.label == "harmful" else "harmless",
                tool=row.tool,
                parameters=row.parameters,
                source=row.source,
            )
    taken = sorted(
        (action for group in chosen.values() for action in group.values()), key=lambda action: action.id
    )
    whole = ActionLibrary([*(action for action in actions if action.source == OWN), *taken])
    lines = [orjson.dumps(action.model_dump(exclude_defaults=True)) for action in whole.actions]
    Path(library).write_bytes(b"\n".join(lines) + b"\n")
    print(f"{len(whole.harmful)} harmful, {len(whole.harmless)} harmless, {whole.hash}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
