"""A bundle's file, of either kind, read and loaded; and `sluice bundle test FILE`, the bundle's own cases.

What is wrong with a file ends the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sluice.cli.output import IMPOSSIBLE, WELL, WRONG, clean, console, print_json, stop
from sluice.cli.tables import LINES, build_table
from sluice.core.cases.case_failure import count_cases
from sluice.core.cases.cases import count_own_cases, load_any_bundle, run_own_cases
from sluice.core.foundation.errors import BundleError, CoreError
from sluice.offline.bundle_source import read_extended_bundle, read_whole_bundle
from sluice.offline.policy_files import PolicyFileError, read_any_unsigned_bundle
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.cases.case_failure import CaseFailure
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle

BundlePath = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        help="A policy or a quality bundle; files that it includes or extends are in its folder.",
    ),
]


def require_document(file: Path, *, as_json: bool = False) -> bytes:
    """The whole document, with all that it builds on."""
    try:
        return read_whole_bundle(file)
    except OSError as error:
        stop(f"cannot read {error.filename or file}: {error.strerror}", IMPOSSIBLE)
    except BundleError as error:
        _stop_for_invalid(error, as_json=as_json)


def require_extended(file: Path) -> bytes | None:
    """The whole document of the bundle that a file extends; None if it extends none."""
    try:
        return read_extended_bundle(file)
    except OSError as error:
        stop(f"cannot read {error.filename or file}: {error.strerror}", IMPOSSIBLE)
    except BundleError as error:
        _stop_for_invalid(error, as_json=False)


def require_bundle(document: bytes, *, as_json: bool = False) -> Bundle | QualityBundle:
    """The bundle in a document, as a worker loads it."""
    try:
        return load_any_bundle(document)
    except BundleError as error:
        _stop_for_invalid(error, as_json=as_json)


def _stop_for_invalid(error: BundleError, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": str(error)})
    stop(str(error), WRONG)


def cases_command(
    file: Annotated[Path, typer.Argument(help="The bundle's source.")],
    *,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Run a bundle's own cases through the whole pipeline.

    A case is an action or a memory (in a quality bundle: an item) and the
    result that it must have. Parts that the case leaves out are neutral: an
    agent of the highest tier, a registered tool whose entry says nothing
    more, an empty session. The bundle names the gates and their order.

    Exit codes: 0 all as expected, 1 differences (each is shown), 2 the
    bundle cannot be loaded.

    Example: sluice bundle test config/bundles/default.json
    """
    bundle, failures = _run(file)
    if json:
        print_json(_build_fields(bundle, failures))
    else:
        _show(bundle, failures)
    raise typer.Exit(WRONG if failures else WELL)


def _run(file: Path) -> tuple[Bundle | QualityBundle, tuple[CaseFailure, ...]]:
    try:
        bundle = read_any_unsigned_bundle(file)
        return bundle, run_own_cases(bundle)
    except (CoreError, PolicyFileError) as error:
        stop(str(error))


def _build_fields(bundle: Bundle | QualityBundle, failures: Sequence[CaseFailure]) -> dict[str, object]:
    listed = [
        {
            "case": failure.case,
            "field": failure.field,
            "expected": failure.expected,
            "actual": failure.actual,
            "decided": failure.decided,
        }
        for failure in failures
    ]
    return {
        "bundle": f"{bundle.id}@{bundle.revision}",
        "cases": count_own_cases(bundle),
        "differences": listed,
    }


def _show(bundle: Bundle | QualityBundle, failures: Sequence[CaseFailure]) -> None:
    name, count = clean(f"{bundle.id}@{bundle.revision}"), count_own_cases(bundle)
    if not count:
        console.print(f"[yellow]{name} has no cases[/]: nothing was tried.")
        return
    if failures:
        rows = (
            map(clean, (failure.case, failure.field, failure.expected, failure.actual, failure.decided))
            for failure in failures
        )
        console.print(build_table("case", "field", "expected", "got", "decided", rows=rows, box=LINES))
    failed = count_cases(failures)
    colour = "bold red" if failed else "green"
    console.print(
        f"[{colour}]{name}: {count - failed} of {count_noun(count, 'case')} as expected[/]", soft_wrap=True
    )
