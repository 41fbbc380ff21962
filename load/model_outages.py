"""All that asks a model, while the model's server and the Redis of kept answers come and go.

Inputs come in shares, each with a fault in its middle: the model's server is stopped, and hangs; Redis is
stopped, and hangs; a worker is killed. Of four inputs two are actions under high_stakes, which ask at every
gate that can; one is a memory write and one a retrieval with a body, both of which are judged always. What
the server says follows from the question alone, so every answer to one question must be the same, whoever
got it from where. When all is over, every decision is executed again without server, Redis and encoder.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from load.bench.fixtures.bench_env import publish
from load.inputs.memory_traffic import QUALITY
from load.inputs.retrieval_traffic import YOUNG
from load.installations import neutral_policy
from load.installations.fleet import Fleet, RunFailed
from load.installations.installation import gather, prepare, records_of
from load.installations.model_server import MODEL, ModelServer
from load.installations.quality_policy import RECORDED_HASH, RECORDED_URI
from load.installations.redis_server import RedisServer
from load.interruptions import WORKERS, both_decide, kill_idle, wait_until
from load.recomputation import figures
from load.recomputation.input_answers import account
from load.recomputation.reruns import execute_again
from load.recomputation.run_findings import bites, chain_errors
from load.scene import SLOW_S, STALL_S
from sluice.core.actions.causal import EXTRACTION_PORT
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import (
    ACTIONS,
    MEMORY_DECISIONS,
    MEMORY_WRITES,
    QUALITY_DECISIONS,
    RETRIEVALS,
    VERDICTS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from load.installations.installation import Evidence, RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed

OPEN_S = 1.0
IMPATIENT = (("MAX_RETRIES", "0"), ("OPEN_S", str(OPEN_S)), ("MAX_KEPT", "16"), ("MAX_CONNECTIONS", "64"))
"""An agent that is alone gets half of the connections: with few, it waits for itself on a slow machine."""
TAKES_MS = 20
LEAST, TEXTS, LOOK_S, FAULT_S = 120, 40, 0.1, 1.5
DECISIONS = (VERDICTS, MEMORY_DECISIONS, QUALITY_DECISIONS)
LET = frozenset({"ALLOW", "allow", "pass"})
UNDISTURBED = ("calm", "redis_gone", "redis_hangs", "killed", "again")
"""Shares in which the model answers every question."""


async def models(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """The run; see the module's text."""
    rng = bed.rng("models")
    folder = bed.folder / "models"
    folder.mkdir(parents=True)
    with ModelServer(TAKES_MS) as server, RedisServer(folder) as redis:
        installation = await _installation(bed, server, redis)
        fleet = Fleet(installation, SLOW_S)
        watching = asyncio.create_task(fleet.watch())
        shares = _Shares(installation, fleet, max(LEAST, scale.events // 50))
        try:
            for slot in range(WORKERS):
                fleet.spawn(slot)
            await wait_until(fleet, lambda: both_decide(fleet), "every partition is owned")
            await shares.run("calm", lambda: None, lambda: None)
            for name, away in (("model", server), ("redis", redis)):
                await shares.run(f"{name}_gone", away.stop, away.start)
                await shares.wait_for_answers()
                hangs, goes_on = (
                    lambda s=number, a=away: a.send(s) for number in (signal.SIGSTOP, signal.SIGCONT)
                )
                await shares.run(f"{name}_hangs", hangs, goes_on)
                await shares.wait_for_answers()
            killing = asyncio.create_task(kill_idle(fleet, rng.randrange(WORKERS)))
            await shares.run("killed", lambda: None, lambda: None)
            await killing
            await shares.run("again", lambda: None, lambda: None)
            await wait_until(fleet, lambda: both_decide(fleet), "none is still starting")
            await fleet.close()
            fleet.check()
        finally:
            watching.cancel()
            fleet.kill_all()
    evidence = await gather(installation)
    return [
        *_answers(evidence, shares.count),
        *_decisions(evidence),
        chain_errors(evidence),
        *bites(fleet.tally, evidence, ("moved", "killed")),
        *await execute_again(evidence),
    ]


async def _installation(bed: Bed, server: ModelServer, redis: RedisServer) -> TestInstallation:
    installation = await prepare(
        bed.broker.bootstrap_servers,
        bed.folder / "models",
        bed.installation_name("models"),
        neutral_policy.ASKING,
    )
    await publish_policy(
        installation.bootstrap_servers,
        installation.prefix,
        neutral_policy.make_asking(installation.trust, MODEL),
    )
    installation.settings.update(
        server.environment
        | {
            "SLUICE_EMBEDDING__ENCODER": "all-minilm-l6-v2",
            "SLUICE_GRADER__REDIS_URL": redis.url,
            "SLUICE_REDIS__KEY_FILE": str(redis.key_file),
            **{f"SLUICE_{of}__{name}": value for of in ("GRADER", "ANALYSIS") for name, value in IMPATIENT},
            "SLUICE_MEMORY__MAX_QUARANTINE_SIZE": str(neutral_policy.MOST_HELD),
        }
    )
    return installation


class _Shares:
    """Publishes inputs and waits for their decisions. `count`: how many there were."""

    def __init__(self, installation: TestInstallation, fleet: Fleet, each: int) -> None:
        self._installation = installation
        self._fleet = fleet
        self._each = each
        self.count = 0

    async def run(self, name: str, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """A share, its middle third published and decided upon while the fault lasts."""
        third = self._each // 3
        await self._publish(name, third)
        begin()
        await self._publish(name, third)
        await asyncio.sleep(FAULT_S)
        end()
        await self._publish(name, third)
        await self._list_decided()

    async def wait_for_answers(self) -> None:
        """Return when every partition's worker gets answers. Raises RunFailed."""
        deadline = time.monotonic() + STALL_S
        while True:
            name = f"probe-{self.count}"
            await self._publish(name, self._installation.partitions * 2)
            verdicts = await self._list_decided()
            if all(
                _is_answered(verdict) for verdict in verdicts if verdict["session_id"].startswith(f"{name}-")
            ):
                return
            if time.monotonic() > deadline:
                raise RunFailed("the model is back, and the workers do not ask it")
            await asyncio.sleep(OPEN_S / 2)

    async def _publish(self, name: str, count: int) -> None:
        made: defaultdict[str, list[tuple[bytes, bytes]]] = defaultdict(list)
        for number in range(self.count, self.count + count):
            topic, fields = _input(name, number)
            made[topic].append((fields["session_id"].encode(), json.dumps(fields).encode()))
        self.count += count
        for topic, messages in made.items():
            await publish(self._installation.bootstrap_servers, self._installation.real(topic), messages)

    async def _list_decided(self) -> list[dict[str, Any]]:
        deadline = time.monotonic() + STALL_S
        while True:
            self._fleet.check()
            each = [await records_of(self._installation, topic) for topic in DECISIONS]
            decisions = [json.loads(record.value or b"") for records in each for record in records]
            if len(decisions) >= self.count:
                return decisions
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.count - len(decisions)} inputs are undecided")
            await asyncio.sleep(LOOK_S)


def _input(name: str, number: int) -> tuple[str, dict[str, Any]]:
    """Topic and fields. Half of the texts come in every share, the others in this one alone."""
    kind, index = number % 4, number // 4
    text = f"entry {index % TEXTS}" if index % 2 else f"entry {name} {number}"
    session = {"agent_id": neutral_policy.CLERK, "session_id": f"{name}-{number}"}
    if kind == 0:
        source = {"id": "load-source", "type": "external"}
        return MEMORY_WRITES, {
            "write_id": f"w-{number}",
            **session,
            "content": text,
            "source": source,
        } | QUALITY
    if kind == 1:
        reference = {
            "provenance_uri": RECORDED_URI,
            "provenance_hash": RECORDED_HASH,
        }
        item = {"item_id": f"i-{number}", "content_class": "law", "timestamp": YOUNG, **reference}
        items = [{**item, "confidence_score": 0.95, "body": text}]
        return RETRIEVALS, {"request_id": f"r-{number}", **session, "items": items}
    tool = {"mode": "high_stakes", "toolName": neutral_policy.READ_TOOL, "parameters": {"text": text}}
    return ACTIONS, {"action_id": f"a-{number}", **session, **tool, "rows_affected": 0}


def _outputs(decision: dict[str, Any]) -> list[dict[str, Any]]:
    """What models were asked; the encoder, which is here all the time, is none."""
    return [output for output in decision.get("model_outputs", []) if output["port"] != EMBEDDING]


def _is_answered(decision: dict[str, Any]) -> bool:
    return all(map(_says_something, _outputs(decision)))


def _says_something(output: dict[str, Any]) -> bool:
    """Of several questions asked at once, each may have failed by itself."""
    together = (output["payload"] or {}).get("answers", [])
    return output["status"] == "answered" and not any("failed" in text for text in together)


def _answers(evidence: Evidence, count: int) -> list[RunFigure]:
    answers = account(evidence)
    return [
        figures.exactly("inputs", len(evidence.inputs), count, "records"),
        figures.none("lost", answers.count("lost"), "inputs"),
        figures.none("duplicated", answers.count("doubled"), "inputs"),
        figures.none("conflicting", answers.count("contradicted"), "inputs"),
        figures.none("answers_without_input", answers.foreign, "records"),
        figures.none("internal_errors", answers.count("faulted"), "inputs"),
    ]


def _decisions(evidence: Evidence) -> list[RunFigure]:
    topics = {evidence.installation.real(topic) for topic in DECISIONS}
    decisions = [json.loads(record.value or b"") for record in evidence.ledger if record.topic in topics]
    texts = {_key(record): _text(json.loads(record.value or b"")) for record in evidence.inputs}
    answers: defaultdict[tuple[str, str, int, str], set[str]] = defaultdict(set)
    for decision in decisions:
        places: Counter[str] = Counter()
        for output in _outputs(decision):
            places[output["gate"]] += output["port"] != EXTRACTION_PORT
            if _says_something(output):
                text = "" if output["port"] == EXTRACTION_PORT else texts[decision["session_id"]]
                question = (output["gate"], output["port"], places[output["gate"]], text)
                answers[question].add(json.dumps(output["payload"], sort_keys=True))
    disturbed = [body for body in decisions if not _is_answered(body)]
    kinds = Counter(body["schema"].split("/")[1] for body in disturbed)
    let = [body for body in disturbed if _came_to(body) in LET]
    without_cause = [body for body in disturbed if body["session_id"].startswith(UNDISTURBED)]
    compared = [body for body in decisions for of in body.get("model_outputs", []) if of["port"] == EMBEDDING]
    return [
        figures.some("answered", len(decisions) - len(disturbed), "decisions"),
        *(figures.some(f"without_an_answer.{kind}", count, "decisions") for kind, count in kinds.items()),
        figures.exactly("kinds_without_an_answer", len(kinds), len(DECISIONS), "kinds"),
        figures.none("let_through_without_an_answer", len(let), "decisions"),
        figures.none("without_an_answer_though_the_model_was_there", len(without_cause), "decisions"),
        figures.none("questions_answered_in_two_ways", _several(answers.values()), "questions"),
        figures.some("compared", len(compared), "actions"),
        figures.require_at_least(
            "outcomes", len({_came_to(body) for body in decisions if _is_answered(body)}), 6, "outcomes"
        ),
    ]


def _came_to(decision: dict[str, Any]) -> str:
    """A verdict's, a memory decision's or a quality decision's outcome."""
    return str(decision.get("action") or decision["outcome"])


def _text(fields: dict[str, Any]) -> str:
    if "items" in fields:
        return str(fields["items"][0]["body"])
    return str(fields.get("content") or fields["parameters"]["text"])


def _key(record: Any) -> str:
    return (record.key or b"").decode()


def _several(answers: Iterable[set[str]]) -> int:
    return sum(len(answer) > 1 for answer in answers)
