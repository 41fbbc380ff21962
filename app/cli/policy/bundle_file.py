"""A bundle's file, of either kind, read and loaded; what is wrong with it ends the command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from app.cli.output import IMPOSSIBLE, WRONG, print_json, stop
from app.core.cases.any_bundle import load_any_bundle
from app.core.foundation.errors import BundleError
from app.offline.bundle_source import whole_bundle

if TYPE_CHECKING:
    from app.core.policy.bundles import Bundle
    from app.core.quality_bundle.quality_bundle import QualityBundle

BundlePath = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A policy or a quality bundle; what it includes or extends lies beside it."
    ),
]


def document_or_stop(file: Path, *, as_json: bool = False) -> bytes:
    """The whole document, with all that it builds on."""
    try:
        return whole_bundle(file)
    except OSError as error:
        stop(f"cannot read {error.filename or file}: {error.strerror}", IMPOSSIBLE)
    except BundleError as error:
        _not_valid(error, as_json=as_json)


def loaded_or_stop(document: bytes, *, as_json: bool = False) -> Bundle | QualityBundle:
    """The bundle in a document, as a worker loads it."""
    try:
        return load_any_bundle(document)
    except BundleError as error:
        _not_valid(error, as_json=as_json)


def _not_valid(error: BundleError, *, as_json: bool) -> NoReturn:
    if as_json:
        print_json({"error": str(error)})
    stop(str(error), WRONG)
