"""The sessions of one partition: encoded in the table, decoded while a batch touches them."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from app.core.state.session import KEY_PREFIX, SessionState, due_ms

if TYPE_CHECKING:
    from collections.abc import Container, Iterator


class Sessions:
    """State by session key. What is staged is visible at once, also to the next input of the same batch."""

    def __init__(self, table: dict[bytes, bytes], max_hot: int) -> None:
        """`max_hot`: how many sessions stay decoded after their batch, busy ones are not read anew."""
        self._table = table
        self._touched: dict[bytes, SessionState] = {}
        self._hot: dict[bytes, SessionState] = {}
        self._max_hot = max_hot
        self._due = [(due_ms(v), k) for k, v in table.items() if k.startswith(KEY_PREFIX)]
        heapq.heapify(self._due)

    def __len__(self) -> int:
        """Entries of the timers' queue: about one a session."""
        return len(self._due)

    def known(self, key: bytes) -> bool:
        return key in self._touched or key in self._table

    def load(self, key: bytes) -> SessionState:
        """The session's state, a fresh one when there is none."""
        decoded = self._touched.get(key) or self._hot.get(key)
        if decoded is not None:
            return decoded
        value = self._table.get(key)
        return SessionState(key) if value is None else SessionState.decode(key, value)

    def touch(self, key: bytes, state: SessionState, queued_at: int | None) -> None:
        """The state has changed. `queued_at` (ms): when the timers look at it next, None if they do not."""
        self._touched[key] = state
        if not state.gone and (queued_at is None or state.due_ms < queued_at):
            heapq.heappush(self._due, (state.due_ms, key))

    def retry(self, key: bytes, at_ms: int) -> None:
        """Look at a session again at `at_ms`."""
        heapq.heappush(self._due, (at_ms, key))

    def flush(self) -> list[tuple[bytes, bytes | None]]:
        """Encode what was touched into the table; the same entries go to the changelog (None deletes)."""
        entries: list[tuple[bytes, bytes | None]] = []
        for key, state in self._touched.items():
            if state.gone:
                self._table.pop(key, None)
                entries.append((key, None))
            else:
                value = self._table[key] = state.encode()
                entries.append((key, value))
        self._keep_hot()
        return entries

    def _keep_hot(self) -> None:
        self._hot = {key: state for key, state in self._hot.items() if key not in self._touched}
        self._hot |= {key: state for key, state in self._touched.items() if not state.gone}
        for key in list(itertools.islice(self._hot, max(0, len(self._hot) - self._max_hot))):
            del self._hot[key]
        self._touched = {}

    def due(self, now_ms: int, busy: Container[bytes], limit: int) -> Iterator[bytes]:
        """Up to `limit` keys whose time has come. A busy session (input in flight) comes up again later."""
        later: dict[bytes, int] = {}
        while self._due and self._due[0][0] <= now_ms and limit > 0:
            _, key = heapq.heappop(self._due)
            actual = self._due_of(key)
            if actual is None:
                continue
            if actual > now_ms or key in busy:
                later[key] = max(actual, now_ms + 1)  # entries of one session that came due together merge
                continue
            limit -= 1
            yield key
        for key, at_ms in later.items():
            heapq.heappush(self._due, (at_ms, key))

    def _due_of(self, key: bytes) -> int | None:
        touched = self._touched.get(key)
        if touched is not None:
            return None if touched.gone else touched.due_ms
        value = self._table.get(key)
        return None if value is None else due_ms(value)
