"""`sluice notify`: what waits for a person, and alarms, told in Slack and to webhooks, until stopped."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

from sluice.cli.machine.worker import stop_unless_topics_fit
from sluice.cli.output import EXIT_FAULT, listen, log_to_stderr, require_record_proofs, require_settings, stop
from sluice.settings.reader import list_real_names
from sluice_topics.catalog import ALARMS, ESCALATIONS, NOTIFICATIONS, QUARANTINE
from sluice_topics.record_reading import find_call

if TYPE_CHECKING:
    import typer

    from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput
    from sluice.notify.notifier import DeliveryObserver, Destination, Notifier
    from sluice.notify.reported_subject import ReportedSubject
    from sluice.settings.reader import Settings

log = logging.getLogger(__name__)
TOLD = (ESCALATIONS, QUARANTINE, ALARMS)
MISSING = "install the extra `gateway`: slack-sdk (in a checkout: make setup)"


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("notify")(notify)


def notify() -> None:
    """Tell people and programs what waits for a person, and alarms: Slack, signed webhooks, until stopped.

    The settings slack and notify say where. Nothing is lost while a
    destination is away: it is told later. Run one; a second one takes
    over when the first ends. docs/notifications.md has the rest.

    Exit codes: 0 stopped, 2 a setting or a topic is wrong, 3 after a
    broker fault: start it again, nothing is lost.
    """
    from aiokafka.errors import KafkaError  # noqa: PLC0415 - a while to import

    settings = require_settings()
    log_to_stderr(settings)
    if not settings.slack.channels and not settings.notify.webhooks:
        stop("nothing to notify: set slack.channels or notify.webhooks (config/sluice.toml has examples)")
    stop_unless_topics_fit(settings)
    try:
        asyncio.run(_run(settings))
    except KafkaError as error:
        stop(f"the broker does not answer: {error}", EXIT_FAULT)


async def _run(settings: Settings) -> None:
    from sluice.bootstrap.observing import observe_notifier  # noqa: PLC0415 - only to run
    from sluice.notify.notifier import run_all  # noqa: PLC0415 - only to run

    observed = observe_notifier(settings)
    notifiers = build_notifiers(settings, None if observed is None else observed.metrics)
    if observed is not None:
        for notifier in notifiers:
            observed.health.expect(notifier.name)
        listen(observed.listener, "notify")

    def stop_all() -> None:
        for stopping in notifiers:
            stopping.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_all)
    log.info("the notifier tells %d destinations", len(notifiers))
    await run_all(notifiers)


def build_notifiers(settings: Settings, observer: DeliveryObserver | None = None) -> list[Notifier]:
    """One for each destination, not connected."""
    from sluice.adapters.webhook import Webhook  # noqa: PLC0415 - only to run

    notify_settings = settings.notify
    notifiers = []
    if settings.slack.channels:
        notifiers.append(_build_notifier(settings, "slack", (_build_slack(settings), observer)))
    for webhook_settings in notify_settings.webhooks:
        endpoint = webhook_settings.url, webhook_settings.secret.get_secret_value().encode()
        webhook = Webhook(
            webhook_settings.name, endpoint, webhook_settings.tenant, notify_settings.timeout_s, time.time
        )
        notifiers.append(_build_notifier(settings, f"webhook-{webhook_settings.name}", (webhook, observer)))
    return notifiers


def _build_notifier(
    settings: Settings, name: str, to: tuple[Destination, DeliveryObserver | None]
) -> Notifier:
    from sluice.adapters.kafka.kafka_groups import KafkaLedgerGroup  # noqa: PLC0415 - as above
    from sluice.notify.notifier import Notifier, Patience  # noqa: PLC0415 - as above

    notify_settings, names = settings.notify, list_real_names(settings)
    group = KafkaLedgerGroup(
        settings.kafka.connection,
        f"{settings.worker.app_id}-notify-{name}",
        {names[topic]: topic for topic in TOLD},
        notify_settings.look_back_s,
        require_record_proofs(settings),
    )
    patience = Patience(notify_settings.first_retry_s, notify_settings.longest_retry_s)
    return Notifier(group, to[0], patience, notify_settings.max_waiting, to[1])


def _build_slack(settings: Settings) -> Destination:
    try:
        from sluice.adapters.slack_calls import SlackClient  # noqa: PLC0415 - an extra
    except ImportError:
        stop(MISSING)
    from sluice.adapters.kafka.kafka_consumers import KafkaNotified  # noqa: PLC0415 - as above
    from sluice.adapters.kafka.kafka_inputs import KafkaHeldInput  # noqa: PLC0415 - as above
    from sluice.adapters.slack_messages import SlackMessages, SlackPlaces  # noqa: PLC0415 - as above

    slack_settings, names, servers = settings.slack, list_real_names(settings), settings.kafka.connection
    assert slack_settings.bot_token is not None  # noqa: S101 - the settings have seen to it
    client = SlackClient(
        slack_settings.bot_token.get_secret_value(),
        base_url=slack_settings.base_url,
        timeout=int(settings.notify.timeout_s) or 1,
        retry_handlers=[],
    )
    inputs = KafkaHeldInput(servers, names)

    async def show_action(reported: ReportedSubject) -> tuple[str, str] | None:
        is_shown = slack_settings.show_parameters and reported.kind != "alarm"
        return await _fetch_action(inputs, reported) if is_shown else None

    def find_page(reported: ReportedSubject) -> str | None:
        pages, part = settings.gateway.pages_url, "quarantine" if reported.kind == "memory" else "escalations"
        return None if pages is None else f"{pages.rstrip('/')}/review/{part}/{quote(reported.subject_id)}"

    async def show_approved(reported: ReportedSubject) -> str | None:
        return await _fetch_approval(inputs, reported) if slack_settings.show_parameters else None

    places = SlackPlaces(slack_settings.find_channel, find_page, show_action, show_approved, inputs.close)
    return SlackMessages(client, KafkaNotified(servers, names[NOTIFICATIONS]), places, time.time)


async def _fetch_action(inputs: KafkaHeldInput, reported: ReportedSubject) -> tuple[str, str] | None:
    """The tool and the parameters of what waits, or a memory's content; None where it cannot be read, or is
    something else."""
    from sluice.core.foundation.input_record import read_coordinates  # noqa: PLC0415 - as above

    coordinates = read_coordinates(reported.subject_id)
    value = await _fetch_input(
        inputs, reported.subject_id, coordinates, reported.input_digest or reported.digest
    )
    if value is None:
        return None
    fields = json.loads(value)
    if reported.kind == "memory":
        return "a memory", str(fields.get("content"))
    name, parameters = find_call(fields) or ("a retrieval", None)
    return name, json.dumps(fields.get("items", parameters), indent=2, ensure_ascii=False)


async def _fetch_approval(inputs: KafkaHeldInput, reported: ReportedSubject) -> str | None:
    """The parameters of the approvals so far, where they are others than the action's."""
    at = reported.approval
    if at is None:
        return None
    coordinates = at["topic"], at["partition"], at["offset"]
    value = await _fetch_input(inputs, reported.subject_id, coordinates, at["digest"])
    if value is None:
        return None
    return json.dumps(json.loads(value)["parameters"], indent=2, ensure_ascii=False)


async def _fetch_input(
    inputs: KafkaHeldInput, subject_id: str, coordinates: tuple[str, int, int], digest: str
) -> str | bytes | None:
    """The input at a place; None where it cannot be read, or is something else."""
    from sluice.core.foundation.requests import Answer, take_input  # noqa: PLC0415 - as above
    from sluice.ports import PortUnavailable  # noqa: PLC0415 - as above

    topic, partition, offset = coordinates
    try:
        payload = await inputs.ask({"topic": topic, "partition": partition, "offset": offset})
    except PortUnavailable as error:
        log.warning("what waits as %s is not shown: %s", subject_id, error)
        return None
    return take_input(Answer("answered", payload), digest)
