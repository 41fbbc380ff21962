"""Seed 002's headers: which of a request's survive, and those of a response. Pure.

Nothing that a request or a handler says under X-Mnemom-* or X-AIP-* reaches a response: its headers are made
here, from what the gateway knows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice_topics.checkpoints import OBSERVED
from sluice_topics.headers import (
    API_VERSION,
    MAX_ADVISORIES,
    encode_plain,
    write_advisory_line,
    write_checkpoint_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

RawHeaders = list[tuple[bytes, bytes]]
"""As ASGI has them: names in lower case."""

VERSIONS = (API_VERSION,)
"""The versions of the API that a caller may ask for with X-Mnemom-Version, the newest first."""
API_KEY, VERSION, AGENT, SESSION = (
    b"x-mnemom-api-key",
    b"x-mnemom-version",
    b"x-mnemom-agent",
    b"x-mnemom-session",
)
KEPT = frozenset((API_KEY, VERSION, AGENT, SESSION))
"""The four that survive (seed 002, "Inbound stripping")."""
EXPOSED = (
    "X-Mnemom-Request-Id",
    "X-Mnemom-Verdict",
    "X-Mnemom-Advisory",
    "X-Mnemom-Schema",
    "X-Mnemom-Version",
    "X-Mnemom-Agent",
    "X-Mnemom-Session",
    "X-AIP-Verdict",
    "X-AIP-Checkpoint-Id",
    "Idempotent-Replay",
    "Retry-After",
)
"""What a browser's script may read of a response (CORS)."""
LONGEST_ADVISORIES = 4096
"""Bytes of X-Mnemom-Advisory: proxies refuse headers of 8 KB. Advisories that do not fit are left out."""
NOT_RUN = {
    "source": "sluice.gateway",
    "text": "no checkpoint ran: this response is not a decision",
    "severity": "info",
    "id": "gateway:no_decision",
}
_RESERVED = re.compile(rb"x[^a-z0-9]*(?:mnemom|aip|smoltbot|safe[^a-z0-9]*house)(?![a-z0-9])")


def is_reserved(name: bytes) -> bool:
    """Whether a header's name lies in seed 002's namespaces or in retired ones, in whatever spelling."""
    return _RESERVED.match(name.strip().lower()) is not None


def strip(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """A request's headers without those that only the gateway may set."""
    return [(name, value) for name, value in headers if name in KEPT or not is_reserved(name)]


@dataclass(slots=True)
class ResponseFacts:
    """What the headers of one response say. Handlers fill it in.

    `checkpoints` None: the response is no decision. `aip_verdict`: one of seed 002's eight, of a decision on
    an action; `checkpoint_id`: of the integrity checkpoint that its analysis is stored as.
    """

    request_id: str
    schema: str | None = None
    checkpoints: Mapping[str, str] | None = None
    advisories: Sequence[Mapping[str, Any]] = ()
    agent: str | None = None
    session: str | None = None
    aip_verdict: str | None = None
    checkpoint_id: str | None = None
    is_replay: bool = False
    caller: str = "-"
    log: dict[str, Any] = field(default_factory=dict)


def build_response_headers(facts: ResponseFacts) -> RawHeaders:
    """The headers of every response: seed 002's set and `Cache-Control`."""
    headers = [
        (b"x-mnemom-request-id", facts.request_id.encode()),
        (b"x-mnemom-verdict", write_checkpoint_line(facts.checkpoints or OBSERVED)),
        (b"x-mnemom-version", API_VERSION.encode()),
        (b"cache-control", b"no-store"),
    ]
    shown = _select_fitting([NOT_RUN] if facts.checkpoints is None else facts.advisories)
    if shown:
        headers.append((b"x-mnemom-advisory", write_advisory_line(shown)))
    if facts.schema is not None:
        headers.append((b"x-mnemom-schema", facts.schema.encode()))
    if facts.agent is not None:
        headers.append((b"x-mnemom-agent", encode_plain(facts.agent)))
    if facts.session is not None:
        headers.append((b"x-mnemom-session", encode_plain(facts.session)))
    if facts.aip_verdict is not None:
        headers.append((b"x-aip-verdict", facts.aip_verdict.encode()))
    if facts.checkpoint_id is not None:
        headers.append((b"x-aip-checkpoint-id", encode_plain(facts.checkpoint_id)))
    if facts.is_replay:
        headers.append((b"idempotent-replay", b"true"))
    return headers


def _select_fitting(advisories: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first advisories that fit, five at most."""
    shown: list[Mapping[str, Any]] = []
    for advisory in advisories:
        if len(shown) < MAX_ADVISORIES and len(write_advisory_line([*shown, advisory])) <= LONGEST_ADVISORIES:
            shown.append(advisory)
    return shown


def build_cors_headers(origin: bytes | None, allowed: Sequence[str]) -> RawHeaders:
    """Build the headers that let a page of an allowed origin read the response; `allowed` may hold "*"."""
    if origin is None or not allowed:
        return []
    text = origin.decode("latin-1")
    vary = [] if "*" in allowed else [(b"vary", b"Origin")]
    if "*" not in allowed and text not in allowed:
        return vary
    allowed_origin = b"*" if "*" in allowed else origin
    exposed = (b"access-control-expose-headers", ", ".join(EXPOSED).encode())
    return [(b"access-control-allow-origin", allowed_origin), exposed, *vary]


_SENT = (b"Content-Type", b"Idempotency-Key", *sorted(KEPT))
PREFLIGHT: RawHeaders = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b", ".join(_SENT)),
    (b"access-control-max-age", b"600"),
]
"""The answer to a browser that asks whether it may send a request."""
