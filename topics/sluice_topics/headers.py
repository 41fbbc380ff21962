"""Record headers: CloudEvents in binary mode, W3C trace context, and on outputs seed 002's set.

Every value is printable ASCII. Ids are percent-encoded as the CloudEvents HTTP binding does it (section
3.1.3.2: white space, `"`, `%`, control characters and everything beyond ASCII), so that an id can add no line
and no header to whoever hands these on over HTTP; advisories are JSON, which escapes the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from sluice_topics.catalog import CATALOG, get_wire_schema
from sluice_topics.checkpoints import (
    ANALYSING,
    CHECKPOINT_ID,
    STORED,
    find_advisories,
    find_aip_verdict,
    find_checkpoints,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_CURRENT_VERSION = "00"


class TraceContext(NamedTuple):
    """What a `traceparent` says: ids as numbers, and the flags, whose lowest bit asks for a recording."""

    trace_id: int
    span_id: int
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Whether whoever sent it records the trace."""
        return bool(self.flags & 1)


def parse_traceparent(received: str | None) -> TraceContext | None:
    """What a header says; None for none, and for one that W3C Trace Context does not allow."""
    match = _TRACEPARENT.fullmatch(received) if received else None
    if match is None or (match[1] == _CURRENT_VERSION and match[5]):
        return None
    return TraceContext(int(match[2], 16), int(match[3], 16), int(match[4], 16))


def make_traceparent(record_id: str, received: str | None) -> str:
    """The `traceparent` of a record that answers an input.

    A valid `received` header keeps its trace id and flags; otherwise the trace id comes from the record's id
    too, unsampled. The span id always comes from the record's id: a redelivered input gives the same header.

    It continues a caller's trace without randomness (W3C Trace Context).
    """
    derived = sha256(record_id.encode("utf-8", "surrogatepass")).hexdigest()
    span = derived[:16]
    match = _TRACEPARENT.fullmatch(received) if received else None
    if match is None or (match[1] == _CURRENT_VERSION and match[5]):
        return f"00-{derived[16:48]}-{span}-00"
    return f"00-{match[2]}-{span}-{match[4]}"


Headers = list[tuple[str, bytes]]

API_VERSION = "2026-11-23"
"""Seed 002's date-based version of the shapes; changes when a published record changes."""
MAX_ADVISORIES = 5
"""Seed 002's transport budget; the record itself carries all."""
MAX_ADVISORY_TEXT = 200
"""Characters of an advisory's text in the header, for the same budget."""
_VERDICTS = frozenset(["Verdict", "ResolvedVerdict"])

_CONTENT_TYPE = ("content-type", b"application/json")
_SPECVERSION = ("ce_specversion", b"1.0")
_VERSION = ("X-Mnemom-Version", API_VERSION.encode())
_PLAIN = re.compile(r"[!#$&-~]*")
_SAFE = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
_ID_FIELD = {
    "Verdict": "verdict_id",
    "ResolvedVerdict": "verdict_id",
    "EscalationOpened": "escalation_id",
    "EscalationReminded": "reminder_id",
    "EscalationRerouted": "reroute_id",
    "ApprovalCounted": "approval_id",
    "EscalationResolved": "escalation_id",
    "GrantGiven": "grant_id",
    "GrantUsed": "use_id",
    "GrantRevoked": "grant_id",
    "EscalationExpired": "escalation_id",
    "ReservationSettled": "outcome_id",
    "InputRefused": "refusal_id",
    "MandateRecorded": "mandate_event_id",
    "DeadLetter": "dead_letter_id",
    "PolicyInForce": "policy_event_id",
    "MemoryDecision": "memory_id",
    "QuarantineEntered": "memory_id",
    "QuarantineApproved": "memory_id",
    "QuarantineRejected": "memory_id",
    "QuarantineExpired": "memory_id",
    "QuarantineEvicted": "memory_id",
    "AdmittedMemory": "memory_id",
    "QualityDecision": "ledger_event_id",
    "ServedRetrieval": "served_id",
    "RetrievalReported": "report_event_id",
    "RetrievalEscalationOpened": "escalation_id",
    "RetrievalApprovalCounted": "approval_id",
    "RetrievalEscalationResolved": "escalation_id",
    "RetrievalEscalationExpired": "escalation_id",
    "Alarm": "alarm_id",
    "OutcomeAlarm": "alarm_id",
}


def _make_type(kind: str) -> bytes:
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
    return f"sluice.gate.{snake}.v1".encode()


_FIXED: dict[str, Headers] = {
    record.__name__: [("ce_type", _make_type(record.__name__)), _SPECVERSION, _CONTENT_TYPE]
    + ([("X-Mnemom-Schema", schema.encode()), _VERSION] if (schema := get_wire_schema(record)) else [])
    for topic in CATALOG
    for record in topic.records
}


def find_agent(headers: Iterable[tuple[str, bytes | None]]) -> str | None:
    """The agent's id in an input's first `X-Mnemom-Agent`, which seed 000's form has no field for."""
    for name, value in headers:
        if name == "X-Mnemom-Agent" and value:
            return unquote(value.decode("utf-8", "replace"), errors="replace")
    return None


def make_output_headers(body: dict[str, Any], kind: str, source: str, traceparent: str | None) -> Headers:
    """The headers of an output record. `body` by wire names; `traceparent` as the input carried it.

    `X-Mnemom-Request-Id` and `X-Mnemom-Verdict` are always there: the caller's id, else the record's own,
    since nothing random is made here; four times `observed` of a record that is no decision.
    """
    field = _ID_FIELD.get(kind)
    record_id = body[field] if field else _make_folded_id(body)
    written = encode_plain(record_id)
    headers = [
        ("ce_id", written),
        ("ce_source", _encode_cached(source)),
        ("ce_time", _encode_cached(body["decided_at"])),
        ("traceparent", make_traceparent(record_id, traceparent).encode()),
        *_FIXED[kind],
    ]
    request_id = body.get("request_id")
    headers.append(("X-Mnemom-Request-Id", encode_plain(request_id) if request_id else written))
    if "checkpoints" in body:
        states, advisories = body["checkpoints"], body["advisories"]
    else:
        states, advisories = find_checkpoints(body), find_advisories(body)
    headers.append(("X-Mnemom-Verdict", write_checkpoint_line(states)))
    if advisories:
        headers.append(("X-Mnemom-Advisory", write_advisory_line(advisories)))
    if kind in _VERDICTS:
        headers += _make_aip_headers(body)
    if agent := body.get("agent_id"):
        headers.append(("X-Mnemom-Agent", _encode_cached(agent)))
    if session := body.get("session_id"):
        headers.append(("X-Mnemom-Session", _encode_cached(session)))
    return headers


def make_input_headers(
    record_id: str, kind: str, source: str, time: str, traceparent: str | None = None
) -> Headers:
    """The headers that a producer of an input record sets. `time` is RFC 3339; no decision relies on it.
    `traceparent`: of the span that the input comes from, which is the parent of the decision's; None, or one
    that is not valid: a trace of its own, not recorded."""
    caller = parse_traceparent(traceparent)
    trace = (
        make_traceparent(record_id, None)
        if caller is None
        else f"00-{caller.trace_id:032x}-{caller.span_id:016x}-{caller.flags:02x}"
    )
    return [
        ("ce_id", encode_plain(record_id)),
        ("ce_source", _encode_cached(source)),
        ("ce_time", _encode_cached(time)),
        ("traceparent", trace.encode()),
        *_FIXED[kind],
    ]


def _make_folded_id(body: dict[str, Any]) -> str:
    """A folded session has no id of its own: the session's and the moment make one."""
    return f"{body['session_id']}:{body['decided_at']}"


def _make_aip_headers(body: dict[str, Any]) -> Headers:
    """Of a verdict: what a model made of the agent's reasoning, and where the analysis can be fetched."""
    if not body["model_outputs"]:
        return _NO_ANALYSIS if ANALYSING.isdisjoint(body["stages"]) else _NOT_ASKED
    judged = find_aip_verdict(body)
    headers = [("X-AIP-Verdict", judged.encode())]
    if judged in STORED:
        headers.append(("X-AIP-Checkpoint-Id", encode_plain(CHECKPOINT_ID + body["verdict_id"])))
    return headers


_NO_ANALYSIS: Headers = [("X-AIP-Verdict", b"disabled")]
_NOT_ASKED: Headers = [("X-AIP-Verdict", b"skipped")]


def write_checkpoint_line(states: Mapping[str, str]) -> bytes:
    """The value of X-Mnemom-Verdict: the four checkpoints in their order."""
    return (
        f"front={states['front']}; autonomy={states['autonomy']}; "
        f"integrity={states['integrity']}; back={states['back']}"
    ).encode()


def write_advisory_line(entries: Sequence[Mapping[str, Any]]) -> bytes:
    """The value of X-Mnemom-Advisory: the first five as compact ASCII JSON."""
    parts = []
    for entry in entries[:MAX_ADVISORIES]:
        part = _write_advisory(entry["source"], entry["text"][:MAX_ADVISORY_TEXT], entry.get("severity"))
        an_id = entry.get("id")
        parts.append(f'{part},"id":{_quoted(an_id)}}}' if an_id else part + "}")
    return f"[{','.join(parts)}]".encode()


@lru_cache(maxsize=1024)
def _write_advisory(source: str, text: str, severity: str | None) -> str:
    """The beginning of an advisory as compact ASCII JSON, which many records share: source, text (cut), and
    severity where it is given."""
    more = f',"severity":{_quoted(severity)}' if severity else ""
    return f'{{"source":{_quoted(source)},"text":{_quoted(text)}{more}'


@lru_cache(maxsize=1024)
def _encode_cached(value: str) -> bytes:
    """`plain` of what many records share: sources, agents, sessions, the millisecond of a batch."""
    return encode_plain(value)


def encode_plain(value: str) -> bytes:
    """An id as a header's value: percent-encoded where it is not printable ASCII."""
    if _PLAIN.fullmatch(value):
        return value.encode()
    return quote(value, safe=_SAFE, errors="surrogatepass").encode()
