"""A real broker for the tests: the first of the three ways that works, one for the whole run.

No test here is ever skipped: without a broker each fails with the three ways, in CI and on a desk alike.
"""

from __future__ import annotations

import os
import re
import uuid
from typing import TYPE_CHECKING

import pytest

from app.broker import locate
from app.broker.local import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from app.broker.handle import Broker

MAX_NAME = 60  # of a test, within a topic's name


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that all tests share; they keep apart by `prefix`. Never stop it: see `own_broker`."""
    work = tmp_path_factory.mktemp("kafka")
    with locate.broker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), work) as found:
        yield found


@pytest.fixture(scope="session")
def kafka(kafka_broker: Broker) -> str:
    """Its bootstrap servers."""
    return kafka_broker.bootstrap_servers


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker for this test alone, to be stopped, killed and started again."""
    found = locate.start_broker(Layout(tmp_path / "kafka", tmp_path / "kafka" / "data", locate.JARS))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A topic prefix no other test has, nor an earlier run of this one on the same broker."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:MAX_NAME].strip("-")
    return f"t.{name}.{uuid.uuid4().hex[:8]}."
