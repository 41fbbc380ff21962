"""`sluice bundle diff`: what one revision of a bundle changes of another, and what of it is relaxed.

Each field says which way it is stricter (topics/sluice_topics/relaxations.py); whatever is gone counts too, a
case among it.

`sluice bundle log`: every revision that ever counted or was refused, with who signed it and why.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
import typer

from sluice.cli.output import WELL, WRONG, clean, console, errors, print_json, require_bytes, stop
from sluice.cli.policy.bundle_file import require_bundle, require_document
from sluice.cli.policy.control_topics import (
    AsJson,
    require_policy,
)
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.clock import rfc3339, span
from sluice.core.policy.document_changes import find_document_changes
from sluice.core.quality_bundle.quality_bundle import QualityBundle
from sluice.core.trust.change_log import build_change_log
from sluice.core.trust.dsse import Envelope, read_envelope
from sluice.core.trust.signed_entries import APPROVER, BUNDLE, QUALITY_BUNDLE, Statement, read_statement
from sluice.text.plurals import count_noun
from sluice_topics.catalog import BUNDLES
from sluice_topics.relaxations import find_relaxations, list_sentences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pydantic import BaseModel

    from sluice.core.policy.bundles import Bundle
    from sluice.core.trust.change_log import LogLine
    from sluice.core.trust.reduction import ReducedPolicy


_COLOURS = {"in force": "green", "replaced": "dim", "refused": "red"}


def log(
    bundle_id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Only this bundle.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the change log of bundles: when, which revision, by whom, why.

    The command reads the control topics and judges them as every worker
    does, so it also shows refused revisions with the reason. The hash and
    the rationale of a refused revision are only its claims.

    Exit codes: 0 shown, 2 could not do it.
    """
    print_log(build_change_log(require_policy(), bundle_id), as_json=as_json)


def print_log(lines: Sequence[LogLine], *, as_json: bool) -> None:
    """The lines on the screen, or as one JSON value."""
    if as_json:
        print_json([_build_log_fields(line) for line in lines])
        return
    now_ms = time.time_ns() // 1_000_000
    for line in lines:
        _show_log(line, now_ms)
    if not lines:
        console.print("nothing of it was ever published")


def _build_log_fields(line: LogLine) -> dict[str, object]:
    fields = asdict(line)
    return {"at": rfc3339(fields.pop("at_ms")), **fields}


def describe_signers(kind: str | None, approvers: Sequence[str]) -> str:
    """Describe whose signature counted. An approver's entry counts by a root key alone, and that has no
    name."""
    return "a root key" if kind == APPROVER and not approvers else " and ".join(approvers)


def _show_log(line: LogLine, now_ms: int) -> None:
    colour = _COLOURS[line.state]
    by = (
        f" by {describe_signers(line.kind, line.approvers)}"
        if line.state != "refused" or line.approvers
        else ""
    )
    at = f"{rfc3339(line.at_ms)} ({span(max(0, now_ms - line.at_ms))} ago)"
    message = f"{at} [bold]{clean(line.name)}[/] [{colour}]{line.state}[/]{clean(by)}"
    console.print(message, soft_wrap=True, highlight=False)
    what = None if line.code is None else f"{line.code}: {line.message}"
    named = (("hash", line.hash), ("rationale", line.rationale), ("refused for", what))
    for name, value in (*named, *(("relaxes", relaxation) for relaxation in line.relaxations)):
        if value is not None:
            console.print(f"  {name}: {clean(value)}", soft_wrap=True, highlight=False)


class MarkedChange(NamedTuple):
    """A field of the file: its path, both values (None: it is not there), and whether that relaxes it."""

    path: str
    before: Any
    after: Any
    relaxed: bool


class NamedBundle(NamedTuple):
    """`document`: what is signed, or would be."""

    bundle: Bundle | QualityBundle
    document: dict[str, Any]

    @property
    def name(self) -> str:
        """ "id@revision"."""
        return f"{self.bundle.id}@{self.bundle.revision}"


def require_named_bundle(named: str) -> NamedBundle:
    """The bundle in a file; where there is none, of the revision "id@revision" that counts on the broker, or
    of the one in force under this id."""
    path = Path(named)
    document = _read_file(path) if path.exists() else _find_published(require_policy(), named)
    return NamedBundle(require_bundle(document), orjson.loads(document))


def say_absent(names: Iterable[str]) -> None:
    """Which of them are no files, so that a slip of the pen does not look like trouble with the broker."""
    for named in names:
        if not Path(named).exists():
            message = f"{clean(named)} is no file: looked for on the broker"
            errors.print(message, soft_wrap=True, highlight=False)


def _read_file(path: Path) -> bytes:
    envelope = read_envelope(require_bytes(path))
    return envelope.payload if isinstance(envelope, Envelope) else require_document(path)


def _find_published(reduced: ReducedPolicy, named: str) -> bytes:
    in_force = {bundle.hash for bundle in reduced.bundles.values()} | {
        bundle.hash for bundle in reduced.quality.values()
    }
    bundles = [entry for entry in reduced.entries.values() if entry.kind in (BUNDLE, QUALITY_BUNDLE)]
    meant = [
        bundle
        for bundle in bundles
        if named == bundle.key or (named == bundle.statement.id and bundle.hash in in_force)
    ]
    if not meant:
        stop(
            f"{named} is no file, and no revision of this name counts on the broker: see `sluice bundle log`"
        )
    if len(meant) > 1:
        stop(f"{named} is a policy bundle and a quality bundle: name a file")
    return canonical(meant[0].document)


SHOWN = 200
"""Characters of a value on the terminal; --json has all."""
_HELP = "A bundle's source or signed file, or id@revision (or the id in force) on the broker."


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help=_HELP)],
    after: Annotated[str, typer.Argument(metavar="B", help="The newer bundle, in one of the same forms.")],
    as_json: AsJson = False,
) -> None:
    """Show what B changes in A, and what is relaxed.

    Relaxed is whatever may let through what A does not: a higher threshold,
    a milder mode, a gate that no longer runs, a rule, a pattern or a case
    that is gone, a condition that changed, fewer approvals, a longer wait.
    A bundle that relaxes the one in force counts only with the signatures of
    two approvers: `sluice bundle cosign` adds the second. A case that is gone
    is told and needs no second one.

    Exit codes: 0 nothing is relaxed, 1 something is, 2 could not do it.

    Example: sluice bundle diff sluice.quality next.json
    """
    say_absent((before, after))
    old, new = require_named_bundle(before), require_named_bundle(after)
    changed, sentences = _compare(old, new)
    if as_json:
        print_json(
            {
                "before": _build_fields(old),
                "after": _build_fields(new),
                "changes": [change._asdict() for change in changed],
                "relaxations": list(sentences),
            }
        )
    else:
        _show(old, new, changed, sentences)
    raise typer.Exit(WRONG if sentences else WELL)


def _compare(old: NamedBundle, new: NamedBundle) -> tuple[Sequence[MarkedChange], Sequence[str]]:
    if isinstance(old.bundle, QualityBundle) != isinstance(new.bundle, QualityBundle):
        stop("one is a policy bundle and the other a quality bundle")
    return compare_files(old.bundle.file, new.bundle.file)


def compare_files(before: BaseModel, after: BaseModel) -> tuple[list[MarkedChange], list[str]]:
    """Every field whose value differs, with defaults, and the relaxations in sentences, whatever is gone
    among them: a case too."""
    relaxations = list(find_relaxations(before, after))
    paths = {f"$.{relaxation.path}" for relaxation in relaxations}
    written = (
        orjson.loads(canonical(model.model_dump(mode="json", by_alias=True))) for model in (before, after)
    )
    changed = [(change, _is_part_of(change.path, paths)) for change in find_document_changes(*written)]
    gone = [f"{change.path} is gone" for change, relaxed in changed if change.is_removal and not relaxed]
    marked = [MarkedChange(*change, relaxed=relaxed or change.is_removal) for change, relaxed in changed]
    return marked, [*list_sentences(relaxations), *gone]


def find_relaxed(before: bytes | dict[str, Any], after: bytes) -> list[str]:
    """The relaxations between two whole documents, in sentences; none where one is a bundle of policy and the
    other of quality."""
    raw = before if isinstance(before, bytes) else canonical(before)
    old, new = (require_bundle(text) for text in (raw, after))
    if isinstance(old, QualityBundle) != isinstance(new, QualityBundle):
        return []
    return compare_files(old.file, new.file)[1]


def find_relaxed_in_force(reduced: ReducedPolicy, values: Iterable[bytes]) -> list[str]:
    """Find where signed bundles relax what is in force under their ids, in sentences."""
    relaxations = []
    in_force = {bundle.hash for bundle in reduced.bundles.values()} | {
        bundle.hash for bundle in reduced.quality.values()
    }
    documents = {
        (entry.kind, entry.statement.id): entry
        for entry in reduced.entries.values()
        if entry.hash in in_force
    }
    for value in values:
        envelope = read_envelope(value)
        statement = read_statement(BUNDLES, envelope) if isinstance(envelope, Envelope) else None
        before = documents.get((statement.kind, statement.id)) if isinstance(statement, Statement) else None
        if before is not None and isinstance(envelope, Envelope):
            relaxed = find_relaxed(before.document, envelope.payload)
            relaxations += [f"of {before.key}: {relaxation}" for relaxation in relaxed]
    return relaxations


def _is_part_of(path: str, relaxed: Iterable[str]) -> bool:
    """Whether a changed field is one of those, lies in one or holds one."""
    return any(_is_below(relaxed_path, path) or _is_below(path, relaxed_path) for relaxed_path in relaxed)


def _is_below(above: str, path: str) -> bool:
    return path == above or path.startswith((f"{above}.", f"{above}["))


def _build_fields(named: NamedBundle) -> dict[str, str]:
    return {"bundle": named.name, "hash": named.bundle.hash}


def _show(
    old: NamedBundle, new: NamedBundle, changed: Sequence[MarkedChange], sentences: Sequence[str]
) -> None:
    console.print(
        f"{clean(old.name)} → {clean(new.name)}: {count_noun(len(changed), 'change')}", highlight=False
    )
    for change in changed:
        mark = "[bold red]relaxed[/] " if change.relaxed else ""
        message = (
            f"  {mark}{clean(change.path)}: {_write_value(change.before)} → {_write_value(change.after)}"
        )
        console.print(message, soft_wrap=True, highlight=False)
    for sentence in sentences:
        console.print(f"[red]relaxed[/]: {clean(sentence)}", soft_wrap=True, highlight=False)
    if not sentences:
        console.print("[green]nothing is relaxed, nothing is gone[/]")
    else:
        console.print("It counts with the signatures of two approvers only.", style="red")


def _write_value(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return clean(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
