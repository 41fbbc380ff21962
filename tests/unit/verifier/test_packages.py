"""An audit package holds what it must, in one way only, and whatever one does to it is found."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiokafka.partitioner import murmur2

from load.packages.made_ledger import (
    APP,
    HEADS,
    INSTALLATION,
    PREFIX,
    ROOT,
    START_MS,
    STRANGER,
    TRUST,
    make_ledger,
    write_made_package,
)
from load.packages.tamper import COMBINED, SINGLE
from load.packages.unpacked import unpack
from sluice.adapters.archive.audit_package import AuditPackage
from sluice.adapters.archive.package_plan import NothingSelected, Selection, plan_package
from sluice.adapters.archive.package_writer import PackageOrigin, write_package
from sluice.adapters.archive.record_sources import ArchivedRecords
from sluice.verifier.__main__ import main
from sluice.verifier.head_check import HeadSigners, HeadSources
from sluice.verifier.package_check import check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage
from sluice.verifier.session_partition import compute_partition
from sluice_topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sluice.verifier.package_check import PackageReport, PackageTrust

    Change = Callable[[bytes, random.Random], bytes]

ALL = Selection("since", 0)
SELECTIONS = [
    ALL,
    Selection("since", START_MS + 60),
    Selection("agent", "agent-1"),
    Selection("session", "s-1-2"),
    Selection("session", "s-1-2", only_selected=True),
    Selection("decision", f"verdict:{ACTIONS}:0:3"),
    Selection("decision", f"verdict:{ACTIONS}:0:3", only_selected=True),
]
CODES = {
    "alter_record": {"altered"},
    "alter_and_seal_record": {"rewritten"},
    "delete_record": {"missing", "truncated", "dropped"},
    "repeat_record": {"duplicate_sequence"},
    "insert_record": {"inserted", "forked"},
    "alter_input": {"input_altered"},
    "move_input_in_time": {"input_altered"},
    "rename_input": {"input_altered"},
    "delete_input": {"input_missing"},
    "alter_policy": {"policy_missing"},
    "strip_policy": {"policy_unsigned"},
    "sign_policy_otherwise": {"policy_unsigned"},
    "delete_policy": {"policy_missing", "policy_unsigned"},
    "delete_head": {"head_broken", "head_missing"},
    "alter_head": {"head_forged", "head_broken"},
    "rewrite_suffix": {"rewritten"},
    "drop_session": {"truncated", "rewritten", "dropped"},
    "drop_partition": {"incomplete"},
    "keep_old_heads": {"rewritten", "inserted", "head_missing"},
    "cut_end": {"truncated", "dropped"},
    "keep_selected_alone": {"incomplete"},
}


def write(folder: Path, selection: Selection, seed: int = 1) -> Path:
    file = folder / "package.zip"
    file.unlink(missing_ok=True)
    write_made_package(make_ledger(seed), selection, file)
    return file


def check(file: Path, trust: PackageTrust = TRUST, processes: int = 1) -> PackageReport:
    return check_package(PackageFile(file), trust, processes)


def list_codes(report: PackageReport) -> set[str]:
    return {finding.code for finding in report.report.findings}


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_a_package_of_any_selection_holds_and_is_the_same_bytes_again(
    tmp_path: Path, selection: Selection
) -> None:
    data = write(tmp_path, selection).read_bytes()
    assert write(tmp_path, selection).read_bytes() == data
    report = check(tmp_path / "package.zip", replace(TRUST, takes_selected=True))
    assert report.report.findings == ()
    assert report.selected > 0
    assert report == check(tmp_path / "package.zip", replace(TRUST, takes_selected=True), processes=2)


def test_any_zip_reader_and_gzip_read_it(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path, ALL)) as package:
        names = package.namelist()
        assert package.testzip() is None
        lines = [
            json.loads(line)
            for name in names
            if name.startswith(f"segments/{PREFIX}{VERDICTS}/")
            for line in gzip.decompress(package.read(name)).splitlines()
        ]
        assert names[-1] == "manifest.json"
        assert json.loads(package.read("manifest.json"))["schema"] == "sluice/audit_package/v1"
    assert len(lines) == len(make_ledger(1).records[f"{PREFIX}{VERDICTS}"])


def test_a_package_ends_at_the_newest_head(tmp_path: Path) -> None:
    made = make_ledger(1)
    made.decide(10)
    later = tmp_path / "later.zip"
    write_made_package(made, ALL, later)
    assert later.read_bytes() == write(tmp_path, ALL).read_bytes()


def test_a_package_of_a_package_has_the_same_bytes(tmp_path: Path) -> None:
    """The wider one is the source: it has all that the narrower one needs."""
    write(tmp_path, ALL).rename(tmp_path / "wide.zip")
    narrow = Selection("session", "s-1-2", only_selected=True)

    async def write_again() -> None:
        source = ArchivedRecords(AuditPackage(tmp_path / "wide.zip"))
        origin = PackageOrigin(INSTALLATION, PREFIX, APP, {})
        await write_package(
            source, await plan_package(source, PREFIX, narrow), origin, tmp_path / "narrow.zip"
        )

    asyncio.run(write_again())
    assert (tmp_path / "narrow.zip").read_bytes() == write(tmp_path, narrow).read_bytes()


def test_nothing_is_written_of_what_no_record_is_of(tmp_path: Path) -> None:
    with pytest.raises(NothingSelected, match="head 3"):
        write(tmp_path, Selection("session", "nobody's"))
    assert not (tmp_path / "package.zip").exists()


def test_selected_records_alone_are_taken_only_by_who_asks_for_them(tmp_path: Path) -> None:
    file = write(tmp_path, Selection("session", "s-1-2", only_selected=True))
    assert list_codes(check(file)) == {"incomplete"}
    report = check(file, replace(TRUST, takes_selected=True))
    assert any("only the hash" in statement for statement in report.statements)
    asked = replace(TRUST, selection=("session", "s-1-2"), takes_selected=True)
    assert list_codes(check(file, asked)) == set()
    assert list_codes(check(file, replace(asked, selection=("session", "s-1-1")))) == {"incomplete"}


def test_who_signed_is_checked_by_the_keys_that_are_given(tmp_path: Path) -> None:
    file = write(tmp_path, ALL)
    assert list_codes(check(file, replace(TRUST, root_keys=(STRANGER.public.text,)))) == {"policy_unsigned"}
    stranger = HeadSources(HeadSigners([STRANGER.public.text], INSTALLATION))
    assert "head_forged" in list_codes(check(file, replace(TRUST, sources=stranger)))
    unchecked = check(file, replace(TRUST, root_keys=(), sources=HeadSources()))
    assert list_codes(unchecked) == set()
    assert any("No root key" in statement for statement in unchecked.statements)
    assert list_codes(check(file, replace(TRUST, installation="another"))) == {"incomplete"}


def test_a_head_that_was_kept_elsewhere_and_a_noted_digest_find_an_older_package(tmp_path: Path) -> None:
    made = make_ledger(1)
    old = write(tmp_path, ALL).rename(tmp_path / "old.zip")
    made.decide(5)
    made.sign_head()
    kept = tmp_path / "heads.jsonl"
    kept.write_bytes((made.records[f"{PREFIX}gate.tree_heads"][-1].value or b"") + b"\n")
    sources = HeadSources(TRUST.sources.signers, (kept,))
    assert "head_missing" in list_codes(check(old, replace(TRUST, sources=sources)))
    noted = PackageFile(old).digest
    assert list_codes(check(old, replace(TRUST, noted=noted))) == set()
    assert list_codes(check(old, replace(TRUST, noted="sha256:" + "0" * 64))) == {"package_damaged"}


def test_inputs_that_were_gone_are_taken_only_by_who_says_so(tmp_path: Path) -> None:
    made = make_ledger(1)
    inputs = made.records[f"{PREFIX}{ACTIONS}"]
    del inputs[:2]
    file = tmp_path / "package.zip"
    write_made_package(made, ALL, file)
    assert list_codes(check(file)) == {"input_missing"}
    assert list_codes(check(file, replace(TRUST, takes_gone=True))) == set()
    package = unpack(file.read_bytes())
    package.manifest["gone"] = {}
    file.write_bytes(package.pack())
    assert list_codes(check(file, replace(TRUST, takes_gone=True))) == {"incomplete", "input_missing"}


def test_a_decided_input_that_no_record_answers_is_told(tmp_path: Path) -> None:
    made = make_ledger(1)
    made.append(ACTIONS, 0, "s-0-1", b"{}")
    made.decide(12)
    made.sign_head()
    file = tmp_path / "package.zip"
    write_made_package(made, ALL, file)
    assert list_codes(check(file)) == {"unanswered"}


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("seed", range(4))
def test_each_single_change_is_found(tmp_path: Path, kind: str, seed: int) -> None:
    check_change(tmp_path, SINGLE, kind, seed)


@pytest.mark.parametrize("kind", COMBINED)
@pytest.mark.parametrize("seed", range(6))
def test_each_combined_change_is_found(tmp_path: Path, kind: str, seed: int) -> None:
    check_change(tmp_path, COMBINED, kind, seed)


def check_change(folder: Path, changes: Mapping[str, Change], kind: str, seed: int) -> None:
    file = write(folder, ALL if seed % 2 else Selection("agent", "agent-1"), seed)
    data = file.read_bytes()
    changed = changes[kind](data, random.Random(seed))  # noqa: S311 - seeded
    assert changed != data
    file.write_bytes(changed)
    try:
        codes = list_codes(check(file))
    except NotAPackage:
        assert kind not in CODES
        return
    assert codes & CODES.get(kind, codes), codes


def test_the_folder_alone_checks_a_package_with_the_same_exit_codes(tmp_path: Path) -> None:
    file = write(tmp_path, ALL)
    keys = ["--root-key", ROOT.public.text, "--head-key", HEADS.public.text]
    assert main([str(file), *keys, "--installation", INSTALLATION]) == 0
    assert main([str(file), *keys, "--json"]) == 0
    assert main([str(file), "--head-key", STRANGER.public.text]) == 1
    file.write_bytes(file.read_bytes()[:-1])
    assert main([str(file), *keys]) == 2


def test_a_session_lies_where_kafkas_clients_put_it() -> None:
    rng = random.Random(1)  # noqa: S311 - seeded
    for _ in range(300):
        key = rng.randbytes(rng.randrange(30))
        assert compute_partition(key, 12) == (murmur2(key) & 0x7FFFFFFF) % 12
