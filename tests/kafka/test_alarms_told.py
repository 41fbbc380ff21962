"""Mend 22.15: alarms reach the people whom the bundle names, once each, also over a notifier's restart."""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import approvers
from load.installations.slack_api import SlackApi, slack_api, slack_settings
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import ALARMS, OUTCOMES, VERDICTS
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until,
)
from tests.kafka.notifier_process import Endpoint, NotifierProcess, buttons, endpoint, run_notifier, show_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka

OPERATORS, OWNERS, OTHERS = "C0OPERATORS", "C0OWNERS", "C0OTHERS"
CHANNELS: list[dict[str, Any]] = [
    {"alarms": True, "group": "somebody else", "channel": OTHERS},
    {"alarms": True, "group": "operator", "channel": OPERATORS},
    {"alarms": True, "tenant": "", "channel": OWNERS},
    {"channel": OTHERS},
]
WEBHOOK_SECRET = "of-the-webhook-in-the-tests"  # noqa: S105 - of nothing else


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    made = make_small_installation(kafka, tmp_path_factory.mktemp("alarms"), module_prefix.rstrip("."))
    asyncio.run(publish_policy(kafka, made.prefix, approvers.records(made.trust)))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def dispute(installation: TestInstallation, worker: WorkerProcess) -> dict[str, Any]:
    """What a worker raises when an outcome that nobody signed claims far more rows than were reserved."""
    session = f"s-{uuid.uuid4().hex}"
    publish(installation, [action(session, "a-1")])
    wait_for(installation, VERDICTS, session, 1, worker)
    claim = {"action_id": "a-1", "session_id": session, "rows_affected": 10**9, "reported_by": "nobody"}
    publish(installation, [claim], OUTCOMES)
    found: list[dict[str, Any]] = []

    def is_raised() -> bool:
        found[:] = [one for one in alarms(installation) if one.get("session_id") == session]
        return bool(found)

    wait_until(is_raised, worker)
    return found[0]


def alarms(installation: TestInstallation) -> list[dict[str, Any]]:
    """All of the ledger so far."""
    return [json.loads(one.value or b"null") for one in read_stored(installation, ALARMS)]


def list_told(hook: Endpoint, alarm: dict[str, Any]) -> list[str]:
    """The webhook ids under which an alarm came."""
    found = [(headers, json.loads(body)["record"]) for headers, body in hook.taken]
    return [headers["webhook-id"] for headers, one in found if one.get("alarm_id") == alarm["alarm_id"]]


def test_an_alarm_reaches_its_recipient_once_in_slack_and_by_webhook_over_restarts(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    with slack_api() as api, endpoint() as hook:
        webhook = {"name": "pager", "url": hook.url, "secret": WEBHOOK_SECRET}
        settings = slack_settings(api, CHANNELS) | {"SLUICE_NOTIFY__WEBHOOKS": json.dumps([webhook])}
        before = dispute(installation, worker)
        assert before["recipient"] == "operator"
        with run_notifier(installation, settings) as notifier:
            _expect(notifier, api, hook, before)
            assert notifier.end() == 0
            meanwhile = dispute(installation, worker)
            notifier.start()
            _expect(notifier, api, hook, meanwhile)
            after = dispute(installation, worker)
            _expect(notifier, api, hook, after)
            overdue = next(one for one in alarms(installation) if one["kind"] == "flag_only_overdue")
            _expect(notifier, api, hook, overdue, OWNERS)
        for alarm in (before, meanwhile, after, overdue):
            assert len(api.list_messages(alarm["alarm_id"])) == 1
            assert len(list_told(hook, alarm)) == 1


def _expect(
    notifier: NotifierProcess, api: SlackApi, hook: Endpoint, alarm: dict[str, Any], channel: str = OPERATORS
) -> None:
    notifier.wait_until(lambda: bool(api.list_messages(alarm["alarm_id"])) and bool(list_told(hook, alarm)))
    (message,) = api.list_messages(alarm["alarm_id"])
    assert message["channel"] == channel
    assert alarm["message"] in show_text(message)
    assert f"for {alarm['recipient']}: {alarm['subject']}" in show_text(message)
    assert not buttons(message)
