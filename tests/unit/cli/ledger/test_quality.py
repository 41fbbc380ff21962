"""`sluice quality` over an exported ledger, as people and programs get it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from tests.quality_ledger import DIGEST, FIRST, alarm, decision, flag_only, lay, report
from tests.unit.core.retrieval.quality_scene import NOTE, quality_document

if TYPE_CHECKING:
    from pathlib import Path

EVENTS = [
    decision(0, outcome="deny", flags_set=["stale"]),
    decision(1, "product_pricing", "downgrade", flags_set=["stale", "low_confidence"], tenant_id="zeta"),
    decision(1),
    flag_only(2, "deny", "public_reference"),
    report(1, "bounded", 4, 4),
]
UNFINISHED = '{"schema": "sluice/quality_decision/v1"}'
SHORT = report(2, "high_privilege", 1000, 999)


def sluice(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["quality", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def report_as_json(path: Path, *arguments: str) -> dict[str, Any]:
    code, out, _ = sluice("report", "--from", path, "--json", *arguments)
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_programs_get_every_figure_by_class_and_day(tmp_path: Path) -> None:
    found = report_as_json(lay(tmp_path / "ledger", EVENTS))
    assert found["period"] == {"since": None, "until": None, "first": "2026-03-01", "last": "2026-03-03"}
    assert found["overall"]["stale_retrieval"] == {"part": 2, "whole": 4, "rate": 0.5}
    by_class = {row["content_class"]: row for row in found["by_class"]}
    assert by_class["public_reference"]["false_deny"]["rate"] == 1.0
    assert [row["day"] for row in found["by_day"]] == ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert {row["tier"]: row["rate"] for row in found["coverage"]}["bounded"] == 1.0


def test_days_and_tenant_narrow_it(tmp_path: Path) -> None:
    path = lay(tmp_path / "ledger", EVENTS)
    assert report_as_json(path, "--since", "2026-03-02")["overall"]["decisions"] == 3
    assert report_as_json(path, "--until", "2026-03-01")["overall"]["decisions"] == 1
    assert report_as_json(path, "--tenant", "zeta")["overall"]["decisions"] == 1


def test_people_get_tables_and_a_miss_in_words(tmp_path: Path) -> None:
    code, out, _ = sluice("report", "--from", lay(tmp_path / "ledger", [*EVENTS, SHORT, alarm(2)]))
    assert code == 1
    assert "Outcomes by class" in out
    assert "Coverage of high_privilege is below its target: 99.90%" in out
    assert "product_pricing, to quality-owner@acme.example" in out


def test_one_missing_of_a_million_is_not_rounded_to_all(tmp_path: Path) -> None:
    events = [*(report(0, "bounded", 1000, 1000) for _ in range(1000)), report(0, "bounded", 1, 0)]
    code, out, _ = sluice("report", "--from", lay(tmp_path / "ledger", events))
    assert code == 1
    assert ">99.99%" in out


def test_an_empty_ledger_is_told_as_one(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, out, _ = sluice("report", "--from", lay(tmp_path / "ledger", []), "--html", page)
    assert code == 0
    assert "No decision on a retrieved item in this period." in out
    assert "No decision on a retrieved item in this period." in page.read_text()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "line 2 is not a line of a ledger export"),
        ('{"topic": "gate.memory.quality_decision", "value": "{}"}', "line 2: no record of the ledger"),
        (
            json.dumps({"topic": "a.gate.memory.quality_decision", "value": UNFINISHED}),
            "line 2: no quality decision",
        ),
    ],
)
def test_a_broken_export_ends_it_with_the_line(tmp_path: Path, line: str, told: str) -> None:
    path = lay(tmp_path / "ledger", [decision()])
    with path.open("a") as more:
        more.write(line + "\n")
    code, _, err = sluice("report", "--from", path)
    assert code == 2
    assert told in err


def test_records_of_other_topics_are_passed_over(tmp_path: Path) -> None:
    path = lay(tmp_path / "ledger", [decision()])
    with path.open("a") as more:
        more.write('{"topic": "gate.verdicts", "value": "not even JSON"}\n')
    assert report_as_json(path)["overall"]["decisions"] == 1


def test_what_is_no_day_or_no_file_ends_it(tmp_path: Path) -> None:
    assert sluice("report", "--from", tmp_path / "none")[0] == 2
    code, _, err = sluice("report", "--from", lay(tmp_path / "ledger", []), "--since", "yesterday")
    assert (code, "no day: yesterday" in err) == (2, True)


def test_alarms_are_listed(tmp_path: Path) -> None:
    code, out, _ = sluice("alarms", "--from", lay(tmp_path / "ledger", [alarm(16)]), "--json")
    assert (code, [one["subject"] for one in json.loads(out)]) == (0, ["product_pricing"])
    assert "No alarm." in sluice("alarms", "--from", lay(tmp_path / "ledger", []))[1]


def bundle_file(tmp_path: Path, min_days: int) -> Path:
    since = FIRST.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    document = quality_document(
        rollout={NOTE: {"mode": "flag_only", "since": since}},
        promotion={"min_days": min_days, "max_false_deny_rate": 0, "min_decisions": 3},
    )
    path = tmp_path / "quality.json"
    path.write_text(json.dumps(document))
    return path


def hash_of(file: Path) -> str:
    return load_quality_bundle(file.read_bytes()).hash


def promote(tmp_path: Path, min_days: int, out: Path, under: str | None = None) -> tuple[int, str, str]:
    file = bundle_file(tmp_path, min_days)
    by = {"quality_bundle_id": "small.quality", "quality_bundle_hash": under or hash_of(file)}
    ledger = lay(tmp_path / "ledger", [{**flag_only(day, "pass", NOTE), **by} for day in range(3)])
    given = ("--from", ledger, "--bundle", file, "--out", out)
    return sluice("promote", NOTE, *given)


def test_a_class_that_meets_its_criteria_is_written_as_the_next_revision(tmp_path: Path) -> None:
    out = tmp_path / "next.json"
    code, told, _ = promote(tmp_path, 3, out)
    assert (code, "not met" in told) == (0, False)
    after = load_quality_bundle(out.read_bytes())
    assert (after.revision, after.rollout_of(NOTE)) == (2, "enforce")


def test_a_class_that_misses_one_is_not_written(tmp_path: Path) -> None:
    out = tmp_path / "next.json"
    code, told, _ = promote(tmp_path, 4, out)
    assert (code, "not met" in told, out.exists()) == (1, True, False)


def test_decisions_under_another_document_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    out = tmp_path / "next.json"
    code, told, _ = promote(tmp_path, 3, out, DIGEST)
    assert (code, "left out: 3" in told, out.exists()) == (1, True, False)


def test_a_class_that_the_bundle_does_not_know_is_named(tmp_path: Path) -> None:
    code, _, err = sluice("promote", "unheard", "--bundle", bundle_file(tmp_path, 1))
    assert (code, "has no class unheard; it has note" in err) == (1, True)
