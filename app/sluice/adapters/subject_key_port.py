"""Persons' keys for the core: through a port while inputs are decided, and on demand in reruns
(sluice/core/foundation/sealed_input.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from aiokafka.errors import KafkaError

from sluice.ports import PortUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from sluice_topics.sealing import Erased, SubjectKey


class FollowedKeys(Protocol):
    """Keys by their ids, followed on the broker (SubjectKeys)."""

    async def start(self) -> None:
        """Read the topic to its end. Raises KafkaError."""

    async def close(self) -> None:
        """Give up the connections."""

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """What is known of a key now."""

    async def fetch(self, key_ids: Collection[str]) -> None:
        """Open these keys, so that `find` has them."""


@runtime_checkable
class FetchedKeyring(Protocol):
    """A keyring that must be told which keys it will be asked for."""

    async def fetch(self, key_ids: Collection[str]) -> None:
        """Have them at hand, as far as there are any."""


class SubjectKeyPort:
    """Answers at once where every key is open; else it opens them first."""

    def __init__(self, keys: FollowedKeys) -> None:
        self._keys = keys

    async def start(self) -> None:
        """Follow the topic of keys. Raises PortUnavailable."""
        try:
            await self._keys.start()
        except KafkaError as error:
            raise PortUnavailable(f"the keys of persons cannot be read: {error}") from error

    async def close(self) -> None:
        """Give up the connections."""
        await self._keys.close()

    def recall(self, payload: object) -> object:
        """The keys by their ids; None while one of them is not open."""
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


class KeysOnDemand:
    """Connects only where a key is asked for that it has not, and only for as long."""

    def __init__(self, connect: Callable[[], FollowedKeys | None]) -> None:
        self._connect = connect
        self._by_id: dict[str, SubjectKey | Erased | None] = {}

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """A key that was fetched; ERASED where it was destroyed, None where nobody knows it."""
        return self._by_id.get(key_id)

    async def fetch(self, key_ids: Collection[str]) -> None:
        """Have these keys at hand, as far as there are any. Raises KafkaError."""
        wanted = [key_id for key_id in key_ids if key_id not in self._by_id]
        if not wanted:
            return
        keys = self._connect()
        if keys is None:
            return
        try:
            await keys.start()
            await keys.fetch(wanted)
            self._by_id |= {key_id: keys.find(key_id) for key_id in wanted}
        finally:
            await keys.close()
