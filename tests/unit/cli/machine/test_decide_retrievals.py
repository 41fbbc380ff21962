"""`sluice decide` on retrievals and on stores' reports of what they returned."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from load import ROOT
from sluice.cli.main import cli
from tests.unit.cli.policy.policy_files import write
from tests.unit.core.trust.scene import agent, bundle_document, tool

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-01-01T00:00:00Z"
QUALITY = ROOT / "config" / "quality" / "default.json"
URI = "https://law.example.org/lease"
OLD = "2020-01-01T00:00:00Z"
REPORT = {
    "report_id": "p1",
    "request_id": "r1",
    "agent_id": "reader",
    "session_id": "s-1",
    "items": ["i1", "i2"],
    "reported_by": "store",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "b.json", bundle_document())
    write(tmp_path / "r.json", {"entries": [agent(autonomy_tier="high_privilege"), tool()]})
    return tmp_path


def item(**more: Any) -> dict[str, Any]:
    return {
        "item_id": "i1",
        "content_class": "legal_text",
        "timestamp": "2025-12-01T00:00:00Z",
        "confidence_score": 0.9,
        "provenance_uri": URI,
        "provenance_hash": f"sha256:{'a' * 64}",
        "body": "the canary sings",
    } | more


def retrieval(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"request_id": "r1", "agent_id": "reader", "session_id": "s-1", "items": list(items)} | more


def decide(folder: Path, lines: list[Any], *words: str) -> Result:
    text = "\n".join(json.dumps(line) for line in lines)
    bundles = ["--bundle", str(folder / "b.json"), "--bundle", str(QUALITY)]
    policy = ["--unsigned", *bundles, "--registry", str(folder / "r.json")]
    return CliRunner().invoke(cli, ["decide", "-", "--at", AT, *policy, *words], input=text)


def records(found: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in found.stdout.splitlines()]


def kinds(found: Result) -> list[str]:
    return [one["schema"].split("/")[1] for one in records(found)]


def test_each_item_gets_its_decision_and_the_request_what_is_shown(folder: Path) -> None:
    found = decide(folder, [retrieval(item(), item(item_id="i2"), autonomy_tier="bounded")])
    assert found.exit_code == 0
    assert kinds(found) == ["quality_decision", "quality_decision", "served_retrieval"]
    assert [one["item_id"] for one in records(found)[:2]] == ["i1", "i2"]


def test_a_denial_that_waits_for_a_person_is_told_with_its_escalation(folder: Path) -> None:
    found = decide(folder, [retrieval(item(timestamp=OLD), tool_category="payment")])
    assert kinds(found) == ["quality_decision", "retrieval_escalation_opened", "served_retrieval"]
    assert records(found)[0]["outcome"] == "deny"


def test_what_the_installation_tells_itself_is_nobody_s_answer(folder: Path) -> None:
    found = decide(folder, [retrieval(item())])
    assert "not resolved yet" in found.stdout, "so the worker would want it resolved"
    assert "provenance_wanted" not in found.stdout


def test_a_body_is_not_repeated(folder: Path) -> None:
    at_sandbox = item(provenance_uri=None, provenance_hash=None)
    write(folder / "r.json", {"entries": [agent(autonomy_tier="sandbox"), tool()]})
    found = decide(folder, [retrieval(at_sandbox)])
    assert records(found)[0]["body_released"]
    (served,) = records(found)[1]["items"]
    assert served["flags"]["provenance_missing"]
    assert "canary" not in found.stdout


def test_a_report_is_told_with_what_it_covers_though_it_names_its_reporter(folder: Path) -> None:
    found = decide(folder, [retrieval(item()), REPORT])
    reported = records(found)[-1]
    assert (reported["schema"], reported["covered"]) == ("sluice/retrieval_reported/v1", 1)
    assert reported["uncovered"] == ["i2"]


def test_without_a_quality_bundle_every_item_is_denied(folder: Path) -> None:
    text = json.dumps(retrieval(item()))
    policy = ["--unsigned", "--bundle", str(folder / "b.json"), "--registry", str(folder / "r.json")]
    found = CliRunner().invoke(cli, ["decide", "-", "--at", AT, *policy], input=text)
    assert records(found)[0]["reason_codes"] == ["NO_QUALITY_BUNDLE"]


def test_the_same_in_words(folder: Path) -> None:
    assert "deny stale" in decide(folder, [retrieval(item(timestamp=OLD))], "--text").stdout
