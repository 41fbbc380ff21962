"""What a worker would answer to the demo's inputs, by the pure core under the demo's own signed policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from sluice.adapters.kafka.kafka_read import StoredRecord
from sluice.client.kafka_writing import PublishedAt
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.replay import Replay
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.input_record import InputRecord
from sluice.core.registry.keys import Roots
from sluice.core.trust.in_force import PolicyReducer
from sluice.settings.reader import load_settings
from sluice_demo.answers import DemoAnswers
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.core.foundation.chain import OutRecord
    from sluice.core.policy.policy import Policy
    from sluice_demo.material import Material, Planned, RunOptions
    from sluice_demo.throwaway_trust import ControlRecord

PREFIX = "demo-test."


class Deciding:
    """Decides in process, under more policy whenever more is said. Inputs all lie in partition 0."""

    def __init__(self, wish: RunOptions, material: Material) -> None:
        self.answers = DemoAnswers(PREFIX)
        self._now_ms = read_milliseconds(wish.now())
        self._said = list(material.policy)
        self._in_force = PolicyReducer(Roots([wish.trust.root_key]), "sluice.default", _point)
        self._replay = self._newly_in_force()
        self._offset = 0

    def say(self, records: Sequence[ControlRecord]) -> None:
        """These control records count from now on."""
        self._said += records
        self._replay = self._newly_in_force()

    def take(self, planned: Sequence[Planned]) -> None:
        """Decide on them, in this order."""
        for one in planned:
            place = PublishedAt(one.topic, 0, self._offset, 0)
            self._offset += 1
            outgoing = one.outgoing
            input_record = InputRecord(
                one.topic, 0, place.offset, self._now_ms, outgoing.key, outgoing.value or b""
            )
            self.answers.expect([one], [place])
            self.answers.take(map(_read_stored, self._replay.take(input_record).records))

    def _newly_in_force(self) -> Replay:
        ruling = self._in_force([_control(one, place, self._now_ms) for place, one in enumerate(self._said)])
        assert ruling.point is not None
        assert not ruling.refused
        return Replay(ruling.point)


def _point(policy: Policy) -> DecisionPoint:
    limits = load_settings().build_limits()
    return DecisionPoint(policy, list_shipped_stages(), limits, stopwatch=lambda: 0, environment="demo")


def _control(record: ControlRecord, place: int, at_ms: int) -> InputRecord:
    topic, key, value = record
    assert topic in (BUNDLES, REGISTRY)
    return InputRecord(topic, 0, place, at_ms, key, value)


def _read_stored(record: OutRecord) -> StoredRecord:
    sequenced = {**record.body, "sequence": 1}
    return StoredRecord(f"{PREFIX}{record.topic}", 0, 0, 0, None, orjson.dumps(sequenced), ())
