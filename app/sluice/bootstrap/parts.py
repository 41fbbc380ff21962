"""Builds the parts from settings and hands them over: the only place that knows every part."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import httpcore2

from sluice.adapters.checked_network import HostNames
from sluice.adapters.http_provenance import HttpProvenance
from sluice.adapters.http_target import HttpRules
from sluice.adapters.kafka.kafka_consumers import KafkaCompacted, KafkaControlReader
from sluice.adapters.kafka.kafka_groups import KafkaProvenance
from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput
from sluice.adapters.kafka.kafka_lineage import KafkaLineage
from sluice.adapters.subject_key_port import KeysOnDemand, SubjectKeyPort
from sluice.bootstrap.model_ports import build_analysis_ports, build_encoder_ports, build_grader_ports
from sluice.bootstrap.sealing import build_key_wrapper, build_subject_keys
from sluice.client.answers import ClientError
from sluice.client.record_proofs import RecordProofs
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import BY_TOPIC
from sluice.core.foundation.errors import CoreError
from sluice.core.foundation.requests import HELD_INPUT
from sluice.core.foundation.sealed_input import NO_KEYS, SUBJECT_KEYS
from sluice.core.memory import lineage
from sluice.core.registry.keys import SigningKey, UnusableKeyError
from sluice.core.rerun.policy_then import DecisionSettings
from sluice.core.trust.in_force import PolicyError, PolicyReducer
from sluice.decider_version import compute_decider_version
from sluice.secrets.value_keys import ValueKeyError, read_value_key
from sluice.settings.reader import describe_missing_trust, list_real_names
from sluice.stream.application import ApplicationSettings, build_application
from sluice.stream.engine.engine import Engine, Feeds
from sluice.stream.engine.engine_settings import EngineSettings
from sluice.stream.engine.evaluation import Ports
from sluice.stream.engine.observer import Unobserved
from sluice.stream.engine.record_signer import RecordSigner
from sluice.stream.engine.transaction import BeforeCommit, TransactionSettings, Transactor
from sluice.stream.feeds.policy_feed import PolicyFeed
from sluice.stream.feeds.provenance_resolver import ProvenanceResolver, ResolverSettings
from sluice.stream.feeds.provenance_work import Shares
from sluice.stream.feeds.shared_feeds import Kept, ProvenanceFeed, SourceFeed, ThreadRunner, UseFeed
from sluice.stream.process import Readiness, StopBound, SystemClock, end_stopped, fail_stop
from sluice_topics.catalog import (
    BUNDLES,
    BY_NAME,
    PROVENANCE_RECORDS,
    PROVENANCE_WANTED,
    REGISTRY,
    SESSIONS_CHANGELOG,
    SOURCE_HISTORIES,
    USUAL_DESTINATIONS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.policy import Policy
    from sluice.ports import Port
    from sluice.settings.reader import Settings
    from sluice.stream.application import SluiceApp
    from sluice.stream.engine.observer import EngineObserver
    from sluice_topics.sealing import Keyring

RESOLVER_AGAIN_S = 10.0
"""Until a resolver that failed is started again."""
RESOLVER_CLOSE_S = 3.0
"""A consumer leaves its group slowly where the broker is away: what is not committed is resolved again."""


@dataclass(frozen=True, slots=True)
class Additions:
    """What a caller adds to the parts that the settings name: load and tests bring slow stages. `observer`:
    sees what is decided and committed."""

    stages: Mapping[str, Stage] = field(default_factory=dict)
    ports: Mapping[str, Port] = field(default_factory=dict)
    before_commit: BeforeCommit | None = None
    observer: EngineObserver | None = None


def build_worker(
    settings: Settings, records: Sequence[InputRecord], additions: Additions | None = None
) -> SluiceApp:
    """The worker's Faust app, not started; `records` are the control topics' so far. Raises PolicyError."""
    added, policy_settings = additions or Additions(), settings.policy
    if policy_settings.max_lag_s <= policy_settings.refresh_s:
        raise PolicyError(
            "policy.max_lag_s must be above policy.refresh_s: inputs would wait after each reading"
        )
    transactions = _build_transaction_settings(settings)
    policy = build_policy_reducer(settings, added.stages)
    first = policy.first(records)
    provenance = _build_provenance(settings)
    engine = Engine(
        Feeds(
            PolicyFeed(
                first,
                build_control_reader(settings),
                policy,
                policy_settings.refresh_s,
                policy_settings.max_lag_s,
            ),
            SourceFeed(_build_compacted(settings, SOURCE_HISTORIES), settings.policy.refresh_s),
            provenance,
            UseFeed(_build_compacted(settings, USUAL_DESTINATIONS), settings.policy.refresh_s),
            _build_resolver(settings, provenance),
        ),
        Ports({**build_ports(settings, first.policy), **added.ports}, added.observer),
        _build_engine_settings(settings, added.observer or Unobserved()),
        lambda number: Transactor(transactions, number, added.before_commit),
        SystemClock(),
        fail_stop,
    )
    worker = settings.worker
    readiness = Readiness(worker.ready_file)
    stop_bound = StopBound(worker.close_timeout_s, worker.session_timeout_s, fail_stop, end_stopped)
    application_settings = _build_application_settings(settings)
    return build_application(application_settings, engine, fail_stop, readiness.note_partitions, stop_bound)


def build_policy_reducer(settings: Settings, stages: Mapping[str, Stage]) -> PolicyReducer:
    """From control records to decision points; `stages` adds gates to those that ship. Raises PolicyError."""
    if problem := describe_missing_trust(settings):
        raise PolicyError(problem)
    registered, named = (*list_shipped_stages(), *stages.values()), settings.policy
    new_point = partial(
        _make_decision_point, settings, stages=registered, values_key=_read_values_key(settings)
    )
    ids = (named.default_bundle, new_point, named.default_quality_bundle)
    try:
        return PolicyReducer(named.read_roots(), *ids, registered, settings.build_audience())
    except CoreError as wrong:
        raise PolicyError(f"policy.root_keys: {wrong}") from wrong


def build_decision_point(settings: Settings, policy: Policy, stages: Mapping[str, Stage]) -> DecisionPoint:
    """The pure core over one policy, with the settings' bounds; `stages` adds gates to those that ship.

    Raises PolicyError.
    """
    try:
        registered = (*list_shipped_stages(), *stages.values())
        return _make_decision_point(settings, policy, registered, _read_values_key(settings))
    except CoreError as wrong:
        raise PolicyError(str(wrong)) from wrong


def _make_decision_point(
    settings: Settings, policy: Policy, stages: Sequence[Stage], values_key: bytes | None
) -> DecisionPoint:
    return DecisionPoint(
        policy,
        stages,
        settings.build_limits(),
        stopwatch=time.perf_counter_ns,
        environment=settings.policy.environment,
        values_key=values_key,
        demands_sealed=True,
    )


def _read_values_key(settings: Settings) -> bytes | None:
    """The master key of values' fingerprints; None: there is none. Raises PolicyError."""
    file = settings.values.master_key_file
    try:
        return None if file is None else read_value_key(file.expanduser())
    except ValueKeyError as error:
        raise PolicyError(f"values.master_key_file: {error}") from error


def build_decision_settings(settings: Settings, stages: Mapping[str, Stage]) -> DecisionSettings:
    """What a rerun must know of the settings; `stages` adds gates to those that ship. Raises PolicyError."""
    policy_settings = settings.policy
    try:
        roots = policy_settings.read_roots() if policy_settings.root_keys else None
    except CoreError as wrong:
        raise PolicyError(f"policy.root_keys: {wrong}") from wrong
    return DecisionSettings(
        (*list_shipped_stages(), *stages.values()),
        roots,
        policy_settings.default_bundle,
        policy_settings.default_quality_bundle,
        policy_settings.environment,
        settings.build_limits(),
        int(policy_settings.max_lag_s * 1000),
        compute_decider_version(),
        settings.worker.app_id,
        settings.build_audience(),
        _read_values_key(settings),
        _build_keyring(settings),
    )


def build_ports(settings: Settings, policy: Policy | None = None) -> dict[str, Port]:
    """What the core may ask, by name: only what the settings switch on. Raises PolicyError.

    The encoder learns the libraries of `policy` before its first question.
    """
    names, partitions = list_real_names(settings), settings.kafka.partitions
    return {
        HELD_INPUT: KafkaHeldInput(settings.kafka.connection, names),
        lineage.PORT: KafkaLineage(
            settings.kafka.connection, names, partitions, proofs=_build_proofs(settings)
        ),
        **_build_key_ports(settings),
        **build_analysis_ports(settings),
        **build_grader_ports(settings),
        **build_encoder_ports(settings, policy),
    }


def _build_key_ports(settings: Settings) -> dict[str, Port]:
    keys = build_subject_keys(settings)
    return {} if keys is None else {SUBJECT_KEYS: SubjectKeyPort(keys)}


def _build_keyring(settings: Settings) -> Keyring:
    """Persons' keys for reruns, fetched as they are needed; none without a master key. Raises PolicyError."""
    if build_key_wrapper(settings) is None:
        return NO_KEYS
    return KeysOnDemand(partial(build_subject_keys, settings))


def _build_provenance(settings: Settings) -> ProvenanceFeed:
    records = _build_compacted(settings, PROVENANCE_RECORDS)
    stored = Kept(settings.provenance.max_recorded, settings.provenance.max_recorded_bytes)
    return ProvenanceFeed(records, settings.policy.refresh_s, stored, SystemClock().wall_ms)


def _build_resolver(settings: Settings, feed: ProvenanceFeed) -> ThreadRunner:
    """Every worker has one; they share the references as one consumer group."""
    group, names = settings.provenance, list_real_names(settings)
    topic = KafkaProvenance(
        settings.kafka.connection,
        f"{settings.worker.app_id}-provenance",
        names[PROVENANCE_WANTED],
        names[PROVENANCE_RECORDS],
        max_request_bytes=BY_NAME[PROVENANCE_RECORDS].max_message_bytes,
    )
    resolver = ProvenanceResolver(
        HttpProvenance(group.fill(HttpRules), HostNames().look_up, httpcore2.default_ssl_context()),
        topic,
        feed,
        group.fill(ResolverSettings, shares=group.fill(Shares)),
        SystemClock().wall_ms,
    )
    return ThreadRunner("provenance", resolver.run, RESOLVER_AGAIN_S, RESOLVER_CLOSE_S)


def _build_compacted(settings: Settings, topic: str) -> KafkaCompacted:
    name = list_real_names(settings)[topic]
    return KafkaCompacted(settings.kafka.connection, name, settings.kafka.partitions)


def build_control_reader(settings: Settings) -> KafkaControlReader:
    """A reader of the decision_settings's control topics, not connected."""
    names = list_real_names(settings)
    topics = {names[base]: base for base in (REGISTRY, BUNDLES)}
    return KafkaControlReader(settings.kafka.connection, topics)


def _build_engine_settings(settings: Settings, observer: EngineObserver) -> EngineSettings:
    worker = settings.worker
    return worker.fill(
        EngineSettings,
        input_topics=tuple(BY_TOPIC),
        real_names=list_real_names(settings),
        source=f"/sluice/{settings.policy.environment}/{worker.app_id}",
        partitions=settings.kafka.partitions,
        linger_low_s=worker.linger_min_ms / 1000,
        linger_high_s=worker.linger_max_ms / 1000,
        decider_version=compute_decider_version(),
        signer=_build_signer(settings),
        observer=observer,
    )


def _build_signer(settings: Settings) -> RecordSigner | None:
    """With the workers' key; None: they have none. Raises PolicyError."""
    try:
        pem = settings.verdicts.read_pem()
        return None if pem is None else RecordSigner(SigningKey.from_pem(pem), settings.build_audience())
    except (OSError, UnusableKeyError) as error:
        raise PolicyError(f"verdicts.signing_key: {error}") from error


def _build_proofs(settings: Settings) -> RecordProofs:
    """Which keys must have signed what a worker looks up. Raises PolicyError."""
    try:
        return RecordProofs(settings.verdicts.public_keys, settings.build_audience())
    except ClientError as error:
        raise PolicyError(f"verdicts.public_keys: {error}") from error


def _build_transaction_settings(settings: Settings) -> TransactionSettings:
    return TransactionSettings(
        cluster=settings.kafka.connection,
        group_id=settings.worker.app_id,
        changelog=list_real_names(settings)[SESSIONS_CHANGELOG],
        transaction_timeout_ms=int(settings.worker.transaction_timeout_s * 1000),
        request_timeout_ms=int(settings.worker.request_timeout_s * 1000),
        max_request_bytes=BY_NAME[SESSIONS_CHANGELOG].max_message_bytes,
    )


def _build_application_settings(settings: Settings) -> ApplicationSettings:
    names = list_real_names(settings)
    return settings.worker.fill(
        ApplicationSettings,
        cluster=settings.kafka.connection,
        partitions=settings.kafka.partitions,
        input_names={names[base]: base for base in BY_TOPIC},
    )
