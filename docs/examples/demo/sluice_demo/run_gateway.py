"""What `--keep` leaves for people: a gateway with a log-in made for the run, and what waits for them."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sluice.adapters.kafka.kafka_publish import publish
from sluice.broker.process_identity import ProcessIdentity
from sluice.cli.policy.api_key_verbs import read_clock
from sluice.core.actions.action_kinds import ACTION
from sluice.core.foundation.strict import json_object
from sluice.core.memory.memory_kinds import WRITE
from sluice_demo.material import TENANT, make_input
from sluice_demo.run_location import READY_S, WorkerError, stop_process
from sluice_demo.throwaway_trust import GATEWAY, OWNER, publish_policy
from sluice_topics.catalog import BY_NAME, MEMORY_DECISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sluice_demo.answers import DemoAnswers
    from sluice_demo.material import Material, Planned, RunOptions
    from sluice_demo.run_location import RunLocation

NAME = "demo"
PASSWORD_BYTES = 12
POLL_S = 0.1
HOUR_MS = 3_600_000
MOST_LEFT = 6
"""Actions, and memories, that are left to people."""


@dataclass(frozen=True, slots=True)
class RunGateway:
    """A running gateway: where its pages are, and with which password `NAME` logs in."""

    identity: ProcessIdentity
    child: subprocess.Popen[bytes]
    url: str
    password: str

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone in time."""
        stop_process(self.identity)
        self.child.wait()


def start_gateway(location: RunLocation, environment: Mapping[str, str]) -> RunGateway:
    """Start it, with one person who is the owner. Returns when it is ready. Raises WorkerError."""
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    people, log = location.folder / "people.json", location.folder / "gateway.log"
    _create_account(people, password)
    port = _find_free_port()
    variables = {
        "PORT": str(port),
        "API_KEYS": str(location.folder / "api_keys.json"),
        "PEOPLE": str(people),
        "REVIEWERS_KEY": str(location.keys / f"{GATEWAY}.pem"),
    }
    own = {f"SLUICE_GATEWAY__{name}": value for name, value in variables.items()}
    with log.open("ab") as file:
        child = subprocess.Popen(
            [sys.executable, "-m", "sluice", "gateway"],
            env=location.build_worker_environment(environment) | own,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    identity = ProcessIdentity.find(child.pid) or ProcessIdentity(child.pid, "")
    started = RunGateway(identity, child, f"http://127.0.0.1:{port}/review", password)
    end = time.monotonic() + READY_S
    while not _is_ready(port):
        if child.poll() is not None or time.monotonic() > end:
            started.stop()
            raise WorkerError(f"The gateway did not start; {log} says why.")
        time.sleep(POLL_S)
    return started


async def leave_waiting(
    location: RunLocation, material: Material, answers: DemoAnswers, options: RunOptions
) -> int:
    """Give people an hour from now on, and publish again some inputs for which the run needed a person. The
    number of them. Raises KafkaUnreachable and UnknownTopics."""
    patient = json_object(material.bundle)
    patient |= {"revision": patient["revision"] + 1, "escalation_ttl_ms": HOUR_MS}
    patient["memory"] = {**patient.get("memory", {}), "quarantineReviewMs": HOUR_MS}
    bundle = options.trust.sign_bundle(orjson.dumps(patient))
    await publish_policy(location.bootstrap_servers, location.prefix, [bundle])
    await asyncio.sleep(material.config.recipe.reload_s)
    chosen: list[Planned] = []
    for kind, wanted in ((ACTION, _list_escalated(answers)), (WRITE, _list_held(answers))):
        again = [
            planned
            for planned in material.plan
            if planned.role == kind.name and planned.fields[kind.subject] in wanted
        ]
        chosen += [
            make_input(kind, _repeat(planned.fields, kind.subject), options.now())
            for planned in again[:MOST_LEFT]
        ]
    for topic in {planned.topic for planned in chosen}:
        records = [planned.outgoing for planned in chosen if planned.topic == topic]
        most = BY_NAME[topic].max_message_bytes
        await publish(location.bootstrap_servers, location.prefix + topic, records, max_request_bytes=most)
    return len(chosen)


def _list_escalated(answers: DemoAnswers) -> set[str]:
    return {str(escalation["action_id"]) for escalation in answers.escalations}


def _list_held(answers: DemoAnswers) -> set[str]:
    decisions = (answered.body for answered in answers.iterate(MEMORY_DECISIONS))
    return {str(decision["write_id"]) for decision in decisions if decision["action"] == "quarantine"}


def _repeat(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """The action once more, in a session of its own."""
    return {**fields, name: f"{fields[name]}-again", "session_id": f"{fields['session_id']}-again"}


def _create_account(file: Path, password: str) -> None:
    """One account, who is the run's owner: it may answer everything."""
    from sluice.gateway.http.api_keys import write_keys  # noqa: PLC0415 - an extra
    from sluice.gateway.pages.accounts import PeopleFile, PersonAccount, hash_password  # noqa: PLC0415 - as above

    account = PersonAccount(
        name=NAME,
        hash=hash_password(password),
        tenant_id=TENANT,
        approver_id=OWNER,
        roles=["reviewer", "vp", "admin"],
        created_at=read_clock(),
    )
    write_keys(file, PeopleFile(people=[account]))


def _find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(json.load(answer)["status"] == "ready")
    except (urllib.error.URLError, OSError, ValueError):
        return False
