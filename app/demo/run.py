"""One run of the demo, from the broker to the verified ledger, and nothing left behind."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.broker import locate, own
from app.demo import kept
from app.demo.conversation import converse, create_topics
from app.demo.inputs.trust import publish_policy
from app.demo.place import Place
from app.demo.result import Result, examine
from app.demo.worker import start_worker
from topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from app.broker.handle import Broker
    from app.demo.inputs.material import Material, Wish
    from app.demo.inputs.trust import ThrowawayTrust
    from app.demo.result import Narrator, Step
    from app.demo.worker import Worker

# Stopping what was started, without being stopped oneself half way.

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A second Ctrl-C, or a SIGTERM, does nothing in here. Main thread only, as signals are."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


BROKER_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


def perform(wish: Wish, material: Material, narrator: Narrator) -> Result:
    """The whole run. Whatever happens, what it started is stopped, unless `keep` and it went well.

    Raises BrokerError, KafkaUnreachable, KafkaTopicError, WorkerError; the folder of the run then stays.
    """
    folder = wish.home / wish.run
    folder.mkdir(parents=True)
    try:
        result = _performed(wish, folder, material, narrator)
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise
    finally:
        _remove_if_empty(folder)
    if result.well and not wish.keep:
        shutil.rmtree(folder)
    return result


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _performed(wish: Wish, folder: Path, material: Material, narrator: Narrator) -> Result:
    with ExitStack() as started:
        broker = _broker(wish, folder, narrator, started)
        keys = Path(tempfile.mkdtemp(prefix=f"{wish.run}-keys-"))
        started.callback(shutil.rmtree, keys)
        place = Place(wish.run, folder, broker.bootstrap_servers, wish.trust.root_key, keys)
        _policy(place, wish.trust, material, narrator)
        worker = _worker(wish, place, narrator, started)
        result = _converse(wish, place, material, worker, narrator)
        if wish.keep and result.well:
            _keep(wish, place, broker, worker)
            started.pop_all()
    return result


def _broker(wish: Wish, folder: Path, narrator: Narrator, started: ExitStack) -> Broker:
    with narrator.step("Broker") as step:
        broker = locate.find_broker(_running(wish), folder / "kafka")
        if broker.kind == "external":
            where = "was there already; the demo's topics will stay on it"
        else:
            where = f"{broker.kind}, started for this run"
            started.callback(_stopped, narrator, "Stop broker", broker.close)
        step.say(f"{broker.bootstrap_servers}, {where}")
    return broker


def _running(wish: Wish) -> str | None:
    """The address of a broker that runs already: the one the environment names, or this checkout's."""
    given = wish.environment.get(BROKER_VARIABLE)
    if given:
        return given
    found = own.status(wish.broker_home, None)
    return found.bootstrap_servers if found is not None and found.answers else None


def _policy(place: Place, trust: ThrowawayTrust, material: Material, narrator: Narrator) -> None:
    with narrator.step("Topics") as step:
        count = asyncio.run(create_topics(place))
        step.say(f"{count} under the prefix {place.prefix}, {place.layout.partitions} partitions each")
    with narrator.step("Policy") as step:
        trust.write(place.keys)
        asyncio.run(publish_policy(place.bootstrap_servers, place.prefix, material.policy))
        entries = sum(topic == REGISTRY for topic, _, _ in material.policy)
        step.say(f"two bundles and {entries} generated entries, signed with this run's own keys")


def _worker(wish: Wish, place: Place, narrator: Narrator, started: ExitStack) -> Worker:
    with narrator.step("Worker") as step:
        worker = start_worker(place, wish.environment)
        started.callback(_stopped, narrator, "Stop worker", worker.stop)
        worker.wait_ready()
        step.say(f"process {worker.identity.pid} decides")
    return worker


def _converse(wish: Wish, place: Place, material: Material, worker: Worker, narrator: Narrator) -> Result:
    with narrator.step("Inputs") as step:
        talk = converse(place, material, wish.trust, _Watcher(step, worker), wish.now)
        answers = asyncio.run(talk)
        step.say(f"{answers.published} inputs published, {answers.answered} answered")
    return Result(place, worker.identity, material, answers, examine(place, narrator))


class _Watcher:
    def __init__(self, step: Step, worker: Worker) -> None:
        self.progress = step.progress
        self.alive = worker.check


def _keep(wish: Wish, place: Place, broker: Broker, worker: Worker) -> None:
    if broker.kind != "external":
        own.remember(wish.home, broker)
    kept.remember(wish.home, kept.Kept(place.run, place.folder, place.keys, worker.identity))


def _stopped(narrator: Narrator, what: str, stop: Callable[[], None]) -> None:
    with undisturbed(), narrator.step(what):
        stop()
