"""The actions that a client has begun, by session and action id, so that no tool runs twice under one id.

The journal is kept in memory, or in an SQLite file that the next process reads. A client writes each step
before it takes the step: "started" is written before the tool runs. So if a process dies, the worst result is
a tool that is not run again. One client at a time has the file open: an action that is "started" when a
client opens the file was interrupted.
"""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sluice.client.answers import InputLocation

if TYPE_CHECKING:
    from pathlib import Path

Step = Literal["proposed", "decided", "started", "finished", "reported"]
IN_MEMORY = ":memory:"
BUSY_S = 5.0
"""How long a client waits until another one has closed the file."""

KEPT_MS = 7 * 24 * 3600 * 1000
"""How long an id is remembered. A session remembers it much shorter (`session.action_window_ms`)."""
SWEEP_EVERY = 1000
"""The number of actions between two deletions of old ones."""
_TABLE = """
CREATE TABLE IF NOT EXISTS actions (
    session_id TEXT NOT NULL,
    action_id TEXT NOT NULL,
    step TEXT NOT NULL,
    value BLOB NOT NULL,
    partition INTEGER,
    offset INTEGER,
    timestamp_ms INTEGER,
    verdict TEXT,
    outcome BLOB,
    begun_ms INTEGER NOT NULL,
    PRIMARY KEY (session_id, action_id)
) WITHOUT ROWID
"""


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One action: `value` is the record as published, `verdict` the decision's record, `outcome` the record
    to report."""

    session_id: str
    action_id: str
    step: Step
    value: bytes
    location: InputLocation | None
    verdict: dict[str, Any] | None
    outcome: bytes | None


class Journal:
    """One file, or memory. Each change is a transaction that is on disk before the call returns."""

    def __init__(self, path: Path | None = None) -> None:
        """Raises sqlite3.Error if the file cannot be opened or another client has it open."""
        self._rows = sqlite3.connect(
            IN_MEMORY if path is None else path,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        if path is not None:
            self._rows.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=FULL")
        self._rows.execute(_TABLE)
        self._since_swept = SWEEP_EVERY

    def propose(self, session_id: str, action_id: str, value: bytes) -> JournalEntry:
        """The action's entry: a new one, or that of an earlier call, with the `value` of that call."""
        now_ms = time.time_ns() // 1_000_000
        self._rows.execute(
            "INSERT OR IGNORE INTO actions (session_id, action_id, step, value, begun_ms) "
            "VALUES (?, ?, 'proposed', ?, ?)",
            (session_id, action_id, value, now_ms),
        )
        self._since_swept += 1
        if self._since_swept >= SWEEP_EVERY:
            self._sweep(now_ms)
        return self._find_entry(session_id, action_id)

    def has_action(self, session_id: str, action_id: str) -> bool:
        """Whether an action was begun, by this client or by one that had the file before."""
        row = self._rows.execute(
            "SELECT 1 FROM actions WHERE session_id = ? AND action_id = ?", (session_id, action_id)
        )
        return row.fetchone() is not None

    def set_location(self, session_id: str, action_id: str, location: InputLocation) -> None:
        """Keep the place to which the broker put the action."""
        self._rows.execute(
            "UPDATE actions SET partition = ?, offset = ?, timestamp_ms = ? "
            "WHERE session_id = ? AND action_id = ?",
            (location.partition, location.offset, location.timestamp_ms, session_id, action_id),
        )

    def decide(self, session_id: str, action_id: str, verdict: dict[str, Any]) -> None:
        """Keep the verdict, unless another call has kept it already."""
        self._rows.execute(
            "UPDATE actions SET step = 'decided', verdict = ? "
            "WHERE session_id = ? AND action_id = ? AND step = 'proposed'",
            (json.dumps(verdict), session_id, action_id),
        )

    def resolve(self, session_id: str, action_id: str, verdict: dict[str, Any]) -> None:
        """Keep the final verdict on an escalated action; it replaces the one that escalated."""
        self._rows.execute(
            "UPDATE actions SET verdict = ? WHERE session_id = ? AND action_id = ? AND step = 'decided'",
            (json.dumps(verdict), session_id, action_id),
        )

    def start(self, session_id: str, action_id: str) -> bool:
        """Take the one permission to run the tool; False if another call or process has taken it."""
        changed = self._rows.execute(
            "UPDATE actions SET step = 'started' WHERE session_id = ? AND action_id = ? AND step = 'decided'",
            (session_id, action_id),
        )
        return changed.rowcount == 1

    def finish(self, session_id: str, action_id: str, outcome: bytes) -> None:
        """Keep the outcome that is to be reported."""
        self._rows.execute(
            "UPDATE actions SET step = 'finished', outcome = ? "
            "WHERE session_id = ? AND action_id = ? AND step = 'started'",
            (outcome, session_id, action_id),
        )

    def report(self, session_id: str, action_id: str) -> None:
        """The broker has the outcome."""
        self._rows.execute(
            "UPDATE actions SET step = 'reported' "
            "WHERE session_id = ? AND action_id = ? AND step = 'finished'",
            (session_id, action_id),
        )

    def list_unreported(self) -> list[JournalEntry]:
        """Actions whose tool was started and whose outcome the broker has not confirmed."""
        rows = self._rows.execute("SELECT * FROM actions WHERE step IN ('started', 'finished')")
        return [_read_entry(row) for row in rows.fetchall()]

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def _sweep(self, now_ms: int) -> None:
        """Delete actions older than KEPT_MS, except those whose outcome is still to be reported."""
        self._since_swept = 0
        self._rows.execute(
            "DELETE FROM actions WHERE begun_ms < ? AND step NOT IN ('started', 'finished')",
            (now_ms - KEPT_MS,),
        )

    def _find_entry(self, session_id: str, action_id: str) -> JournalEntry:
        row = self._rows.execute(
            "SELECT * FROM actions WHERE session_id = ? AND action_id = ?", (session_id, action_id)
        ).fetchone()
        return _read_entry(row)


def _read_entry(row: tuple[Any, ...]) -> JournalEntry:
    session_id, action_id, step, value, partition, offset, timestamp_ms, verdict, outcome, _ = row
    location = None if offset is None else InputLocation(partition, offset, timestamp_ms)
    return JournalEntry(
        session_id,
        action_id,
        step,
        value,
        location,
        None if verdict is None else json.loads(verdict),
        outcome,
    )
