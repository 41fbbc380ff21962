"""The catalog as documents: AsyncAPI 3.0, and the JSON Schemas (draft 2020-12) of all records. Pure."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from sluice_topics.catalog import CATALOG, DEFAULT_PARTITIONS, SESSION_KEY, Topic, get_wire_schema
from sluice_topics.fields import make_fields_page
from sluice_topics.headers import API_VERSION
from sluice_topics.records import DsseEnvelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from sluice_topics.records.base import Record

    Shapes = Mapping[str, "GateShapes"]
    """By the gate's name."""


_CLOUD_EVENTS = {
    "ce_id": "the record's id",
    "ce_source": "who made the record",
    "ce_type": "the record's kind and version, such as sluice.gate.verdict.v1",
    "ce_time": "RFC 3339; of an output the moment of the decision",
    "ce_specversion": "1.0",
    "content-type": "application/json",
    "traceparent": "W3C Trace Context; an output continues its input's trace",
}
_SHAPE = {
    "X-Mnemom-Schema": "the record's schema field",
    "X-Mnemom-Version": "date-based version of the shapes",
}
_SUBJECT = {
    "X-Mnemom-Agent": "the agent's id, percent-encoded",
    "X-Mnemom-Session": "the session's id, percent-encoded",
}
_DECISION = {
    "X-Mnemom-Request-Id": "the caller's request id, else the record's id, percent-encoded",
    "X-Mnemom-Verdict": "front=…; autonomy=…; integrity=…; back=…, each pass, observed, nudged or enforced; "
    "four times observed of a record that is no decision",
}
_ADVISORY = {
    "X-Mnemom-Advisory": "JSON array of at most five {source, text, severity?, id?}, each text cut at 200 "
    "characters; absent when empty"
}
_AIP = {"X-AIP-Verdict": "what a model made of the agent's reasoning, or why none did"}
_AIP_STORED = {"X-AIP-Checkpoint-Id": "where the analysis can be fetched; absent where there is none"}


def _make_header_schema(always: dict[str, str], sometimes: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": text} for name, text in (always | sometimes).items()
        },
        "required": list(always),
    }


INPUT_HEADERS = _make_header_schema({}, _CLOUD_EVENTS)
"""An input needs none of them; `traceparent` is continued where it is there."""
OUTPUT_HEADERS = _make_header_schema(_CLOUD_EVENTS | _SHAPE | _DECISION, _SUBJECT | _ADVISORY)
VERDICT_HEADERS = _make_header_schema(
    _CLOUD_EVENTS | _SHAPE | _DECISION | _AIP, _SUBJECT | _ADVISORY | _AIP_STORED
)


Json = dict[str, Any]


class GateShapes(NamedTuple):
    """What a gate writes into a verdict: the `detail` of its entry in `gateResults`, and under its name in
    `session.remembered`, where it remembers anything."""

    detail: type[BaseModel]
    memory: type[BaseModel] | None = None


NO_SHAPES: Shapes = {}
GATE_RESULT, SESSION_VALUES = "GateResult", "SessionValues"
UNANSWERED: Json = {
    "description": "of a gate that got no answer in time to what it asked",
    "type": "object",
    "properties": {
        "port": {"type": "string"},
        "budget_ms": {"type": "integer"},
        "status": {"enum": ["overrun", "deadline", "busy", "unavailable"]},
    },
    "required": ["port", "budget_ms", "status"],
}
SCHEMAS = "records.schema.json"
_WIDTH = 110
_REFERENCE = "#/$defs/{model}"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BINDING = "0.5.0"
_KEYS = (
    ("s-1", 8, 7),
    ("ticket-4711", 8, 1),
    ("ticket-4711", 12, 1),
    ("größe 7", 8, 6),
    ("会話", 8, 7),
)
PARTITIONER: Json = {
    "algorithm": "murmur2",
    "partition": "(murmur2(key) & 0x7fffffff) % partitions",
    "examples": [
        {"key": key, "partitions": partitions, "partition": partition} for key, partitions, partition in _KEYS
    ],
}
"""How an input's partition follows from its key: the rule of Kafka's Java client."""
_ABOUT = (
    "Agents publish proposed actions; workers put each through its gates and publish verdicts. "
    "The output topics together are the ledger: per partition one gapless hash chain over all of them. "
    "A topic's real name is the configured prefix and the address given here; "
    "every topic has the same number of partitions, configured too. "
    "Read outputs with isolation level read_committed."
)
_BOTH_SPELLINGS = (
    "Fields are also accepted in snake_case, not in both spellings at once; null stands for absent."
)
_SEED_FORM = (
    " `proposed_action: {action, value}` is accepted in place of `toolName` and `parameters`; the ids may be "
    "absent then: the session is the message's key, the agent is in the header X-Mnemom-Agent, and the "
    "action is named TOPIC:PARTITION:OFFSET."
)


def list_public_topics() -> tuple[Topic, ...]:
    """The topics that others publish to or read; a changelog is the worker's own business, and keys are of
    those who seal and open."""
    return tuple(topic for topic in CATALOG if topic.direction not in ("internal", "keys"))


def make_documents(gates: Shapes = NO_SHAPES) -> dict[str, str]:
    """Every generated file: its path below docs/ and its text."""
    files = {"asyncapi.json": make_asyncapi(), SCHEMAS: make_schemas(gates)}
    written = {path: write_document(content) for path, content in files.items()}
    return written | {"fields.md": make_fields_page()}


class UntitledFields(GenerateJsonSchema):
    """Without the titles that pydantic makes of fields' names: they say the names again."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Whether a field gets a title of its name."""
        del schema
        return False


def write_document(content: Any) -> str:
    """JSON for people and for `git diff`: what fits into a line stands on one."""
    return _write_value(content, "", 0) + "\n"


def _write_value(value: Any, indent: str, before: int) -> str:
    """`before`: the characters that stand before and behind it on its line."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + before + len(line) <= _WIDTH or not value or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        names = [(f"{json.dumps(name, ensure_ascii=False)}: ", member) for name, member in value.items()]
        brackets = "{}"
    else:
        names, brackets = [("", member) for member in value], "[]"
    parts = [f"{deeper}{name}{_write_value(member, deeper, len(name) + 1)}" for name, member in names]
    return "\n".join((brackets[0], ",\n".join(parts), indent + brackets[1]))


def make_schemas(gates: Shapes = NO_SHAPES) -> Json:
    """The JSON Schema of each record, by wire names, and of all that records have in common: each once, under
    its name in `$defs`."""
    models = [(record, "validation") for record in _list_records()]
    _, definitions = models_json_schema(
        models,  # type: ignore[arg-type]
        by_alias=True,
        ref_template=_REFERENCE,
        schema_generator=UntitledFields,
    )
    schemas: Json = definitions["$defs"]
    described = {record.__name__: _describe(record, schemas[record.__name__]) for record in _list_records()}
    return {"$schema": DIALECT, "$defs": _add_gates(schemas | described, gates)}


def make_asyncapi() -> Json:
    """The AsyncAPI 3.0 document, seen from the worker: it receives inputs and sends outputs. The records'
    schemas lie beside it, in `SCHEMAS`."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Sluice",
            "version": API_VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _make_channel(topic) for topic in list_public_topics()},
        "operations": {_make_operation_id(topic): _make_operation(topic) for topic in list_public_topics()},
        "components": {
            "messages": {record.__name__: _make_message(record) for record in _list_records()},
            "schemas": {
                "InputHeaders": INPUT_HEADERS,
                "OutputHeaders": OUTPUT_HEADERS,
                "VerdictHeaders": VERDICT_HEADERS,
            },
        },
    }


def _list_records() -> list[type[Record]]:
    return [record for topic in list_public_topics() for record in topic.records]


def _add_gates(schemas: Json, gates: Shapes) -> Json:
    """The schemas with what each gate's `detail` looks like, and what it remembers."""
    if not gates:
        return schemas
    by_gate = [
        {
            "if": {"properties": {"gate": {"const": gate}}},
            "then": {"properties": {"detail": {"anyOf": [_make_ref(gate_shapes.detail), UNANSWERED]}}},
        }
        for gate, gate_shapes in gates.items()
    ]
    memories = {
        name: gate_shapes.memory for name, gate_shapes in gates.items() if gate_shapes.memory is not None
    }
    shapes: Json = {}
    for model in (*(gate.detail for gate in gates.values()), *memories.values()):
        shape = model.model_json_schema(
            by_alias=True, ref_template=_REFERENCE, schema_generator=UntitledFields
        )
        shapes |= {**shape.pop("$defs", {}), model.__name__: shape}
    session = copy.deepcopy(schemas[SESSION_VALUES])
    references = {name: _make_ref(model) for name, model in memories.items()}
    session["properties"]["remembered"]["anyOf"][0]["properties"] = references
    results = schemas[GATE_RESULT] | {"allOf": by_gate}
    return schemas | {GATE_RESULT: results, SESSION_VALUES: session} | shapes


def _make_ref(model: type[BaseModel]) -> Json:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def _describe(record: type[Record], content: Json) -> Json:
    if get_wire_schema(record) or issubclass(record, DsseEnvelope):
        return content
    more = _BOTH_SPELLINGS + (_SEED_FORM if record.__name__ == "ProposedAction" else "")
    return content | {"description": f"{content['description']} {more}"}


def _make_channel(topic: Topic) -> Json:
    config = topic.config()
    return {
        "address": topic.name,
        "description": f"{topic.description} Key: {topic.key}.",
        "messages": {
            record.__name__: {"$ref": f"#/components/messages/{record.__name__}"} for record in topic.records
        },
        "bindings": {"kafka": _make_channel_binding(topic)},
        "x-ledger": topic.ledger,
        "x-message-timestamp-type": config["message.timestamp.type"],
    }


def _make_channel_binding(topic: Topic) -> Json:
    extension = {"x-partitioner": PARTITIONER} if topic.key == SESSION_KEY else {}
    return {
        "topic": topic.name,
        "partitions": 1 if topic.single else DEFAULT_PARTITIONS,
        "topicConfiguration": {
            "cleanup.policy": topic.cleanup.split(","),
            "retention.ms": topic.retention_ms,
            "max.message.bytes": topic.max_message_bytes,
        },
        "bindingVersion": _BINDING,
        **extension,
    }


def _make_operation_id(topic: Topic) -> str:
    return f"{'receive' if topic.direction == 'in' else 'send'}.{topic.name}"


def _make_operation(topic: Topic) -> Json:
    return {
        "action": "receive" if topic.direction == "in" else "send",
        "channel": {"$ref": f"#/channels/{topic.name}"},
        "summary": topic.description,
        "messages": [
            {"$ref": f"#/channels/{topic.name}/messages/{record.__name__}"} for record in topic.records
        ],
    }


def _make_message(record: type[Record]) -> Json:
    name = record.__name__
    direction = "Output" if get_wire_schema(record) else "Input"
    headers = "VerdictHeaders" if name in ("Verdict", "ResolvedVerdict") else f"{direction}Headers"
    return {
        "name": name,
        "title": (record.__doc__ or "").split("\n")[0],
        "contentType": "application/json",
        "headers": {"$ref": f"#/components/schemas/{headers}"},
        "payload": {"$ref": f"{SCHEMAS}#/$defs/{name}"},
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": _BINDING}},
    }
