"""Spans of decisions and requests: which are made, with which ids and times, and how many."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sluice.client.sender import find_current_traceparent
from sluice.core.foundation.chain import OutRecord
from sluice.core.foundation.input_record import InputRecord
from sluice.observability import trace_names as names
from sluice.observability.traces import RequestTraces, SpanWriter, TraceSettings, WorkerTraces
from sluice.stream.engine.observer import Commit, StagedRecord
from sluice_topics.catalog import ACTIONS, VERDICTS
from sluice_topics.headers import make_input_headers, make_traceparent, parse_traceparent

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
PAYLOAD = "4111-1111"


class Spans:
    """A writer, and what it has written."""

    def __init__(self, share: float = 0.0, most_per_s: float = 1_000.0) -> None:
        self.exporter = InMemorySpanExporter()
        self.now_s = 0.0
        settings = TraceSettings("test", share, most_per_s)
        self.writer = SpanWriter(self.exporter, settings, lambda: self.now_s)

    def read(self) -> list[ReadableSpan]:
        self.writer.flush(10)
        return list(self.exporter.get_finished_spans())


def staged(traceparent: str | None, number: int = 1) -> StagedRecord:
    gates = [
        {"gate": "limits", "passed": True, "durationMs": 2, "detail": {"seen": PAYLOAD}},
        {"gate": "rules", "passed": False, "durationMs": 8, "failureReason": PAYLOAD},
    ]
    body: dict[str, Any] = {
        "verdict_id": f"verdict:{ACTIONS}:0:{number}",
        "outcome": "BLOCK",
        "gateResults": gates,
        "agent_id": "agent-1",
        "session_id": "s-1",
        "action_id": "a-1",
    }
    answered = InputRecord(ACTIONS, 0, number, 1_000, b"s-1", PAYLOAD.encode(), traceparent)
    return StagedRecord(OutRecord(VERDICTS, "Verdict", body, "s-1"), traceparent, answered, 1_100)


def decide(traces: WorkerTraces, records: list[StagedRecord]) -> None:
    """As a worker does."""
    traces.note_commit(Commit(traces.note_taken(records), 0.01, 1_150))


def hexadecimal(span: ReadableSpan) -> tuple[str, str, str | None]:
    assert span.context is not None
    parent = None if span.parent is None else f"{span.parent.span_id:016x}"
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}", parent


def test_a_sampled_input_has_spans_from_the_topic_through_each_gate_to_the_commit() -> None:
    spans = Spans()
    decide(WorkerTraces(spans.writer), [staged(SAMPLED)])
    root, read, limits, rules, commit = spans.read()
    assert [one.name for one in (root, read, limits, rules, commit)] == [
        names.DECIDE,
        names.READ,
        f"{names.GATE} limits",
        f"{names.GATE} rules",
        names.COMMIT,
    ]
    header = make_traceparent(f"verdict:{ACTIONS}:0:1", SAMPLED)
    assert hexadecimal(root) == (TRACE, header.split("-")[2], PARENT)
    for one in (read, limits, rules, commit):
        assert hexadecimal(one)[0] == TRACE
        assert hexadecimal(one)[2] == header.split("-")[2]
    assert len({hexadecimal(one)[1] for one in spans.read()}) == 5
    times = [(one.start_time or 0, one.end_time or 0) for one in (root, read, limits, rules, commit)]
    assert [(start // 10**6, end // 10**6) for start, end in times] == [
        (1_000, 1_150),
        (1_000, 1_090),
        (1_090, 1_092),
        (1_092, 1_100),
        (1_100, 1_150),
    ]
    said = dict(root.attributes or {})
    assert said[names.OPERATION] == "execute_tool"
    assert said[names.DECIDING_GATE] == "rules"
    assert (said[names.AGENT_ID], said[names.CONVERSATION_ID], said[names.TOOL_CALL_ID]) == (
        "agent-1",
        "s-1",
        "a-1",
    )
    assert PAYLOAD not in "".join(one.to_json() for one in spans.read())


@pytest.mark.parametrize(
    ("received", "share", "written"),
    [
        (SAMPLED, 0.0, True),
        (UNSAMPLED, 1.0, False),
        (None, 1.0, True),
        (None, 0.0, False),
        ("00-forged", 1.0, True),
        ("00-forged", 0.0, False),
    ],
)
def test_the_parent_says_and_without_one_the_share(
    received: str | None, share: float, *, written: bool
) -> None:
    spans = Spans(share)
    decide(WorkerTraces(spans.writer), [staged(received)])
    assert bool(spans.read()) is written


def test_a_share_of_the_inputs_is_traced_and_the_same_ones_each_time() -> None:
    found = []
    for _ in range(2):
        spans = Spans(0.1, 10_000.0)
        records = [staged(None, number) for number in range(2_000)]
        decide(WorkerTraces(spans.writer), records)
        found.append({hexadecimal(one)[0] for one in spans.read() if one.name == names.DECIDE})
    assert found[0] == found[1]
    assert 130 < len(found[0]) < 270


def test_whoever_asks_for_traces_gets_no_more_than_the_bound() -> None:
    spans = Spans(most_per_s=10.0)
    traces = WorkerTraces(spans.writer)
    for second in range(3):
        spans.now_s = float(second)
        decide(traces, [staged(SAMPLED, number) for number in range(500)])
    assert sum(one.name == names.DECIDE for one in spans.read()) == 30


def test_a_request_goes_on_with_the_callers_trace() -> None:
    spans = Spans()
    request = RequestTraces(spans.writer).begin(SAMPLED)
    assert request is not None
    request.end("BREW", "/v1/evaluate", 503)
    (span,) = spans.read()
    trace_id, own, parent = hexadecimal(span)
    assert (trace_id, parent) == (TRACE, PARENT)
    assert request.traceparent == f"00-{TRACE}-{own}-01"
    assert span.name == f"{names.REQUEST} OTHER /v1/evaluate"
    assert not span.status.is_ok
    assert RequestTraces(spans.writer).begin(UNSAMPLED) is None
    assert RequestTraces(spans.writer).begin(None) is None
    assert RequestTraces(Spans(1.0).writer).begin(None) is not None


def test_an_input_is_the_child_of_its_callers_span_and_a_record_without_one_has_the_header_as_before() -> (
    None
):
    made = dict(make_input_headers("i-1", "ProposedAction", "/a", "t", SAMPLED))["traceparent"].decode()
    assert made == SAMPLED
    for received in (None, "00-forged", f"00-{TRACE}-{PARENT}-01-more"):
        made = dict(make_input_headers("i-1", "ProposedAction", "/a", "t", received))["traceparent"].decode()
        assert made == make_traceparent("i-1", None)


def test_a_client_sends_the_span_that_its_caller_has() -> None:
    assert find_current_traceparent() is None
    with TracerProvider().get_tracer("agent").start_as_current_span("task") as span:
        context = parse_traceparent(find_current_traceparent())
        assert context is not None
        assert (context.trace_id, context.span_id) == (
            span.get_span_context().trace_id,
            span.get_span_context().span_id,
        )
        assert context.is_sampled
    assert trace.get_current_span().get_span_context().is_valid is False


def test_a_client_needs_no_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert find_current_traceparent() is None
    assert "opentelemetry.trace" not in sys.modules


def test_the_names_that_queries_ask_for_are_these() -> None:
    assert {name: value for name, value in vars(names).items() if name.isupper()} == {
        "SCHEMA_URL": "https://opentelemetry.io/schemas/1.40.0",
        "DECIDE": "sluice.decide",
        "READ": "sluice.read",
        "GATE": "sluice.gate",
        "COMMIT": "sluice.commit",
        "REQUEST": "sluice.request",
        "OPERATION": "gen_ai.operation.name",
        "EXECUTE_TOOL": "execute_tool",
        "AGENT_ID": "gen_ai.agent.id",
        "CONVERSATION_ID": "gen_ai.conversation.id",
        "TOOL_CALL_ID": "gen_ai.tool.call.id",
        "MESSAGING_SYSTEM": "messaging.system",
        "MESSAGING_TOPIC": "messaging.destination.name",
        "MESSAGING_PARTITION": "messaging.destination.partition.id",
        "MESSAGING_OFFSET": "messaging.kafka.offset",
        "HTTP_METHOD": "http.request.method",
        "HTTP_ROUTE": "http.route",
        "HTTP_STATUS": "http.response.status_code",
        "RECORD_ID": "sluice.record.id",
        "OUTCOME": "sluice.outcome",
        "DECIDING_GATE": "sluice.gate.deciding",
        "GATE_NAME": "sluice.gate.name",
        "GATE_PASSED": "sluice.gate.passed",
    }


class _StuckExporter(InMemorySpanExporter):
    """Of an endpoint that does not answer."""

    def export(self, spans: Any) -> Any:
        time.sleep(3.0)
        return super().export(spans)


def test_an_endpoint_that_does_not_answer_holds_up_no_stop() -> None:
    writer = SpanWriter(_StuckExporter(), TraceSettings("test", 1.0, 1_000.0))
    trace_of_request = RequestTraces(writer).begin(SAMPLED)
    assert trace_of_request is not None
    trace_of_request.end("GET", "/", 200)
    began = time.monotonic()
    writer.flush(0.2)
    assert time.monotonic() - began < 1.5
