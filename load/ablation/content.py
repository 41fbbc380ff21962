"""What each pattern of the content library catches, alone and with others: `python -m load.ablation.content`.

Reads the panel and the pool beside the checkout and load/corpus without `kept_back`, which is for measuring
only. A text is held as the memory gate holds one of a new user: by the trust score of its findings. With
`--without SOURCE` the texts of a source (a repository or a writer's file) are left out.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from load import ROOT
from load.bench.fixtures import bench_policy
from sluice.core.memory.trust import Facts, route, score
from sluice.core.state.history import History
from sluice.offline.panels import WriteRow, load_mixed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.policy.memory_policy import TrustPolicy
    from sluice.detection.text_inspection import ContentInspection, Finding

DATA = ROOT.parent / "shared" / "data"
KEPT_BACK = "kept_back"
LEAST_TEXTS = 2
"""A pattern that catches fewer was written for one row."""
_NEW = History(None, 0, 0, 0)


@dataclass(slots=True)
class Catches:
    """Texts that a pattern helps to hold, by source, and those that no other pattern holds."""

    texts: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    false_alarms: int = 0
    false_alarms_alone: int = 0


def rows(without: str | None) -> Iterator[WriteRow]:
    """The labelled texts, each once; the name of the source is the repository or the file."""
    visited = set[tuple[str, str]]()
    files = [*DATA.glob("*/memory_writes.jsonl"), *sorted((ROOT / "load" / "corpus").glob("*.jsonl"))]
    for row in (labelled for file in files for labelled in load_mixed(Path(file))):
        if not isinstance(row, WriteRow) or row.label == "ambiguous" or (row.file, row.text) in visited:
            continue
        visited.add((row.file, row.text))
        if row.file != KEPT_BACK and without not in (row.file, row.repository):
            yield row


def holds(policy: TrustPolicy, inspection: ContentInspection, findings: tuple[Finding, ...]) -> bool:
    """Whether a write with these findings is held."""
    facts = Facts("user", _NEW, False, None, inspection._replace(findings=findings))
    return route(policy, score(policy, facts)) != "allow"


def catches(without: str | None) -> dict[str, Catches]:
    """By the pattern's id."""
    bundle = bench_policy.policy().default
    policy, catches_by_pattern = bundle.memory.trust, defaultdict[str, Catches](Catches)
    for row in rows(without):
        inspection = bundle.inspector.inspect(row.text)
        findings = tuple(finding for finding in inspection.findings if not finding.framed)
        if not findings or not holds(policy, inspection, findings):
            continue
        for content_finding in findings:
            alone = not holds(
                policy, inspection, tuple(other for other in findings if other is not content_finding)
            )
            _count(catches_by_pattern[content_finding.id], row, alone=alone)
    return catches_by_pattern


def _count(into: Catches, row: WriteRow, *, alone: bool) -> None:
    source = row.repository or row.file
    if row.label == "harmful":
        into.texts[source] += 1
        into.alone[source] += alone
    else:
        into.false_alarms += 1
        into.false_alarms_alone += alone


def main() -> None:
    """Print a line for each pattern, those that catch least first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without", help="leave out the texts of this source")
    by_pattern = catches(parser.parse_args().without)
    patterns = bench_policy.policy().default.memory.content.findings
    print(f"{'pattern':<36}{'texts':>7}{'alone':>7}{'sources':>9}{'false alarms':>14}{'alone':>7}")
    for content_pattern in sorted(patterns, key=lambda pattern: by_pattern[pattern.id].texts.total()):
        of = by_pattern[content_pattern.id]
        print(
            f"{content_pattern.id:<36}{of.texts.total():>7}{of.alone.total():>7}{len(of.texts):>9}"
            f"{of.false_alarms:>14}{of.false_alarms_alone:>7}"
        )
    few = [pattern for pattern in patterns if by_pattern[pattern.id].texts.total() < LEAST_TEXTS]
    print(f"{len(patterns)} patterns, of which {len(few)} catch fewer than {LEAST_TEXTS} of these texts")


if __name__ == "__main__":
    main()
