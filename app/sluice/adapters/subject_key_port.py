"""The port through which the core asks for persons' keys (sluice/core/foundation/sealed_input.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice_topics.sealing import Erased, SubjectKey


class FollowedKeys(Protocol):
    """Keys by their ids, kept up to date from the broker."""

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """What is known of a key now."""

    async def fetch(self, key_ids: Sequence[str]) -> None:
        """Read on until each of these is known, or the topic has no more now."""


class SubjectKeyPort:
    """Answers at once where every key is known; else it reads on first."""

    def __init__(self, keys: FollowedKeys) -> None:
        self._keys = keys

    def recall(self, payload: object) -> object:
        """The keys by their ids; None while one of them is not known."""
        by_id = self._find(payload)
        return None if None in by_id.values() else by_id

    async def ask(self, payload: object) -> object:
        """The keys by their ids, without those that nobody knows."""
        key_ids: Any = payload
        await self._keys.fetch(key_ids)
        return {key_id: key for key_id, key in self._find(payload).items() if key is not None}

    def _find(self, payload: object) -> dict[str, SubjectKey | Erased | None]:
        key_ids: Any = payload
        return {key_id: self._keys.find(key_id) for key_id in key_ids}
