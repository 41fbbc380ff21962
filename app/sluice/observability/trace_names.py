"""Every name of a span and of its attributes. The only list.

The names of OpenTelemetry's semantic conventions are those of version 1.40 (gen_ai.*, which is not stable
yet, messaging.*, http.*): pinned here, so that an update of a library renames nothing that a query asks for.
No attribute has content: ids, topics, outcomes and times only.
"""

from __future__ import annotations

SCHEMA_URL = "https://opentelemetry.io/schemas/1.40.0"

DECIDE = "sluice.decide"
"""From the broker's timestamp of an input to the commit of the decision on it."""
READ = "sluice.read"
"""Until its gates began: on the topic, and behind others of its session."""
GATE = "sluice.gate"
"""One gate, with the answers that it waited for; the gate's name follows after a space."""
COMMIT = "sluice.commit"
"""Until its transaction had committed."""
REQUEST = "sluice.request"
"""A request to the gateway; method and route follow after a space."""

OPERATION, EXECUTE_TOOL = "gen_ai.operation.name", "execute_tool"
AGENT_ID = "gen_ai.agent.id"
CONVERSATION_ID = "gen_ai.conversation.id"
TOOL_CALL_ID = "gen_ai.tool.call.id"

MESSAGING_SYSTEM = "messaging.system"
MESSAGING_TOPIC = "messaging.destination.name"
MESSAGING_PARTITION = "messaging.destination.partition.id"
MESSAGING_OFFSET = "messaging.kafka.offset"

HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"

RECORD_ID = "sluice.record.id"
OUTCOME = "sluice.outcome"
DECIDING_GATE = "sluice.gate.deciding"
GATE_NAME = "sluice.gate.name"
GATE_PASSED = "sluice.gate.passed"
