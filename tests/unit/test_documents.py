"""Mend 11: each block of README.md and docs/*.md runs, is a record, or is listed with a reason.

Commands run in tests/kafka/test_documents.py. Records are read here by the real models, and decided by the
core where the text says what becomes of them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import TypeAdapter
from typer.testing import CliRunner

from sluice.broker.locate import DEFAULT_PORT
from sluice.cli.main import cli
from sluice.core.actions.stages import BUNDLE_FORM, load_bundle
from sluice.core.cases.cases import run_cases
from sluice.core.policy.approval_policy import ApprovalPolicy
from sluice.core.policy.bundle_cases import Case
from sluice.core.policy.bundle_frame import EffectTiers
from sluice.core.policy.pattern_library import LibraryAction
from sluice.core.quality_bundle.content_settings import ContentJudge
from sluice.core.registry.registry_entries import RegistryFile
from sluice.offline.bundle_source import read_whole_bundle
from sluice.offline.golden_set import GoldenCase
from sluice.settings.kafka import KafkaSettings
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProposedAction, ProposedMemoryWrite, ProposedRetrieval
from tests.documents.blocks import NOT_RUN, PROGRAM, RECORD, ROOT, RUN, Block, blocks, documents

if TYPE_CHECKING:
    from pathlib import Path

    from sluice_topics.records.base import Record

ALL = [one for document in documents() for one in blocks(document)]
RECORDS = [one for one in ALL if one.kind == RECORD and one.why_not_run is None]
MODELS: dict[str, type[Record]] = {
    "action_id": ProposedAction,
    "write_id": ProposedMemoryWrite,
    "request_id": ProposedRetrieval,
}
PARTS = {one.key: one for one in BUNDLE_FORM.parts}
POLICY = ("--bundle", "config/bundles/default.json", "--registry", "config/registry.json")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_block_runs_or_is_a_record_or_is_listed_with_its_reason() -> None:
    left = [one.name for one in ALL if not one.is_run and one.kind != RECORD and one.why_not_run is None]
    assert left == []
    for document, start in NOT_RUN:
        assert any(one.document == document and one.text.startswith(start) for one in ALL), (document, start)


def test_the_programs_of_agents_use_the_broker_that_the_first_steps_start() -> None:
    """Mend 22.21: `sluice broker start`, `docker compose up` and every setting's default give one address."""
    address = KafkaSettings().bootstrap_servers
    assert address == f"127.0.0.1:{DEFAULT_PORT}"
    ports = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["kafka"]["ports"]
    assert ports == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]
    programs = [one.text for one in ALL if one.is_run and one.kind == PROGRAM]
    assert len(programs) == 2
    assert all(f'GateClient("{address}", ' in one for one in programs)
    others = [one.name for one in ALL if re.search(r"(localhost|127\.0\.0\.1):9092", one.text)]
    assert others == []


def test_what_looks_like_a_command_is_marked_as_one() -> None:
    """An unmarked block would be a drawing or a listing; `sluice` in it is a command that nobody runs."""
    others = [one for one in ALL if one.kind not in (RUN, "mermaid") and one.why_not_run is None]
    assert [one.name for one in others if "sluice " in one.text] == []


@pytest.mark.parametrize("block", RECORDS, ids=lambda one: one.name)
def test_a_record_is_read_by_its_model(block: Block, tmp_path: Path) -> None:
    record = json.loads(block.text)
    if "expect" in record:
        case: Any = GoldenCase if "criterion" in record else Case
        TypeAdapter(case).validate_json(block.text, strict=True)
    elif "entries" in record:
        RegistryFile.model_validate_json(block.text)
    elif "approvals" in record:
        ApprovalPolicy.model_validate_json(json.dumps(record["approvals"]))
    elif "effect_tiers" in record:
        EffectTiers.model_validate_json(json.dumps(record["effect_tiers"]), strict=True)
    elif "content_judge" in record:
        ContentJudge.model_validate_json(json.dumps(record["content_judge"]))
    elif "include" in record:
        own = tmp_path / "own.json"
        own.write_text(json.dumps({"extends": "shipped:default.json", **record}), encoding="utf-8")
        assert run_cases(load_bundle(read_whole_bundle(own))) == ()
    elif "label" in record:
        LibraryAction.model_validate_json(block.text, strict=True)
    elif set(record) <= PARTS.keys():
        for name, written in record.items():
            TypeAdapter(PARTS[name].written).validate_json(json.dumps(written), strict=True)
    else:
        model = next(model for name, model in MODELS.items() if name in record)
        found = read(model, block.text.encode())
        assert not isinstance(found, Unreadable), found


def decide(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The decisions of the core, in order, under what ships."""
    lines = "".join(json.dumps(one) + "\n" for one in records)
    policy = [word if word.startswith("-") else str(ROOT / word) for word in POLICY]
    words = ["decide", "-", *policy, "--unsigned", "--at", "2026-11-22T10:00:00Z", "--json"]
    found = CliRunner().invoke(cli, words, input=lines)
    assert found.exit_code == 0, found.output
    told = [json.loads(line) for line in found.stdout.splitlines()]
    return [one for one in told if one.get("schema", "").startswith(("sluice/verdict", "sluice/memory_dec"))]


def example(document: str, field: str) -> dict[str, Any]:
    return next(
        one for block in RECORDS if block.document == document and field in (one := json.loads(block.text))
    )


def test_the_actions_of_the_first_steps_are_answered_as_the_table_says() -> None:
    actions = [json.loads(line) for line in (ROOT / "config/examples/actions.jsonl").read_text().splitlines()]
    rows = re.findall(r"^\| `(a-\d)` \| .* \| `(\w+)` \| (?:`?(\w+))?", README, re.MULTILINE)
    assert len(rows) == len(actions)
    for (action_id, verdict, reason), found in zip(rows, decide(actions), strict=True):
        assert (found["action_id"], found["verdict"]) == (action_id, verdict)
        assert (found["blockReason"] or "").startswith(reason if verdict != "allowed" else ""), found[
            "blockReason"
        ]


def test_the_action_whose_life_readme_tells_is_one_of_them_and_waits_for_a_person() -> None:
    action = example("README.md", "action_id")
    lines = (ROOT / "config" / "examples" / "actions.jsonl").read_text().splitlines()
    assert action in [json.loads(line) for line in lines]
    assert "It will be answered `needs_human`" in README
    assert decide([action])[0]["verdict"] == "needs_human"


def test_the_memory_that_the_guide_shows_is_allowed_with_the_score_it_says() -> None:
    (found,) = decide([example("docs/memory.md", "write_id")])
    assert (found["action"], found["trustScore"]["total"]) == ("allow", 0.845)


def test_the_case_that_the_guide_shows_passes_under_the_shipped_bundle() -> None:
    document = json.loads(read_whole_bundle(ROOT / "config" / "bundles" / "default.json"))
    case = example("docs/offline.md", "expect")
    assert run_cases(load_bundle(json.dumps(document | {"cases": [case]}).encode())) == ()
    other = {**case, "action": {"toolName": "query_database", "parameters": {"sql": "SELECT 1"}}}
    assert run_cases(load_bundle(json.dumps(document | {"cases": [other]}).encode())) != ()
