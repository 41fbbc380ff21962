"""`sluice topics`, as an operator or a program runs it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.machine.topics import cli
from sluice.observability.metrics_page import write_metrics_page
from sluice.offline.reference import list_gate_shapes, write_documents
from sluice_topics.asyncapi import make_documents
from sluice_topics.catalog import BY_NAME, CATALOG, MANDATES
from tests.kafka.installation import delete_topics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def sluice_topics(broker: str, prefix: str, *words: str, **more: str) -> Result:
    settings = more | {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": broker,
        "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
        "SLUICE_WORKER__APP_ID": f"{prefix}app",
        "SLUICE_KAFKA__PARTITIONS": "2",
    }
    return CliRunner().invoke(cli, list(words), env=settings)


def test_check_fails_with_the_mending_command_until_create_has_run(kafka: str, prefix: str) -> None:
    before = sluice_topics(kafka, prefix, "check")
    assert before.exit_code == 1
    assert "sluice topics create" in before.stdout
    assert sluice_topics(kafka, prefix, "create").exit_code == 0
    after = sluice_topics(kafka, prefix, "check")
    assert (after.exit_code, after.stdout) == (0, "Every topic is as the catalog says.\n")


def test_a_broker_that_keeps_inputs_for_longer_than_the_settings_ask_is_no_difference(
    kafka: str, prefix: str
) -> None:
    """Mend 22.18: on a real broker, with topics made for 90 days; for fewer days it is one."""
    days = "SLUICE_KAFKA__INPUT_RETENTION_DAYS"
    assert sluice_topics(kafka, prefix, "create", **{days: "90"}).exit_code == 0
    assert sluice_topics(kafka, prefix, "check").exit_code == 0
    assert sluice_topics(kafka, prefix, "check", **{days: "91"}).exit_code == 1


def test_a_program_reads_what_was_created_and_what_differs(kafka: str, prefix: str) -> None:
    differing = json.loads(sluice_topics(kafka, prefix, "check", "--json").stdout)
    assert {one["mend"] for one in differing} == {"sluice topics create"}
    made = json.loads(sluice_topics(kafka, prefix, "create", "--json").stdout)
    assert [one["created"] for one in made] == [True] * len(CATALOG)
    assert json.loads(sluice_topics(kafka, prefix, "check", "--json").stdout) == []


async def test_create_says_what_a_new_version_adds_to_an_installation_that_there_is(
    kafka: str, prefix: str
) -> None:
    first = await asyncio.to_thread(sluice_topics, kafka, prefix, "create")
    assert "This version adds" not in first.stdout
    await delete_topics(kafka, f"{prefix}{MANDATES}")
    while "missing" not in (await asyncio.to_thread(sluice_topics, kafka, prefix, "list")).stdout:  # noqa: ASYNC110 - the broker tells nobody
        await asyncio.sleep(0.1)
    again = await asyncio.to_thread(sluice_topics, kafka, prefix, "create")
    assert (
        f"This version adds 1 topic:\n  {prefix}{MANDATES}: {BY_NAME[MANDATES].description}" in again.stdout
    )
    assert "This version adds" not in (await asyncio.to_thread(sluice_topics, kafka, prefix, "create")).stdout


def test_list_shows_the_catalog_and_what_the_broker_has(kafka: str, prefix: str) -> None:
    rows = json.loads(sluice_topics(kafka, prefix, "list", "--json").stdout)
    assert {row["partitions"] for row in rows} == {None}
    sluice_topics(kafka, prefix, "create")
    shown = sluice_topics(kafka, prefix, "list")
    assert shown.exit_code == 0
    assert "ProposedAction" in shown.stdout
    assert "missing" not in shown.stdout


def test_no_broker_is_said_and_is_no_difference() -> None:
    result = sluice_topics("127.0.0.1:1", "", "check")
    assert result.exit_code == 2
    assert "does not answer" in result.stderr


def test_a_wrong_setting_is_named() -> None:
    result = sluice_topics("127.0.0.1:1", "no spaces", "check")
    assert result.exit_code == 2
    assert "topic_prefix" in result.stderr


def test_export_writes_every_document(tmp_path: Path) -> None:
    assert sluice_topics("127.0.0.1:1", "", "export", "--out", str(tmp_path)).exit_code == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    written = {str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8") for path in files}
    assert written == {**make_documents(list_gate_shapes()), **write_documents(), **write_metrics_page()}
