"""Point 5. Whoever may write to the ledger's topics forges records, and computes the chain's hashes again.

Each attempt changes a ledger that holds decisions of every kind, and asks `sluice ledger verify` and `sluice
rerun --all` (the code of both, over records in memory) whether anything is wrong. What neither can find
without signed tree heads is tried too, and listed as a known limit: docs/ledger.md names each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from load.attacks.attempt import Attempt
from load.attacks.forging import (
    HASH,
    append,
    change,
    change_header,
    decide_on_nothing,
    decide_under,
    fold,
    lie_otherwise,
    move,
    never_read,
    resolve,
    review,
    swap,
)
from load.attacks.recorded_installation import BEGAN_MS, HOUR, TERMS, RecordedInstallation
from sluice_topics.catalog import (
    ACTIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    OUTCOMES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    SESSION_EVENTS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.attacks.attempt import Extent
    from load.attacks.forging import Forge


@dataclass(frozen=True, slots=True)
class Forgery:
    """What is tried; `forge` gives the records afterwards. `limit`: known not to be findable."""

    tried: str
    forge: Forge
    limit: bool = False


def run(extent: Extent) -> Iterator[Attempt]:
    """Every forgery, each on the same ledger; the short form tries every third one and every known limit."""
    tried = [
        forgery
        for at, forgery in enumerate(FORGERIES)
        if extent == "full" or forgery.limit or at % THIRD == 0
    ]
    installation = record_installation()
    findings = installation.examine(installation.records)
    yield Attempt(
        "the ledger as the workers wrote it",
        not findings,
        findings[0] if findings else "intact, identical",
        harmless=True,
    )
    for forgery in tried:
        findings = installation.examine(forgery.forge(installation))
        answer = findings[0] if findings else "nothing is said"
        yield Attempt(forgery.tried, bool(findings), answer, known_limit=forgery.limit)


def record_installation() -> RecordedInstallation:
    """Two sessions with decisions of every kind, a settlement among them."""
    installation = RecordedInstallation()
    wipe = {"toolName": "run", "parameters": {"command": "rm -rf /srv"}}
    of_each: list[dict[str, Any]] = [
        {"rows_affected": 400},
        wipe,
        {"rows_affected": 500},
        {"agent_id": "frozen"},
    ]
    for number, more in enumerate(of_each):
        installation.take(ACTIONS, _action(f"a-{number}", **more))
    installation.take(OUTCOMES, _outcome("a-0", 390))
    installation.take(ACTIONS, _action("a-0", rows_affected=400))
    installation.take(ACTIONS, _action("b-1", session_id="s-2", rows_affected=3))
    installation.take(MEMORY_WRITES, _write("w-1", "The customer prefers e-mail."))
    installation.take(MEMORY_WRITES, _write("w-2", "No metadata.", timestamp=None))
    installation.take(MEMORY_WRITES, _write("w-1", "Something else under the same id."))
    installation.take(
        RETRIEVALS, _retrieval("r-1", [_item("i-1"), _item("i-2", timestamp="1999-01-01T00:00:00Z")])
    )
    installation.take(RETRIEVALS, _retrieval("r-2", [_item("i-3")], session_id="s-3"))
    installation.take(ACTIONS, _action("a-9", rows_affected=1))
    return installation


def _action(name: str, **more: Any) -> dict[str, Any]:
    base = {"action_id": name, "agent_id": "operator", "session_id": "s-1", "mode": "high_stakes"}
    return {**base, "toolName": "find", "parameters": {}, "rows_affected": 1, **more}


def _outcome(name: str, rows: int) -> dict[str, Any]:
    return {"action_id": name, "session_id": "s-1", "rows_affected": rows, "reported_by": "operator"}


def _write(name: str, content: str, **more: Any) -> dict[str, Any]:
    quality = {"content_class": "note", "timestamp": "2025-11-20T10:00:00Z", "confidence_score": 0.9}
    quality["provenance_hash"] = HASH
    base = {"write_id": name, "agent_id": "operator", "session_id": "s-1", "content": content, **quality}
    return {**base, "source": {"id": "crm", "type": "user"}, "provenance_uri": TERMS, **more}


def _item(name: str, **more: Any) -> dict[str, Any]:
    quality = {
        "content_class": "legal_text",
        "timestamp": "2025-11-20T10:00:00Z",
        "confidence_score": 0.9,
        "provenance_hash": HASH,
    }
    return {"item_id": name, **quality, "provenance_uri": TERMS, "body": "The lease ends in May.", **more}


def _retrieval(name: str, items: list[dict[str, Any]], session_id: str = "s-1") -> dict[str, Any]:
    return {"request_id": name, "agent_id": "operator", "session_id": session_id, "items": items}


THIRD = 3
ALLOWED = {"outcome": "ALLOW", "verdict": "allowed", "blockReason": None}
NO_GATE: dict[str, Any] = {**ALLOWED, "stages": [], "gateResults": []}
NOTHING = {"aggregateRowsAffected": 0, "aggregateActionCount": 0}


FORGERIES = (
    Forgery("rm -rf /srv: ALLOW in place of BLOCK", change(VERDICTS, 1, **ALLOWED)),
    Forgery("rm -rf /srv: ALLOW with no stage and no gate", change(VERDICTS, 1, **NO_GATE)),
    Forgery("rm -rf /srv: a second verdict appended, ALLOW without stages", append(**NO_GATE)),
    Forgery("rm -rf /srv: a second verdict appended, the same once more", append()),
    Forgery(
        "rm -rf /srv: decided under the lax bundle that was replaced", decide_under(BEGAN_MS, b"none", 1)
    ),
    Forgery("a frozen agent: its freeze left out", decide_under(BEGAN_MS + 3 * HOUR, b"freeze", 3)),
    Forgery("an agent: its registration left out", decide_under(BEGAN_MS + 3 * HOUR, b"agent/operator", 0)),
    Forgery("a tool: its registration left out", decide_under(BEGAN_MS + 3 * HOUR, b"tool/find", 2)),
    Forgery(
        "the session's totals before: nothing was done so far", change(VERDICTS, 2, session__before=NOTHING)
    ),
    Forgery("the session's totals after: nothing was done", change(VERDICTS, 2, session__after=NOTHING)),
    Forgery("rows reserved: none", change(VERDICTS, 2, rows_reserved=0)),
    Forgery("no room in the session", change(VERDICTS, 2, session__room=False)),
    Forgery("a repeated action: not known before", change(VERDICTS, 4, session__known=None)),
    Forgery(
        "a blocked action: ALLOW by code of another version",
        change(VERDICTS, 1, **ALLOWED, decider_version="9.9.9+else"),
    ),
    Forgery("a settlement: fewer rows", change(SESSION_EVENTS, 0, actual=1, aggregateRowsAffected=1)),
    Forgery(
        "a memory without metadata: allowed", change(MEMORY_DECISIONS, 1, action="allow", reason="trusted")
    ),
    Forgery("a memory under a used id: nothing known", change(MEMORY_DECISIONS, 2, seen__known=None)),
    Forgery("a memory: a higher trust", change(MEMORY_DECISIONS, 0, trustScore__total=0.99)),
    Forgery(
        "a memory's source: written at another time", change(MEMORY_DECISIONS, 1, seen__source__last_at=1)
    ),
    Forgery(
        "an old item: passes", change(QUALITY_DECISIONS, 1, outcome="pass", flags_set=[], reason_codes=[])
    ),
    Forgery("an item: another body", change(QUALITY_DECISIONS, 0, body_digest="sha256:" + "0" * 64)),
    Forgery(
        "a verdict decided on a session without totals, whole", decide_on_nothing(VERDICTS, "Verdict", 2)
    ),
    Forgery("a repeated action decided anew, whole", decide_on_nothing(VERDICTS, "Verdict", 4)),
    Forgery(
        "a memory under a used id decided anew, whole",
        decide_on_nothing(MEMORY_DECISIONS, "MemoryDecision", 2),
    ),
    Forgery(
        "the flags of what the session read: none",
        change(VERDICTS, 6, session__flags={"acknowledged": [], "outstanding": []}),
    ),
    Forgery("a session folded before its time", move(fold)),
    Forgery("a verdict taken out, the chain computed again", move(lambda all_: [*all_[:1], *all_[2:]])),
    Forgery("a verdict taken out", move(lambda all_: [*all_[:1], *all_[2:]], again=False)),
    Forgery("two verdicts of a session exchanged, the chain computed again", move(swap)),
    Forgery("two verdicts exchanged", move(swap, again=False)),
    Forgery("the last verdict cut off, its input still there", move(lambda all_: all_[:-1], again=False)),
    Forgery("the checkpoints in a verdict's headers", change_header("X-Mnemom-Verdict", b"front=pass")),
    Forgery("the id in a verdict's headers", change_header("ce_id", b"verdict:other")),
    Forgery("a verdict's key: another session", lie_otherwise(key=b"s-2")),
    Forgery("a verdict's time: before its input came", lie_otherwise(written_ms=BEGAN_MS)),
    Forgery("a verdict in another partition", lie_otherwise(partition=4)),
    Forgery("an action denied as one that crashed workers, never read", never_read, limit=True),
    Forgery("a memory's source: many good reviews", review, limit=True),
    Forgery("an item's reference: resolved, with the hash that it claims", resolve, limit=True),
    Forgery("the trace in a verdict's headers", change_header("traceparent", b"00-0-0-00"), limit=True),
    Forgery(
        "the name of the installation in a verdict's headers",
        change_header("ce_source", b"/else"),
        limit=True,
    ),
    Forgery(
        "the durations of a verdict's gates", change(VERDICTS, 0, gateResults__0__durationMs=9), limit=True
    ),
)
