"""What a partition knows of the policy: which contents it recorded last, and whether the next ones differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.trust.policy_contents import PolicyContents, find_loss, make_policy_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.trust.policy_contents import EditionDifference
    from sluice.stream.engine.outbox import ChangelogRecord

POLICY_KEY = b"p:policy"
"""Its key in the sessions' changelog, beside the partition's own record, which is too small for it and
written in every transaction."""


class RecordedPolicy:
    """The contents that the partition's ledger named last. They outlive the control topics."""

    def __init__(self, partition: int, table: Mapping[bytes, bytes]) -> None:
        """`table`: the partition's recovered state."""
        value = table.get(POLICY_KEY)
        self._partition = partition
        self.contents = None if value is None else PolicyContents.decode(value)
        self._is_new = False

    def record(self, contents: PolicyContents, now_ms: int, *, starts: bool) -> OutRecord | None:
        """The ledger record of these contents; None where the last one says the same and no worker
        `starts`."""
        changed = self.contents is None or contents.digest != self.contents.digest
        if not (starts or changed):
            return None
        record = make_policy_record(self._partition, self.contents, contents, now_ms, starts=starts)
        self.contents = contents.follow(self.contents)
        self._is_new = self._is_new or changed
        return record

    def find_loss(self, contents: PolicyContents) -> tuple[EditionDifference, ...]:
        """What these contents have less than those recorded last, and nobody has accepted."""
        return find_loss(self.contents, contents)

    def flush(self) -> Iterator[tuple[bytes, bytes]]:
        """The state's new entry, if it changed since the last time: it goes into the record's transaction."""
        if self._is_new and self.contents is not None:
            self._is_new = False
            yield POLICY_KEY, self.contents.encode()


def read_recorded_policies(changelog: Iterable[ChangelogRecord]) -> dict[int, PolicyContents]:
    """What each partition recorded last, by its committed entries in their order."""
    last = {
        record.partition: record.value
        for record in changelog
        if record.key == POLICY_KEY and record.value is not None
    }
    return {number: PolicyContents.decode(value) for number, value in last.items()}
