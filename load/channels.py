"""Escalations are answered by all channels at once, while a gateway, a worker and the notifier are killed.

Two gateways, two workers and a notifier run on one installation; Slack is a server on this machine, and away
for a while. Each escalation must end once, as the answers on the broker say; each person must be told what
the ledger says; and Slack must show each escalation once, with its end.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx2
from aiokafka import AIOKafkaProducer

from load import PLAIN
from load.inputs.answer_channels import Api, Gateways, SlackButtons, Terminal
from load.inputs.answering import Participants
from load.inputs.page_forms import PageForms
from load.installations import neutral_policy
from load.installations.approvers import PEMS, ROLES
from load.installations.command_process import CommandProcess, free_port
from load.installations.fleet import Fleet, RunFailed
from load.installations.installation import gather
from load.installations.slack_api import SlackApi, slack_api, slack_settings
from load.interruptions import WORKERS, both_decide, kill_idle, wait_until
from load.recomputation import figures
from load.recomputation.approval_recount import approval_figures
from load.recomputation.channel_recount import channel_figures, label_answers
from load.recomputation.reruns import execute_again
from load.recomputation.run_findings import bites, chain_errors
from load.scene import SLOW_S, STALL_S
from sluice.gateway.http.api_keys import ApiKeyFile, make_key, write_keys
from sluice.gateway.pages.accounts import PeopleFile, PersonAccount, hash_password
from sluice_demo.throwaway_trust import GATEWAY, publish_policy

if TYPE_CHECKING:
    import random
    from collections.abc import AsyncIterator

    from load.inputs.answer_channels import AnswerChannel
    from load.installations.installation import RunScale, TestInstallation
    from load.recomputation.figures import RunFigure
    from load.scene import Bed

MOST, LEAST = 200, 24
"""Escalations of a full run and of a short one."""
ACTIONS_PER_ESCALATION, FAULTS = 100, 4
CHANNELS = [{"group": "desk", "channel": "C0DESK"}, {"group": "leads", "channel": "C0LEADS"}]
PASSWORD = "of everybody in the fault runs"  # noqa: S105 - of nothing else
_HASH = hash_password(PASSWORD)
AWAY_S, AGAIN_S = 1.0, 0.1


@dataclass(slots=True)
class ChannelProcesses:
    """The processes beside the workers. `urls` of the gateways; `killed`: how many processes were."""

    gateways: list[CommandProcess]
    urls: list[str]
    notifier: CommandProcess
    api: SlackApi
    killed: int = 0

    async def ready(self) -> None:
        """Both gateways answer. Raises RunFailed."""
        end = time.monotonic() + STALL_S
        async with httpx2.AsyncClient(verify=PLAIN) as client:
            for process, url in zip(self.gateways, self.urls, strict=True):
                while not await _is_ready(client, url):
                    if time.monotonic() > end or not process.is_running:
                        raise RunFailed(process.read_log())
                    await asyncio.sleep(AGAIN_S)

    async def kill(self, process: CommandProcess) -> None:
        """Kill -9, and start again."""
        await asyncio.to_thread(process.end, signal.SIGKILL)
        self.killed += 1
        process.start()

    def check(self) -> None:
        """Raise RunFailed where a process has ended by itself."""
        for process in (*self.gateways, self.notifier):
            if not process.is_running:
                raise RunFailed(process.read_log())


async def channels(bed: Bed, scale: RunScale) -> list[RunFigure]:
    """All channels at once, in four shares: a fault comes into each of three."""
    installation, rng = await _installation(bed), bed.rng("channels")
    count = max(LEAST, min(MOST, scale.events // ACTIONS_PER_ESCALATION))
    fleet = Fleet(installation, SLOW_S)
    watching = asyncio.create_task(fleet.watch())
    try:
        for slot in range(WORKERS):
            fleet.spawn(slot)
        await wait_until(fleet, lambda: both_decide(fleet), "every partition is owned")
        async with (
            _edge(installation) as edge,
            _answer_everywhere(installation, edge, gateways := Gateways(edge.urls)) as answering,
        ):
            for number in range(FAULTS):
                await answering.propose(count // FAULTS)
                await _fault(number, fleet, edge, rng)
                answering.check()
            await answering.finish(lambda: _check(fleet, edge), STALL_S)
            await _wait_for_buttons(edge)
            answers, killed = answering.submitted, edge.killed
        await wait_until(fleet, lambda: both_decide(fleet), "none is still starting")
        await fleet.close()
        fleet.check()
    finally:
        watching.cancel()
        fleet.kill_all()
    evidence = await gather(installation)
    label_answers(evidence, answers)
    return [
        figures.exactly("processes_killed", killed, 2, "gateways and notifiers"),
        *approval_figures(evidence, signing=False),
        *channel_figures(
            evidence, answers, edge.api.messages, [channel.name for channel in answering.channels]
        ),
        chain_errors(evidence),
        figures.some("requests_cut_off", gateways.cut_off, "requests"),
        *bites(fleet.tally, evidence, ("moved", "killed")),
        *await execute_again(evidence),
    ]


def _check(fleet: Fleet, edge: ChannelProcesses) -> None:
    fleet.check()
    edge.check()


async def _fault(number: int, fleet: Fleet, edge: ChannelProcesses, rng: random.Random) -> None:
    await asyncio.sleep(rng.uniform(0.2, 0.8))
    match number:
        case 0:
            await edge.kill(rng.choice(edge.gateways))
        case 1:
            await kill_idle(fleet, rng.randrange(WORKERS))
        case 2:
            edge.api.stop()
            await edge.kill(edge.notifier)
            await asyncio.sleep(AWAY_S)
            edge.api.start()


async def _wait_for_buttons(edge: ChannelProcesses) -> None:
    """Return when Slack's messages have no buttons any more. Raises RunFailed."""
    end = time.monotonic() + STALL_S
    while any(
        block["type"] == "actions" for message in edge.api.messages.values() for block in message["blocks"]
    ):
        edge.check()
        if time.monotonic() > end:
            raise RunFailed(edge.notifier.read_log())
        await asyncio.sleep(AGAIN_S)


async def _installation(bed: Bed) -> TestInstallation:
    """With keys of all its people in files, and a delegate."""
    installation = await bed.installation("channels")
    await publish_policy(
        installation.bootstrap_servers,
        installation.prefix,
        [installation.trust.make_delegate([neutral_policy.TENANT])],
    )
    for name in ROLES:
        _write(installation, name, PEMS[name])
    _write(installation, GATEWAY, installation.trust.write_pem(GATEWAY))
    return installation


def _write(installation: TestInstallation, name: str, pem: bytes) -> None:
    path = installation.folder / f"{name}.pem"
    path.touch(mode=0o600)
    path.write_bytes(pem)


def _account(name: str) -> PersonAccount:
    """The person's log-in, with the rights of its entry."""
    return PersonAccount(
        name=name,
        hash=_HASH,
        tenant_id=neutral_policy.TENANT,
        approver_id=name,
        roles=["vp", "reviewer"] if "vp" in ROLES[name] else ["reviewer"],
        created_at="2026-11-23T00:00:00.000Z",
    )


@asynccontextmanager
async def _edge(installation: TestInstallation) -> AsyncIterator[ChannelProcesses]:
    """Two gateways, a notifier and a Slack; ended in good order."""
    with slack_api() as api:
        own = slack_settings(api, CHANNELS, approvers={name: name for name in ROLES})
        key, words = make_key(neutral_policy.TENANT, None, "", "2026-11-23T00:00:00.000Z")
        write_keys(installation.folder / "api_keys.json", ApiKeyFile(keys=[key]))
        (installation.folder / "api_key").write_text(words)
        write_keys(installation.folder / "people.json", PeopleFile(people=[_account(name) for name in ROLES]))
        ports = [free_port(), free_port()]
        shared = {
            "SLUICE_GATEWAY__API_KEYS": str(installation.folder / "api_keys.json"),
            "SLUICE_GATEWAY__PEOPLE": str(installation.folder / "people.json"),
            "SLUICE_GATEWAY__REVIEWERS_KEY": str(installation.folder / f"{GATEWAY}.pem"),
            "SLUICE_GATEWAY__REQUESTS_PER_S": "10000",
        }
        gateways = [
            CommandProcess(
                installation,
                "gateway",
                {**own, **shared, "SLUICE_GATEWAY__PORT": str(port)},
                f"gateway-{port}",
            )
            for port in ports
        ]
        edge = ChannelProcesses(
            gateways,
            [f"http://127.0.0.1:{port}" for port in ports],
            CommandProcess(installation, "notify", own, "notify"),
            api,
        )
        try:
            for process in (*gateways, edge.notifier):
                process.start()
            await edge.ready()
            yield edge
            for process in (*gateways, edge.notifier):
                status = await asyncio.to_thread(process.end)
                if status != 0:
                    raise RunFailed(f"status {status}\n{process.read_log()}")
        finally:
            for process in (*gateways, edge.notifier):
                process.end(signal.SIGKILL)


@asynccontextmanager
async def _answer_everywhere(
    installation: TestInstallation, edge: ChannelProcesses, gateways: Gateways
) -> AsyncIterator[Participants]:
    """People at every channel."""
    async with AsyncExitStack() as stack:
        producer = AIOKafkaProducer(
            bootstrap_servers=installation.bootstrap_servers, enable_idempotence=True, acks="all"
        )
        await stack.enter_async_context(producer)
        terminal = Terminal(installation, installation.folder)
        stack.push_async_callback(gateways.close)
        stack.push_async_callback(terminal.close)
        key = (installation.folder / "api_key").read_text()
        pages = PageForms(edge.urls, dict.fromkeys(ROLES, PASSWORD))
        stack.push_async_callback(pages.close)
        ways: list[AnswerChannel] = [
            terminal,
            Api(gateways, key, installation.audience),
            SlackButtons(gateways, edge.api),
            pages,
        ]
        answering = Participants(installation, producer, ways)
        stack.push_async_callback(answering.close)
        answering.begin()
        yield answering


async def _is_ready(client: httpx2.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(f"{url}/readyz")).status_code == httpx2.codes.OK
    except httpx2.TransportError:
        return False
