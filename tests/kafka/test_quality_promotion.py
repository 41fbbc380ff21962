"""A promotion on a real broker: the control topics say which revisions' decisions count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from tests.kafka.test_quality_bundles import Owners
from tests.quality_ledger import FIRST, flag_only, lay
from tests.unit.core.trust.quality_scene import SHIPPED, quality_document

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

CLASS = "product_pricing"
SINCE = FIRST.strftime("%Y-%m-%dT%H:%M:%S.000Z")
ROLLOUT = {**SHIPPED["rollout"], CLASS: {"mode": "flag_only", "since": SINCE}}
MINIMA = SHIPPED["min_confidence_by_class"]


def revision(number: int, minimum: float, rationale: str) -> dict[str, Any]:
    minima = {**MINIMA, CLASS: minimum}
    said: dict[str, Any] = {"rollout": ROLLOUT, "min_confidence_by_class": minima, "rationale": rationale}
    return quality_document(number, **said)


REVISIONS = [
    revision(1, 0.1, "as lax as a first day may be"),
    revision(2, 0.9, "the first day was too lax"),
    revision(3, 0.9, "the same in other words"),
]


def decisions_under(document: dict[str, Any], count: int) -> list[dict[str, Any]]:
    by = load_quality_bundle(json.dumps(document).encode()).hash
    told = {"quality_bundle_id": "q", "quality_bundle_hash": by}
    return [{**flag_only(day, "pass", CLASS), **told} for day in range(count)]


def test_decisions_of_every_revision_with_the_same_tables_count_and_of_no_other(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    owners = Owners(kafka, prefix, tmp_path)
    for document in REVISIONS:
        assert owners.publish("bundle", owners.sign("bundle", document, "alice")) == []
    events = [one for count, document in enumerate(REVISIONS, 2) for one in decisions_under(document, count)]
    ledger = str(lay(tmp_path / "ledger", events))
    words = ["quality", "promote", CLASS, "--id", "q", "--from", ledger, "--json"]
    found = CliRunner().invoke(cli, words, env=owners.settings)
    said = {one["name"]: one["found"] for one in json.loads(found.stdout)["criteria"]}
    assert found.exit_code == 1
    assert said["decisions"] == "7; left out: 2 under other tables for the class"
    assert said["days with decisions"] == "4"
