"""`sluice gateway`: the gate over HTTP, until stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sluice.adapters.kafka.kafka_control import AnotherPublisherError, KafkaControlReader
from sluice.adapters.kafka.kafka_read import KafkaUnreachable, UnknownTopics
from sluice.cli.machine.gateway_ledger import ledger_work
from sluice.cli.machine.worker import log_to_stderr, stop_unless_topics_fit
from sluice.cli.output import record_proofs_or_stop, settings_or_stop, stop
from sluice.cli.policy.freeze import FreezeOrder, carry_out
from sluice.cli.policy.key_files import private_keys_or_stop
from sluice.client.sender import InputSigner
from sluice.core.foundation.errors import CoreError
from sluice.redis_seal import Seal, SealKeysError, seal_keys, with_password
from sluice.settings import missing_trust, real_names
from sluice_topics.catalog import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.core.registry.keys import SigningKey
    from sluice.core.trust.freezing import FreezeFor, FreezeSubject
    from sluice.gateway.delegated_answers import Freezer
    from sluice.gateway.http.edge import Edge
    from sluice.gateway.http.rate_limits import RateLimit
    from sluice.gateway.idempotency import AnswerStore
    from sluice.gateway.pages.accounts import PeopleStore
    from sluice.gateway.pages.log_ins import LogIns
    from sluice.gateway.routes.slack_routes import SlackApp
    from sluice.settings import Settings

log = logging.getLogger(__name__)
EXIT_FAULT = 3
STOP_S = 20
"""How long requests that wait may take after the gateway was asked to stop."""
SLACK_S = 2
"""For a call while Slack waits for our answer."""
MISSING = "install the extra `gateway` (in a checkout: make setup)"


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("gateway")(gateway)


def gateway() -> None:
    """Serve the gate over HTTP: POST /v1/evaluate and the rest of docs/gateway.md, until stopped.

    You may start any number of gateways. Each needs the same settings, and
    the file of API keys that `sluice keys api new` writes. Workers decide:
    a gateway publishes and waits for what they commit.

    Exit codes: 0 stopped, 2 a setting, a topic or the file of keys is
    wrong, 3 after a broker fault: start it again, nothing is lost.
    """
    settings = settings_or_stop()
    log_to_stderr(settings)
    if problem := missing_trust(settings):
        stop(problem)
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from sluice.gateway.http.http_protocol import GatewayProtocol  # noqa: PLC0415 - as above
    except ImportError:
        stop(MISSING)
    failed: list[int] = []

    def fail() -> None:
        failed.append(EXIT_FAULT)
        signal.raise_signal(signal.SIGTERM)

    application = build_gateway(settings, fail)
    stop_unless_topics_fit(settings)
    given = settings.gateway
    options: dict[str, Any] = {
        "http": GatewayProtocol,
        "ws": "none",
        "timeout_keep_alive": given.request_timeout_s,
        "timeout_graceful_shutdown": STOP_S,
        "proxy_headers": False,  # who connects counts, for single sign-on too
    }
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            host=given.host,
            port=given.port,
            loop="uvloop",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            **options,
        )
    )
    logging.getLogger("uvicorn.error").setLevel(logging.INFO)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn takes them, stops, and raises them again
    server.run()
    if failed:
        raise typer.Exit(EXIT_FAULT)
    if not server.started:
        stop("the gateway could not start: the log says why", EXIT_FAULT)


def build_gateway(settings: Settings, fail: Callable[[], None]) -> Edge:
    """The application over these settings, not connected; `fail` ends the process after a fault.

    Ends the command where a key or a file is wrong.
    """
    from sluice.client.exchange import Exchange  # noqa: PLC0415 - only to serve
    from sluice.client.input_kinds import ANSWERS, QUARANTINE  # noqa: PLC0415 - as above
    from sluice.gateway.decisions import Decisions  # noqa: PLC0415 - as above
    from sluice.gateway.delegated_answers import DelegatedAnswers  # noqa: PLC0415 - as above
    from sluice.gateway.http.api_keys import ApiKeyFileError, ApiKeyStore  # noqa: PLC0415 - an extra
    from sluice.gateway.http.edge import EdgeRules  # noqa: PLC0415 - as above
    from sluice.gateway.input_requests import WaitLimits  # noqa: PLC0415 - as above
    from sluice.gateway.ledger_scan import LedgerScan  # noqa: PLC0415 - as above
    from sluice.gateway.pages.accounts import PeopleStore  # noqa: PLC0415 - an extra
    from sluice.gateway.pages.visitors import Visitors, Visits  # noqa: PLC0415 - as above
    from sluice.gateway.recent_advisories import RecentAdvisories  # noqa: PLC0415 - as above
    from sluice.gateway.recent_records import RecentRecords  # noqa: PLC0415 - as above
    from sluice.gateway.registry_view import RegistryView  # noqa: PLC0415 - as above
    from sluice.gateway.waiting_subjects import WaitingSubjects  # noqa: PLC0415 - as above
    from sluice.gateway.web_app import GatewayParts, build_app  # noqa: PLC0415 - as above

    given, kafka = settings.gateway, settings.kafka
    visits = Visits(
        given.pages_url, given.login_idle_s, given.login_longest_s, given.sso_header, given.sso_proxy
    )
    try:
        keys = ApiKeyStore(Path(given.api_keys).expanduser())
        people = PeopleStore(Path(given.people).expanduser())
        roots = settings.policy.roots()
    except ApiKeyFileError as error:
        stop(str(error))
    except CoreError as error:
        stop(f"policy.root_keys: {error}")
    signing_key = None
    if given.signing_key is not None:
        private_keys_or_stop([given.signing_key])
        signing_key = InputSigner(given.signing_key.read_bytes(), settings.audience())
    people_key = None if given.reviewers_key is None else private_keys_or_stop([given.reviewers_key])[0]
    try:
        answers, rate = _answer_store(settings), _rate_limit(settings)
        log_ins = _log_ins(settings, people)
    except (ValueError, SealKeysError, sqlite3.Error) as error:
        stop(f"gateway.redis_url or gateway.idempotency_file: {error}")
    proofs = record_proofs_or_stop(settings)
    topics = (*ANSWERS, QUARANTINE)
    exchange = Exchange(kafka.bootstrap_servers, kafka.topic_prefix, answers=topics, proofs=proofs)
    reader = KafkaControlReader(kafka.bootstrap_servers, {real_names(settings)[REGISTRY]: REGISTRY})
    registry = RegistryView(
        reader, roots, settings.policy.refresh_s, settings.policy.max_lag_s, settings.audience()
    )
    decisions = Decisions(exchange, signing_key, given.read_timeout_s, given.max_reads)
    return build_app(
        GatewayParts(
            exchange,
            decisions,
            registry,
            keys,
            rate,
            WaitLimits(given.wait_s, given.longest_wait_s),
            EdgeRules(given.max_body_bytes, given.request_timeout_s, given.allowed_origins),
            answers,
            WaitingSubjects(exchange.connection, kafka.topic_prefix, given.waiting_s, proofs),
            ledger_work(settings, proofs),
            RecentRecords(exchange.connection, kafka.topic_prefix, given.session_records, proofs),
            LedgerScan(exchange.connection, kafka.topic_prefix, kafka.partitions, proofs),
            RecentAdvisories(exchange.connection, kafka.topic_prefix, proofs),
            DelegatedAnswers(people_key, registry, decisions, given.wait_s, _freezer(settings)),
            Visitors(people, visits, log_ins),
            fail,
            _slack_app(settings),
        )
    )


def _freezer(settings: Settings) -> Freezer:
    """Publishes freezes that this gateway signs for people."""
    from sluice.gateway.http.http_errors import HttpError  # noqa: PLC0415 - an extra

    async def freeze(subject: FreezeSubject, reason: str, person: FreezeFor, key: SigningKey) -> list[str]:
        order = FreezeOrder(subject, reason, person=person)
        try:
            # In a thread: every signature of the registry is verified meanwhile.
            return (await asyncio.to_thread(asyncio.run, carry_out(settings, order, key))).refused
        except (KafkaUnreachable, UnknownTopics, AnotherPublisherError) as error:
            raise HttpError(503, "unavailable", f"the freeze is not published: {error}") from None

    return freeze


def _log_ins(settings: Settings, people: PeopleStore) -> LogIns | None:
    """Where gateways keep their sessions together; None: each has its own. Raises ValueError and
    SealKeysError."""
    from sluice.gateway.pages.shared_log_ins import SharedLogIns  # noqa: PLC0415 - an extra

    url = _redis_url(settings)
    if url is None:
        return None
    keys, longest_s = seal_keys(settings.redis.key_file), settings.gateway.login_longest_s
    return SharedLogIns(url, settings.kafka.topic_prefix, keys, people.get, longest_s)


def _redis_url(settings: Settings) -> str | None:
    """The gateways' Redis, with its password; None: they have none. Raises SealKeysError."""
    given = settings.gateway.redis_url
    return None if given is None else with_password(given.get_secret_value(), settings.redis.password_file)


def _slack_app(settings: Settings) -> SlackApp | None:
    """Our app in Slack; None: the settings have no signing secret."""
    given = settings.slack
    if given.signing_secret is None or given.bot_token is None:
        return None
    try:
        from slack_sdk import WebClient  # noqa: PLC0415 - only where it is configured
        from slack_sdk.signature import SignatureVerifier  # noqa: PLC0415 - as above
    except ImportError:
        stop(MISSING)
    from sluice.gateway.routes.slack_routes import SlackApp  # noqa: PLC0415 - as above

    token = given.bot_token.get_secret_value()
    client = WebClient(token, base_url=given.base_url, timeout=SLACK_S, retry_handlers=[])
    verifier = SignatureVerifier(given.signing_secret.get_secret_value())
    return SlackApp(verifier, given.approvers, client, given.answer_s)


def _answer_store(settings: Settings) -> AnswerStore:
    """Where answers under idempotency keys are kept. Raises ValueError, SealKeysError and sqlite3.Error."""
    from sluice.gateway.idempotency import RedisAnswers, SqliteAnswers  # noqa: PLC0415 - an extra

    given, url = settings.gateway, _redis_url(settings)
    if url is not None:
        seal = Seal(seal_keys(settings.redis.key_file), "idempotent answer")
        return RedisAnswers(url, settings.kafka.topic_prefix, seal)
    return SqliteAnswers(None if given.idempotency_file is None else given.idempotency_file.expanduser())


def _rate_limit(settings: Settings) -> RateLimit:
    """How often a key may ask: of all gateways if they have a Redis. Raises ValueError."""
    from sluice.gateway.http.rate_limits import OwnRate, SharedRate  # noqa: PLC0415 - only to serve

    given, url = settings.gateway, _redis_url(settings)
    alone = OwnRate(given.requests_per_s, given.burst)
    return alone if url is None else SharedRate(url, settings.kafka.topic_prefix, alone)
