"""Who follows policy and keys gives up all connections where it cannot begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaConnectionError

from sluice.bootstrap.followed_sealing import FollowedSealing
from sluice.client.subject_keys import SubjectKeys
from sluice.core.registry.keys import Roots
from sluice.gateway.registry_view import RegistryView
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import make_seal_key

if TYPE_CHECKING:
    from sluice.core.foundation.input_record import InputRecord


class FailingReader:
    """Of a registry whose broker went away."""

    is_closed = False

    async def to_end(self) -> list[InputRecord]:
        """Nothing."""
        raise KafkaConnectionError("no broker")

    async def close(self) -> None:
        """Say so."""
        self.is_closed = True


class StartedKeys(SubjectKeys):
    """Keys whose topic was read."""

    is_closed = False

    async def start(self) -> None:
        """Without a broker."""

    async def close(self) -> None:
        """Say so."""
        self.is_closed = True


async def test_where_the_policy_cannot_be_read_neither_view_nor_keys_stay_open() -> None:
    reader, master = FailingReader(), make_seal_key()
    keys = StartedKeys("127.0.0.1:9", "gate.subject_keys", FileKeyWrapper(lambda: (master,)))
    view = RegistryView(reader, Roots({}), 1.0, 10.0)
    with pytest.raises(KafkaConnectionError):
        await FollowedSealing(view, keys, "default").start()
    assert (reader.is_closed, keys.is_closed) == (True, True)
