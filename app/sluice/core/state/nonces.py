"""The nonces of an agent's signed inputs that a session remembers, so that none counts twice.

They lie beside what gates remember of the agent, by topic. So that the memory is bounded, the oldest go where
there are too many; from then on no record counts that was signed at that time or before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluice.core.state.remembered import GateMemory

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord, InputSignature, Novelty
    from sluice.core.foundation.limits import SessionLimits
    from sluice.core.state.session import Who
    from sluice.core.state.session_view import SessionView

MOST_NONCES = 128
"""Of one agent, session and topic."""


def find_novelty(
    view: SessionView,
    owner: Who,
    input_record: InputRecord,
    signature: InputSignature,
    limits: SessionLimits,
) -> Novelty:
    """What the session says of a valid signature. A session that folds forgets its nonces, so that nothing
    counts that may have come before the last fold."""
    if view.now >= signature.signed_at_ms - signature.window_ms + limits.idle_timeout_ms:
        return "forgotten"
    previous = _find(view, owner, input_record.topic)
    if previous is None:
        return "new"
    if signature.nonce in previous["seen"]:
        return "replayed"
    return "new" if signature.signed_at_ms > previous["floor"] else "forgotten"


def keep_nonce(view: SessionView, owner: Who, input_record: InputRecord) -> None:
    """Keep the nonce of an input that was decided; nothing of an agent that does not sign."""
    signature = input_record.signature
    if signature is None or signature.novelty != "new":
        return
    previous = _find(view, owner, input_record.topic) or {"floor": 0, "seen": {}}
    floor, nonces = previous["floor"], {**previous["seen"], signature.nonce: signature.signed_at_ms}
    over = input_record.timestamp_ms - signature.window_ms
    while len(nonces) > MOST_NONCES or nonces[next(iter(nonces))] < over:
        floor = max(floor, nonces.pop(next(iter(nonces))))
    until = max(nonces.values()) + signature.window_ms
    view.remember_for_gate(
        owner, _name(input_record.topic), GateMemory(until, {"floor": floor, "seen": nonces})
    )


def _find(view: SessionView, owner: Who, topic: str) -> Any:
    account = view.account(owner.tenant)
    return None if account is None else view.read_gate_memory(owner, account).get(_name(topic))


def _name(topic: str) -> str:
    return f"signed {topic}"
