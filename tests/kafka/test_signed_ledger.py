"""Mend 22.3: workers sign what they write, and `sluice ledger verify` finds what they did not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.sites.neutral_policy import EXEMPT_SOURCE
from sluice.cli.main import cli
from sluice.cli.policy.key_files import new_private_key
from sluice.client.record_proofs import RecordProofs
from sluice.core.foundation.chain import Chain
from sluice_topics.catalog import (
    ACTIONS,
    ADMITTED,
    CATALOG,
    MEMORY_WRITES,
    RETRIEVALS,
    SERVED,
    SESSION_EVENTS,
    VERDICTS,
)
from tests.kafka.installation import action, publish, publish_to, running, site_on, stored, until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka
SESSIONS = [f"s-{number}" for number in range(8)]


def test_a_worker_signs_every_record_and_a_record_that_continues_the_chain_unsigned_is_found(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    site = site_on(kafka, tmp_path, prefix.rstrip("."))
    key = new_private_key(tmp_path / "verdicts.pem").public.text
    site.settings["SLUICE_VERDICTS__SIGNING_KEY"] = str(tmp_path / "verdicts.pem")
    signing = running(site)
    worker = next(signing)
    publish(site, [action(one, f"a-{number}") for one in SESSIONS for number in range(4)], ACTIONS)
    source = {"id": EXEMPT_SOURCE, "type": "user"}
    publish(site, [_memory(one, source) for one in SESSIONS], MEMORY_WRITES)
    publish(site, [_retrieval(one) for one in SESSIONS], RETRIEVALS)
    until(lambda: all(len(stored(site, topic)) >= len(SESSIONS) for topic in (ADMITTED, SERVED)), worker)
    until(lambda: len(stored(site, VERDICTS)) == 4 * len(SESSIONS), worker)
    assert next(signing, None) is None
    proofs = RecordProofs([key], site.trust.audience(site.prefix))
    for topic in [one.name for one in CATALOG if one.ledger] + [ADMITTED, SERVED]:
        for one in stored(site, topic):
            assert proofs.objection((topic, one.partition), one.key, one.value, one.headers) is None
    assert _verified(site.settings) == (0, set())
    assert _verified(site.settings, "--verdict-key", key) == (0, set())
    export = tmp_path / "ledger.jsonl"
    assert CliRunner().invoke(cli, ["ledger", "export", str(export)], env=site.settings).exit_code == 0
    assert _verified(site.settings, "--verdict-key", key, "--from", str(export)) == (0, set())
    _continue_the_chain(site)
    assert _verified(site.settings) == (0, set()), "every number, link and hash is in order"
    assert _verified(site.settings, "--verdict-key", key) == (1, {"unsigned"})
    other = new_private_key(tmp_path / "other.pem").public.text
    assert _verified(site.settings, "--verdict-key", other)[0] == 1
    assert _verified({**site.settings, "SLUICE_VERDICTS__PUBLIC_KEYS": json.dumps([key])})[0] == 1


def _memory(session: str, source: dict[str, str]) -> dict[str, Any]:
    fields = {"write_id": f"w-{session}", "agent_id": "load-agent", "session_id": session}
    return {**fields, "content": "The order was delivered on Tuesday.", "source": source}


def _retrieval(session: str) -> dict[str, Any]:
    items = [{"item_id": "i-1", "body": "text"}]
    return {"request_id": f"r-{session}", "agent_id": "load-agent", "session_id": session, "items": items}


def _verified(settings: dict[str, str], *words: str) -> tuple[int, set[str]]:
    """Exit code and the codes of what was found."""
    result = CliRunner().invoke(cli, ["ledger", "verify", "--json", *words], env=settings)
    found = json.loads(result.stdout)["findings"]
    return result.exit_code, {one["code"] for one in found}


def _continue_the_chain(site: Any) -> None:
    """Append a record as a stranger can: with the next number, the right link and the right hash."""
    ledger = [one for topic in CATALOG if topic.ledger for one in stored(site, topic.name)]
    partition = ledger[0].partition
    bodies = [json.loads(one.value or b"") for one in ledger if one.partition == partition]
    last = max(bodies, key=lambda one: int(one["sequence"]))
    body = {
        "schema": "sluice/session_folded/v1",
        "session_id": "of a stranger",
        "tenants": {},
        "opened_at": last["decided_at"],
        "last_at": last["decided_at"],
        "decided_at": last["decided_at"],
        "reason": "idle",
        "input": None,
    }
    value = Chain(partition, last["sequence"], last["event_hash"]).link(body)
    publish_to(site, partition, json.loads(value), SESSION_EVENTS)
