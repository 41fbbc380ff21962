"""What the process of `sluice gateway` is made of: every part over the settings, none connected."""

from __future__ import annotations

import asyncio
import sqlite3
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
from sluice.adapters.kafka.kafka_publish import AnotherPublisherError
from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from sluice.bootstrap.followed_sealing import build_sealing
from sluice.bootstrap.observing import FLUSH_S, TracesUnavailable, trace_gateway
from sluice.bootstrap.publishing import FreezeOrder, publish_freeze
from sluice.cli.machine.gateway_ledger import build_ledger_work
from sluice.cli.machine.notify import MISSING
from sluice.cli.output import require_record_proofs, stop
from sluice.cli.policy.key_files import require_private_keys
from sluice.client.exchange import Exchange
from sluice.client.input_kinds import ANSWERS, QUARANTINE
from sluice.client.sender import InputSigner
from sluice.core.foundation.errors import CoreError
from sluice.core.trust.in_force import PolicyError
from sluice.gateway.decisions import Decisions
from sluice.gateway.delegated_answers import DelegatedAnswers
from sluice.gateway.http.api_keys import ApiKeyFileError, ApiKeyStore
from sluice.gateway.http.edge import EdgeRules
from sluice.gateway.http.http_errors import HttpError
from sluice.gateway.http.rate_limits import OwnRate, SharedRate
from sluice.gateway.idempotency import RedisAnswers, SqliteAnswers
from sluice.gateway.input_requests import WaitLimits
from sluice.gateway.ledger_scan import LedgerScan
from sluice.gateway.pages.accounts import PeopleStore
from sluice.gateway.pages.shared_log_ins import SharedLogIns
from sluice.gateway.pages.visitors import Visitors, Visits
from sluice.gateway.recent_advisories import RecentAdvisories
from sluice.gateway.recent_records import RecentRecords
from sluice.gateway.registry_view import RegistryView
from sluice.gateway.waiting_subjects import WaitingSubjects
from sluice.gateway.web_app import GatewayParts, build_app
from sluice.secrets.redis_seal import Seal, SealKeysError, add_password, load_seal_keys
from sluice.settings.reader import list_real_names
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.bootstrap.observing import ObservedGateway
    from sluice.core.registry.keys import Roots, SigningKey
    from sluice.core.trust.freezing import FreezeFor, FreezeSubject
    from sluice.gateway.delegated_answers import Freezer
    from sluice.gateway.http.edge import Edge
    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.idempotency import IdempotencyStore
    from sluice.gateway.pages.log_ins import LogIns
    from sluice.gateway.routes.slack_routes import SlackApp
    from sluice.settings.reader import Settings

SLACK_S = 2
"""For a call while Slack waits for our answer."""


def build_gateway(
    settings: Settings, fail: Callable[[], None], observed: ObservedGateway | None = None
) -> Edge:
    """The application over these settings, not connected; `fail` ends the process after a fault; `observed`
    counts its requests.

    Ends the command where a key or a file is wrong.
    """
    gateway_settings, kafka = settings.gateway, settings.kafka
    keys, people, roots = _require_files(settings)
    pem = gateway_settings.reviewers_key
    (people_key,) = (None,) if pem is None else require_private_keys([pem])
    shared = _require_shared(settings, people)
    proofs = require_record_proofs(settings)
    topics = (*ANSWERS, QUARANTINE)
    exchange = Exchange(kafka.connection, kafka.topic_prefix, answers=topics, proofs=proofs)
    registry = _build_registry_view(settings, roots)
    decisions = Decisions(
        exchange, _require_signer(settings), gateway_settings.read_timeout_s, gateway_settings.max_reads
    )
    return build_app(
        GatewayParts(
            exchange,
            decisions,
            registry,
            keys,
            shared.rate,
            WaitLimits(gateway_settings.wait_s, gateway_settings.longest_wait_s),
            EdgeRules(
                gateway_settings.max_body_bytes,
                gateway_settings.request_timeout_s,
                gateway_settings.allowed_origins,
            ),
            shared.answers,
            WaitingSubjects(exchange.connection, kafka.topic_prefix, gateway_settings.waiting_s, proofs),
            build_ledger_work(settings, proofs),
            RecentRecords(exchange.connection, kafka.topic_prefix, gateway_settings.session_records, proofs),
            LedgerScan(exchange.connection, kafka.topic_prefix, kafka.partitions, proofs),
            RecentAdvisories(exchange.connection, kafka.topic_prefix, proofs),
            DelegatedAnswers(
                people_key, registry, decisions, gateway_settings.wait_s, _build_freezer(settings)
            ),
            _build_visitors(settings, people, shared.log_ins),
            fail,
            _build_slack_app(settings),
            **_observe(settings, observed, registry),
            **_seal(settings, registry),
        )
    )


def _build_visitors(settings: Settings, people: PeopleStore, log_ins: LogIns | None) -> Visitors:
    """Who may see the pages, and for how long."""
    gateway_settings = settings.gateway
    visits = Visits(
        gateway_settings.pages_url,
        gateway_settings.login_idle_s,
        gateway_settings.login_longest_s,
        gateway_settings.sso_header,
        gateway_settings.sso_proxy,
    )
    return Visitors(people, visits, log_ins)


def _build_registry_view(settings: Settings, roots: Roots) -> RegistryView:
    """Of the registry, and of the bundles too where they say what is to be sealed."""
    names = list_real_names(settings)
    topics = (REGISTRY, BUNDLES) if settings.sealing.is_on else (REGISTRY,)
    reader = KafkaControlReader(settings.kafka.connection, {names[base]: base for base in topics})
    policy = settings.policy
    return RegistryView(reader, roots, policy.refresh_s, policy.max_lag_s, settings.build_audience())


def _seal(settings: Settings, registry: RegistryView) -> dict[str, Any]:
    if not settings.sealing.is_on:
        return {}
    try:
        return {"sealing": build_sealing(settings, registry, follows=False)}
    except PolicyError as error:
        stop(str(error))


def _observe(settings: Settings, observed: ObservedGateway | None, registry: RegistryView) -> dict[str, Any]:
    try:
        tracer = trace_gateway(settings)
    except TracesUnavailable as error:
        stop(str(error))
    traced = {} if tracer is None else {"tracer": tracer, "flush_traces": partial(tracer.flush, FLUSH_S)}
    if observed is None:
        return traced
    observed.health.is_fresh = lambda: registry.is_fresh
    note_serving = observed.health.note_serving
    return {"observe": observed.metrics.observe, "note_serving": note_serving, **traced}


def _build_freezer(settings: Settings) -> Freezer:
    """Publishes freezes that this gateway signs for people."""

    async def freeze(subject: FreezeSubject, reason: str, person: FreezeFor, key: SigningKey) -> list[str]:
        order = FreezeOrder(subject, reason, person=person)
        try:
            # In a thread: every signature of the registry is verified meanwhile.
            return (await asyncio.to_thread(asyncio.run, publish_freeze(settings, order, [key]))).refused
        except (KafkaUnreachable, UnknownTopics, AnotherPublisherError) as error:
            raise HttpError(503, "unavailable", f"the freeze is not published: {error}") from None

    return freeze


def _require_files(settings: Settings) -> tuple[ApiKeyStore, PeopleStore, Roots]:
    """The API keys, the people, and the keys that all trust starts from."""
    gateway_settings = settings.gateway
    try:
        keys, people = (
            Path(path).expanduser() for path in (gateway_settings.api_keys, gateway_settings.people)
        )
        return ApiKeyStore(keys), PeopleStore(people), settings.policy.read_roots()
    except ApiKeyFileError as error:
        stop(str(error))
    except CoreError as error:
        stop(f"policy.root_keys: {error}")


def _require_signer(settings: Settings) -> InputSigner | None:
    """Return a signer with the gateway's own key; None: it signs for no agent."""
    pem = settings.gateway.signing_key
    if pem is None:
        return None
    require_private_keys([pem])
    return InputSigner(pem.read_bytes(), settings.build_audience())


class _Shared(NamedTuple):
    """What gateways have together where they have a Redis, and each alone where they have none: answers under
    idempotency keys, how often a key may ask, sessions of the pages (None: the pages' own)."""

    answers: IdempotencyStore
    rate: RateLimit
    log_ins: LogIns | None


def _require_shared(settings: Settings, people: PeopleStore) -> _Shared:
    gateway_settings, prefix, file = (
        settings.gateway,
        settings.kafka.topic_prefix,
        settings.gateway.idempotency_file,
    )
    alone, most_bytes = (
        OwnRate(gateway_settings.requests_per_s, gateway_settings.burst),
        gateway_settings.idempotency_mb * 2**20,
    )
    try:
        if gateway_settings.redis_url is None:
            own = SqliteAnswers(None if file is None else file.expanduser(), most_bytes=most_bytes)
            return _Shared(own, alone, None)
        url = add_password(gateway_settings.redis_url.get_secret_value(), settings.redis.password_file)
        keys = load_seal_keys(settings.redis.key_file)
        return _Shared(
            RedisAnswers(url, prefix, Seal(keys, "idempotent answer"), most_bytes),
            SharedRate(url, prefix, alone),
            SharedLogIns(url, prefix, keys, people.get, gateway_settings.login_longest_s),
        )
    except (ValueError, SealKeysError, sqlite3.Error) as error:
        stop(f"gateway.redis_url or gateway.idempotency_file: {error}")


def _build_slack_app(settings: Settings) -> SlackApp | None:
    """Our app in Slack; None: the settings have no signing secret."""
    slack = settings.slack
    if slack.signing_secret is None or slack.bot_token is None:
        return None
    try:
        from slack_sdk.signature import SignatureVerifier  # noqa: PLC0415 - only where it is configured

        from sluice.adapters.slack_calls import SlackClient  # noqa: PLC0415 - as above
        from sluice.gateway.routes.slack_routes import SlackApp  # noqa: PLC0415 - as above
    except ImportError:
        stop(MISSING)
    token = slack.bot_token.get_secret_value()
    client = SlackClient(token, base_url=slack.base_url, timeout=SLACK_S, retry_handlers=[])
    verifier = SignatureVerifier(slack.signing_secret.get_secret_value())
    return SlackApp(verifier, slack.approvers, client, slack.answer_s)
