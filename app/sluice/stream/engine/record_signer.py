"""Signs what a transaction writes: once for all of its records, with a proof in the headers of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sluice_topics.record_proof import HEADER, RecordProof, Tree, hash_leaf, make_key_id, make_root_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.registry.keys import SigningKey
    from sluice_topics.audience import Audience
    from sluice_topics.headers import Headers


class Provable(Protocol):
    """A record to be produced; `topic` is the base name, `partition` None the writer's own."""

    @property
    def topic(self) -> str: ...
    @property
    def key(self) -> bytes: ...
    @property
    def value(self) -> bytes: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def partition(self) -> int | None: ...


class RecordSigner:
    """With the worker's key, for one installation."""

    def __init__(self, key: SigningKey, audience: Audience) -> None:
        self._key = key
        self._key_id = make_key_id(key.public.raw)
        self._audience = audience

    def sign(self, partition: int, outputs: Sequence[Provable]) -> None:
        """Add a proof to the headers of each record of a whole transaction. Records of internal topics, whose
        key chooses their partition, stay without one."""
        signed = [output for output in outputs if output.partition is None]
        if not signed:
            return
        leaves = [
            hash_leaf(self._audience, output.topic, partition, output.key, output.value) for output in signed
        ]
        tree = Tree(leaves)
        signature = self._key.sign(make_root_message(self._audience, len(leaves), tree.root))
        for number, record in enumerate(signed):
            proof = RecordProof(self._key_id, number, len(leaves), signature, tree.path(number))
            record.headers.append((HEADER, proof.header()))
