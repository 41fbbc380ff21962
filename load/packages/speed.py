"""How fast a package is checked, beside bare loops over the same records in the same process."""

from __future__ import annotations

import gzip
import hashlib
import json
import resource
import statistics
import time
from typing import TYPE_CHECKING

from sluice.verifier.package_check import check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.placement import KINDS
from sluice.verifier.verify import Verifier

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sluice.verifier.export import Located
    from sluice.verifier.package_check import PackageTrust

ROUNDS = 3
PROCESSES = 2
_LEDGER = frozenset(kind.topic for kind in KINDS.values())
_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def measure_speed(package: Path, trust: PackageTrust) -> dict[str, float]:
    """Medians of three rounds, CPU µs a ledger record: of the bare loop over the records' bytes (parse,
    canonical form, SHA-256), of the verifier over the same bytes, of the bare loop over the package's lines
    (unpacked, parsed; of ledger records the value as before, of others its SHA-256), and of the check of the
    package. `records` and `package`: the bare loop's part in either. `processes`: by how much two processes
    are faster than one, by the clock; `processes_by_cpu`: by how much they are where each has a processor of
    its own: the CPU of one process to that of the parent and of half its children."""
    file = PackageFile(package)
    records = _read_records(file)
    of_records, of_lines, verified, checked = [], [], [], []
    for _ in range(ROUNDS):
        of_records.append(_measure(lambda: _digest_records(records)))
        verified.append(_measure(lambda: _verify(records)))
        of_lines.append(_measure(lambda: _digest_lines(file)))
        checked.append(_measure(lambda: check_package(file, trust)))
    alone_s, together_s = (_measure_wall(file, trust, processes) for processes in (1, PROCESSES))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    of_parent = _measure(lambda: check_package(file, trust, PROCESSES))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    of_children = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    each = 1e6 / max(1, len(records))
    return {
        "bare_us": round(statistics.median(of_records) * each, 1),
        "verifier_us": round(statistics.median(verified) * each, 1),
        "bare_lines_us": round(statistics.median(of_lines) * each, 1),
        "package_us": round(statistics.median(checked) * each, 1),
        "records": _compare(of_records, verified),
        "package": _compare(of_lines, checked),
        "package_by_records": _compare(of_records, checked),
        "processes": round(alone_s / together_s, 2),
        "processes_by_cpu": round(statistics.median(checked) / (of_parent + of_children / PROCESSES), 2),
    }


def _compare(bare: list[float], ours: list[float]) -> float:
    return round(statistics.median(b / c for b, c in zip(bare, ours, strict=True)), 2)


def _measure(step: Callable[[], object]) -> float:
    began = time.process_time()
    step()
    return time.process_time() - began


def _measure_wall(file: PackageFile, trust: PackageTrust, processes: int) -> float:
    began = time.monotonic()
    check_package(file, trust, processes)
    return time.monotonic() - began


def _read_records(file: PackageFile) -> list[Located]:
    prefix = file.manifest.prefix
    segments = [each for each in file.manifest.segments if each.topic.removeprefix(prefix) in _LEDGER]
    return [located for segment in segments for located in file.read_segment(segment)]


def _verify(records: list[Located]) -> None:
    verifier = Verifier()
    for located in records:
        verifier.add(located)
    verifier.close_chains()


def _digest_records(records: list[Located]) -> None:
    for located in records:
        _digest(located.value or b"{}")


def _digest(value: bytes) -> str:
    return hashlib.sha256(_ENCODER.encode(json.loads(value)).encode()).hexdigest()


def _digest_lines(file: PackageFile) -> None:
    prefix = file.manifest.prefix
    for segment in file.manifest.segments:
        is_ledger = segment.topic.removeprefix(prefix) in _LEDGER
        for line in gzip.decompress(file.read_member(segment.name)).splitlines():
            value = (json.loads(line)["value"] or "").encode()
            if is_ledger:
                _digest(value)
            else:
                hashlib.sha256(value).hexdigest()
