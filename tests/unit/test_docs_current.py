"""docs/ shows the catalog and the records as they are, in documents that other programs can read."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from sluice.core.actions.stages import BUNDLE_FORM
from sluice.core.quality_bundle.quality_models import QualityBundleFile
from sluice.observability.metrics_page import write_metrics_page
from sluice.offline.bundle_source import read_whole_bundle
from sluice.offline.reference import FOLDER, SPECS, list_gate_shapes, write_documents
from sluice.settings.groups import Settings
from sluice.stream.engine.outbox import home_of
from sluice_topics import records
from sluice_topics.asyncapi import SCHEMAS, list_public_topics, make_asyncapi, make_documents, make_schemas
from sluice_topics.headers import make_input_headers, make_output_headers
from tests.unit import escalation_records, memory_records, retrieval_records
from tests.unit.records import HASH, action, ledger_records

if TYPE_CHECKING:
    from pydantic import BaseModel

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONFIG = DOCS.parent / "config"
WITHOUT_SESSION = {
    "Verdict",
    "MemoryDecision",
    "InputRefused",
    "DeadLetter",
    "PolicyInForce",
    "DsseEnvelope",
    "SignedTreeHead",
    "SourceFeedback",
    "SourceHistory",
    "DestinationUsed",
    "UsualDestination",
    "NotifiedSubject",
    "QualityDecision",
    "Alarm",
    "ProvenanceWanted",
    "ProvenanceRecord",
    "WrappedKey",
}
EXAMPLES: dict[str, dict[str, Any]] = {
    **ledger_records(),
    **escalation_records.other_records(),
    **memory_records.other_records(),
    **retrieval_records.other_records(),
    "ProposedAction": action(),
    "ProposedMemoryWrite": memory_records.write(),
    "ProposedRetrieval": retrieval_records.retrieval(),
    "RetrievalReport": retrieval_records.report(),
    "ActionOutcome": {"action_id": "a", "session_id": "s", "rows_affected": 2**70, "reported_by": "e"},
    "TaskMandate": {
        "mandate_id": "m-1",
        "session_id": "s-1",
        "agent_id": "a-1",
        "issuer_id": "console",
        "key_id": "0a" * 32,
        "task": "Pay the invoice of ACME",
        "tools": [{"tool": "pay", "condition": "action.parameters.amount < 100", "count": 1}],
        "destinations": ["acme@example.org"],
        "until": "2026-01-01T00:00:00.000Z",
        "signature": "c2ln",
    },
    "DsseEnvelope": {
        "payload": "e30=",
        "payloadType": "application/vnd.sluice.bundle+json",
        "signatures": [{"keyid": "0a" * 32, "sig": "c2ln"}],
    },
    "SignedTreeHead": {
        "payload": "e30=",
        "payloadType": "application/vnd.sluice.tree-head+json",
        "signatures": [{"keyid": "0a" * 32, "sig": "c2ln"}],
    },
    "WrappedKey": {
        "key_id": "0a" * 16,
        "tenant_id": "acme",
        "subject": "c2ln",
        "wrapped": "c2ln",
        "wrapped_by": "0a" * 8,
    },
    "ReviewDecision": {
        "subject_id": "e-1",
        "session_id": "s-1",
        "decision": "deny",
        "approver_id": "p-1",
        "digest": HASH,
        "justification": "no",
        "signature": "c2ln",
    },
}


@cache
def validator(kind: str) -> Draft202012Validator:
    """By the published schema, or the model's own where only workers read the record."""
    schemas = _make_schemas()
    if kind in schemas["$defs"]:
        return Draft202012Validator(schemas | {"$ref": f"#/$defs/{kind}"})
    return Draft202012Validator(getattr(records, kind).model_json_schema(by_alias=True))


@cache
def _make_schemas() -> dict[str, Any]:
    schemas = make_schemas()
    Draft202012Validator.check_schema(schemas)
    return schemas


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for value in node.values() for found in references(value)]
    return [found for value in node for found in references(value)] if isinstance(node, list) else []


def resolve(document: dict[str, Any], reference: str) -> Any:
    node: Any = document
    for step in reference.removeprefix("/").split("/"):
        node = node[step]
    return node


COMMITTED = [
    *("asyncapi.json", SCHEMAS, "fields.md"),
    *sorted(f"{FOLDER}/{path.name}" for path in (DOCS / FOLDER).iterdir()),
]


@cache
def generate() -> dict[str, str]:
    """All generated documents, by their paths: not while tests are collected, which each process does."""
    return {**make_documents(list_gate_shapes()), **write_documents(), **write_metrics_page()}


@pytest.mark.parametrize("path", COMMITTED)
def test_the_generated_document_is_current(path: str) -> None:
    assert (DOCS / path).read_text(encoding="utf-8") == generate()[path], "run `sluice topics export`"


def test_no_generated_file_is_left_over() -> None:
    assert set(COMMITTED) == generate().keys()


def reference_schema(name: str) -> Draft202012Validator:
    schema = json.loads(generate()[f"{FOLDER}/{name}.schema.json"])
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("bundle", "bundles/default.json"),
        ("bundle", "bundles/finance.recon.v0.json"),
        ("quality_bundle", "quality/default.json"),
        ("registry", "registry.json"),
    ],
)
def test_the_reference_schema_takes_what_ships_and_refuses_a_slip(name: str, file: str) -> None:
    """Mend 15."""
    shipped = json.loads(read_whole_bundle(CONFIG / file))
    validator = reference_schema(name)
    assert list(validator.iter_errors(shipped)) == []
    assert not validator.is_valid(shipped | {"unknown": 1})
    if name == "registry":
        for entry in shipped["entries"]:
            slip = {**entry, "spec": {**entry["spec"], "unknown": 1}}
            assert not validator.is_valid({"entries": [slip]}), entry["kind"]


def test_every_field_of_every_kind_is_on_a_reference_page() -> None:
    """Mend 15: the test above keeps the pages current; this one sees that no field is left out of them."""
    page = generate()[f"{FOLDER}/registry.md"]
    for kind, spec in SPECS.items():
        section = page.partition(f"## {kind}\n")[2].partition("\n## ")[0]
        assert all(f"| `{field.alias or name}` |" in section for name, field in spec.model_fields.items())
    bundles: dict[str, type[BaseModel]] = {"bundle": BUNDLE_FORM.model, "quality_bundle": QualityBundleFile}
    for name, model in bundles.items():
        page = generate()[f"{FOLDER}/{name}.md"]
        assert all(f"| `{field.alias or one}` |" in page for one, field in model.model_fields.items())


def test_every_setting_is_on_the_reference_page_and_says_what_it_is_for() -> None:
    page = generate()[f"{FOLDER}/settings.md"]
    for group, described in Settings.model_fields.items():
        section = page.partition(f"\n## {group}\n")[2].partition("\n## ")[0]
        for name in type(described.default).model_fields:
            (row,) = [line for line in section.splitlines() if line.startswith(f"| `{name}` |")]
            assert not row.endswith("|  |"), f"{group}.{name}: a comment in config/sluice.toml"


def test_the_document_is_asyncapi_3() -> None:
    document = make_asyncapi()
    assert document["asyncapi"] == "3.0.0"
    assert document["info"].keys() >= {"title", "version"}
    for channel in document["channels"].values():
        assert channel.keys() >= {"address", "messages", "bindings"}
    for operation in document["operations"].values():
        assert operation["action"] in {"send", "receive"}
        assert operation["channel"]["$ref"].startswith("#/channels/")
        assert all(message["$ref"].startswith("#/channels/") for message in operation["messages"])
    for message in document["components"]["messages"].values():
        assert message.keys() >= {"name", "payload", "headers", "contentType"}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document, schemas = make_asyncapi(), make_schemas(list_gate_shapes())
    places = {"": document, SCHEMAS: schemas}
    pointers = [tuple(reference.split("#")) for reference in references(document)]
    pointers += [(SCHEMAS, reference.removeprefix("#")) for reference in references(schemas)]
    assert {file for file, _ in pointers} == places.keys()
    assert all(isinstance(resolve(places[file], pointer), dict) for file, pointer in pointers)


def test_every_public_topic_is_a_channel_with_an_operation() -> None:
    document = make_asyncapi()
    assert document["channels"].keys() == {topic.name for topic in list_public_topics()}
    used = {
        operation["channel"]["$ref"].removeprefix("#/channels/")
        for operation in document["operations"].values()
    }
    assert used == {topic.name for topic in list_public_topics()}


def test_every_input_names_the_partitioner_and_its_examples_are_where_a_worker_looks_for_them() -> None:
    document = make_asyncapi()
    inputs = [topic.name for topic in list_public_topics() if topic.direction == "in"]
    assert inputs
    for name in inputs:
        told = document["channels"][name]["bindings"]["kafka"]["x-partitioner"]
        assert told["examples"]
        for one in told["examples"]:
            assert home_of(one["key"].encode(), one["partitions"]) == one["partition"]


@pytest.mark.parametrize("kind", records.__all__)
def test_the_schema_takes_a_good_record_and_refuses_a_bad_one(kind: str) -> None:
    good = EXAMPLES[kind]
    assert list(validator(kind).iter_errors(good)) == []
    assert not validator(kind).is_valid(good | {"unknown": 1})
    assert not validator(kind).is_valid(
        {name: value for name, value in good.items() if name != "session_id"}
    ) or (kind in WITHOUT_SESSION)
    assert not validator(kind).is_valid(good | {next(iter(good)): []})


def test_the_documented_headers_are_those_that_are_sent() -> None:
    schemas = make_asyncapi()["components"]["schemas"]
    for kind, body in ledger_records().items():
        sent = {name for name, _ in make_output_headers(body, kind, "sluice", None)}
        said = schemas["VerdictHeaders" if kind in ("Verdict", "ResolvedVerdict") else "OutputHeaders"]
        assert sent <= said["properties"].keys()
        assert sent >= set(said["required"])
    sent = {name for name, _ in make_input_headers("a", "ProposedAction", "agents", "2026-11-21T10:00:00Z")}
    assert sent == schemas["InputHeaders"]["properties"].keys()


def test_every_link_of_a_page_leads_to_a_file() -> None:
    root = DOCS.parent
    pages = [root / "README.md", *DOCS.rglob("*.md"), *(root / "load").rglob("*.md")]
    broken = [
        f"{page.relative_to(root)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", re.sub("`[^`\n]*`", "", page.read_text(encoding="utf-8")))
        if not target.startswith(("http", "mailto:")) and not (page.parent / target).exists()
    ]
    assert broken == []
    assert len(pages) > 40
