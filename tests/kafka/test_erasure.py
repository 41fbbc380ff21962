"""Personal data on a real broker: sealed before it is produced, nowhere plain behind the worker, and gone
with its key, while the ledger and its chains stay."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from typer.testing import CliRunner

from load.installations import neutral_policy, quality_policy
from sluice.adapters.archive.archive_store import open_store
from sluice.adapters.archive.archived_records import Archive
from sluice.adapters.kafka.kafka_consumers import is_behind, make_consumer
from sluice.adapters.kafka.kafka_key_erasure import KeyTopic
from sluice.adapters.kafka.kafka_read import list_partitions
from sluice.cli.demo.throwaway_trust import publish_policy
from sluice.cli.main import cli
from sluice.client.subject_keys import SubjectKeys
from sluice.core.actions.grading import GRADE
from sluice.core.actions.stages import load_bundle
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import make_seal_key, write_seal_keys
from sluice_topics.catalog import (
    ACTIONS,
    DEAD_LETTERS,
    ESCALATIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    SUBJECT_KEYS,
    VERDICTS,
)
from sluice_topics.sealing import Subject, is_sealed, list_subjects, seal_document
from tests.kafka.installation import (
    installation_on,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until_decided,
)
from tests.kafka.memories import write
from tests.kafka.retrievals import item, retrieval
from tests.kafka.scripted_model import Model, serve_api
from tests.messages_api import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess
    from sluice_topics.sealing import PersonalField

pytestmark = pytest.mark.kafka
WORDS = ("Quixotia", "Zebrawood", "quixzeb_people")
"""Of the personal values alone: nothing else in the installation has them."""
NAME = f"{WORDS[0]} {WORDS[1]}"
ANNA, BERT, SESSION = "customer-1", "customer-2", "s-1"
STAGES = (
    *("controls", "fast_reject", "rules", "inbound", "similarity", "consequence", "grader"),
    *("sequence", "tier_auth"),
)
MARKS = [
    *(
        {"kind": "action", "path": f"/parameters/{name}", "subject": "/parameters/customer"}
        for name in ("name", "sql", "command", "note", "address", "people")
    ),
    {"kind": "action", "path": "/reasoning", "subject": "/parameters/customer"},
    {"kind": "write", "path": "/content"},
    {"kind": "retrieval", "path": "/items/*/body"},
    {"kind": "outcome", "path": "/error"},
]
RULES = [
    {
        "id": "named",
        "type": "assertion",
        "reason": "whoever is meant has a family name",
        "when": "has(action.parameters.name)",
        "condition": "action.parameters.name.size() > 40",
    },
    {
        "id": "counted",
        "type": "assertion",
        "reason": "a number",
        "when": "has(action.parameters.people)",
        "condition": "int(action.parameters.people.first) > 0",
    },
]
GRADED = [{"id": "kind", "reason": "be kind", "criterion": "It is kind.", "when": "has(action.parameters.note)"}]
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{12,}={0,2}")


class Laid(NamedTuple):
    """An installation with a worker's answers to sealed inputs, and the keys by which they are sealed."""

    installation: TestInstallation
    worker: WorkerProcess
    keys: dict[Subject, str]
    model: Model


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    made = Model()
    with serve_api(made):
        yield made


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory, model: Model
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("erasure")
    write_seal_keys(folder / "master.keys", (make_seal_key(),))
    settings = {
        "SLUICE_SEALING__MASTER_KEY_FILE": str(folder / "master.keys"),
        "SLUICE_GRADER__BASE_URL": model.api.base_url,
        "SLUICE_GRADER__API_KEY": "sk-ant-none",
        "SLUICE_GRADER__MAX_RETRIES": "0",
    }
    made = installation_on(kafka, folder, module_prefix.rstrip("."), STAGES, **settings)
    asyncio.run(publish_policy(kafka, made.prefix, _make_policy(made)))
    return made


def _make_policy(made: TestInstallation) -> list[Any]:
    asking = {name: part for name, part in _read_asking(made).items() if name in ("similarity", "inbound")}
    bundle = {
        **neutral_policy.bundle(3, stages=STAGES),
        **asking,
        "rules": RULES,
        "grader": {"budget_ms": 20_000, "rules": GRADED},
        "personal": MARKS,
    }
    clerk = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "system_prompt": "You help customers."}
    proof = {
        "golden": "sha256:" + "0a" * 32,
        "prompts": {GRADE.name: GRADE.version},
        "cases": 160,
        "agreement": 0.95,
        "flips": 1,
        "p50_ms": 40.0,
        "p99_ms": 120.0,
        "proved_at": "2026-11-01T00:00:00.000Z",
    }
    entries = [
        {"kind": "agent", "id": neutral_policy.AGENT, "revision": 2, "spec": clerk},
        {"kind": "model_proof", "id": MODEL, "revision": 1, "spec": proof},
    ]
    return [
        made.trust.sign_bundle(json.dumps(bundle).encode()),
        *made.trust.sign_entries(entries),
    ]
