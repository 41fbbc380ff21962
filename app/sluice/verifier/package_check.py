"""Whether an audit package is what it must be (docs/audit-package.md). It shares nothing with the writer.

The file and its manifest first, then each partition by itself, which several processes can do at once, then
what all of them have in common: tree heads and policy.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from .control_check import BUNDLES, REGISTRY, ControlCheck
from .head_check import NO_HEADS, TREE_HEADS, HeadCheck, HeadSources, StatedHead
from .ledger_findings import LedgerFinding, Report, write_count
from .package_file import MemberDamaged, PackageFile
from .package_partition import PartitionResult, check_partition
from .proof_check import SignedBy
from .session_partition import compute_partition
from .verify import sort_findings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from .control_check import NamedPolicy, Used
    from .export import Located
    from .package_manifest import PackageManifest, PackedSegment


@dataclass(frozen=True, slots=True)
class PackageTrust:
    """What is known from elsewhere than the package, and what is asked of it.

    `root_keys`: of policy, as ControlCheck takes them; `sources`: whose heads count, and heads that were kept
    elsewhere; `verdict_keys`: who may have signed records; `installation`: the one that it must be of;
    `noted`: its digest; `selection`: what it must be a package of, `by` and `value`. `takes_selected`: a
    package of selected records alone is enough; `takes_gone`: inputs may have been gone when it was made.
    """

    root_keys: Sequence[str] = ()
    sources: HeadSources = NO_HEADS
    verdict_keys: Sequence[str] = ()
    installation: str | None = None
    noted: str | None = None
    selection: tuple[str, str | int] | None = None
    takes_selected: bool = False
    takes_gone: bool = False


@dataclass(frozen=True, slots=True)
class PackageReport:
    """The ledger's report, with findings about the package, and what it is a package of."""

    report: Report
    manifest: PackageManifest
    selected: int
    statements: tuple[str, ...]


@dataclass
class _Common:
    """What is found about all partitions."""

    findings: list[LedgerFinding] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)

    def report(self, code: str, topic: str, message: str, partition: int = 0) -> None:
        self.findings.append(LedgerFinding(code, partition, None, topic, None, message))  # type: ignore[arg-type]


def check_package(
    file: PackageFile,
    trust: PackageTrust,
    processes: int = 1,
    progress: Callable[[int], None] | None = None,
) -> PackageReport:
    """Check all of it. `processes`: how many check partitions at once; `progress` is told bytes as they are
    done. Raises OSError, UnusableKey, HeadsUnreadable, and ImportError without the package `cryptography`."""
    common, manifest = _Common(), file.manifest
    _check_frame(file, trust, common)
    heads = trust.sources.read(_read_topic(file, TREE_HEADS, common))
    newest = heads.newest_of_topic
    controls = ControlCheck(trust.root_keys)
    for topic in (REGISTRY, BUNDLES):
        for located in _read_topic(file, topic, common):
            controls.add(located)
    results = list(_check_partitions(file, trust, processes, progress or (lambda _: None)))
    _check_heads(manifest, newest, common)
    _check_completeness(manifest, trust, common)
    _check_selection(manifest, results, newest, common)
    common.findings += controls.find_objections(_merge_uses(results))
    records = sum(result.records for result in results)
    of_topic, of_heads = heads.summarize(records)
    of_partitions = (each for result in results for each in result.findings)
    findings = sort_findings([*common.findings, *of_heads, *of_partitions])
    partitions = {result.partition: result.summary for result in results}
    report = Report(partitions, findings, records, of_topic)
    selected = sum(result.selected for result in results)
    statements = tuple(_describe(manifest, selected, controls, newest))
    return PackageReport(report, manifest, selected, statements)


def _check_frame(file: PackageFile, trust: PackageTrust, common: _Common) -> None:
    manifest = file.manifest
    for message in file.findings:
        common.report("package_damaged", "", message)
    if trust.noted is not None and trust.noted != file.digest:
        common.report("package_damaged", "", f"its digest is {file.digest}, noted was {trust.noted}")
    if trust.installation is not None and trust.installation != manifest.installation:
        message = f"it is of installation {manifest.installation!r}, not of {trust.installation!r}"
        common.report("incomplete", "", message)
    if trust.selection is not None and trust.selection != (manifest.by, manifest.value):
        message = f"it is a package by {manifest.by} {manifest.value!r}, not by {trust.selection}"
        common.report("incomplete", "", message)
    before: PackedSegment | None = None
    for segment in manifest.segments:
        if before is not None and not _is_after(segment, before):
            message = f"{segment.name} does not follow on {before.name}"
            common.report("package_damaged", segment.topic, message, segment.partition)
        before = segment
    numbers = [part.partition for part in manifest.partitions]
    if numbers != sorted(set(numbers)):
        common.report("package_damaged", "", f"its partitions are {numbers}, not ascending")
    shared = tuple(f"{manifest.prefix}{topic}" for topic in (TREE_HEADS, REGISTRY, BUNDLES))
    for segment in manifest.segments:
        if segment.topic not in shared and segment.partition not in numbers:
            common.report(
                "package_damaged", segment.topic, f"{segment.name} is of no partition of the package"
            )


def _is_after(segment: PackedSegment, before: PackedSegment) -> bool:
    part, part_before = (segment.topic, segment.partition), (before.topic, before.partition)
    return part > part_before or (part == part_before and segment.first > before.last)


def _read_topic(file: PackageFile, base: str, common: _Common) -> Iterator[Located]:
    """The records of a topic that all partitions share."""
    topic = f"{file.manifest.prefix}{base}"
    for segment in file.manifest.segments:
        if segment.topic == topic:
            try:
                yield from file.read_segment(segment)
            except MemberDamaged as error:
                common.report("package_damaged", topic, f"{segment.name}: {error}", segment.partition)


def _check_partitions(
    file: PackageFile, trust: PackageTrust, processes: int, progress: Callable[[int], None]
) -> Iterator[PartitionResult]:
    numbers = range(len(file.manifest.partitions))
    if processes <= 1 or len(numbers) <= 1:
        _prepare(file.path, trust)
        for at in numbers:
            yield _check_one(at)
            progress(_count_bytes(file, at))
        return
    with ProcessPoolExecutor(processes, initializer=_prepare, initargs=(file.path, trust)) as pool:
        largest_first = sorted(numbers, key=partial(_count_bytes, file), reverse=True)
        running: dict[Future[PartitionResult], int] = {
            pool.submit(_check_one, at): at for at in largest_first
        }
        results: dict[int, PartitionResult] = {}
        for done in as_completed(running):
            at = running[done]
            results[at] = done.result()
            progress(_count_bytes(file, at))
    yield from (results[at] for at in numbers)


def _count_bytes(file: PackageFile, at: int) -> int:
    number = file.manifest.partitions[at].partition
    return sum(each.stored_bytes for each in file.manifest.segments if each.partition == number)


_prepared: list[tuple[PackageFile, HeadCheck, PackageTrust]] = []
"""What a process checks partitions with: one package at a time."""


def _prepare(path: Path, trust: PackageTrust) -> None:
    file = PackageFile(path)
    heads = trust.sources.read(_read_topic(file, TREE_HEADS, _Common()))
    _prepared[:] = [(file, heads, trust)]


def _check_one(at: int) -> PartitionResult:
    file, heads, trust = _prepared[0]
    keys = trust.verdict_keys
    signed_by = SignedBy(keys, file.manifest.installation) if keys else None
    return check_partition(file, file.manifest.partitions[at], heads, signed_by, takes_gone=trust.takes_gone)


def _check_heads(manifest: PackageManifest, last: StatedHead | None, common: _Common) -> None:
    """Whether the package ends where its newest head does."""
    topic = f"{manifest.prefix}{TREE_HEADS}"
    stated = None if last is None else {"digest": last.digest, "number": last.number, "size": last.size}
    if manifest.head != stated:
        message = f"the manifest names the head {manifest.head}, the newest one that counts is {stated}"
        common.report("head_missing", topic, message)
    if last is None:
        return
    if (last.installation, last.prefix) != (manifest.installation, manifest.prefix):
        message = f"head {last.number} is of {last.installation!r} with the prefix {last.prefix!r}"
        common.report("head_forged", topic, message)
    for part in manifest.partitions:
        signed = last.partitions[part.partition].size if part.partition < len(last.partitions) else None
        if signed != part.size:
            message = f"it holds the partition up to record {part.size}, head {last.number} signs {signed}"
            common.report("rewritten", topic, message, part.partition)


def _check_completeness(manifest: PackageManifest, trust: PackageTrust, common: _Common) -> None:
    """Whether every record is there that the form of the package needs."""
    if manifest.only_selected and not trust.takes_selected:
        message = "it holds selected records alone, and hashes of the others; --only-selected takes that"
        common.report("incomplete", "", message)
    for part in manifest.partitions:
        due = part.size + 1 if manifest.only_selected else 1
        if manifest.by != "since" and part.complete_from != due:
            message = f"it is complete from record {part.complete_from}, its form needs {due}"
            common.report("incomplete", "", message, part.partition)


def _check_selection(
    manifest: PackageManifest, results: Sequence[PartitionResult], last: StatedHead | None, common: _Common
) -> None:
    """Whether the partitions are those of which the selection needs records."""
    numbers = [part.partition for part in manifest.partitions]
    if not any(result.selected for result in results):
        common.report("incomplete", "", f"no record is of {manifest.by} {manifest.value!r}")
    count = max(numbers, default=-1) + 1 if last is None else len(last.partitions)
    if manifest.by in {"agent", "since"} and numbers != list(range(count)):
        common.report("incomplete", "", f"it holds the partitions {numbers} of {count}")


def _merge_uses(results: Sequence[PartitionResult]) -> Mapping[Used, NamedPolicy]:
    merged: dict[Used, NamedPolicy] = {}
    for result in results:
        for used, use in result.uses.items():
            merged.setdefault(used, use)
    return merged


def _describe(
    manifest: PackageManifest, selected: int, controls: ControlCheck, last: StatedHead | None
) -> Iterator[str]:
    """What a reader must know of what was shown and what was not."""
    value = manifest.value
    if isinstance(value, int):
        value = datetime.fromtimestamp(value / 1000, UTC).isoformat()
    yield f"{write_count(selected, 'record')} of {manifest.by} {value}."
    if manifest.by == "session" and last is not None:
        due = compute_partition(str(manifest.value).encode(), len(last.partitions))
        if due not in {part.partition for part in manifest.partitions}:
            yield f"Kafka's own clients would put this session into partition {due}, which is not there."
    for part in manifest.partitions:
        if part.complete_from > part.size:
            yield (
                f"Partition {part.partition}: {part.records} of {part.size} records are there; of the others "
                "only the hash. That none of them is selected rests on who made the package."
            )
        elif part.complete_from > 1:
            span = f"{part.complete_from} to {part.size}"
            yield f"Partition {part.partition}: every record from {span} is there."
    if not controls.checks_signatures:
        yield "No root key was given: who signed the policy was not checked."
    elif controls.unsigned:
        yield f"{write_count(controls.unsigned, 'control record')} of nobody who may sign."
