"""Gates that ask a model, while the model's server and the Redis of kept answers come and go.

Actions come in shares, each with a fault in its middle: the model's server is stopped, and hangs; Redis is
stopped, and hangs; a worker is killed. Every action asks both gates under high_stakes. What the server says
follows from the question alone, so every answer to one question must be the same, whoever got it from where.
When all is over, every decision is executed again without server and Redis.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from app.cli.demo.throwaway_trust import publish_policy
from app.core.actions.causal import JUDGE
from app.core.actions.grading import GRADE
from load.bench.given.bench_env import publish
from load.interruptions import WORKERS, both_decide, kill_idle, until
from load.recounts import figures
from load.recounts.input_answers import account
from load.recounts.reruns import executed_again
from load.recounts.run_findings import bites, chain_errors
from load.scene import SLOW_S, STALL_S
from load.sites import neutral_policy
from load.sites.fleet import Fleet, RunFailed
from load.sites.model_server import MODEL, ModelServer
from load.sites.redis_server import RedisServer
from load.sites.site import gather, prepare, records_of
from topics.catalog import ACTIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from load.recounts.figures import RunFigure
    from load.scene import Bed
    from load.sites.site import Evidence, Scale, Site

STAGES = ("controls", "slow_probe", "poison", "consequence", "causal", "grader", "tier_auth")
GATES = ("causal", "grader")
CLERK, PROMPT = "load-clerk", "You keep the books. Never change an entry that is closed."
RULES = [{"id": "asked", "reason": "only what was asked", "criterion": "It does only what was asked for."}]
PROOF = {
    "golden": "sha256:" + "0a" * 32,
    "prompts": {"grader": GRADE.version, "causal": JUDGE.version},
    "cases": 160,
    "agreement": 0.95,
    "flips": 1,
    "p50_ms": 40.0,
    "p99_ms": 120.0,
    "proved_at": "2026-11-01T00:00:00.000Z",
}
"""Signed as any proof; what it says of a stand-in is made up."""
BUDGET_MS = 3000
OPEN_S = 1.0
TAKES_MS = 20
LEAST, TEXTS, LOOK_S, FAULT_S = 120, 40, 0.1, 1.5
UNDISTURBED = ("calm", "redis_gone", "redis_hangs", "killed", "again")
"""Shares in which the model answers every question."""


async def models(bed: Bed, scale: Scale) -> list[RunFigure]:
    """The run; see the module's text."""
    rng = bed.rng("models")
    folder = bed.folder / "models"
    folder.mkdir(parents=True)
    with ModelServer(TAKES_MS) as server, RedisServer(folder) as redis:
        site = await _site(bed, server, redis)
        fleet = Fleet(site, SLOW_S)
        watching = asyncio.create_task(fleet.watch())
        shares = _Shares(site, fleet, max(LEAST, scale.events // 50))
        try:
            for slot in range(WORKERS):
                fleet.spawn(slot)
            await until(fleet, lambda: both_decide(fleet), "every partition is owned")
            await shares.run("calm", lambda: None, lambda: None)
            for name, away in (("model", server), ("redis", redis)):
                await shares.run(f"{name}_gone", away.stop, away.start)
                await shares.answered_again()
                hangs, goes_on = (lambda s=one, a=away: a.send(s) for one in (signal.SIGSTOP, signal.SIGCONT))
                await shares.run(f"{name}_hangs", hangs, goes_on)
                await shares.answered_again()
            killing = asyncio.create_task(kill_idle(fleet, rng.randrange(WORKERS)))
            await shares.run("killed", lambda: None, lambda: None)
            await killing
            await shares.run("again", lambda: None, lambda: None)
            await until(fleet, lambda: both_decide(fleet), "none is still starting")
            await fleet.close()
            fleet.check()
        finally:
            watching.cancel()
            fleet.kill_all()
    evidence = await gather(site)
    return [
        *_answers(evidence, shares.count),
        *_verdicts(evidence),
        chain_errors(evidence),
        *bites(fleet.tally, evidence, ("moved", "killed")),
        *await executed_again(evidence),
    ]


async def _site(bed: Bed, server: ModelServer, redis: RedisServer) -> Site:
    site = await prepare(bed.broker.bootstrap_servers, bed.folder / "models", bed.site_name("models"), STAGES)
    parts = {
        "causal": {"enabled": True, "budget_ms": BUDGET_MS},
        "grader": {"budget_ms": BUDGET_MS, "rules": RULES},
    }
    bundle = {**neutral_policy.bundle(2, stages=STAGES), **parts}
    spec = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "system_prompt": PROMPT}
    entry = {"kind": "agent", "id": CLERK, "revision": 1, "spec": spec}
    proof = {"kind": "model_proof", "id": MODEL, "revision": 1, "spec": PROOF}
    records = [site.trust.bundle(json.dumps(bundle).encode()), *site.trust.entries([entry, proof])]
    await publish_policy(site.bootstrap_servers, site.prefix, records)
    site.settings.update(
        server.environment
        | {
            "SLUICE_GRADER__REDIS_URL": redis.url,
            "SLUICE_GRADER__MAX_RETRIES": "0",
            "SLUICE_GRADER__OPEN_S": str(OPEN_S),
            "SLUICE_GRADER__MAX_KEPT": "16",
            "SLUICE_MEMORY__MAX_QUARANTINE_SIZE": str(neutral_policy.MOST_HELD),
        }
    )
    return site


class _Shares:
    """Publishes actions and waits for their verdicts. `count`: how many there were."""

    def __init__(self, site: Site, fleet: Fleet, each: int) -> None:
        self._site = site
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
        await self._decided()

    async def answered_again(self) -> None:
        """Return when every partition's worker gets answers. Raises RunFailed."""
        deadline = time.monotonic() + STALL_S
        while True:
            name = f"probe-{self.count}"
            await self._publish(name, self._site.partitions * 2)
            verdicts = await self._decided()
            if all(_answered(one) for one in verdicts if one["session_id"].startswith(f"{name}-")):
                return
            if time.monotonic() > deadline:
                raise RunFailed("the model is back, and the workers do not ask it")
            await asyncio.sleep(OPEN_S / 2)

    async def _publish(self, name: str, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self.count += count
        await publish(
            self._site.bootstrap_servers,
            self._site.real(ACTIONS),
            [(f"{name}-{one}".encode(), _action(name, one)) for one in numbers],
        )

    async def _decided(self) -> list[dict[str, Any]]:
        deadline = time.monotonic() + STALL_S
        while True:
            self._fleet.check()
            verdicts = [json.loads(one.value or b"") for one in await records_of(self._site, VERDICTS)]
            if len(verdicts) >= self.count:
                return verdicts
            if time.monotonic() > deadline:
                raise RunFailed(f"{self.count - len(verdicts)} actions are undecided")
            await asyncio.sleep(LOOK_S)


def _action(name: str, number: int) -> bytes:
    """Half of the texts come in every share, the others in this one alone."""
    text = f"entry {number % TEXTS}" if number % 2 else f"entry {name} {number}"
    fields = {
        "action_id": f"{name}-{number}",
        "agent_id": CLERK,
        "session_id": f"{name}-{number}",
        "mode": "high_stakes",
        "toolName": neutral_policy.READ_TOOL,
        "parameters": {"text": text},
        "rows_affected": 0,
    }
    return json.dumps(fields).encode()


def _outputs(verdict: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in verdict["model_outputs"] if one["gate"] in GATES]


def _answered(verdict: dict[str, Any]) -> bool:
    return all(one["status"] == "answered" for one in _outputs(verdict))


def _answers(evidence: Evidence, count: int) -> list[RunFigure]:
    found = account(evidence)
    return [
        figures.exactly("inputs", len(evidence.inputs), count, "records"),
        figures.none("lost", found.count("lost"), "inputs"),
        figures.none("duplicated", found.count("doubled"), "inputs"),
        figures.none("conflicting", found.count("contradicted"), "inputs"),
        figures.none("answers_without_input", found.foreign, "records"),
        figures.none("internal_errors", found.count("faulted"), "inputs"),
    ]


def _verdicts(evidence: Evidence) -> list[RunFigure]:
    topic = evidence.site.real(VERDICTS)
    verdicts = [json.loads(one.value or b"") for one in evidence.ledger if one.topic == topic]
    texts = {_key(one): json.loads(one.value or b"")["parameters"]["text"] for one in evidence.inputs}
    said: defaultdict[tuple[str, str, int], set[str]] = defaultdict(set)
    for one in verdicts:
        for place, output in enumerate(_outputs(one)):
            if output["status"] == "answered":
                question = (
                    output["port"],
                    "" if output["port"] == "constraints" else texts[one["session_id"]],
                )
                said[(*question, place)].add(json.dumps(output["payload"], sort_keys=True))
    disturbed = [one for one in verdicts if not _answered(one)]
    let = [one for one in disturbed if one["outcome"] == "ALLOW"]
    without_cause = [one for one in disturbed if one["session_id"].startswith(UNDISTURBED)]
    outcomes = {one["outcome"] for one in verdicts if _answered(one)}
    return [
        figures.some("answered", len(verdicts) - len(disturbed), "verdicts"),
        figures.some("without_an_answer", len(disturbed), "verdicts"),
        figures.none("allowed_without_an_answer", len(let), "verdicts"),
        figures.none("without_an_answer_though_the_model_was_there", len(without_cause), "verdicts"),
        figures.none("questions_answered_in_two_ways", _several(said.values()), "questions"),
        figures.at_least("outcomes", len(outcomes), 2, "outcomes"),
    ]


def _key(record: Any) -> str:
    return (record.key or b"").decode()


def _several(answers: Iterable[set[str]]) -> int:
    return sum(len(one) > 1 for one in answers)
