"""On a broker with TLS, logins and an authorizer: every way to log in works, a failed one is one line, and
each role can do what it must and nothing else."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import TopicAuthorizationFailedError
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.installation import PARTITIONS, TestInstallation, prepare
from sluice.adapters.kafka.kafka_acls import NO_ADMINISTRATOR, remove_access, set_access
from sluice.adapters.kafka.kafka_consumers import KafkaNotified
from sluice.adapters.kafka.kafka_groups import KafkaLedgerGroup
from sluice.adapters.kafka.kafka_ledger import has_state
from sluice.adapters.kafka.kafka_publish import publish_control
from sluice.adapters.kafka.kafka_read import KafkaRefused, KafkaUnreachable, UnknownTopics, list_partitions
from sluice.adapters.kafka.kafka_topics import probe_transactions
from sluice.broker.handle import LOOPBACK
from sluice.broker.secured import ADMIN, BrokerSecurity
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key
from sluice.client import (
    AsyncGateClient,
    BrokerUnreachable,
    ClientOptions,
    GateClient,
    KafkaConnection,
    LoginRefused,
    TokenCommand,
)
from sluice.client.exchange import Exchange
from sluice.client.input_kinds import ANSWERS
from sluice.client.kafka_login import find_login_fault
from sluice_demo.throwaway_trust import ThrowawayTrust, publish_policy
from sluice_topics.access import CONTROL_WRITER, ROLES, list_access
from sluice_topics.catalog import (
    ACTIONS,
    ADMITTED,
    ALARMS,
    BUNDLES,
    CATALOG,
    ESCALATIONS,
    MANDATES,
    MEMORY_WRITES,
    NOTIFICATIONS,
    OUTCOMES,
    QUARANTINE,
    REGISTRY,
    REPORTED,
    RETRIEVALS,
    REVIEWS,
    SERVED,
    SESSIONS_CHANGELOG,
    SUBJECT_KEYS,
    TREE_HEADS,
    VERDICTS,
)
from sluice_topics.layout import TopicLayout
from sluice_topics.records import NotifiedSubject
from tests.kafka.installation import delete_topics, run_worker, wait_until
from tests.kafka.memories import write
from tests.unit.client.test_kafka_connection import make_jwt

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from typer.testing import Result

    from load.installations.worker_process import WorkerProcess
    from sluice.broker.local import LocalBroker

pytestmark = pytest.mark.kafka


def require_security(broker: LocalBroker) -> BrokerSecurity:
    assert broker.security is not None
    return broker.security


def log_in(broker: LocalBroker, mechanism: Any, user: str = ADMIN, **more: Any) -> KafkaConnection:
    security = require_security(broker)
    given: dict[str, Any] = {"ca_file": security.ca_file, "sasl_mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        now = time.time()
        jwt = more.pop("jwt", None) or make_jwt(sub=user, iat=now, exp=now + 600)
        given["tokens"] = TokenCommand((sys.executable, "-c", f"print({jwt!r})"))
    else:
        given |= {"username": user, "password": security.passwords[user]}
    return KafkaConnection(broker.bootstrap_servers, "SASL_SSL", **(given | more))


def show_certificate(broker: LocalBroker, user: str) -> KafkaConnection:
    security = require_security(broker)
    certificate, key = security.issue(user)
    servers = f"{LOOPBACK}:{security.tls_port}"
    return KafkaConnection(
        servers, "SSL", ca_file=security.ca_file, certificate_file=certificate, key_file=key
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
async def test_every_mechanism_logs_in(secured_kafka: LocalBroker, mechanism: str) -> None:
    assert await list_partitions(log_in(secured_kafka, mechanism), []) == []


async def test_a_certificate_logs_in(secured_kafka: LocalBroker) -> None:
    assert await list_partitions(show_certificate(secured_kafka, "admin"), []) == []


@pytest.mark.parametrize(
    ("mechanism", "wrong", "told"),
    [
        ("PLAIN", {"password": "wrong"}, "refuses user admin (PLAIN): "),
        ("SCRAM-SHA-512", {"password": "wrong"}, "refuses user admin (SCRAM-SHA-512): "),
        ("SCRAM-SHA-512", {"ca_file": None}, "is not trusted by the CAs of this system: "),
        ("OAUTHBEARER", {"jwt": make_jwt(sub="admin", iat=1, exp=2)}, "the token that was answered ended "),
        ("OAUTHBEARER", {"jwt": "rubbish"}, "refuses the token (OAUTHBEARER)"),
    ],
)
async def test_a_failed_login_is_one_clear_line(
    secured_kafka: LocalBroker, mechanism: str, wrong: dict[str, Any], told: str
) -> None:
    with pytest.raises(KafkaUnreachable) as raised:
        await list_partitions(log_in(secured_kafka, mechanism, **wrong), [])
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "wrong" not in str(raised.value)
    is_final = mechanism != "OAUTHBEARER"
    assert isinstance(raised.value, KafkaRefused) == is_final, "a worker waits for what may pass"
    started = time.monotonic()
    with pytest.raises(BrokerUnreachable) as refused:
        async with AsyncGateClient(log_in(secured_kafka, mechanism, **wrong), "agent"):
            pass
    assert told in str(refused.value)
    assert isinstance(refused.value, LoginRefused) == is_final
    assert time.monotonic() - started < 5, "a client says so at once"


async def test_without_a_certificate_the_line_says_what_may_be_missing(secured_kafka: LocalBroker) -> None:
    security = require_security(secured_kafka)
    nobody = KafkaConnection(f"{LOOPBACK}:{security.tls_port}", "SSL", ca_file=security.ca_file)
    with pytest.raises(KafkaUnreachable, match="ask for a client certificate") as raised:
        await list_partitions(nobody, [])
    assert not isinstance(raised.value, KafkaRefused), "a broker that stops closes connections too"


async def test_one_broker_that_lets_us_in_is_enough(secured_kafka: LocalBroker) -> None:
    """Beside it: an address where nobody listens, one that closes each connection, and one that is silent."""
    silent = asyncio.Event()

    async def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def wait(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    admin = require_security(secured_kafka).connect(secured_kafka.port)
    async with (
        await asyncio.start_server(close, LOOPBACK) as one,
        await asyncio.start_server(wait, LOOPBACK) as other,
    ):
        bad = [f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}" for server in (one, other)]
        servers = ",".join((f"{LOOPBACK}:1", *bad, admin.bootstrap_servers))
        started = time.monotonic()
        assert await find_login_fault(replace(admin, bootstrap_servers=servers)) is None
        assert time.monotonic() - started < 5
        wrong = replace(admin, bootstrap_servers=servers, password=admin.bootstrap_servers)
        refused = await find_login_fault(wrong, 1)
        assert refused is not None
        assert refused.is_final
        assert "refuses user admin" in refused.message
        silent.set()


def test_a_command_says_in_one_line_that_the_password_is_wrong(secured_kafka: LocalBroker) -> None:
    settings = require_security(secured_kafka).write_settings(secured_kafka.port, "nobody")
    done = run_sluice("topics", "list", settings=settings | {"SLUICE_KAFKA__PASSWORD": "wrong"})
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "the broker refuses this: " in line
    assert "refuses user nobody (SCRAM-SHA-512)" in line


def run_sluice(*words: str, settings: dict[str, str]) -> Result:
    """A command with these settings alone."""
    unset = [name for name in os.environ if name.startswith("SLUICE_")] + ["KAFKA_BOOTSTRAP_SERVERS"]
    return CliRunner().invoke(cli, list(words), env=dict.fromkeys(unset) | settings)


@pytest.fixture(scope="module")
def laid(secured_kafka: LocalBroker, tmp_path_factory: pytest.TempPathFactory) -> TestInstallation:
    """Topics and policy of an installation, with the ACLs of every role for the user of its name. The policy
    owner publishes the policy; the worker's settings are those of the user `worker`."""
    return asyncio.run(_lay(secured_kafka, tmp_path_factory.mktemp("laid")))


async def _lay(broker: LocalBroker, folder: Path) -> TestInstallation:
    installation = await prepare(broker.cluster, folder, "t.roles")
    layout = TopicLayout(installation.prefix, installation.app_id, installation.partitions)
    for role in ROLES:
        wanted = list_access(role, layout)
        change = await set_access(broker.cluster, f"User:{role}", wanted)
        assert (change.changed, change.unchanged, change.further) == (wanted, [], [])
    async with asyncio.timeout(60):  # the broker answers before the ACLs are in force
        while (await set_access(broker.cluster, f"User:{role}", wanted)).changed:  # noqa: ASYNC110 - a broker tells nobody
            await asyncio.sleep(0.1)
    return installation


async def test_setting_acls_twice_changes_nothing_and_names_what_goes_beyond(
    secured_kafka: LocalBroker,
) -> None:
    agent, worker = (list_access(one, TopicLayout("t.twice.", "t.twice", 1)) for one in ("agent", "worker"))
    await set_access(secured_kafka.cluster, "User:both", agent)
    again = await set_access(secured_kafka.cluster, "User:both", agent)
    assert (again.changed, again.unchanged, again.further) == ([], agent, [])
    second = await set_access(secured_kafka.cluster, "User:both", worker)
    only = [one for one in agent if one not in worker]
    assert len(second.further) == len(only) > 0
    removed = await remove_access(secured_kafka.cluster, "User:both", worker)
    assert set(removed.changed) == set(worker)
    rest = await remove_access(secured_kafka.cluster, "User:both", agent)
    assert (rest.changed, rest.further) == (only, [])


def test_the_command_prints_and_sets_the_acls_of_a_role(secured_kafka: LocalBroker) -> None:
    settings = require_security(secured_kafka).write_settings(secured_kafka.port, ADMIN)
    settings |= {"SLUICE_KAFKA__TOPIC_PREFIX": "t.cli.", "SLUICE_WORKER__APP_ID": "t.cli"}
    words = ["topics", "acl", "--role", "store", "--principal", "User:cli"]
    lines = run_sluice(*words, "--format", "commands", settings=settings).stdout.splitlines()
    assert all(line.startswith("kafka-acls.sh --bootstrap-server ") for line in lines)
    assert sum("--resource-pattern-type prefixed --group t.cli-store" in line for line in lines) == 1
    done = run_sluice(*words, "--apply", settings=settings)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "User:cli: 4 ACLs set, 0 were there already\n"
    gone = run_sluice(*words, "--apply", "--remove", settings=settings)
    assert gone.stdout == "User:cli: 4 ACLs removed, 0 were not there\n"
    settings = require_security(secured_kafka).write_settings(secured_kafka.port, "nobody")
    refused = run_sluice(*words, "--apply", settings=settings)
    assert refused.exit_code == 2
    assert f"the ACLs of User:cli: {NO_ADMINISTRATOR}" in refused.stderr


async def test_transactions_are_probed_only_when_asked_and_a_refusal_says_what_it_costs(
    secured_kafka: LocalBroker,
) -> None:
    assert await probe_transactions(secured_kafka.cluster, "t.probe", 30_000) is None
    nobody = require_security(secured_kafka).connect(secured_kafka.port, "nobody")
    for cluster, timeout_ms, told, why in (
        (nobody, 30_000, "TransactionalIdAuthorizationFailed", "says nothing of workers'"),
        (secured_kafka.cluster, 2_000_000_000, "InvalidTransactionTimeout", "cannot run here"),
    ):
        found = await probe_transactions(cluster, "t.probe", timeout_ms)
        assert found is not None
        assert told in found.actual
        assert why in found.why


INPUTS = {ACTIONS, OUTCOMES, MEMORY_WRITES, RETRIEVALS, MANDATES}
CONTROL = {BUNDLES, REGISTRY}
WRITES: dict[str, set[str]] = {
    "agent": INPUTS,
    "gateway": INPUTS | {REVIEWS, REGISTRY, SUBJECT_KEYS},
    "approver": {REVIEWS},
    "policy-owner": CONTROL | {MANDATES},
    "auditor": set(),
    "archiver": set(),
    "restorer": {one.name for one in CATALOG if one.direction != "keys"},
    "store": {REPORTED},
    "notifier": {NOTIFICATIONS},
    "exporter": set(),
    "head-signer": {TREE_HEADS},
    "sealer": {SUBJECT_KEYS},
    "opener": set(),
    "eraser": {REGISTRY, SUBJECT_KEYS},
    "init": CONTROL | {MANDATES},
    "worker": {one.name for one in CATALOG if one.direction in ("out", "internal")}
    - {NOTIFICATIONS, TREE_HEADS},
}
"""Said here a second time, by hand: what each role may write, and so all that it may not."""
UNREAD: dict[str, set[str]] = {
    "agent": {ACTIONS, OUTCOMES, MEMORY_WRITES, BUNDLES, REGISTRY, QUARANTINE, ALARMS, ADMITTED},
    "notifier": {VERDICTS, BUNDLES, REGISTRY, ADMITTED, SERVED},
    "approver": {ADMITTED, SERVED},
    "gateway": {NOTIFICATIONS},
    "store": {SESSIONS_CHANGELOG, ACTIONS, VERDICTS, ESCALATIONS, REGISTRY},
    "restorer": {VERDICTS, ADMITTED, BUNDLES, REGISTRY, SESSIONS_CHANGELOG, NOTIFICATIONS},
    "exporter": {ACTIONS, MEMORY_WRITES, REVIEWS, ADMITTED, SERVED, BUNDLES, SESSIONS_CHANGELOG},
    "head-signer": {ACTIONS, MEMORY_WRITES, ADMITTED, SERVED, BUNDLES, REGISTRY, SESSIONS_CHANGELOG},
    "auditor": {SUBJECT_KEYS},
    "archiver": {SUBJECT_KEYS},
    "sealer": {ACTIONS, VERDICTS, MEMORY_WRITES, ADMITTED, SESSIONS_CHANGELOG},
    "opener": {ACTIONS, VERDICTS, BUNDLES, REGISTRY, ADMITTED},
    "eraser": {ACTIONS, VERDICTS, ADMITTED},
}
"""Some of what a role may not read."""


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_write_its_topics_and_no_other(
    role: str, laid: TestInstallation, secured_kafka: LocalBroker
) -> None:
    cluster = require_security(secured_kafka).connect(secured_kafka.port, role)
    may, may_not = set[str](), set[str]()
    if not WRITES[role]:  # may write nowhere: an idempotent producer would not even start
        async with AIOKafkaProducer(**cluster.build_arguments()) as producer:
            await _try_writes(producer, laid, may, may_not)
    else:
        async with AIOKafkaProducer(**cluster.build_arguments(), enable_idempotence=True) as producer:
            await _try_writes(producer, laid, may, may_not)
    assert may == WRITES[role]
    assert len(may) + len(may_not) == len(CATALOG)


async def _try_writes(
    producer: AIOKafkaProducer, laid: TestInstallation, may: set[str], may_not: set[str]
) -> None:
    for topic in CATALOG:
        name = laid.real(topic.name)
        try:
            await producer.send_and_wait(name, b"x", key=b"x", partition=0)
        except TopicAuthorizationFailedError:
            may_not.add(topic.name)
        else:
            may.add(topic.name)


@pytest.mark.parametrize("role", UNREAD)
async def test_a_role_may_not_read_what_is_not_its_business(
    role: str, laid: TestInstallation, secured_kafka: LocalBroker
) -> None:
    cluster = require_security(secured_kafka).connect(secured_kafka.port, role)
    for base in UNREAD[role]:
        try:
            await list_partitions(cluster, [laid.real(base)])
        except UnknownTopics as hidden:
            assert "or none that this user may see" in str(hidden)  # noqa: PT017 - some roles see that it is there
            continue
        async with AIOKafkaConsumer(**cluster.build_arguments()) as consumer:
            consumer.assign([TopicPartition(laid.real(base), 0)])
            with pytest.raises(TopicAuthorizationFailedError):
                await asyncio.wait_for(consumer.getone(), 5)


def test_processes_work_with_no_more_than_the_rights_of_their_roles(
    secured_kafka: LocalBroker, tmp_path: Path
) -> None:
    """Each logs in as the user of its role; the administrator sets the ACLs and does nothing else."""
    security, name = require_security(secured_kafka), "t.least"
    layout = TopicLayout(f"{name}.", name, PARTITIONS)

    def connect(role: str) -> KafkaConnection:
        return security.connect(secured_kafka.port, role)

    async def begin() -> TestInstallation:
        for role in ROLES:
            await set_access(secured_kafka.cluster, f"User:{role}", list_access(role, layout))
        return await prepare(connect("init"), tmp_path, name)

    installation = asyncio.run(begin())
    installation.settings.update(security.write_settings(secured_kafka.port, "worker"))
    prefix, more = installation.prefix, neutral_policy.records(ThrowawayTrust(), installation.began_ms)
    with pytest.raises(UnknownTopics, match="or none that this user may see"):
        asyncio.run(publish_policy(connect("agent"), prefix, more))
    for worker in run_worker(installation):
        options = ClientOptions(topic_prefix=prefix)
        with GateClient(connect("agent"), neutral_policy.AGENT, options) as gate:
            answer = gate.propose(neutral_policy.READ_TOOL, {}, session_id="s-1")
            fields = write("s-1", "w-1")
            fields = {name: one for name, one in fields.items() if name not in OF_THE_CLIENT}
            gate.remember(fields.pop("content"), fields.pop("source"), session_id="s-1", **fields)
        assert answer.verdict == "allowed", worker.last_words()
        asyncio.run(_work_beside_the_worker(installation, connect))
    failed = []
    for role, words in {
        "auditor": (("ledger", "verify"), ("show", answer.verdict_id), ("topics", "check")),
        "approver": (("escalations", "list"), ("quarantine", "list"), ("show", answer.verdict_id)),
        "worker": (("topics", "check"),),
        "notifier": (("topics", "check"),),
    }.items():
        settings = installation.settings | security.write_settings(secured_kafka.port, role)
        for one in words:
            done = run_sluice(*one, settings=settings)
            failed += [] if done.exit_code == 0 else [(role, *one, done.output)]
    assert failed == []
    exported = run_sluice(
        *("export", "--timeout", "2"),
        settings=installation.settings | security.write_settings(secured_kafka.port, "exporter"),
    )
    assert exported.exit_code == 0
    assert answer.verdict_id in exported.output
    make_private_key(tmp_path / "heads.pem")
    signing = security.write_settings(secured_kafka.port, "head-signer")
    signing["SLUICE_HEADS__SIGNING_KEY"] = str(tmp_path / "heads.pem")
    signed = run_sluice("ledger", "sign-heads", "--once", settings=installation.settings | signing)
    assert (signed.exit_code, "1 head signed" in signed.stderr) == (0, True), signed.output
    by_auditor, by_admin = (
        run_sluice(
            "rerun",
            answer.verdict_id,
            settings=installation.settings | security.write_settings(secured_kafka.port, user),
        )
        for user in ("auditor", ADMIN)
    )
    assert by_auditor.output == by_admin.output
    place = str(tmp_path / "archive")
    for role, how in {"archiver": ("run", "--once", "--to"), "restorer": ("restore", "--from")}.items():
        settings = installation.settings | security.write_settings(secured_kafka.port, role)
        done = run_sluice("archive", *how, place, settings=settings)
        assert done.exit_code == 0, done.output
        if role == "archiver":
            asyncio.run(delete_topics(secured_kafka.cluster, installation.prefix))
    settings = installation.settings | security.write_settings(secured_kafka.port, "auditor")
    for one in (("ledger", "verify"), ("topics", "check"), ("show", answer.verdict_id)):
        done = run_sluice(*one, settings=settings)
        assert done.exit_code == 0, done.output


def test_a_worker_that_may_not_read_the_policy_any_more_decides_nothing_until_it_may(
    secured_kafka: LocalBroker, tmp_path: Path
) -> None:
    """A freeze that came into force meanwhile counts for what waited."""
    security, name = require_security(secured_kafka), "t.late"
    layout = TopicLayout(f"{name}.", name, PARTITIONS)
    rights = {role: list_access(role, layout) for role in ("worker", "agent")}
    control = [one for one in rights["worker"] if one.name in (f"{name}.{REGISTRY}", f"{name}.{BUNDLES}")]
    spec = {"subject": "agent", "subject_id": neutral_policy.AGENT, "reason": "under investigation"}

    async def allow() -> None:
        for role, operations in rights.items():
            await set_access(secured_kafka.cluster, f"User:{role}", operations)

    async def propose_late(worker: WorkerProcess) -> list[str | None]:
        options = ClientOptions(topic_prefix=installation.prefix)
        connection = security.connect(secured_kafka.port, "agent")
        async with AsyncGateClient(connection, neutral_policy.AGENT, options) as gate:
            before = await gate.propose(neutral_policy.READ_TOOL, {}, session_id="s-1")
            await remove_access(secured_kafka.cluster, "User:worker", control)
            await asyncio.to_thread(
                wait_until, lambda: "inputs wait until it is" in worker.last_words(), worker
            )
            freeze = {"kind": "freeze", "id": "late", "revision": 1, "spec": spec}
            records = installation.trust.sign_entries([freeze])
            await publish_policy(secured_kafka.cluster, installation.prefix, records)
            waiting = asyncio.create_task(gate.propose(neutral_policy.READ_TOOL, {}, session_id="s-1"))
            await asyncio.wait([waiting], timeout=3)
            assert not waiting.done(), worker.last_words()
            await allow()
            return [before.reason, (await waiting).reason]

    asyncio.run(allow())
    installation = asyncio.run(prepare(secured_kafka.cluster, tmp_path, name))
    installation.settings.update(security.write_settings(secured_kafka.port, "worker"))
    installation.settings.update({"SLUICE_POLICY__REFRESH_S": "0.05", "SLUICE_POLICY__MAX_LAG_S": "2"})
    for worker in run_worker(installation):
        before, late = asyncio.run(propose_late(worker))
        assert (before, str(late)[:12]) == (None, "frozen_agent")
        assert "policy: read again" in worker.last_words()


OF_THE_CLIENT = ("agent_id", "session_id", "write_id")


async def _work_beside_the_worker(
    installation: TestInstallation, connect: Callable[[str], KafkaConnection]
) -> None:
    """What a gateway, a policy owner, a store and a notifier do with the broker."""
    names = {installation.real(base): base for base in (REGISTRY, BUNDLES)}
    writer = f"{installation.prefix}{CONTROL_WRITER}"
    for role in ("gateway", "policy-owner"):
        assert len(await publish_control(connect(role), names, writer, lambda _: [])) > 2
    exchange = Exchange(connect("gateway"), installation.prefix, answers=(*ANSWERS, QUARANTINE))
    await exchange.start()
    await exchange.close()
    assert not await has_state(connect("gateway"), installation.changelog, PARTITIONS, "s-2")
    async with AIOKafkaConsumer(
        installation.real(ADMITTED),
        **connect("store").build_arguments(),
        group_id=f"{installation.app_id}-store-1",
        auto_offset_reset="earliest",
    ) as store:
        assert (await asyncio.wait_for(store.getone(), 20)).value
        await store.commit()
    told = {installation.real(base): base for base in (ESCALATIONS, QUARANTINE, ALARMS)}
    group = KafkaLedgerGroup(connect("notifier"), f"{installation.app_id}-notify-x", told, 60)
    await group.connect()
    async with asyncio.timeout(20):
        while not (await group.read_changes())[1]:
            await group.read_some(0.1, paused=False)
    await group.close()
    notified = KafkaNotified(connect("notifier"), installation.real(NOTIFICATIONS))
    record = {"schema": "sluice/notified_subject/v1", "subject_id": "e-1", "told": {}, "offset": -1}
    await notified.keep(0, NotifiedSubject.model_validate(record | {"messages": []}))
    await notified.close()
