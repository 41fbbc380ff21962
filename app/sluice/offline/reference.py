"""What bundles, registry entries and settings may say, as JSON Schemas and as pages for people.

Everything comes from the models that loading uses, and what a setting is for from the settings file that
ships: a field that they get is here with the next `sluice topics export`. Schemas hold each field by itself;
what fields must hold together, loading checks.
"""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from sluice.core.actions.stage import RememberingGate
from sluice.core.actions.stages import BUNDLE_FORM, GATES
from sluice.core.backtest.backtest_report import BacktestReport
from sluice.core.quality_bundle.quality_models import QualityBundleFile
from sluice.core.registry.registry_entries import EntryFile, Kind
from sluice.core.registry.registry_readers import KINDS
from sluice.settings.groups import Settings
from sluice.settings.reader import DEFAULT_FILE, PREFIX
from sluice_topics.asyncapi import GateShapes, UntitledFields, write_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import BaseModel

    from sluice.core.actions.stage import Gate

Json = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
FOLDER = "reference"
SPECS: dict[str, type[BaseModel]] = {kind: entry_kind.spec for kind, entry_kind in KINDS.items()}
"""The `spec` of an entry by its kind."""
_WRITTEN = "*Written by `sluice topics export` from the models that loading uses.*"
_LOADED = (
    "The schema checks each field by itself. This page also describes the rules that concern several fields; "
    "they are checked when a file is signed, published and loaded, and by"
)


_GATES_HEAD = f"""# Gates of actions

{_WRITTEN}

A bundle's `stages` names the gates that run, in their order. Each gate that ran has an entry in the
verdict's `gateResults`; the tables below list the fields of its `detail`. If a gate asked another service and
got no answer in time, its `detail` holds `port`, `budget_ms` and `status` instead.
[adding-a-gate.md](../adding-a-gate.md) describes how to add a gate.
"""

_SETTINGS_HEAD = f"""# Settings

{_WRITTEN}

Every `sluice` command reads the same settings. The last of these sources wins: the defaults below, the file
that `SLUICE_CONFIG` names, environment variables. A variable is `{PREFIX}`, the group, two underscores and
the name: `{PREFIX}KAFKA__TOPIC_PREFIX=team-a.` sets `topic_prefix` of `[kafka]`. A list or a table is JSON in
a variable and TOML in a file. A setting that is unknown or wrong ends the command, which names it. The file
with all defaults is [config/sluice.toml](../../config/sluice.toml).
"""


class Page(NamedTuple):
    """`models` are described in their order, each with everything that it refers to."""

    title: str
    about: str
    models: dict[str, type[BaseModel]]


PAGES = {
    "bundle": Page(
        "Policy bundles",
        "A policy bundle, as `sluice bundle sign` signs it. A source may also have `extends` and `include` "
        "([policy.md](../policy.md)), which are resolved before signing. Schema: "
        "[bundle.schema.json](bundle.schema.json). " + _LOADED + " `sluice bundle check FILE`.",
        {"Bundle": BUNDLE_FORM.model},
    ),
    "quality_bundle": Page(
        "Quality bundles",
        "A quality bundle ([quality.md](../quality.md)). Schema: "
        "[quality_bundle.schema.json](quality_bundle.schema.json). "
        + _LOADED
        + " `sluice bundle check FILE`.",
        {"Quality bundle": QualityBundleFile},
    ),
    "registry": Page(
        "Registry entries",
        'A file is `{"entries": […]}`; each entry has a `kind`, and its `spec` is by kind. '
        "`sluice registry new KIND ID OUT` writes one to start from. Schema: "
        "[registry.schema.json](registry.schema.json). " + _LOADED + " `sluice registry check FILE`.",
        {"Entry": EntryFile, **SPECS},
    ),
}


class _WithDefaults(UntitledFields):
    """Says also the defaults that are made anew for each record."""

    def get_default_value(self, schema: Any) -> Any:
        made = schema.get("default_factory")
        if made is None or schema.get("default_factory_takes_data"):
            return super().get_default_value(schema)
        return made()


def list_gate_shapes() -> dict[str, GateShapes]:
    """List what each gate writes into a verdict, by the gate's name, for the verdict's schema."""
    return {gate.name: GateShapes(gate.detail, _find_memory(gate)) for gate in GATES}


def _find_memory(gate: Gate) -> type[BaseModel] | None:
    return gate.memory if isinstance(gate, RememberingGate) else None


def write_documents() -> dict[str, str]:
    """Every generated file: its path below docs/ and its text."""
    schemas = {
        "bundle": _build_schema(BUNDLE_FORM.model),
        "quality_bundle": _build_schema(QualityBundleFile),
        "registry": build_registry_schema(),
        "backtest": _build_schema(BacktestReport),
    }
    files = {f"{FOLDER}/{name}.schema.json": write_document(schema) for name, schema in schemas.items()}
    pages = {f"{FOLDER}/{name}.md": _write_page(page) for name, page in PAGES.items()}
    own = {"gates.md": _write_gates_page(), "settings.md": write_settings_page(_read_sentences())}
    return files | pages | {f"{FOLDER}/{name}": text for name, text in own.items()}


def build_registry_schema() -> Json:
    """Build the schema of a whole file: each entry's spec by its kind."""
    assert set(SPECS) == set(get_args(Kind))  # noqa: S101 - a kind without a spec here would pass unseen
    frame = EntryFile.model_json_schema(by_alias=True, schema_generator=_WithDefaults)
    definitions: Json = {}
    for spec in SPECS.values():
        schema = spec.model_json_schema(by_alias=True, schema_generator=_WithDefaults)
        definitions |= schema.pop("$defs", {})
        definitions[spec.__name__] = schema
    by_kind = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": {"properties": {"spec": {"$ref": f"#/$defs/{spec.__name__}"}}},
        }
        for kind, spec in SPECS.items()
    ]
    return {
        "$schema": DIALECT,
        "title": "Registry file",
        "type": "object",
        "properties": {"entries": {"type": "array", "items": frame | {"allOf": by_kind}}},
        "required": ["entries"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _build_schema(model: type[BaseModel]) -> Json:
    return {"$schema": DIALECT, **model.model_json_schema(by_alias=True, schema_generator=_WithDefaults)}


def _write_page(page: Page) -> str:
    described: set[str] = set()
    lines = [f"# {page.title}", "", _WRITTEN, "", page.about, ""]
    for heading, model in page.models.items():
        schema = model.model_json_schema(by_alias=True, schema_generator=_WithDefaults)
        lines += _write_section(f"## {heading}", schema)
        definitions = schema.get("$defs", {})
        for name in _list_mentioned(schema, definitions):
            if name not in described:
                described.add(name)
                lines += _write_section(f"### {name}", definitions[name])
    return "\n".join(lines).rstrip() + "\n"


def _write_gates_page() -> str:
    lines = [_GATES_HEAD]
    for gate in GATES:
        lines += (f"## {gate.name}", "", *_split_prose(inspect.getdoc(gate) or ""))
        what = "what an action does" if gate.judges_content else "who acts and who permits it"
        location = (
            f"`{gate.name}` ([bundle.md](bundle.md))" if gate.part is not None else "nothing of its own"
        )
        lines += (f"It judges {what}. What it reads from the bundle: {location}.", "")
        for heading, model in (("Detail", gate.detail), ("Remembered", _find_memory(gate))):
            if model is not None:
                schema = model.model_json_schema(by_alias=True, schema_generator=_WithDefaults)
                lines += _write_section(f"### {heading}", schema)
                definitions = schema.get("$defs", {})
                for name in _list_mentioned(schema, definitions):
                    lines += _write_section(f"### {name}", definitions[name])
    return "\n".join(lines).rstrip() + "\n"


def write_settings_page(sentences: Mapping[tuple[str, str], str]) -> str:
    """The page of all settings; `sentences`: what each is for, by group and name."""
    lines = [_SETTINGS_HEAD]
    for group, described in Settings.model_fields.items():
        model = type(described.default)
        schema = model.model_json_schema(schema_generator=_WithDefaults)
        lines += (f"## {group}", "", *_split_prose(inspect.getdoc(model) or ""))
        lines += ("| setting | type | default | what it is for |", "|---|---|---|---|")
        for name, field in schema["properties"].items():
            sentence = sentences.get((group, name), "").replace("|", "\\|")
            lines.append(f"| `{name}` | {_describe_type(field)} | {_describe_default(field)} | {sentence} |")
        lines.append("")
        definitions = schema.get("$defs", {})
        for name in _list_mentioned(schema, definitions):
            lines += _write_section(f"### {name}", definitions[name])
    return "\n".join(lines).rstrip() + "\n"


def _read_sentences() -> dict[tuple[str, str], str]:
    """What config/sluice.toml says above each setting, by group and name; a setting that is not set stands in
    a comment itself. Of several below one comment the first has it, and the others name the first."""
    sentences: dict[tuple[str, str], str] = {}
    group, first, comment = "", "", list[str]()
    for line in DEFAULT_FILE.read_text(encoding="utf-8").splitlines():
        header, setting = re.fullmatch(r"\[(\w+)\]", line), re.match(r"(?:# )?([a-z_]+) = ", line)
        fields = type(Settings.model_fields[group].default).model_fields if group else {}
        if header:
            group, comment = header[1], []
        elif setting and setting[1] in fields:
            first = setting[1] if comment else first
            sentences[group, setting[1]] = " ".join(comment) or f"As `{first}` says."
            comment = []
        elif line.startswith("# "):
            comment.append(line.removeprefix("# ").strip())
        else:
            comment = []
    return sentences


def _write_section(heading: str, schema: Json) -> Iterator[str]:
    yield from (heading, "", *_split_prose(schema.get("description", "")))
    properties = schema.get("properties", {})
    if not properties:
        yield from (_describe_type(schema), "")
        return
    yield from ("| field | type | if left out |", "|---|---|---|")
    required = set(schema.get("required", ()))
    for name, member in properties.items():
        about = f": {member['description']}" if "description" in member and "$ref" not in member else ""
        default = "must be there" if name in required else _describe_default(member)
        yield f"| `{name}` | {_describe_type(member)}{about} | {default} |"
    yield ""


def _split_prose(text: str) -> Iterator[str]:
    """A docstring's paragraphs, each on one line."""
    for paragraph in text.split("\n\n"):
        if paragraph.strip():
            yield from (" ".join(paragraph.split()), "")


def _describe_default(field: Json) -> str:
    """A long default is a table of its own; the schema has it."""
    text = json.dumps(field.get("default"), ensure_ascii=False)
    return f"`{text}`" if len(text) <= _LONGEST_DEFAULT else "as in the schema"


def _list_mentioned(schema: Json, definitions: Json) -> list[str]:
    """The definitions that a schema needs, in the order in which a reader meets them."""
    mentioned: list[str] = []

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            name = str(node.get("$ref", "")).rpartition("/")[2]
            if name and name not in mentioned:
                mentioned.append(name)
                walk(definitions[name])
            for key, value in node.items():
                if key != "$defs":
                    walk(value)
        elif isinstance(node, list):
            for member in node:
                walk(member)

    walk(schema)
    return mentioned


def _describe_type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_describe_type(option) for option in schema["anyOf"])
    if "allOf" in schema and len(schema["allOf"]) == 1:
        return _describe_type(schema["allOf"][0])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{json.dumps(value)}`" for value in values)
    return _describe_plain_type(schema)


def _describe_plain_type(schema: Json) -> str:
    kind, bounds = schema.get("type", "anything"), _describe_bounds(schema)
    if kind == "array":
        return f"list{bounds} of {_describe_type(schema.get('items', {}))}"
    if kind == "object":
        by_pattern: Json = schema.get("patternProperties", {})
        members = schema.get("additionalProperties") or next(iter(by_pattern.values()), None)
        return f"object{bounds}" + (
            f" of {_describe_type(members)} by name" if isinstance(members, dict) else ""
        )
    return f"{kind}{bounds}"


def _describe_bounds(schema: Json) -> str:
    constraints = [
        described
        for low, high, unit in _RANGES
        if (described := _describe_range(schema.get(low), schema.get(high), unit))
    ]
    constraints += [f"{word} {schema[key]}" for key, word in _OPEN.items() if key in schema]
    if "pattern" in schema:
        constraints.append(f"`{schema['pattern']}`".replace("|", "\\|"))
    return f" ({', '.join(constraints)})" if constraints else ""


def _describe_range(low: float | None, high: float | None, unit: str) -> str:
    if low is None and high is None:
        return ""
    if high is None:
        return f"at least {low}{unit}"
    return f"at most {high}{unit}" if low is None else f"{low} to {high}{unit}"


_LONGEST_DEFAULT = 100
_RANGES = (
    ("minimum", "maximum", ""),
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", ""),
    ("minProperties", "maxProperties", ""),
)
_OPEN = {"exclusiveMinimum": "above", "exclusiveMaximum": "below"}
