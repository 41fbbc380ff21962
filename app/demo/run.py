"""One run of the demo, from the broker to the verified ledger, and nothing left behind.

Its traffic: publish the plan, read the ledger, until every input has its answer.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.adapters.kafka.kafka_publish import publish
from app.adapters.kafka.kafka_read import open_reader
from app.adapters.kafka.kafka_topics import create
from app.broker import locate, own
from app.demo import run_place
from app.demo.demo_answers import TOPICS, Answers
from app.demo.follow_ups import answer_escalations, make_outcomes, make_reports, make_reviews
from app.demo.inputs.throwaway_trust import publish_policy
from app.demo.result import Result, examine
from app.demo.run_place import RunPlace, start_worker
from topics.catalog import BY_NAME, REGISTRY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from app.adapters.kafka.kafka_read import StoredRecord
    from app.broker.handle import Broker
    from app.demo.inputs.material import Material, RunOptions
    from app.demo.inputs.plan import Planned
    from app.demo.inputs.throwaway_trust import ThrowawayTrust
    from app.demo.result import Narrator, Step
    from app.demo.run_place import Worker

PATIENCE_S = 30.0
"""How long no new answer may come before the rest counts as unanswered."""
REPLICAS = 1


class Watcher(Protocol):
    """Told how far it is; `alive` raises when there is no use in waiting any longer."""

    def progress(self, published: int, answered: int, total: int) -> None: ...

    def alive(self) -> None: ...


async def create_topics(place: RunPlace) -> int:
    """Create the run's topics; returns how many. Raises KafkaTopicError and KafkaUnreachable."""
    return len(await create(place.bootstrap_servers, place.layout, REPLICAS))


async def converse(
    place: RunPlace, material: Material, trust: ThrowawayTrust, watcher: Watcher, now: Callable[[], str]
) -> Answers:
    """Publish what is planned, in turn with its answers; then outcomes, reviews, stores' reports and signed
    overrides; wait until what nobody reviews has expired; then what was denied is asked for again.

    `now` gives RFC 3339 for the headers. Returns also when answers stay away: see `Answers.unanswered`.
    """
    recipe = material.recipe
    talk = _Talk(place, recipe.burst, watcher)
    names = [f"{place.prefix}{name}" for name in TOPICS]
    async with open_reader(place.bootstrap_servers, names, "beginning") as reader:
        batches = reader.follow(None)
        await talk.hold(material.opening, batches)
        await talk.hold(material.plan, batches)
        overrides = answer_escalations(talk.answers, material.library.story.override, now())
        await publish_policy(place.bootstrap_servers, place.prefix, trust.overrides(overrides.entries))
        reload = time.monotonic() + recipe.reload_s
        outcomes = make_outcomes(talk.answers, recipe, random.Random(recipe.seed), now())  # noqa: S311 - seeded
        reviews = make_reviews(talk.answers, trust.reviewer, now())
        await talk.hold([*outcomes, *reviews, *make_reports(talk.answers, now())], batches)
        await talk.outlast(recipe.review_s, batches)
        await talk.until(reload, batches)
        await talk.hold(overrides.again, batches)
    return talk.answers


class _Talk:
    def __init__(self, place: RunPlace, burst: int, watcher: Watcher) -> None:
        self.answers = Answers(place.prefix)
        self._place = place
        self._burst = burst
        self._watcher = watcher

    async def hold(self, plan: Sequence[Planned], batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Publish in bursts, reading in between; then read until all is answered or nothing comes."""
        total = self.answers.published + len(plan)
        for start in range(0, len(plan), self._burst):
            await self._publish(plan[start : start + self._burst])
            self.answers.take(await anext(batches))
            self._watcher.progress(self.answers.published, self.answers.answered, total)
        last = time.monotonic()
        while self.answers.unanswered and time.monotonic() < last + PATIENCE_S:
            self._watcher.alive()
            before = self.answers.answered
            self.answers.take(await anext(batches))
            if self.answers.answered > before:
                last = time.monotonic()
            self._watcher.progress(self.answers.published, self.answers.answered, total)

    async def outlast(self, review_s: float, batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Read until nothing is held any more, or its time and our patience are over."""
        end = time.monotonic() + review_s + PATIENCE_S
        while self.answers.held and time.monotonic() < end:
            self._watcher.alive()
            self.answers.take(await anext(batches))

    async def until(self, end: float, batches: AsyncIterator[list[StoredRecord]]) -> None:
        """Read until then, by the monotonic clock."""
        while time.monotonic() < end:
            self._watcher.alive()
            self.answers.take(await anext(batches))

    async def _publish(self, burst: Sequence[Planned]) -> None:
        """Each topic's records in order, the topics side by side."""
        by_topic = {
            name: [one for one in burst if one.topic == name] for name in {one.topic for one in burst}
        }
        await asyncio.gather(*(self._publish_to(name, records) for name, records in by_topic.items()))

    async def _publish_to(self, name: str, planned: Sequence[Planned]) -> None:
        placed = await publish(
            self._place.bootstrap_servers,
            f"{self._place.prefix}{name}",
            [one.outgoing for one in planned],
            max_request_bytes=BY_NAME[name].max_message_bytes,
        )
        self.answers.expect(planned, placed)


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


def perform(wish: RunOptions, material: Material, narrator: Narrator) -> Result:
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


def _performed(wish: RunOptions, folder: Path, material: Material, narrator: Narrator) -> Result:
    with ExitStack() as started:
        broker = _broker(wish, folder, narrator, started)
        keys = Path(tempfile.mkdtemp(prefix=f"{wish.run}-keys-"))
        started.callback(shutil.rmtree, keys)
        place = RunPlace(wish.run, folder, broker.bootstrap_servers, wish.trust.root_key, keys)
        _policy(place, wish.trust, material, narrator)
        worker = _worker(wish, place, narrator, started)
        result = _converse(wish, place, material, worker, narrator)
        if wish.keep and result.well:
            _keep(wish, place, broker, worker)
            started.pop_all()
    return result


def _broker(wish: RunOptions, folder: Path, narrator: Narrator, started: ExitStack) -> Broker:
    with narrator.step("Broker") as step:
        broker = locate.find_broker(_running(wish), folder / "kafka")
        if broker.kind == "external":
            where = "was there already; the demo's topics will stay on it"
        else:
            where = f"{broker.kind}, started for this run"
            started.callback(_stopped, narrator, "Stop broker", broker.close)
        step.say(f"{broker.bootstrap_servers}, {where}")
    return broker


def _running(wish: RunOptions) -> str | None:
    """The address of a broker that runs already: the one the environment names, or this checkout's."""
    given = wish.environment.get(BROKER_VARIABLE)
    if given:
        return given
    found = own.status(wish.broker_home, None)
    return found.bootstrap_servers if found is not None and found.answers else None


def _policy(place: RunPlace, trust: ThrowawayTrust, material: Material, narrator: Narrator) -> None:
    with narrator.step("Topics") as step:
        count = asyncio.run(create_topics(place))
        step.say(f"{count} under the prefix {place.prefix}, {place.layout.partitions} partitions each")
    with narrator.step("Policy") as step:
        trust.write(place.keys)
        asyncio.run(publish_policy(place.bootstrap_servers, place.prefix, material.policy))
        entries = sum(topic == REGISTRY for topic, _, _ in material.policy)
        step.say(f"two bundles and {entries} generated entries, signed with this run's own keys")


def _worker(wish: RunOptions, place: RunPlace, narrator: Narrator, started: ExitStack) -> Worker:
    with narrator.step("Worker") as step:
        worker = start_worker(place, wish.environment)
        started.callback(_stopped, narrator, "Stop worker", worker.stop)
        worker.wait_ready()
        step.say(f"process {worker.identity.pid} decides")
    return worker


def _converse(
    wish: RunOptions, place: RunPlace, material: Material, worker: Worker, narrator: Narrator
) -> Result:
    with narrator.step("Inputs") as step:
        talk = converse(place, material, wish.trust, _Watcher(step, worker), wish.now)
        answers = asyncio.run(talk)
        step.say(f"{answers.published} inputs published, {answers.answered} answered")
    return Result(place, worker.identity, material, answers, examine(place, narrator))


class _Watcher:
    def __init__(self, step: Step, worker: Worker) -> None:
        self.progress = step.progress
        self.alive = worker.check


def _keep(wish: RunOptions, place: RunPlace, broker: Broker, worker: Worker) -> None:
    if broker.kind != "external":
        own.remember(wish.home, broker)
    run_place.remember(wish.home, run_place.KeptRun(place.run, place.folder, place.keys, worker.identity))


def _stopped(narrator: Narrator, what: str, stop: Callable[[], None]) -> None:
    with undisturbed(), narrator.step(what):
        stop()
