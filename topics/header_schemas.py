"""The record headers of `topics.headers` as JSON Schemas, for the AsyncAPI document."""

from __future__ import annotations

from typing import Any

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
_VERDICT = {
    "X-Mnemom-Request-Id": "the caller's request id, else the verdict's id, percent-encoded",
    "X-Mnemom-Verdict": "front=…; autonomy=…; integrity=…; back=…, each pass, observed, nudged or enforced",
}
_ADVISORY = {
    "X-Mnemom-Advisory": "JSON array of at most five {source, text, severity?, id?}; absent when empty"
}


def _schema(always: dict[str, str], sometimes: dict[str, str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            name: {"type": "string", "description": text} for name, text in (always | sometimes).items()
        },
        "required": list(always),
    }


INPUT_HEADERS = _schema({}, _CLOUD_EVENTS)
"""An input needs none of them; `traceparent` is continued where it is there."""
OUTPUT_HEADERS = _schema(_CLOUD_EVENTS | _SHAPE, _SUBJECT)
VERDICT_HEADERS = _schema(_CLOUD_EVENTS | _SHAPE | _VERDICT, _SUBJECT | _ADVISORY)
