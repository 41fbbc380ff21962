"""Seed 003's statistics, counted per tenant and agent; sums over them give the tenant's and the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY_PREFIX = b"n:"


class Whose(NamedTuple):
    """A tenant and an agent; for unregistered agents the tenant is "unregistered" and the agent is empty."""

    tenant: str
    agent: str

    @property
    def key(self) -> bytes:
        """In the table."""
        return KEY_PREFIX + orjson.dumps(list(self))

    @classmethod
    def parse_key(cls, key: bytes) -> Whose:
        """What `key` wrote."""
        return cls(*orjson.loads(key[len(KEY_PREFIX) :]))


class Statistics(NamedTuple):
    """`evaluated` counts every decision, `size` what is in quarantine now."""

    evaluated: int = 0
    allowed: int = 0
    quarantined: int = 0
    rejected: int = 0
    size: int = 0

    def add(self, action: str) -> Statistics:
        """These counts with one more decision, as published: in shadow mode every write is allowed."""
        return self._replace(
            evaluated=self.evaluated + 1,
            allowed=self.allowed + (action == "allow"),
            quarantined=self.quarantined + (action == "quarantine"),
            rejected=self.rejected + (action == "reject"),
        )

    def resize(self, by: int) -> Statistics:
        """These counts with this many more in quarantine."""
        return self._replace(size=self.size + by)

    def plus(self, other: Statistics) -> Statistics:
        """Both together."""
        return Statistics(*(one + two for one, two in zip(self, other, strict=True)))

    def fields(self) -> dict[str, Any]:
        """By the seed's names."""
        return {
            "totalEvaluated": self.evaluated,
            "allowed": self.allowed,
            "quarantined": self.quarantined,
            "rejected": self.rejected,
            "currentQuarantineSize": self.size,
        }


NOTHING = Statistics()


def read_statistics(table: Mapping[bytes, bytes]) -> dict[Whose, Statistics]:
    """Every count of a partition's table."""
    return {
        Whose.parse_key(key): Statistics(*orjson.loads(value))
        for key, value in table.items()
        if key.startswith(KEY_PREFIX)
    }
