"""Writes the types of the TypeScript client out of the OpenAPI document: `python -m
sluice.gateway.typescript_types`.

Only of the routes that the client calls: another route changes nothing there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from sluice.gateway.routes.deciding_routes import DecidingRoutes
from sluice.gateway.routes.declared_routes import add_routes
from sluice.gateway.routes.review_routes import ReviewRoutes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE = Path("docs", "examples", "typescript", "src", "gateway_types.ts")
_HEAD = "// Written by `python -m sluice.gateway.typescript_types` from the gateway's OpenAPI document.\n"
_REQUESTS = {"ActionRequest": "/v1/evaluate", "OutcomeRequest": "/v1/outcomes"}
_ANSWERS = ("EvaluationResponse", "EscalationResponse", "PendingResponse", "ErrorResponse")
_WORDS = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}
_WORDS |= {"object": "{ [name: string]: unknown }"}


def write_types() -> str:
    """Write the module with one exported interface for each request and answer."""
    nothing: Any = None
    app = FastAPI()
    add_routes(app, DecidingRoutes(*[nothing] * 6), ReviewRoutes(*[nothing] * 5))
    document = app.openapi()
    schemas = document["components"]["schemas"]
    written = {
        name: document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name, path in _REQUESTS.items()
    }
    waiting = [*_ANSWERS]
    while waiting:
        name = waiting.pop(0)
        if name not in written:
            written[name] = schemas[name]
            waiting += _list_references(schemas[name])
    parts = (f"export interface {name} {_write_object(schema, '')}\n" for name, schema in written.items())
    return "\n".join([_HEAD, *parts])


def _list_references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].rpartition("/")[2]
        part = list(part.values())
    if isinstance(part, list):
        for element in part:
            yield from _list_references(element)


def _write_type(schema: Mapping[str, Any], indent: str) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "properties" in schema:
        return _write_object(schema, indent)
    if "enum" in schema or "const" in schema:
        return " | ".join(json.dumps(item) for item in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_write_type(item, indent) for item in schema["anyOf"]))
    if schema.get("type") == "array":
        return f"Array<{_write_type(schema.get('items', {}), indent)}>"
    return _WORDS.get(str(schema.get("type")), "unknown")


def _write_object(schema: Mapping[str, Any], indent: str) -> str:
    required = schema.get("required", ())
    lines = []
    for name, shape in schema["properties"].items():
        if "description" in shape and "properties" not in shape:
            lines.append(f"{indent}  /** {' '.join(shape['description'].split())} */")
        mark = "" if name in required else "?"
        lines.append(f"{indent}  {name}{mark}: {_write_type(shape, indent + '  ')};")
    if schema.get("additionalProperties") is True:
        lines.append(f"{indent}  [name: string]: unknown;")
    return "\n".join(["{", *lines, f"{indent}}}"])


def main() -> None:
    """Write the file, from the root of a checkout."""
    FILE.write_text(write_types(), encoding="utf-8")
    sys.stdout.write(f"{FILE}\n")


if __name__ == "__main__":
    main()
