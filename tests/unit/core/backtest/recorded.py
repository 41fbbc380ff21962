"""Back-tests of recorded installations: candidates, inputs, and the walk over all that is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from load.attacks.recorded_installation import RecordedInstallation, bundle
from sluice.core.actions.stages import load_bundle
from sluice.core.backtest.partition_backtest import BacktestPeriod, PartitionBacktest
from sluice.core.foundation.canonical import digest
from sluice.core.registry.registry_entries import EntryFile
from sluice.core.rerun.policy_then import Candidate
from sluice.core.rerun.walk import group_answers, read_entry
from sluice.core.trust.signed_entries import Statement

if TYPE_CHECKING:
    from sluice.core.backtest.backtest_tally import BacktestTally

FOREVER = 1 << 62


def rule(condition: str, **more: Any) -> dict[str, Any]:
    """The tables of a bundle with one rule more."""
    base = {
        "id": "r",
        "type": "invariant",
        "reason": "too much",
        "severity": "warn",
        "description": "A limit.",
    }
    return {"rules": [{**base, "condition": condition, **more}]}


def action(name: str, **more: Any) -> dict[str, Any]:
    base = {"action_id": name, "agent_id": "operator", "session_id": "s-1", "toolName": "find"}
    return {**base, "parameters": {}, "rows_affected": 10, "mode": "high_stakes", **more}


def outcome(name: str, rows: int, session: str = "s-1") -> dict[str, Any]:
    return {"action_id": name, "session_id": session, "rows_affected": rows, "reported_by": "operator"}


def candidate(**more: Any) -> Candidate:
    made = load_bundle(bundle(9, lax=False, more=more))
    return Candidate({made.id: made})


def entry(kind: str, name: str, **spec: Any) -> Candidate:
    file = EntryFile.model_validate({"kind": kind, "id": name, "revision": 9, "spec": spec})
    document = file.model_dump()
    return Candidate(entries=[Statement(kind, name, 9, digest(document), document)])


def backtest(
    installation: RecordedInstallation, policy: Candidate, period: BacktestPeriod | None = None
) -> BacktestTally:
    then, when = installation.then, period or BacktestPeriod(0, FOREVER, 0)
    walk = PartitionBacktest(then, then.replace_by(policy), when)
    entries = [entry for record in installation.records if (entry := read_entry(record)) is not None]
    for group in group_answers([one for one in entries if one.written.written_ms >= when.read_ms]):
        coordinates = group[0].coordinates
        input_record = None if coordinates is None else installation.inputs.get(coordinates)
        walk.take(group, input_record, installation.inputs)
    return walk.close()
