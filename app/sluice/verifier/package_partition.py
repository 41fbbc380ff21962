"""One partition of an audit package: its chain against the tree heads, and its inputs against its records."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .control_check import BUNDLES, REGISTRY, NamedPolicy, list_uses
from .head_check import TREE_HEADS, read_time
from .ledger_findings import LedgerFinding, Summary
from .ledger_record import ChainEntry, NotStrict
from .package_file import MemberDamaged
from .placement import ACTIONS, KINDS, RETRIEVALS, WRITES
from .verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .control_check import Used
    from .export import Located
    from .head_check import HeadCheck
    from .ledger_findings import Code
    from .ledger_record import Opened
    from .package_file import PackageFile
    from .package_manifest import PackageManifest, PackedPartition, PackedSegment
    from .proof_check import SignedBy

GENESIS = "GENESIS"
ANSWERED = frozenset({ACTIONS, WRITES, RETRIEVALS})
"""Topics of which a record answers every input."""
_UNKEYED = frozenset({"sluice/dead_letter/v1", "sluice/input_refused/v1", "sluice/quarantine_evicted/v1"})
"""Records that need not have their input's key: an evicted memory makes room for one of another session."""
_LEDGER = frozenset(kind.topic for kind in KINDS.values())
_SHARED = frozenset({REGISTRY, BUNDLES, TREE_HEADS})


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """What came of one partition. `uses`: what its records name of policy."""

    partition: int
    summary: Summary
    findings: tuple[LedgerFinding, ...]
    uses: dict[Used, NamedPolicy]
    records: int
    selected: int


class _NamedInput(NamedTuple):
    """An input as the first record that decides it states it, and where that record lies."""

    digest: Any
    timestamp: int | None
    key: bytes | None
    record: NamedPolicy


@dataclass
class _PartitionCheck:
    file: PackageFile
    part: PackedPartition
    verifier: Verifier
    takes_gone: bool
    findings: list[LedgerFinding] = field(default_factory=list)
    uses: dict[Used, NamedPolicy] = field(default_factory=dict)
    inputs: dict[tuple[str, int], _NamedInput] = field(default_factory=dict)
    early: set[int] = field(default_factory=set)
    records: int = 0
    selected: int = 0
    first_selected: int | None = None
    decided_before: Any = None
    """When the record before `complete_from` was decided, as its hash covers it."""

    def run(self) -> PartitionResult:
        manifest = self.file.manifest
        of_inputs: list[PackedSegment] = []
        for segment in manifest.segments:
            base = segment.topic.removeprefix(manifest.prefix)
            if segment.partition != self.part.partition or base in _SHARED:
                continue
            if base in _LEDGER:
                for located in self._read(segment):
                    self._take_record(located)
            else:
                of_inputs.append(segment)
        self._add_hashes()
        for segment in of_inputs:
            for located in self._read(segment):
                self._take_input(located, segment.topic.removeprefix(manifest.prefix))
        self._report_missing_inputs()
        chains, findings = self.verifier.close_chains()
        summary = chains.get(self.part.partition, Summary(0, None, None, None))
        self._compare_counts(summary)
        summary = Summary(self.records, summary.first, summary.last, summary.head)
        return PartitionResult(
            self.part.partition, summary, (*findings, *self.findings), self.uses, self.records, self.selected
        )

    def _read(self, segment: PackedSegment) -> Iterator[Located]:
        try:
            yield from self.file.read_segment(segment)
        except MemberDamaged as error:
            self._report("package_damaged", segment.topic, f"{segment.name}: {error}")

    def _take_record(self, located: Located) -> None:
        self.records += 1
        opened = self.verifier.add(located)
        if opened is None:
            return
        sequence, fields = opened.entry.sequence, opened.fields
        use = NamedPolicy(located.partition, sequence, located.topic, located.offset)
        if is_selected(self.file.manifest, fields, located):
            self.selected += 1
            self.first_selected = min(sequence, self.first_selected or sequence)
        if sequence < self.part.complete_from:
            self.early.add(sequence)
        if sequence == self.part.complete_from - 1:
            self.decided_before = fields.get("decided_at")
        for used in list_uses(fields):
            self.uses.setdefault(used, use)
        self._name_input(opened, located, use)

    def _name_input(self, opened: Opened, located: Located, use: NamedPolicy) -> None:
        source = opened.input
        if source is None:
            return
        schema = opened.fields["schema"]
        key = None if isinstance(schema, str) and schema in _UNKEYED else located.key
        named = _NamedInput(opened.fields["input"].get("digest"), source.timestamp, key, use)
        before = self.inputs.setdefault((source.topic, source.offset), named)
        if before.key is None:
            self.inputs[source.topic, source.offset] = named
        if before[:2] != named[:2]:
            message = f"it says of its input {source} what record {before.record.sequence} does not"
            self._report_at("input_altered", use, message)

    def _add_hashes(self) -> None:
        """Records of which only the hash is there; the chain and the tree go through them."""
        try:
            hashes = self.file.read_hashes(self.part)
        except MemberDamaged as error:
            self._report("package_damaged", "", f"{self.part.hashes_name}: {error}")
            return
        before = GENESIS
        for sequence, digest in enumerate(hashes, start=1):
            if sequence not in self.early:
                entry = ChainEntry(sequence, before, digest, "", 0)
                self.verifier.add_hash(self.part.partition, entry)
            before = digest

    def _take_input(self, located: Located, base: str) -> None:
        named = self.inputs.pop((base, located.offset), None)
        if named is None:
            self._check_unnamed(located, base)
            return
        location = f"its input {base}:{located.partition}:{located.offset}"
        digest = f"sha256:{hashlib.sha256(located.value or b'').hexdigest()}"
        if named.digest != digest:
            message = f"{location} has the digest {digest}, the record states {named.digest}"
            self._report_at("input_altered", named.record, message)
        elif named.timestamp is not None and named.timestamp != located.timestamp_ms:
            message = f"{location} has the time {located.timestamp_ms}, the record states {named.timestamp}"
            self._report_at("input_altered", named.record, message)
        elif named.key is not None and named.key != located.key:
            message = f"{location} has the key {located.key!r}, the record {named.key!r}"
            self._report_at("input_altered", named.record, message)

    def _check_unnamed(self, located: Located, base: str) -> None:
        decided = self.file.manifest.decided.get((base, located.partition), 0)
        location = self.part.partition, None, located.topic, located.offset
        if base in ANSWERED and located.offset < decided:
            message = f"the input was decided (all below {decided} were), and no record answers it"
            self.findings.append(LedgerFinding("unanswered", *location, message))
        else:
            message = "no record of the package decides this input, or it is there twice"
            self.findings.append(LedgerFinding("inserted", *location, message))

    def _report_missing_inputs(self) -> None:
        """Inputs that records name and that are not in the package."""
        absent: dict[str, int] = {}
        for topic, _ in self.inputs:
            absent[topic] = absent.get(topic, 0) + 1
        gone = {
            topic: count
            for (topic, number), count in self.file.manifest.gone.items()
            if number == self.part.partition and count
        }
        if absent != gone:
            self._report("incomplete", "", f"inputs that are absent: {absent}; the manifest states {gone}")
        elif self.takes_gone:
            return
        for (topic, offset), named in sorted(self.inputs.items()):
            message = f"its input {topic}:{self.part.partition}:{offset} is not in the package"
            self._report_at("input_missing", named.record, message)

    def _compare_counts(self, summary: Summary) -> None:
        part = self.part
        if (self.records, self.selected) != (part.records, part.selected):
            message = (
                f"it has {self.records} records, {self.selected} of them selected; "
                f"the manifest states {part.records} and {part.selected}"
            )
            self._report("incomplete", "", message)
        if (summary.last or 0) > part.size:
            message = f"record {summary.last} lies behind the end of the package, record {part.size}"
            self._report("inserted", "", message)
        if self.file.manifest.by == "since" and part.complete_from > 1:
            due = part.size + 1 if self.first_selected is None else self.first_selected
            if due != part.complete_from or part.complete_from - 1 not in self.early:
                message = (
                    f"it is complete from record {part.complete_from}, which is not the first since then"
                )
                self._report("incomplete", "", message)
            elif _read_decided(self.decided_before) is None:
                message = f"record {part.complete_from - 1} has no time: {self.decided_before!r}"
                self._report("incomplete", "", message)

    def _report(self, code: Code, topic: str, message: str) -> None:
        self.findings.append(LedgerFinding(code, self.part.partition, None, topic, None, message))

    def _report_at(self, code: Code, use: NamedPolicy, message: str) -> None:
        location = use.partition, use.sequence, use.topic, use.offset
        self.findings.append(LedgerFinding(code, *location, message))


def check_partition(
    file: PackageFile,
    part: PackedPartition,
    heads: HeadCheck,
    signed_by: SignedBy | None,
    *,
    takes_gone: bool,
) -> PartitionResult:
    """Check one partition. `takes_gone`: inputs may be absent where the manifest states so. Raises OSError,
    and as Verifier."""
    verifier = Verifier(signed_by, heads, (part.partition,))
    return _PartitionCheck(file, part, verifier, takes_gone).run()


def is_selected(manifest: PackageManifest, fields: dict[str, Any], located: Located) -> bool:
    """Whether a ledger record is one of the selection."""
    by, value = manifest.by, manifest.value
    if by == "since":
        since = int(value)
        return (located.timestamp_ms or 0) >= since or (_read_decided(fields.get("decided_at")) or 0) >= since
    if by == "decision":
        return any(name.endswith("_id") and other == value for name, other in fields.items())
    return bool(fields.get(f"{by}_id") == value)


def _read_decided(value: Any) -> int | None:
    """When a record was decided, ms since 1970; None for no time. Other than the broker's time of a record,
    which who writes a package can state as he likes, it is in the record's hash."""
    try:
        return read_time(value) if isinstance(value, str) else None
    except NotStrict:
        return None
