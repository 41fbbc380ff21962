"""The rows of memory writes and of what is learnt of sources in the table of kinds.

Where the core itself failed on a write, it is rejected, and nothing is remembered of it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.input_record import memory_id
from sluice.core.foundation.refusals import INTERNAL_ERROR, subject_of
from sluice.core.memory import write
from sluice.core.memory.admitted import Released, release_memory
from sluice.core.memory.memory_record import RERUN_FIELDS, add_rerun_hash, record_unread
from sluice.core.memory.plan import digest_content
from sluice.core.policy.bundle_cases import Case
from sluice.core.policy.kind import AnswerKind, CaseKind, DecisionKind, Kind
from sluice.core.registry.registry_entries import UNREGISTERED, collect_hashes
from sluice.core.state.book import HistoryReduced, WriteDecided
from sluice.core.state.decision import Decision
from sluice.core.state.history import SourceName, history_record
from sluice.core.state.statistics import Whose
from sluice_topics.catalog import MEMORY_DECISIONS, MEMORY_WRITES, SOURCE_FEEDBACK
from sluice_topics.records import MemoryDecision, ProposedMemoryWrite, SourceFeedback

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import PointParts, Policy, Principal
    from sluice.core.state.decision import Shared
    from sluice.core.state.session import SessionState

NOBODY = Whose(UNREGISTERED, "")


def reject_unread(parts: PointParts, input_record: InputRecord, dead_letter: OutRecord) -> Decision:
    """Reject a write without reading it; `dead_letter` is its dead letter."""
    subject = subject_of(input_record)
    record = record_unread(input_record, parts.policy.default.hash, INTERNAL_ERROR, subject)
    return Decision((), [record, dead_letter], (WriteDecided(NOBODY, "reject"),))


def reject_fault(
    parts: PointParts,
    input_record: InputRecord,
    proposed: ProposedMemoryWrite,
    _: object,
    dead_letter: OutRecord,
) -> Decision:
    """Reject a write that made the core raise; under shadow it is let through as every other."""
    principal = parts.policy.find_principal(proposed.agent_id)
    agent = principal.agent
    record = record_unread(input_record, principal.bundle.hash, INTERNAL_ERROR, proposed.session_id)
    record.body |= {
        "write_id": proposed.write_id,
        "agent_id": proposed.agent_id,
        "session_id": proposed.session_id,
        "tenant_id": principal.tenant_id,
        "traceId": proposed.trace_id,
        "request_id": proposed.request_id,
        "registry_hashes": _hash_entries(parts.policy, principal, proposed),
    }
    whose = NOBODY if agent is None else Whose(agent.tenant, agent.id)
    if agent is None or not principal.is_shadowed:
        add_rerun_hash(record.body)
        return Decision((), [record, dead_letter], (WriteDecided(whose, "reject"),))
    record.body |= {"enforcement": "shadow", "action": "allow", "shadowAction": "reject"}
    add_rerun_hash(record.body)
    memory = Released(
        record.body["memory_id"],
        agent.tenant,
        proposed.source.type,
        digest_content(proposed.content),
        0,
        input_record.coordinates(),
    )
    released = release_memory(proposed, memory, input_record.timestamp_ms)
    return Decision((), [record, released, dead_letter], (WriteDecided(whose, "allow"),))


def lacks_answers(decision: Mapping[str, Any]) -> bool:
    """A fault of the core leaves no answer that the gate had got."""
    return bool(decision["reason"] == INTERNAL_ERROR)


def _hash_entries(policy: Policy, principal: Principal, proposed: ProposedMemoryWrite) -> dict[str, str]:
    """Hashes of what stood in the registry for this write, so that a rerun gets to where the core raised."""
    source = policy.registry.sources.get((principal.tenant, proposed.source.id))
    freezes = policy.find_freezes(principal, proposed.session_id)
    return collect_hashes(principal.agent, principal.org, source, *freezes)


WRITE = Kind(
    "write",
    MEMORY_WRITES,
    ProposedMemoryWrite,
    attrgetter("session_id"),
    "write_id",
    write.evaluate,
    marked_by="write_id",
    unread=reject_unread,
    fault=reject_fault,
    answer=AnswerKind(
        MemoryDecision,
        MEMORY_DECISIONS,
        "memory_id",
        (
            ("seen", "known"),
            ("seen", "room"),
            ("seen", "source", "session_type"),
            ("seen", "source", "last_at"),
        ),
        DecisionKind(
            "memory_decision",
            "decision on a memory",
            "decisions on memories",
            memory_id,
            "write_id",
            RERUN_FIELDS,
            write.judge_again,
            reject_fault,
            lacks_answers,
        ),
    ),
    case=CaseKind(Case, "write", "memory_write"),
    signer="agent_id",
)


def _name_source(feedback: SourceFeedback) -> str:
    return SourceName(feedback.tenant_id, feedback.source_id).key()


def fold_feedback(
    parts: PointParts, input_record: InputRecord, feedback: SourceFeedback, _: SessionState, shared: Shared
) -> Decision:
    """The history's next revision, for the table and for all workers.

    Source ids come from outside, so first sights are kept up to a bound for each tenant; reviews always
    are.
    """
    name = SourceName(feedback.tenant_id, feedback.source_id)
    before = shared.book.history(name)
    full = shared.book.histories[feedback.tenant_id] >= parts.limits.max_source_histories
    if feedback.verdict == "seen" and (full or before.type is not None):
        return Decision(())
    after = before.add(feedback.type, feedback.verdict)
    return Decision(
        (), [history_record(name, after, input_record.timestamp_ms)], (HistoryReduced(name, after),)
    )


FEEDBACK = Kind(
    "feedback", SOURCE_FEEDBACK, SourceFeedback, _name_source, "memory_id", fold_feedback, session=None
)
