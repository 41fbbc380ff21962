"""What people get to see of what waits, and answer: in Slack, by a webhook, on the pages and over HTTP."""

from __future__ import annotations

import json
import re
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx2

from load.installations import neutral_policy
from load.installations.slack_api import sign_request, slack_api, slack_settings
from sluice.gateway.http.api_keys import write_keys
from sluice.gateway.pages.accounts import PeopleFile, PersonAccount, hash_password
from sluice_demo.throwaway_trust import GATEWAY
from tests.kafka.gateway_process import Gateway, run_gateway
from tests.kafka.installation import DEADLINE_S
from tests.kafka.notifier_process import endpoint, run_notifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.installations.installation import TestInstallation
    from load.installations.slack_api import SlackApi
    from tests.kafka.notifier_process import Endpoint, NotifierProcess

PERSON, USER = "ann", "U0ANN"
"""The registered approver who logs in and presses buttons, and the user in Slack."""
PASSWORD = "correct horse battery"  # noqa: S105 - of a person who lives as long as the test
_CHANNELS: list[dict[str, Any]] = [{"channel": "C0DESK"}, {"memories": True, "channel": "C0MEMORIES"}]
_TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


@dataclass
class People:
    """Everything by which people are shown something, and what it was. `pages`: what the browser got."""

    slack: SlackApi
    hook: Endpoint
    notifier: NotifierProcess
    gateway: Gateway
    browser: httpx2.Client
    pages: list[bytes] = field(default_factory=list)

    def wait_until(self, name: str, holds: Callable[[list[dict[str, Any]], int], bool]) -> None:
        """Return once it holds of the messages in Slack about a subject, and of the number of calls of the
        webhook that name it."""
        self.notifier.wait_until(
            lambda: holds(
                self.slack.list_messages(name), sum(name.encode() in body for _, body in self.hook.taken)
            )
        )

    def list_shown(self) -> list[bytes]:
        """All that Slack, the webhook and the browser were sent."""
        calls = [json.dumps(call, ensure_ascii=False).encode() for call in self.slack.calls]
        return [*calls, *(body for _, body in self.hook.taken), *self.pages]

    def look(self, *paths: str) -> None:
        """Open pages, each of which must be there."""
        for path in paths:
            page = self.browser.get(path)
            assert page.status_code == 200, (path, page.text)
            self.pages.append(page.content)

    def ask(self, *paths: str) -> None:
        """Ask the API as a program of the clerk's tenant."""
        with self.gateway.client(self.gateway.key()) as client:
            for path in paths:
                answered = client.get(path)
                assert answered.is_success, (path, answered.text)
                self.pages.append(answered.content)

    def wait_until_listed(self, path: str, *ids: str) -> None:
        """Return once the gateway lists these ids as waiting: its pages have their forms then."""
        deadline = time.monotonic() + DEADLINE_S
        with self.gateway.client(self.gateway.key()) as client:
            while any(an_id not in (listed := client.get(path).text) for an_id in ids):
                assert time.monotonic() < deadline, (ids, listed)
                time.sleep(0.1)

    def answer_in_slack(self, escalation_id: str, why: str, decision: str = "approve") -> str:
        """Press a message's button, fill in the form and send it: the title of what comes in its place."""
        press = {
            "type": "block_actions",
            "channel": {"id": "C0DESK"},
            "trigger_id": "trigger",
            "actions": [{"action_id": f"sluice_decision_{decision}", "value": escalation_id}],
        }
        deadline, opened = time.monotonic() + DEADLINE_S, len(self.slack.views)
        while len(self.slack.views) == opened:
            assert time.monotonic() < deadline, self.slack.ephemeral
            assert self._interact(press | {"nonce": uuid.uuid4().hex}).status_code == 200
            time.sleep(0.05)
        values = {"justification": {"justification": {"type": "plain_text_input", "value": why}}}
        view = {**self.slack.views[-1], "state": {"values": values}}
        answered = self._interact({"type": "view_submission", "trigger_id": uuid.uuid4().hex, "view": view})
        self.pages.append(answered.content)
        return str(answered.json()["view"]["title"]["text"])

    def answer_on_page(self, escalation_id: str, why: str, **fields: str) -> None:
        """Fill in the form of an escalation's page, and look at what the next page says."""
        path = f"/review/escalations/{escalation_id}"
        page = self.browser.get(path)
        assert 'name="justification"' in page.text, page.text
        form = {"csrf_token": _read_token(page), "decision": "approve", "justification": why, **fields}
        answered = self.browser.post(path, data=form)
        assert "Your answer counted" in answered.text, answered.text
        self.pages += [page.content, answered.content]

    def _interact(self, payload: dict[str, Any]) -> httpx2.Response:
        body, headers = sign_request({"user": {"id": USER}, "team": {"id": "T0"}, **payload})
        address = f"{self.gateway.url}/v1/slack/interactions"
        return httpx2.post(address, content=body, headers=headers, timeout=DEADLINE_S)


@contextmanager
def run_people(installation: TestInstallation) -> Iterator[People]:
    """A notifier and a gateway with pages on an installation whose registry has the approver `PERSON` and the
    gateway's delegate."""
    folder = installation.folder
    people, key = folder / "people.json", folder / "people.pem"
    account = PersonAccount(
        name=PERSON,
        hash=hash_password(PASSWORD),
        tenant_id=neutral_policy.TENANT,
        approver_id=PERSON,
        roles=["reviewer", "vp", "admin"],
        created_at="2026-11-23T00:00:00.000Z",
    )
    write_keys(people, PeopleFile(people=[account]))
    key.touch(mode=0o600)
    key.write_bytes(installation.trust.write_pem(GATEWAY))
    with slack_api() as slack, endpoint() as hook:
        webhook = {"name": "pager", "url": hook.url, "secret": "of-the-webhook-in-the-tests"}
        settings = slack_settings(slack, _CHANNELS, approvers={USER: PERSON}, answer_s=60)
        installation.settings.update(settings)
        own = {"SLUICE_NOTIFY__WEBHOOKS": json.dumps([webhook])}
        options: dict[str, Any] = {
            "people": str(people),
            "reviewers_key": str(key),
            "wait_s": 50,
            "longest_wait_s": 60,
        }
        with (
            run_notifier(installation, settings | own) as notifier,
            run_gateway(installation, **options) as gateway,
            httpx2.Client(base_url=gateway.url, timeout=DEADLINE_S, follow_redirects=True) as browser,
        ):
            _log_in(browser)
            yield People(slack, hook, notifier, gateway, browser)


def _log_in(browser: httpx2.Client) -> None:
    form = {"csrf_token": _read_token(browser.get("/review/login")), "name": PERSON, "password": PASSWORD}
    assert browser.post("/review/login", data=form).status_code == 200


def _read_token(page: httpx2.Response) -> str:
    token = _TOKEN.search(page.text)
    assert token is not None, page.text
    return token[1]
