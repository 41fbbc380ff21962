"""One attempt of an attacker and what came of it; and the session in which attempts are made.

The session is decided by the core as in a worker, under the shipped bundle over a small registry.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sluice.broker import locate
from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import Replay
from sluice.core.foundation.input_record import InputRecord
from sluice.core.policy.policy import Policy
from sluice.core.registry.loading import load_registry
from sluice.offline.bundle_source import read_whole_bundle
from sluice.settings.reader import Settings
from sluice.shipped import SHIPPED_FILES
from sluice_topics.catalog import ACTIONS, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.registry import Registry

Extent = Literal["short", "full"]
"""How much is tried: `short` takes seconds and runs in the tests, `full` is for `make attacks`."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was tried, whether the guarantee held, and what the system answered.

    `harmless` marks a control: an honest input that must pass, so that an attack cannot be "repelled" by a
    system that refuses everything. Its `held` says that it did pass. `known_limit` marks what the docs list
    as not held: it is shown as that, and counts neither way.
    """

    tried: str
    held: bool
    answer: str
    harmless: bool = False
    known_limit: bool = False


RunOn = Callable[["Extent", str], "Iterator[Attempt]"]
"""An attack on a broker that runs, by its bootstrap servers."""


@dataclass(frozen=True, slots=True)
class Attack:
    """A family of attempts. `point`: the number of what it attacks, as in tests; `aim`: the attacker's.

    `run_on`: the same on a broker that runs already, by its bootstrap servers, where any will do.
    `is_tested`: the attempts are tests of the suite, which need not run twice there.
    """

    point: int
    name: str
    aim: str
    run: Callable[[Extent], Iterator[Attempt]]
    needs_broker: bool = False
    needs_redis: bool = False
    run_on: RunOn | None = None
    is_tested: bool = False

    @classmethod
    def run_test_file(
        cls, point: int, name: str, aim: str, run: Callable[[Extent], Iterator[Attempt]]
    ) -> Attack:
        """An attack whose attempts are the tests of a file (known_ways.py)."""
        return cls(point, name, aim, run, is_tested=True)

    @classmethod
    def run_on_broker(cls, point: int, name: str, aim: str, run_on: RunOn) -> Attack:
        """An attack that any broker will do for; alone it starts one."""
        run = partial(_run_on_own_broker, run_on)
        return cls(point, name, aim, run, needs_broker=True, run_on=run_on)


def _run_on_own_broker(run_on: RunOn, extent: Extent) -> Iterator[Attempt]:
    with (
        TemporaryDirectory(prefix="sluice-attack-") as folder,
        locate.open_broker(None, Path(folder)) as broker,
    ):
        yield from run_on(extent, broker.bootstrap_servers)


POINT, POINT_KEY = "door", Ed25519PrivateKey.generate()
PARTITION = 3
MINUTE_MS = 60_000
BEGAN_MS = 1_795_255_200_000
TOOL = "look-up"
"""Of tier T1, so that nothing but the session holds an action up."""


class AttackedSession:
    """A session with the offsets of its topics; decisions are applied at once."""

    def __init__(self, session: str, **limits: int) -> None:
        """`limits`: bounds of a session that are not the shipped ones."""
        self.session = session
        self.replay = Replay(_point(tuple(limits.items())))
        self.now = BEGAN_MS
        self._next = dict.fromkeys((ACTIONS, OUTCOMES), 10)

    def later(self, minutes: int) -> None:
        """Time passes."""
        self.now += minutes * MINUTE_MS

    def action(self, action_id: str, rows: int, agent: str = "honest", **more: Any) -> InputRecord:
        """An action that lies on its topic, and is not decided yet."""
        fields = {
            "action_id": action_id,
            "agent_id": agent,
            "session_id": self.session,
            "mode": "high_stakes",
            "toolName": TOOL,
            "parameters": {},
            "rows_affected": rows,
        }
        return self.input_record(ACTIONS, fields | more)

    def again(self, input_record: InputRecord) -> InputRecord:
        """The same bytes once more, at their own place."""
        return self.input_record(input_record.topic, json.loads(input_record.value or b""))

    def input_record(self, topic: str, fields: dict[str, Any]) -> InputRecord:
        """A record where the broker puts it."""
        offset = self._next.get(topic, 10)
        self._next[topic] = offset + 1
        value = json.dumps(fields).encode()
        return InputRecord(topic, PARTITION, offset, self.now, self.session.encode(), value)

    def take(self, input_record: InputRecord) -> dict[str, Any]:
        """The verdict on an action."""
        records = self.replay.take(input_record).records
        return next(record.body for record in records if record.kind == "Verdict")

    def report(self, fields: dict[str, Any]) -> list[OutRecord]:
        """All records about an outcome."""
        return self.replay.take(self.input_record(OUTCOMES, fields)).records

    @property
    def state_bytes(self) -> int:
        """Of the session's stored form."""
        return sum(map(len, self.replay.session(self.session.encode()).entries().values()))

    @property
    def rows(self) -> int:
        """The total, as the next verdict would say it."""
        before = self.take(self.action(f"probe-{self._next[ACTIONS]}", 0))["session"]["before"]
        return int(before["aggregateRowsAffected"])

    def report_unchanged(
        self, tried: str, outcome: dict[str, Any], rows: int, reason: str | None = None
    ) -> Attempt:
        """Report it: the total must stay as it is, and the refusal have its reason if one is named."""
        reasons = [record.body["reason"] for record in self.report(outcome) if record.kind == "InputRefused"]
        total = self.rows
        refusal = reasons[-1] if reasons else "counted"
        return Attempt(
            tried, total == rows and reason in {None, refusal}, f"total {total} of {rows}, {refusal}"
        )

    def total(self, tried: str, rows: int, *, harmless: bool = False) -> Attempt:
        """The total must be this."""
        total = self.rows
        return Attempt(tried, total == rows, f"total {total} of {rows}", harmless)


def rows_of(verdict: dict[str, Any]) -> int:
    """The total that a verdict left."""
    return int(verdict["session"]["after"]["aggregateRowsAffected"])


@cache
def _bundle() -> Bundle:
    return load_bundle(read_whole_bundle(SHIPPED_FILES / "bundles" / "default.json"))


def entries() -> list[dict[str, Any]]:
    """The registry in which attempts are made."""
    raw = POINT_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    tool = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True, "trusts_row_claims": True}
    agents = {"honest": "acme", "sibling": "acme", **{f"rival-{n}": f"globex-{n}" for n in range(12)}}
    return [
        {"kind": "tool", "id": TOOL, "revision": 1, "spec": tool},
        {
            "kind": "enforcement_point",
            "id": POINT,
            "revision": 1,
            "spec": {"tenant_id": "acme", "public_key": base64.b64encode(raw).decode()},
        },
        *(
            {"kind": "agent", "id": name, "revision": 1, "spec": {"tenant_id": tenant, "tier": "T3"}}
            for name, tenant in agents.items()
        ),
    ]


@cache
def _point(changed: tuple[tuple[str, int], ...] = ()) -> DecisionPoint:
    registry = load_registry(json.dumps({"entries": entries()}).encode())
    return point_over(registry, **dict(changed))


def point_over(registry: Registry, **limits_changed: int) -> DecisionPoint:
    """The core under the shipped bundle over a registry; `limits_changed`: bounds that are not the shipped
    ones."""
    policy = Policy({_bundle().id: _bundle()}, registry, _bundle().id)
    limits = replace(Settings().build_limits(), **limits_changed)
    return DecisionPoint(policy, list_shipped_stages(), limits, stopwatch=lambda: 0, environment="attack")
