"""Hands what the engine tells on to every observer, whose faults never reach the worker."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sluice.core.trust.policy_contents import PolicyContents
    from sluice.stream.engine.observer import Commit, EngineObserver, EngineState, StagedRecord

log = logging.getLogger(__name__)


class EngineObservers:
    """Several observers as one. Of each only the first fault is logged: what it counts may be wrong then, and
    decisions go on."""

    def __init__(self, observers: Sequence[EngineObserver]) -> None:
        self._observers = list(observers)
        self._faulty: set[str] = set()

    def note_taken(self, records: Sequence[StagedRecord]) -> object:
        """What each made of them, in the observers' order; None of one that failed."""
        taken: list[object] = []
        self._tell(lambda observer: taken.append(observer.note_taken(records)), lambda: taken.append(None))
        return taken

    def note_commit(self, commit: Commit) -> None:
        """See EngineObserver."""
        taken = iter(commit.taken) if isinstance(commit.taken, list) else iter(())
        self._tell(lambda observer: observer.note_commit(replace(commit, taken=next(taken, None))))

    def note_state(self, state: EngineState) -> None:
        """See EngineObserver."""
        self._tell(lambda observer: observer.note_state(state))

    def note_fenced(self, partitions: int) -> None:
        """See EngineObserver."""
        self._tell(lambda observer: observer.note_fenced(partitions))

    def note_policy(self, contents: PolicyContents, refused: int) -> None:
        """See EngineObserver."""
        self._tell(lambda observer: observer.note_policy(contents, refused))

    def note_at_hand(self, port: str) -> None:
        """See EngineObserver."""
        self._tell(lambda observer: observer.note_at_hand(port))

    def note_question(self, port: str, status: str, took_s: float) -> None:
        """See EngineObserver."""
        self._tell(lambda observer: observer.note_question(port, status, took_s))

    def _tell(
        self, tell: Callable[[EngineObserver], None], failed: Callable[[], None] = lambda: None
    ) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception:
                failed()
                name = type(observer).__name__
                if name not in self._faulty:
                    self._faulty.add(name)
                    log.exception("%s failed: what it shows may be wrong from here on", name)
