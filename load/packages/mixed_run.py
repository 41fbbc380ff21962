"""A mixed run's evidence in one file: written twice, checked, executed again and tampered with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from load.inputs.publisher import Pace
from load.packages.made_ledger import make_key
from load.packages.speed import measure_speed
from load.packages.tamper import COMBINED, SINGLE
from load.recomputation import figures
from load.recomputation.reruns import read_decision_settings
from load.scene import open_scene
from sluice.adapters.archive.archive_evidence import ArchiveEvidence
from sluice.adapters.archive.audit_package import AuditPackage
from sluice.adapters.archive.package_plan import Selection, plan_package
from sluice.adapters.archive.package_writer import PackageOrigin, write_package
from sluice.adapters.archive.record_sources import BrokerRecords
from sluice.adapters.kafka.kafka_tree_heads import HeadLimits, HeadSigner
from sluice.adapters.ledger_reruns import rerun_all
from sluice.core.rerun.rerun_result import RerunTally
from sluice.core.trust.tree_heads import HeadKeys, HeadSeries
from sluice.verifier.head_check import HeadSigners, HeadSources
from sluice.verifier.package_check import PackageTrust, check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed
    from sluice.verifier.package_check import PackageReport

WORKERS = 2
SHOWN = 5
UNPROVED = frozenset({"alter_policy", "strip_policy", "sign_policy_otherwise", "delete_policy"})
"""Changes of policy that no decision may name: nothing then rests on them."""


async def audit(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """Two workers decide the usual traffic, a head is signed over it, and a package is made."""
    name = "audit"
    installation = await bed.installation(name)
    traffic = bed.traffic(installation, name, scale, slow=0)
    async with open_scene(installation, traffic, Pace(scale.rate, plenty=scale.plenty), WORKERS) as scene:
        await scene.finish(scale.events)
    heads = make_key("heads of the run")
    series = HeadSeries(HeadKeys([heads.public]), installation.audience)
    await HeadSigner(installation.cluster, series, [heads], HeadLimits(1.0, 1000)).run(once=True)
    trust = PackageTrust(
        (installation.trust.root.public.text,),
        HeadSources(HeadSigners([heads.public.text])),
        installation=installation.audience.installation,
    )
    whole = await _write(installation, Selection("since", 0), "whole.zip")
    again = await _write(installation, Selection("since", 0), "again.zip")
    checked = check_package(PackageFile(whole), trust)
    speed = measure_speed(whole, trust)
    for finding in checked.report.findings[:SHOWN]:
        print(f"  {finding}")
    session = _find_session(whole)
    of_session = await _write(installation, Selection("session", session), "session.zip")
    narrow = await _write(installation, Selection("session", session, only_selected=True), "narrow.zip")
    takes_selected = replace(trust, takes_selected=True)
    parts = [
        check_package(PackageFile(of_session), trust),
        check_package(PackageFile(narrow), takes_selected),
    ]
    records = max(1, checked.report.records)
    return [
        figures.some("records", checked.report.records, "records"),
        figures.none("other_bytes", int(whole.read_bytes() != again.read_bytes()), "packages"),
        figures.none("findings", len(checked.report.findings), "findings"),
        figures.none("findings_of_a_session", sum(_count_findings(part) for part in parts), "findings"),
        figures.report("package_bytes", round(whole.stat().st_size / records), "B/record"),
        figures.report("check_cpu", speed["package_us"], "µs/record"),
        figures.report("bare_loop_to_verifier", speed["records"], "ratio"),
        figures.report("bare_loop_to_check", speed["package"], "ratio"),
        figures.report("two_processes_by_cpu", speed["processes_by_cpu"], "times"),
        *await _execute(installation, whole, "reruns"),
        *await _execute(installation, narrow, "reruns_of_a_session"),
        *_tamper(of_session, trust, bed.rng(name)),
    ]


async def _write(installation: TestInstallation, selection: Selection, name: str) -> Path:
    source = BrokerRecords(installation.cluster, installation.prefix, installation.app_id)
    origin = PackageOrigin(installation.audience.installation, installation.prefix, installation.app_id, {})
    path = installation.folder / name
    await write_package(source, await plan_package(source, installation.prefix, selection), origin, path)
    return path


def _find_session(package: Path) -> str:
    """The session of the first keyed verdict that lies in the package."""
    opened = PackageFile(package)
    records = (
        located
        for segment in opened.manifest.segments
        if segment.topic.endswith("gate.verdicts")
        for located in opened.read_segment(segment)
    )
    return next(located.key.decode() for located in records if located.key)


def _count_findings(report: PackageReport) -> int:
    for finding in report.report.findings[:SHOWN]:
        print(f"  {finding}")
    return len(report.report.findings)


async def _execute(installation: TestInstallation, package: Path, name: str) -> list[RunFigure]:
    tally = RerunTally()
    source = ArchiveEvidence(AuditPackage(package), installation.prefix)
    async for rerun in rerun_all(source, read_decision_settings(installation)):
        tally.take([rerun])
    for rerun in tally.reruns[:SHOWN]:
        print(f"  rerun {rerun.id}: {rerun.status} {rerun.differences or rerun.missing}")
    return [
        figures.some(f"{name}_identical", tally.counts["identical"], "decisions"),
        figures.none(f"{name}_not_identical", len(tally.reruns), "decisions"),
    ]


def _tamper(package: Path, trust: PackageTrust, rng: random.Random) -> list[RunFigure]:
    """One change of each kind to a real package."""
    data, file = package.read_bytes(), package.with_name("changed.zip")
    changes: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
        name: change for name, change in {**SINGLE, **COMBINED}.items() if name not in UNPROVED
    }
    unseen = []
    for name, change in changes.items():
        changed = change(data, rng)
        file.write_bytes(changed)
        try:
            intact = check_package(PackageFile(file), trust).report.intact
        except NotAPackage:
            intact = False
        if intact or changed == data:
            unseen.append(name)
            print(f"  not found: {name}")
    return [
        figures.exactly("changes_found", len(changes) - len(unseen), len(changes), "changes"),
    ]
