"""Ways to have an audit package say less, or something else, that somebody has looked for and that must stay
shut. The attacker owns the store in which packages lie, and knows the format; he has no key."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.packages.made_ledger import (
    HEADS,
    PREFIX,
    ROOT,
    START_MS,
    TRUST,
    make_key,
    make_ledger,
    write_made_package,
)
from load.packages.unpacked import read_fields, unpack
from load.tamper import seal
from sluice.adapters.archive.package_plan import LEDGER, NothingSelected, Selection
from sluice.adapters.archive.package_writer import write_zip
from sluice.adapters.archive.segment import read_record
from sluice.cli.main import cli
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.clock import rfc3339
from sluice.core.reports.audit_coverage import AnsweredOffsets
from sluice.verifier.export import NotAnExport, read_lines
from sluice.verifier.head_check import HeadCheck, HeadSigners, Witnesses
from sluice.verifier.package_check import check_package
from sluice.verifier.package_file import PackageFile
from sluice.verifier.package_manifest import NotAPackage
from sluice.verifier.proof_check import UnusableKey
from sluice_topics.catalog import ACTIONS, BUNDLES, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from load.packages.unpacked import UnpackedPackage

SINCE = START_MS + 60
ODD: tuple[Any, ...] = (None, True, [], {}, ["x"], {"a": 1}, -1, 1.5, 2**50, "", "\0", [[[]]])
BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "package.zip"


def write(file: Path, selection: Selection | None = None) -> bytes:
    file.unlink(missing_ok=True)
    write_made_package(make_ledger(1), selection or Selection("since", 0), file)
    return file.read_bytes()


def list_codes(file: Path, data: bytes) -> set[str]:
    """What is found in it; that it is no package is a finding too."""
    file.write_bytes(data)
    try:
        return {finding.code for finding in check_package(PackageFile(file), TRUST).report.findings}
    except NotAPackage:
        return {"not_a_package"}


def leave_out_first(package: UnpackedPackage, count: int) -> None:
    """Leave the first records of the period out in partition 0, and state that the broker took the one before
    the rest earlier: its time is in no hash."""
    stated = package.manifest["partitions"][0]
    first = stated["complete_from"] + count
    hashes = dict(enumerate(zip(*[iter(package.hashes[0])] * 32, strict=True), 1))
    numbers: set[int] = set()
    for part in package.list_ledger(LEDGER):
        if part[1]:
            continue
        left = []
        for record in package.records[part]:
            fields = read_fields(record)
            number = fields["sequence"]
            hashes[number] = tuple(bytes.fromhex(fields["event_hash"][7:]))
            if stated["complete_from"] <= number < first - 1:
                continue
            early = number < first
            left.append(replace(record, timestamp_ms=SINCE - 1) if early else record)
            numbers.add(fields["input"]["offset"])
        package.records[part] = left
    stated["complete_from"] = first
    package.hashes[0] = b"".join(bytes(hashes[number]) for number in range(1, first))
    inputs = package.records[f"{PREFIX}{ACTIONS}", 0]
    package.records[f"{PREFIX}{ACTIONS}", 0] = [each for each in inputs if each.offset in numbers]


@pytest.mark.parametrize("count", [1, 2, 4])
def test_records_of_the_period_left_out_behind_another_broker_time(file: Path, count: int) -> None:
    package = unpack(write(file, Selection("since", SINCE)))
    leave_out_first(package, count)
    assert "incomplete" in list_codes(file, package.pack())


def test_the_record_before_the_period_without_a_time_that_its_hash_covers(file: Path) -> None:
    made = make_ledger(1)
    for records in made.records.values():
        for at, record in enumerate(records):
            records[at] = replace(
                record, value=(record.value or b"").replace(b'"decided_at":"2', b'"decided_at":"')
            )
    write_made_package(made, Selection("since", SINCE), file)
    assert "incomplete" in list_codes(file, file.read_bytes())


@pytest.mark.control
def test_a_whole_package_of_the_period(file: Path) -> None:
    assert list_codes(file, write(file, Selection("since", SINCE))) == set()


@pytest.mark.control
def test_a_record_that_was_decided_in_the_period_is_one_of_it_whenever_the_broker_took_it() -> None:
    selection = Selection("since", SINCE)
    assert selection.has_record({"decided_at": rfc3339(SINCE)}, SINCE - 1)
    assert not selection.has_record({"decided_at": rfc3339(SINCE - 1)}, SINCE - 1)


@pytest.mark.parametrize(
    "name", ["schema", "input", "session_id", "decided_at", "registry_hashes", "bundle_hash"]
)
def test_a_record_with_a_field_of_any_type_ends_no_check(file: Path, name: str) -> None:
    data = write(file)
    for value in ODD:
        package = unpack(data)
        records = package.records[f"{PREFIX}{VERDICTS}", 0]
        fields = seal({**read_fields(records[0]), name: value})
        records[0] = replace(records[0], value=canonical(fields))
        assert list_codes(file, package.pack())


@pytest.mark.parametrize(
    "name", ["head", "decided", "gone", "selection", "partitions", "segments", "installation", "topic_prefix"]
)
def test_a_manifest_with_a_field_of_any_type_ends_no_check(file: Path, name: str) -> None:
    members = zipfile.ZipFile(io.BytesIO(write(file)))
    manifest = json.loads(members.read("manifest.json"))
    others = [(each, members.read(each)) for each in members.namelist() if each != "manifest.json"]
    for value in (*ODD, {ACTIONS: {"a": 1}}, {ACTIONS: {"007": 1}}, {ACTIONS: 1}, [1], ["xy"]):
        if value not in (manifest[name], {}):
            out = io.BytesIO()
            write_zip(out, others, canonical(manifest | {name: value}))
            assert list_codes(file, out.getvalue())


def rewrite_segment(data: bytes, rewrite: Callable[[bytes], tuple[bytes, int]]) -> bytes:
    """The package with another file in place of its first segment of verdicts, and a manifest that states it;
    `rewrite` takes the lines, and gives the file and the size of its lines."""
    members = zipfile.ZipFile(io.BytesIO(data))
    manifest = json.loads(members.read("manifest.json"))
    names = [name for name in members.namelist() if name != "manifest.json"]
    contents = {name: members.read(name) for name in names}
    at = next(at for at, each in enumerate(manifest["segments"]) if each["topic"] == f"{PREFIX}{VERDICTS}")
    segment = manifest["segments"][at]
    packed, raw_bytes = rewrite(gzip.decompress(contents.pop(names[at])))
    segment |= {"raw_bytes": raw_bytes, "stored_bytes": len(packed), "sha256": sha256(packed).hexdigest()}
    names[at] = f"{names[at].rpartition('-')[0]}-{segment['sha256'][:16]}.jsonl.gz"
    out = io.BytesIO()
    others = [(name, contents.get(name, packed)) for name in names]
    write_zip(out, others, canonical(manifest))
    return out.getvalue()


def pack(lines: bytes) -> tuple[bytes, int]:
    return gzip.compress(lines, mtime=0), len(lines)


def say_twice(lines: bytes) -> bytes:
    """The first record has another value besides, which a reader that takes the first would read."""
    return lines.replace(b'"value":', b'"value":"{}","value":', 1)


def say_otherwise(lines: bytes) -> bytes:
    """The first record has its value in base64, and another one as text."""
    first, _, rest = lines.partition(b"\n")
    fields = json.loads(first)
    encoded = base64.b64encode(fields["value"].encode()).decode()
    return json.dumps(fields | {"value": "{}", "value_base64": encoded}).encode() + b"\n" + rest


REWRITTEN: dict[str, Callable[[bytes], tuple[bytes, int]]] = {
    "a value twice": lambda lines: pack(say_twice(lines)),
    "a value as text and another in base64": lambda lines: pack(say_otherwise(lines)),
    "an empty line": lambda lines: pack(lines.replace(b"\n", b"\n\n", 1)),
    "an offset that is a fraction": lambda lines: pack(lines.replace(b'"offset":0', b'"offset":0.0', 1)),
    "an offset of 6000 digits": lambda lines: pack(
        lines.replace(b'"offset":0', b'"offset":' + b"9" * 6000, 1)
    ),
    "headers within headers": lambda lines: pack(
        lines.replace(b'"headers":[]', b'"headers":' + b"[" * 100_000 + b"]" * 100_000, 1)
    ),
    "two members of gzip": lambda lines: (gzip.compress(lines[:99]) + gzip.compress(lines[99:]), len(lines)),
    "bytes behind the gzip": lambda lines: (gzip.compress(lines) + b"more", len(lines)),
    "a bomb that the manifest does not state": lambda lines: (
        gzip.compress(lines + b" " * 20_000_000),
        len(lines),
    ),
    "a bomb that it does": lambda lines: (gzip.compress(lines + b" " * 20_000_000), 2**30),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_segment_written_in_another_way(file: Path, name: str) -> None:
    assert list_codes(file, rewrite_segment(write(file), REWRITTEN[name]))


@pytest.mark.control
def test_a_segment_written_again_as_it_was(file: Path) -> None:
    assert list_codes(file, rewrite_segment(write(file), pack)) == set()


def test_a_line_of_an_export_that_says_two_things() -> None:
    line = b'{"topic":"t","partition":0,"offset":0,"timestamp":0,"key":null,"headers":[],"value":"{}"}\n'
    assert [each.value for each in read_lines([line])] == [b"{}"]
    for forged in (say_twice(line), say_otherwise(line), line.replace(b'"key":null', b'"key":"e3!0="')):
        with pytest.raises(NotAnExport):
            list(read_lines([forged]))
    with pytest.raises(TypeError, match="both"):
        read_record(say_otherwise(line))


STRAYS: dict[str, tuple[str, int]] = {
    "a topic of another prefix": (f"other.{VERDICTS}", 0),
    "an output that is no ledger": (f"{PREFIX}gate.memory.writes.approved", 0),
    "an input that nobody decided": (f"{PREFIX}gate.memory.writes.proposed", 0),
    "heads of another partition": (f"{PREFIX}gate.tree_heads", 1),
}


@pytest.mark.parametrize("name", STRAYS)
def test_records_that_do_not_belong_there(file: Path, name: str) -> None:
    package = unpack(write(file))
    topic, partition = STRAYS[name]
    stray = replace(package.records[f"{PREFIX}{VERDICTS}", 0][0], topic=topic, partition=partition)
    package.records[topic, partition] = [replace(stray, value=b"{}", offset=0)]
    assert list_codes(file, package.pack())


@pytest.mark.parametrize("name", ["readme.html", "hashes/0.bin", "../../outside", "segments/x/0/y.jsonl.gz"])
def test_a_member_that_the_manifest_does_not_state(file: Path, name: str) -> None:
    members = zipfile.ZipFile(io.BytesIO(write(file)))
    others = [(each, members.read(each)) for each in members.namelist() if each != "manifest.json"]
    out = io.BytesIO()
    write_zip(out, [*others, (name, b"")], members.read("manifest.json"))
    assert list_codes(file, out.getvalue())


def spell_otherwise(key: str) -> str:
    """Other base64 of the same bytes: the last character before the padding has two bits that count for
    nothing."""
    return f"{key[:-2]}{BASE64[BASE64.index(key[-2]) | 1]}="


def test_one_witness_counted_as_two() -> None:
    key, other = make_key("witness").public.text, spell_otherwise(make_key("witness").public.text)
    assert key != other
    with pytest.raises(UnusableKey, match="is no public key"):
        HeadCheck(HeadSigners([HEADS.public.text]), witnesses=Witnesses([key, other], 2))


def test_the_head_signer_counted_as_a_witness_of_itself() -> None:
    own: Any = HEADS.public.text
    for key in (own, f"{own}@2030-01-01T00:00:00Z"):
        with pytest.raises(UnusableKey, match="a witness has one of its own"):
            HeadCheck(HeadSigners([own]), witnesses=Witnesses([key, make_key("witness").public.text], 2))


@pytest.mark.control
def test_two_witnesses_with_keys_of_their_own() -> None:
    keys = [make_key(name).public.text for name in ("witness", "another")]
    assert HeadCheck(HeadSigners([HEADS.public.text]), witnesses=Witnesses(keys, 2)).findings == []


@pytest.mark.parametrize("name", ["payload", "payloadType", "signatures"])
def test_a_control_record_with_a_member_of_any_type_ends_no_check(file: Path, name: str) -> None:
    package = unpack(write(file))
    records = package.records[f"{PREFIX}{BUNDLES}", 0]
    envelope = json.loads(records[0].value or b"")
    signature = envelope["signatures"][0]
    of_signatures = [[{**signature, field: odd}] for field in signature for odd in (*ODD, "\ud800")]
    for odd in (*ODD, "\ud800", "é", *(of_signatures if name == "signatures" else ())):
        value = json.dumps(envelope | {name: odd}).encode()
        package.records[f"{PREFIX}{BUNDLES}", 0] = [replace(records[0], value=value)]
        codes = list_codes(file, package.pack())
        assert codes or odd in of_signatures


QUESTIONS = [
    ["audit", "activity", "--agent", "agent-1"],
    *(["audit", name] for name in ("approvals", "policy", "models", "overrides", "undecided")),
    ["rerun", "--all"],
]
FORGED: dict[str, dict[str, Any]] = {
    "schema a list": {"schema": []},
    "offset before the first": {"input": {"topic": ACTIONS, "partition": 0, "offset": -1}},
    "offset far beyond": {"input": {"topic": ACTIONS, "partition": 0, "offset": 2**53 - 1}},
    "a report without its counts": {"schema": "sluice/retrieval_reported/v1", "uncovered": [1]},
    "a quality decision without its items": {"schema": "sluice/quality_decision/v1", "agent_id": "agent-1"},
    "gates that are numbers": {"gateResults": [1]},
    "policy in force and then a decision without an outcome": {"schema": "sluice/policy_in_force/v1"},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_ends_no_question_and_no_rerun(
    file: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = unpack(write(file))
    records = package.records[f"{PREFIX}{VERDICTS}", 0]
    records[0] = replace(records[0], value=canonical(seal({**read_fields(records[0]), **FORGED[name]})))
    file.write_bytes(package.pack())
    for setting, value in (
        ("POLICY__INSTALLATION", "made"),
        ("KAFKA__TOPIC_PREFIX", PREFIX),
        ("POLICY__ROOT_KEYS", json.dumps([ROOT.public.text])),
    ):
        monkeypatch.setenv(f"SLUICE_{setting}", value)
    for words in QUESTIONS:
        result = CliRunner().invoke(cli, [*words, "--from", str(file)])
        assert isinstance(result.exception, SystemExit | None), (words, result.exception)


def test_offsets_near_the_largest_cost_a_page() -> None:
    answered = AnsweredOffsets()
    for offset in (0, 8191, 8192, 2**63 - 1):
        answered.add(offset)
    assert [answered.has(offset) for offset in (0, 1, 8191, 8192, 8193, 2**63 - 2, 2**63 - 1)] == [
        True, False, True, True, False, False, True,
    ]  # fmt: skip
    assert (answered.end, AnsweredOffsets().end) == (2**63, 0)


def test_a_forged_head_takes_no_memory_of_who_exports(file: Path) -> None:
    made = make_ledger(1)
    record = made.records[f"{PREFIX}gate.tree_heads"][-1]
    envelope = json.loads(record.value or b"")
    head = json.loads(base64.b64decode(envelope["payload"]))
    head["partitions"][0]["size"] = 10**10
    envelope["payload"] = base64.b64encode(canonical(head)).decode()
    made.append("gate.tree_heads", 0, "head", canonical(envelope))
    with pytest.raises(NothingSelected, match="10000000000 records of partition 0 are stated"):
        write_made_package(made, Selection("session", "s-0-1", only_selected=True), file)
    assert not file.exists()
