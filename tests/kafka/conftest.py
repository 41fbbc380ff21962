"""A real broker for the tests: the first of the three ways that works, one for each process of the run.

No test here is ever skipped: without a broker each fails with the three ways, in CI and on a desk alike.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import uuid
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from load.installations.redis_server import RedisServer
from sluice.broker import locate
from sluice.broker.handle import find_free_ports
from sluice.broker.local import Layout, launch
from sluice.broker.secured import BrokerSecurity, draw_passwords
from sluice_topics.access import ROLES
from tests.kafka.installation import delete_topics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sluice.broker.handle import Broker
    from sluice.broker.local import LocalBroker
    from tests.kafka.pages_installation import PageInstallation

MAX_NAME = 60  # of a test, within a topic's name
OF_MINUTES = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for minutes: by default they spend half of their processor time on optimizing code."""
os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {OF_MINUTES}".strip()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that all tests of a process share; they keep apart by `prefix`. Never stop it: see
    `own_broker`."""
    work = tmp_path_factory.mktemp("kafka")
    with locate.open_broker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), work) as found:
        yield found


@pytest.fixture(scope="session")
def kafka(kafka_broker: Broker) -> str:
    """Its bootstrap servers."""
    return kafka_broker.bootstrap_servers


@pytest.fixture(scope="session")
def second_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """See `own_broker`."""
    work = tmp_path_factory.mktemp("own")
    found = locate.start_broker(Layout(work, work / "data", locate.JARS))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def own_broker(second_broker: Broker, prefix: str) -> Iterator[Broker]:
    """A broker that no other test uses meanwhile, to be stopped, killed and started again."""
    second_broker.start()  # where the last test left it stopped
    yield second_broker
    second_broker.start()
    asyncio.run(delete_topics(second_broker.bootstrap_servers, prefix))


@pytest.fixture(scope="session")
def secured_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker where everyone must log in and may do only what an ACL allows. One file of tests uses it, so
    that a run starts it once."""
    work = tmp_path_factory.mktemp("secured")
    *_, tls_port = find_free_ports(3)  # `launch` takes the two before
    security = BrokerSecurity(work / "tls", tls_port, draw_passwords(*ROLES, "nobody"))
    broker = launch(Layout(work, work / "data", locate.JARS), security=security)
    try:
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic prefix no other test has, nor an earlier run of this one on the same broker. Its topics are
    deleted afterwards: clients ask a broker for all topics, and what is left slows the tests that follow."""
    with new_prefix(request.node.name, _servers(request)) as made:
        yield made


@pytest.fixture(scope="module")
def module_prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """The same for what the tests of a file share."""
    with new_prefix(Path(request.node.name).stem, _servers(request)) as made:
        yield made


def _servers(request: pytest.FixtureRequest) -> str | None:
    """Of the shared broker, where it is used: it has to outlive the topics."""
    shared = "kafka_broker" in request.fixturenames
    return request.getfixturevalue("kafka") if shared else None


@contextmanager
def new_prefix(name: str, servers: str | None) -> Iterator[str]:
    """A prefix that has this name in it, whose topics are deleted on these servers afterwards."""
    short = re.sub(r"[^A-Za-z0-9]+", "-", name)[:MAX_NAME].strip("-")
    prefix = f"t.{short}.{uuid.uuid4().hex[:8]}."
    yield prefix
    if servers is not None:
        asyncio.run(delete_topics(servers, prefix))


@pytest.fixture(scope="module")
def at(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PageInstallation]:
    """The pages that the tests of a file visit, with a Redis where there is one."""
    from tests.kafka.pages_installation import run_pages  # noqa: PLC0415 - few files need a browser

    folder = tmp_path_factory.mktemp("pages")
    with ExitStack() as running:
        given = {}
        if shutil.which("redis-server"):
            given["redis_url"] = running.enter_context(RedisServer(folder)).url
        yield running.enter_context(run_pages(kafka, folder, module_prefix.rstrip("."), **given))
