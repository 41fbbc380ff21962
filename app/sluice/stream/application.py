"""The Faust app of the worker: its agents, its table, and the hooks through which the engine writes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import faust
from aiokafka.errors import KafkaError
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.types import TP
from mode.supervisors import CrashingSupervisor

from sluice.client.kafka_connection import build_client_arguments
from sluice.stream.consumer import BatchConsumer, BatchSchema
from sluice.stream.engine.sessions import SessionTable
from sluice.stream.engine.takeover import PolicyLost, Recovered, StateBehind, StateTooNew
from sluice.stream.process import Explained, service_log
from sluice.stream.recovery import FencedTableManager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from faust.auth import Credentials

    from sluice.client.kafka_connection import KafkaCluster
    from sluice.stream.engine.engine import Engine
    from sluice.stream.process import StopBound


log = logging.getLogger(__name__)

NEVER_S = 1_000_000
"""A standby without partitions does not poll; aiokafka would make it leave the group for good."""


@dataclass(frozen=True, slots=True)
class ApplicationSettings:
    """The settings of Faust. Times in seconds; `input_names`: base name by name on the broker;
    `group_instance_id`: of a static member of the group."""

    app_id: str
    cluster: KafkaCluster
    partitions: int
    input_names: Mapping[str, str]
    session_timeout_s: float
    heartbeat_interval_s: float
    rebalance_timeout_s: float
    request_timeout_s: float
    max_poll_records: int
    group_instance_id: str | None = None


class SluiceApp(faust.App):  # type: ignore[misc]
    """A Faust app whose partitions are written by the engine."""

    logger = service_log

    engine: Engine
    sessions: Any
    input_names: Mapping[str, str]
    fail: Callable[[BaseException], None]
    on_ready: Callable[[list[int]], None]
    stop_bound: StopBound

    def _new_transport(self) -> Any:
        transport = super()._new_transport()
        transport.Consumer = BatchConsumer
        return transport

    def _create_directories(self) -> None:
        """Does nothing: the worker keeps nothing on disk."""

    async def _on_agent_error(self, agent: Any, exc: BaseException) -> None:
        """Stop the worker with the agent's fault. Faust would start the agent again, without its batch."""
        del agent
        self.fail(exc)

    async def on_stop(self) -> None:
        """Stop: end Faust's fetching, then close the partitions, then the connections."""
        if not self._crashed.is_set():
            log.info("asked to stop: commits what is decided and closes partitions %s", self.engine.numbers)
        self.stop_bound.note_stop_asked()
        await super().on_stop()

    async def fence_partitions(self, assigned: set[Any]) -> None:
        """First step of an assignment."""
        self.on_ready([])
        try:
            await self.engine.assign(tp.partition for tp in assigned if tp.topic in self.input_names)
        except Exception as fault:  # noqa: BLE001 - an I/O fault of any kind stops the worker
            self.fail(fault)

    async def open_partitions(self, generation: int) -> None:
        """Last step of an assignment, with the table recovered and the flow still stopped."""
        if generation != self.consumer_generation_id:
            return
        inputs = [tp for tp in self.consumer.assignment() if tp.topic in self.input_names]
        ends = self._group_by_number(await self.consumer.highwaters(*inputs))
        committed = self._group_by_number(await self.consumer.seek_to_committed())
        try:
            recovered = Recovered(
                self.sessions.data, ends, committed, self._find_end, self._ask_end, self.consumer.tell_group
            )
            await self.engine.open(generation, recovered)
        except PolicyLost as lost:
            lost.tell()
            self.fail(lost)
        except (StateBehind, StateTooNew, KafkaError) as fault:
            self.fail(fault)
        self.on_ready(self.engine.numbers)

    def _find_end(self, topic: str, number: int) -> int | None:
        end: int | None = self.consumer.find_end(self._name_part(topic, number))
        return end

    async def _ask_end(self, topic: str, number: int) -> int | None:
        end: int | None = await self.consumer.ask_end(self._name_part(topic, number))
        return end

    def _name_part(self, topic: str, number: int) -> TP:
        return TP(next(real for real, base in self.input_names.items() if base == topic), number)

    def _group_by_number(self, offsets: Mapping[Any, int | None]) -> dict[int, dict[str, int]]:
        """Offsets of input topics by partition number and base name; those of other topics are left out."""
        by_number: dict[int, dict[str, int]] = defaultdict(dict)
        for tp, offset in offsets.items():
            if tp.topic in self.input_names:
                by_number[tp.partition][self.input_names[tp.topic]] = offset or 0
        return by_number

    def list_written_offsets(self) -> list[tuple[TP, int]]:
        """Per changelog partition, the last offset that this worker wrote itself."""
        name = self.sessions.changelog_topic.get_topic_name()
        return [(TP(name, number), offset) for number, offset in self.engine.changelog_offsets().items()]

    async def close_partitions(self) -> None:
        """At revocation and at shutdown: commit staged decisions, drop the rest.

        It does not do this after a crash of one of Faust's services: then a partition must not be marked
        closed.
        """
        self.on_ready([])
        if self._crashed.is_set():
            self.fail(Explained(f"a service of Faust's crashed: {self._crash_reason!r}"))
        try:
            await self.engine.drain()
        except Exception as fault:  # noqa: BLE001 - likewise
            self.fail(fault)


class PromptWorker(faust.Worker):  # type: ignore[misc]
    """Ends when its services have ended."""

    async def _sentinel_task(self) -> None:
        """Give the transports one turn to close; mode sleeps for a second here, with nothing left to do."""
        await asyncio.sleep(0)


def build_application(
    settings: ApplicationSettings,
    engine: Engine,
    fail: Callable[[BaseException], None],
    on_ready: Callable[[list[int]], None],
    stop_bound: StopBound,
) -> SluiceApp:
    """Declare the app: one agent per input topic, one table. Connects to nothing."""
    app = SluiceApp(
        settings.app_id,
        broker=[f"kafka://{server.strip()}" for server in str(settings.cluster).split(",")],
        broker_credentials=_build_credentials(settings.cluster),
        store="memory://",
        Table=SessionTable,
        Worker=PromptWorker,
        TableManager=FencedTableManager,
        topic_partitions=settings.partitions,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        web_enabled=False,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.heartbeat_interval_s,
        broker_rebalance_timeout=settings.rebalance_timeout_s,
        broker_request_timeout=settings.request_timeout_s,
        broker_max_poll_records=settings.max_poll_records,
        broker_check_crcs=False,
        broker_max_poll_interval=NEVER_S,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.group_instance_id,
        worker_redirect_stdouts=False,
        stream_wait_empty=False,
    )
    app.engine, app.input_names, app.fail, app.on_ready = engine, settings.input_names, fail, on_ready
    app.stop_bound = stop_bound
    app.sessions = app.Table("sessions", key_type=bytes, value_type=bytes, partitions=settings.partitions)
    for name in settings.input_names:
        _declare_agent(app, name)
    app.on_partitions_revoked.connect(_handle_revoked, weak=False)
    app.on_before_shutdown.connect(_handle_shutdown, weak=False)
    return app


def _build_credentials(cluster: KafkaCluster) -> Credentials | None:
    """How Faust's own clients log in; None: the connection is plain."""
    arguments = build_client_arguments(cluster)
    context, mechanism = arguments.get("ssl_context"), arguments.get("sasl_mechanism")
    if "sasl_oauth_token_provider" in arguments:
        return OAuthCredentials(oauth_cb=arguments["sasl_oauth_token_provider"], ssl_context=context)
    if mechanism is not None:
        return SASLCredentials(
            username=arguments["sasl_plain_username"],
            password=arguments["sasl_plain_password"],
            ssl_context=context,
            mechanism=mechanism,
        )
    return None if context is None else SSLCredentials(context)


def _declare_agent(app: SluiceApp, name: str) -> None:
    """Declare the agent of one input topic. Its messages are fetched batches; the topic has no acks, so Faust
    commits nothing. An agent that is cancelled while the worker runs crashes it."""
    topic = app.topic(name, schema=BatchSchema(), acks=False)

    async def decide(batches: Any) -> None:
        async for batch in batches:
            await app.engine.deliver(batch)

    app.agent(topic, name=f"decide:{name}", supervisor_strategy=CrashingSupervisor)(decide)


async def _handle_revoked(app: SluiceApp, revoked: set[Any], **_: Any) -> None:
    del revoked
    await app.close_partitions()


async def _handle_shutdown(app: SluiceApp, **_: Any) -> None:
    await app.close_partitions()
    app.stop_bound.note_closed()
    try:
        await app.engine.close()
    except KafkaError as away:
        log.warning("a connection could not be closed in good order: %s", away)
