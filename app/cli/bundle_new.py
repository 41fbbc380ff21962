"""`sluice bundle new`: a bundle to start from, which is well as it stands."""

from __future__ import annotations

import os
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated, Any

import orjson
import typer

from app.cli.output import console, shown, stop
from app.offline.bundle_source import whole_bundle
from app.settings import ROOT

SHIPPED = ROOT / "config" / "bundles" / "default.json"
SHIPPED_QUALITY = ROOT / "config" / "quality" / "default.json"
_CASE = {
    "name": "a read of an unknown tool passes: say here what your agents must be able to do",
    "action": {"toolName": "read", "parameters": {}},
    "expect": {"outcome": "ALLOW"},
}


def new(
    bundle_id: Annotated[str, typer.Argument(metavar="ID", help="The bundle's id.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="A file that does not exist yet.")],
    *,
    quality: Annotated[
        bool, typer.Option("--quality", help="A quality bundle, for retrieved items.")
    ] = False,
) -> None:
    """Write a bundle to start from; `sluice bundle check` passes it as it is.

    A policy bundle extends the one that ships: what you write into it goes
    before. A quality bundle is a whole copy of the one that ships, every
    table in sight, with a rationale for you to write.

    Exit codes: 0 written, 2 could not (a file that is there stays).
    """
    document = _quality(bundle_id) if quality else _policy(bundle_id, out)
    try:
        with out.open("xb") as file:
            file.write(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    except OSError as error:
        stop(f"cannot write {out}: {error.strerror}")
    told = f"[green]written[/] {shown(out)}; next: sluice bundle check {shown(out)}"
    console.print(told, soft_wrap=True, highlight=False)


def _policy(bundle_id: str, out: Path) -> dict[str, Any]:
    return {
        "extends": os.path.relpath(SHIPPED, out.resolve().parent),
        "id": bundle_id,
        "revision": 1,
        "description": f"{bundle_id}: say what it is for.",
        "cases": [_CASE],
    }


def _quality(bundle_id: str) -> dict[str, Any]:
    own = {
        "id": bundle_id,
        "revision": 1,
        "description": f"{bundle_id}: say what it is for.",
        "rationale": f"The first revision of {bundle_id}: say here why these limits, and in each later one "
        "what changed and why.",
    }
    return {**orjson.loads(whole_bundle(SHIPPED_QUALITY)), **own}
