"""OpenTelemetry spans of decisions and of requests, made after the fact from what was committed.

A worker makes no span while it decides: when a transaction has committed, the spans of its sampled inputs
are made with the times that are known then. The root's ids are those of the `traceparent` header on the
decision's record, so that whoever reads the record and goes on with the trace is the span's child.

Whether an input is sampled, its producer's header says; of those without a header a share is, by its place.
Above a bound in each second none is, whoever asks for it. Needs the extra `traces`.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from sluice.observability import trace_names as names
from sluice.observability.service_metrics import METHODS
from sluice.observability.worker_metrics import find_deciding_gate
from sluice_topics.headers import TraceContext, make_traceparent, parse_traceparent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.trace.export import SpanExporter

    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.stream.engine.observer import Commit, EngineState, StagedRecord

_NS_PER_MS = 1_000_000
_ID_FIELDS = {
    "Verdict": "verdict_id",
    "ResolvedVerdict": "verdict_id",
    "MemoryDecision": "memory_id",
    "QualityDecision": "ledger_event_id",
}
"""The records that begin the decision on an input, and their ids."""
_SHARES = 1 << 32
_FAULT = 500


class TraceSettings(NamedTuple):
    """`share`: of the inputs and requests without a header, from 0 to 1; `most_per_s`: traces in a second."""

    service: str
    share: float
    most_per_s: float


class _GivenIds(IdGenerator):
    """Gives the ids that were set for the next span; random ones otherwise."""

    def __init__(self) -> None:
        self.trace_id: int | None = None
        self.span_id: int | None = None

    def generate_span_id(self) -> int:
        """The given one, once."""
        span_id, self.span_id = self.span_id, None
        return span_id or random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        """The given one, once."""
        trace_id, self.trace_id = self.trace_id, None
        return trace_id or random.getrandbits(128) or 1


class SpanWriter:
    """Makes spans of one process and hands them to an exporter, in a thread and in a queue with a bound."""

    def __init__(
        self,
        exporter: SpanExporter,
        settings: TraceSettings,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ids = _GivenIds()
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,  # what is not sampled does not come here
            id_generator=self._ids,
            resource=Resource({"service.name": settings.service}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("sluice", schema_url=names.SCHEMA_URL)
        self._settings = settings
        self._share = int(settings.share * _SHARES)
        self._now_s = now_s
        self._left = settings.most_per_s
        self._filled_s = now_s()

    def is_sampled(self, received: TraceContext | None, name: str) -> bool:
        """Whether a trace is written: as its parent says; without one for a share of the names, the same ones
        each time."""
        wanted = received.is_sampled if received is not None else crc32(name.encode()) < self._share
        return wanted and self._take_room()

    def write(  # noqa: PLR0913 - a span has so many
        self,
        name: str,
        own: TraceContext,
        parent_id: int | None,
        times: tuple[int, int],
        attributes: Mapping[str, Any],
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        is_fault: bool = False,
    ) -> None:
        """A span with these ids. `times`: from and to, ns since 1970."""
        context = None
        if parent_id is not None:
            flags = TraceFlags(TraceFlags.SAMPLED)
            parent = SpanContext(own.trace_id, parent_id, is_remote=True, trace_flags=flags)
            context = set_span_in_context(NonRecordingSpan(parent))
        self._ids.trace_id, self._ids.span_id = own.trace_id, own.span_id or None
        span = self._tracer.start_span(name, context, kind, dict(attributes), start_time=times[0])
        if is_fault:
            span.set_status(Status(StatusCode.ERROR))
        span.end(max(times))

    def flush(self, within_s: float) -> None:
        """Hand on what is left. Returns after `within_s` at the latest: what the endpoint has not taken by
        then is lost if the process ends."""
        bound_ms = int(within_s * 1000)
        # In a thread: an export that goes on has the exporter's own time limit.
        flushing = threading.Thread(target=self._provider.force_flush, args=(bound_ms,), daemon=True)
        flushing.start()
        flushing.join(within_s)

    def _take_room(self) -> bool:
        """A bucket that fills by `most_per_s` and holds a second's."""
        now, most = self._now_s(), self._settings.most_per_s
        self._left = min(most, self._left + (now - self._filled_s) * most)
        self._filled_s = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class WorkerTraces:
    """An observer of the engine that writes the spans of sampled inputs."""

    def __init__(self, spans: SpanWriter) -> None:
        self._spans = spans

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """The sampled ones; the others are not kept."""
        return [record for record in records if self._is_sampled(record)]

    def note_commit(self, commit: Commit) -> None:
        """Write the spans of the inputs that this transaction decided."""
        for staged in commit.taken if isinstance(commit.taken, list) else ():
            self._trace(staged, commit.committed_ms)

    def _is_sampled(self, staged: StagedRecord) -> bool:
        kind = staged.record.kind
        if staged.answered is None or kind not in _ID_FIELDS:
            return False
        received = None if staged.traceparent is None else parse_traceparent(staged.traceparent)
        return self._spans.is_sampled(received, staged.record.body[_ID_FIELDS[kind]])

    def _trace(self, staged: StagedRecord, committed_ms: int) -> None:
        body, answered = staged.record.body, staged.answered
        record_id = body[_ID_FIELDS[staged.record.kind]]
        received = parse_traceparent(staged.traceparent)
        own = parse_traceparent(make_traceparent(record_id, staged.traceparent))
        assert own is not None  # noqa: S101 - it was made here
        assert answered is not None  # noqa: S101 - it was sampled
        came, decided, committed = (
            ms * _NS_PER_MS for ms in (answered.timestamp_ms, staged.staged_ms, committed_ms)
        )
        attributes = {
            names.MESSAGING_SYSTEM: "kafka",
            names.MESSAGING_TOPIC: answered.topic,
            names.MESSAGING_PARTITION: str(answered.partition),
            names.MESSAGING_OFFSET: answered.offset,
            names.RECORD_ID: record_id,
            names.OUTCOME: body.get("outcome") or body.get("action") or "",
            names.AGENT_ID: body.get("agent_id") or "",
            names.CONVERSATION_ID: body.get("session_id") or "",
        }
        gates = body.get("gateResults", ())
        if "gateResults" in body:
            attributes |= {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_CALL_ID: body.get("action_id") or "",
                names.DECIDING_GATE: find_deciding_gate(body),
            }
        parent_id = None if received is None else received.span_id
        self._spans.write(names.DECIDE, own, parent_id, (came, committed), attributes, kind=SpanKind.CONSUMER)
        self._write_parts(own, gates, (came, decided, committed))

    def _write_parts(self, own: TraceContext, gates: Any, times: tuple[int, int, int]) -> None:
        """The gates run one after the other and end when the decision was staged: their durations say when
        each began."""
        came, decided, committed = times
        inner = own._replace(span_id=0)
        took = [int(gate["durationMs"] * _NS_PER_MS) for gate in gates]
        at = max(came, decided - sum(took))
        self._spans.write(names.READ, inner, own.span_id, (came, at), {})
        for result, took_ns in zip(gates, took, strict=True):
            attributes = {names.GATE_NAME: result["gate"], names.GATE_PASSED: result["passed"]}
            self._spans.write(
                f"{names.GATE} {result['gate']}", inner, own.span_id, (at, at + took_ns), attributes
            )
            at += took_ns
        self._spans.write(names.COMMIT, inner, own.span_id, (decided, committed), {})

    def note_state(self, state: EngineState) -> None:
        """Nothing."""

    def note_fenced(self, partitions: int) -> None:
        """Nothing."""

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """Nothing."""

    def note_at_hand(self, port: str) -> None:
        """Nothing."""

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """Nothing."""


class RequestTraces:
    """Begins a gateway's trace, or goes on with a caller's, and writes the request's span at its end."""

    def __init__(self, spans: SpanWriter) -> None:
        self._spans = spans

    def begin(self, received: str | None) -> RequestTrace | None:
        """The trace of a request that is sampled; None: it is not, and the caller's header goes on as it
        came."""
        context = parse_traceparent(received)
        trace_id = random.getrandbits(128) if context is None else context.trace_id
        if not self._spans.is_sampled(context, f"{trace_id:032x}"):
            return None
        own = TraceContext(trace_id, random.getrandbits(64) or 1, 1)
        return RequestTrace(self._spans, own, None if context is None else context.span_id)

    def flush(self, within_s: float) -> None:
        """Hand on what is left, as SpanWriter does."""
        self._spans.flush(within_s)


class RequestTrace:
    """One request's. `traceparent`: what goes on to the worker."""

    def __init__(self, spans: SpanWriter, own: TraceContext, parent_id: int | None) -> None:
        self._spans = spans
        self._own = own
        self._parent_id = parent_id
        self._began_ns = time.time_ns()
        self.traceparent = f"00-{own.trace_id:032x}-{own.span_id:016x}-01"

    def end(self, method: str, template: str | None, status: int) -> None:
        """Write the span. `template`: of the path, None for one that there is not."""
        method = method if method in METHODS else "OTHER"
        attributes = {names.HTTP_METHOD: method, names.HTTP_ROUTE: template or "", names.HTTP_STATUS: status}
        self._spans.write(
            f"{names.REQUEST} {method} {template or ''}".rstrip(),
            self._own,
            self._parent_id,
            (self._began_ns, time.time_ns()),
            attributes,
            kind=SpanKind.SERVER,
            is_fault=status >= _FAULT or not status,
        )
