"""One run of the demo, from the broker to the verified ledger, and nothing left behind."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections import Counter
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from app.adapters.kafka_evidence import KafkaEvidence
from app.adapters.kafka_ledger import verify_ledger
from app.adapters.kafka_rerun import rerun_all
from app.broker import locate, own, state
from app.core.actions.stages import shipped_stage
from app.core.bundles import load_bundle
from app.core.strict import json_object
from app.demo import kept
from app.demo.conversation import converse, create_topics
from app.demo.memories import load_writes, with_memories
from app.demo.place import Place
from app.demo.plan import make_plan
from app.demo.recipe import load_recipe
from app.demo.registry import generated_registry
from app.demo.sessions import make_sessions
from app.demo.statistics import Counted, counted
from app.demo.stopping import undisturbed
from app.demo.trust import ThrowawayTrust, publish_policy
from app.demo.worker import start_worker
from app.offline.bundle_source import whole_bundle
from app.offline.panel import load_panel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from app.broker.handle import Broker
    from app.broker.process import ProcessIdentity
    from app.demo.answers import Answers
    from app.demo.plan import Planned
    from app.demo.recipe import Recipe
    from app.demo.sessions import Session
    from app.demo.worker import Worker
    from app.offline.panel import Row
    from app.verifier.findings import Report

BROKER_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a run is given. `home` keeps its files, `broker_home` those of `sluice broker`, `config` panel and
    recipe; `now` gives RFC 3339.
    """

    run: str
    home: Path
    broker_home: Path
    config: Path
    bundle: Path
    environment: Mapping[str, str]
    keep: bool
    now: Callable[[], str]


class Step(Protocol):
    """A step under way."""

    def say(self, detail: str) -> None:
        """What came of it."""

    def progress(self, published: int, answered: int, total: int) -> None:
        """How far the publishing and the answering are."""


class Narrator(Protocol):
    """Tells whoever watches."""

    def step(self, what: str) -> AbstractContextManager[Step]:
        """A step that takes as long as the context."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is published, and from what it was made."""

    rows: Sequence[Row]
    writes: Sequence[dict[str, Any]]
    sessions: Sequence[Session]
    plan: Sequence[Planned]
    recipe: Recipe
    bundle: bytes


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run."""

    place: Place
    worker: ProcessIdentity
    material: Material
    answers: Answers
    report: Report
    reruns: Counter[str]
    statistics: Counted

    @property
    def well(self) -> bool:
        """Every input was answered once, nothing is held any more, the ledger is intact, it has what the
        worker counted, and every decision came out the same again.
        """
        answers = self.answers
        answered = not answers.unanswered and not answers.answered_twice and not answers.held
        same = self.reruns.keys() == {"identical"} and self.statistics.equal
        return answered and self.report.intact and same


def prepare(wish: Wish) -> Material:
    """Make everything that will be published."""
    recipe = load_recipe(wish.config / "recipe.toml")
    rows = load_panel(wish.config / "actions.jsonl")
    rng = random.Random(recipe.seed)  # noqa: S311 - seeded, so that two runs publish the same
    bundle = _hurried(whole_bundle(wish.bundle), recipe)
    writes = load_writes(wish.config / "memory_writes.jsonl")
    now = wish.now()
    sessions = with_memories(make_sessions(rows, load_bundle(bundle), recipe, rng), writes, now)
    return Material(rows, writes, sessions, make_plan(sessions, now), recipe, bundle)


def _hurried(bundle: bytes, recipe: Recipe) -> bytes:
    """The bundle with the recipe's time for reviews: nobody waits an hour for a demo."""
    document = json_object(bundle)
    memory = document.get("memory", {})
    return orjson.dumps({**document, "memory": {**memory, "quarantineReviewMs": int(recipe.review_s * 1000)}})


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
        trust = ThrowawayTrust()
        place = Place(wish.run, folder, broker.bootstrap_servers, trust.root_key, keys)
        _policy(place, trust, material, narrator)
        worker = _worker(wish, place, narrator, started)
        result = _converse(wish, place, material, trust, worker, narrator)
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
        records = trust.policy(material.bundle, generated_registry(material.rows))
        asyncio.run(publish_policy(place.bootstrap_servers, place.prefix, records))
        step.say(
            f"a bundle and {len(records) - 3} generated neutral entries, signed with this run's own keys"
        )


def _worker(wish: Wish, place: Place, narrator: Narrator, started: ExitStack) -> Worker:
    with narrator.step("Worker") as step:
        worker = start_worker(place, wish.environment)
        started.callback(_stopped, narrator, "Stop worker", worker.stop)
        worker.wait_ready()
        step.say(f"process {worker.identity.pid} decides")
    return worker


def _converse(
    wish: Wish,
    place: Place,
    material: Material,
    trust: ThrowawayTrust,
    worker: Worker,
    narrator: Narrator,
) -> Result:
    with narrator.step("Inputs") as step:
        watcher = _Watcher(step, worker)
        talk = converse(place, material.plan, material.recipe, trust.reviewer, watcher, wish.now)
        answers = asyncio.run(talk)
        step.say(f"{answers.published} inputs published, {answers.answered} answered")
    with narrator.step("Ledger") as step:
        report = asyncio.run(verify_ledger(place.bootstrap_servers, place.prefix))
        step.say(f"{report.records} records read and verified")
    with narrator.step("Rerun") as step:
        reruns = asyncio.run(_rerun(place))
        step.say(f"{reruns['identical']} of {reruns.total()} decisions executed again, identical")
    with narrator.step("Statistics") as step:
        statistics = asyncio.run(counted(place))
        step.say("counted live and from the ledger")
    return Result(place, worker.identity, material, answers, report, reruns, statistics)


async def _rerun(place: Place) -> Counter[str]:
    kafka = KafkaEvidence(place.bootstrap_servers, place.prefix)
    return Counter([one.status async for one in rerun_all(kafka, shipped_stage)])


class _Watcher:
    def __init__(self, step: Step, worker: Worker) -> None:
        self.progress = step.progress
        self.alive = worker.check


def _keep(wish: Wish, place: Place, broker: Broker, worker: Worker) -> None:
    if broker.kind != "external":
        state.remember(wish.home, broker)
    kept.remember(wish.home, kept.Kept(place.run, place.folder, place.keys, worker.identity))


def _stopped(narrator: Narrator, what: str, stop: Callable[[], None]) -> None:
    with undisturbed(), narrator.step(what):
        stop()
