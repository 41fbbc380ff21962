"""How every text of a released record is kept from being an order. The only list; docs/released.md shows it.

A record that leaves the ledger for those who read memories and items holds texts in addition to the content.
A field that is missing here fails the tests, and so does one that is said to be read and is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sluice_topics.records import AdmittedMemory, ServedRetrieval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice_topics.records.base import Record

Kept = Literal["read", "form", "made", "registered", "absent"]
"""`read`: by the content's detectors, and what they find counts as if it were in the content. `form`: of a
form without room for words, else null. `made`: by the gate, of the input's coordinates or in words of its
own. `registered`: the id of a signed registry entry. `absent`: never released."""

RELEASED: Mapping[type[Record], Mapping[str, Kept]] = {
    AdmittedMemory: {
        "memory_id": "made",
        "write_id": "read",
        "agent_id": "registered",
        "session_id": "read",
        "tenant_id": "registered",
        "approver_id": "registered",
        "content": "read",
        "source.id": "read",
        "source.reliability": "absent",
        "content_class": "read",
        "timestamp": "form",
        "confidence_score": "form",
        "provenance_uri": "read",
        "provenance_hash": "read",
        "derived_from": "read",
        "input.topic": "made",
    },
    ServedRetrieval: {
        "served_id": "made",
        "request_id": "read",
        "agent_id": "read",
        "session_id": "read",
        "tenant_id": "registered",
        "trace_id": "read",
        "items.item_id": "read",
        "items.ledger_event_id": "made",
        "items.content_class": "read",
        "items.provenance_uri": "read",
        "items.body": "read",
        "items.unjudged": "made",
        "withheld.item_id": "read",
        "withheld.ledger_event_id": "made",
        "withheld.escalation_id": "made",
        "input.topic": "made",
    },
}
"""By path: every field that can hold a text, those with a pattern or a list of values of their own aside."""
HEADERS: Mapping[str, str] = {
    "ce_id": "memory_id, served_id",
    "ce_time": "decided_at",
    "X-Mnemom-Request-Id": "request_id, memory_id",
    "X-Mnemom-Verdict": "four words of a fixed list",
    "X-Mnemom-Agent": "agent_id",
    "X-Mnemom-Session": "session_id",
    "ce_source": "the worker's own setting",
    "traceparent": "hex digits alone, by W3C Trace Context",
    "ce_type": "one word",
    "ce_specversion": "one word",
    "content-type": "one word",
    "X-Mnemom-Schema": "one word",
    "X-Mnemom-Version": "one word",
}
"""What each header of these records is made of; of bodies that no model judged X-Mnemom-Advisory says why, in
the words of `unjudged`. The message's key is the session_id as it is released."""
