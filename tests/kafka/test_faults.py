"""The fault runs of load/, shortened: the same code, the same checks, one or two faults each."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from load.bounds import NAME as BOUNDS
from load.bounds import push_values
from load.faults import carry_out
from load.installations.installation import SHORT
from load.recomputation.figures import table
from load.scene import Bed
from tests.kafka.installation import delete_topics

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.broker.handle import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

SEED = 20
SOME_VALUES = 14_000
"""Enough to fill the table of an agent; `python -m load.bounds` pushes 100 000."""


RUNS = (
    "kill_two",
    "zombies",
    "scaling",
    "reload",
    "malformed",
    "poison",
    "approvals",
    "channels",
    "models",
    "archive",
    "audit",
)


@pytest.mark.parametrize("run", RUNS)
async def test_nothing_is_lost_doubled_or_wrong_after(
    run: str, kafka_broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if run == "models":
        request.getfixturevalue("real_redis")
    bed = Bed(kafka_broker, tmp_path, SEED, uuid.uuid4().hex[:8])
    try:
        await _holds(run, bed)
    finally:
        await delete_topics(kafka_broker.bootstrap_servers, bed.installation_name(run))


async def test_nothing_is_lost_doubled_or_wrong_after_outages(own_broker: Broker, tmp_path: Path) -> None:
    await _holds("outages", Bed(own_broker, tmp_path, SEED, uuid.uuid4().hex[:8]))


async def test_what_is_kept_of_values_and_uses_stays_within_its_bounds(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    bed = Bed(kafka_broker, tmp_path, SEED, uuid.uuid4().hex[:8])
    try:
        found = await push_values(bed, SOME_VALUES)
    finally:
        await delete_topics(kafka_broker.bootstrap_servers, bed.installation_name(BOUNDS))
    assert all(figure.holds for figure in found), "\n" + table(found)


async def _holds(run: str, bed: Bed) -> None:
    found = await carry_out(run, bed, SHORT)
    assert found
    assert all(figure.holds for figure in found), "\n" + table(found)
