"""Pages of a real gateway with a worker behind it, people who may log in, and the system's Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

from load.installations import neutral_policy
from load.installations.approvers import entry
from sluice.cli.machine.gateway import STOP_S
from sluice.gateway.http.api_keys import write_keys
from sluice.gateway.pages.accounts import PeopleFile, PersonAccount, hash_password
from sluice.secrets.value_keys import write_value_key
from sluice_demo.throwaway_trust import OWNER, REVIEWER, publish_policy
from tests.browser.test_quality_report import NAMES
from tests.kafka.gateway_process import (
    ESCALATING_TOOL,
    OTHER_TENANT,
    Gateway,
    action,
    run_gateway,
)
from tests.kafka.gateway_process import entries as gateway_entries
from tests.kafka.installation import installation_on, run_worker
from tests.kafka.memories import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

    from load.installations.installation import TestInstallation

WIRE = "load.wire"
PATIENT_AGENT = "patient-agent"
"""Its held memories wait for an hour, and a pattern finds `SUSPECT` in what it does."""
SUSPECT = "wipe the archive"
TRANSFER = "load.transfer"
"""A tool whose entry says which parameter names where it goes."""
STAGES = ("controls", "fast_reject", "destinations", "tier_auth")
PASSWORD = "correct horse battery"  # noqa: S105 - of people who live as long as the test
PEOPLE = {
    "olga": (OWNER, ["reviewer", "vp"], neutral_policy.TENANT),
    "rita": (REVIEWER, ["reviewer"], neutral_policy.TENANT),
    "vic": (REVIEWER, ["vp"], neutral_policy.TENANT),
    "ada": ("ada", ["admin"], neutral_policy.TENANT),
    "otto": (OWNER, ["vp"], OTHER_TENANT),
    "oda": ("oda", ["admin"], OTHER_TENANT),
}
"""Who logs in: the approver that each is, the roles of the log-in, the tenant."""
ATTEMPTS = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=1">',
    "'><svg onload=window.pwned=1>",
    '<div hx-get="/review/logout" hx-trigger="load">',
    "<a href='javascript:window.pwned=1'>read this</a> {{ 7 * 7 }}",
    "http://evil.example/ \u202eread\u2066 me\u200b\U000e0041 </pre></main>",
)
"""What agents write to get out of a page's text."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
PATIENCE_MS = 30_000
LOOKS, BETWEEN_MS = 120, 500
"""How often a page is loaded again until it shows something, and the time between."""
LIVE = re.compile(r"/review/live\?since=\d+$")
"""The address of a page's stream."""
PHONE = {"width": 360, "height": 740}
RULES: dict[Literal["light", "dark"], dict[str, Any]] = {
    "light": {},
    "dark": {"runOnly": {"type": "rule", "values": ["color-contrast"]}},
}
"""All of axe's by day; by night the one that colours can break."""


@dataclass
class PageInstallation:
    """A gateway with pages, its settings, and a browser. Keys and log-ins are made once: each costs a slow
    hash."""

    installation: TestInstallation
    gateway: Gateway
    given: dict[str, Any]
    browser: Browser
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    log_ins: dict[str, Any] = field(default_factory=dict)

    def client(self, agent: str = neutral_policy.AGENT, tenant: str = neutral_policy.TENANT) -> httpx2.Client:
        """An agent's client of the API."""
        if (agent, tenant) not in self.keys:
            self.keys[agent, tenant] = self.gateway.key(tenant, [agent])
        return self.gateway.client(self.keys[agent, tenant])

    def escalate(self, tool: str = ESCALATING_TOOL, **more: Any) -> dict[str, Any]:
        """An action that waits for an approver, as its escalation stands."""
        session = more.pop("session", f"s-{uuid.uuid4().hex[:8]}")
        with self.client(more.pop("agent", neutral_policy.AGENT)) as client:
            told = client.post("/v1/evaluate", json=action(session, toolName=tool, **more))
            assert told.status_code == 202, told.text
            an_id = told.json()["escalationId"]
            return self._list_waiting(client, f"/v1/escalations/{an_id}", "action_digest")

    def hold(self, content: str = neutral_policy.DOUBT, **more: Any) -> dict[str, Any]:
        """A memory that waits for a reviewer, as the decision on its write."""
        fields = write(f"s-{uuid.uuid4().hex[:8]}", "w", content=content, **more)
        fields["agent_id"] = PATIENT_AGENT
        with self.client(PATIENT_AGENT) as client:
            told: dict[str, Any] = client.post("/v1/memory/evaluate", json=fields).json()
            assert told["action"] == "quarantine", told
            while told["memory_id"] not in client.get("/v1/quarantine").text:
                pass
        return told

    def transfer(self, iban: str, *, read_in: str | None = None) -> dict[str, Any]:
        """A payment to an account that waits for an approver, as its escalation stands. `read_in`: the source
        of a memory of the session that has the account."""
        session = f"s-{uuid.uuid4().hex[:8]}"
        with self.client() as client:
            if read_in is not None:
                source = {"id": read_in, "type": "user"}
                fields = write(session, "w", content=f"Pay {iban} from now on.", source=source)
                told = client.post("/v1/memory/evaluate", json=fields)
                assert told.json()["action"] == "allow", told.text
        return self.escalate(TRANSFER, session=session, parameters={"iban": iban}, rows_affected=1)

    def attempt_all(self) -> list[str]:
        """What agents may write, in every field that pages show; the pages that show it."""
        all_of_them = " ".join(ATTEMPTS)
        short = f"{ATTEMPTS[0]} {ATTEMPTS[3]} {ATTEMPTS[5]}"
        waits = self.escalate(
            session=f"s {short}",
            action_id=f"a {ATTEMPTS[1]} {ATTEMPTS[2]} {ATTEMPTS[4]}",
            parameters={all_of_them: all_of_them, "list": [*ATTEMPTS]},
            reasoning=all_of_them,
            tool_description=all_of_them,
        )
        held = self.hold(
            f"{neutral_policy.DOUBT} {all_of_them}",
            source={"id": f"x {short}", "type": "user"},
        )
        with self.client() as client:
            denied = client.post(
                "/v1/evaluate",
                json={
                    "toolName": short,
                    "parameters": {},
                    "sessionId": waits["session_id"],
                    "mode": "high_stakes",
                },
            ).json()
        return [
            "/review/escalations",
            f"/review/escalations/{waits['escalation_id']}",
            "/review/quarantine",
            f"/review/quarantine/{held['memory_id']}",
            "/review/decisions",
            "/review/decisions?about=memories",
            f"/review/decisions/{waits['verdict_id']}",
            f"/review/decisions/{held['memory_id']}",
            f"/review/decisions/{denied['verdict_id']}",
            "/review/sessions",
            f"/review/sessions?{httpx2.QueryParams({'id': waits['session_id']})}",
            "/review/posture",
        ]

    @staticmethod
    def _list_waiting(client: httpx2.Client, path: str, name: str) -> dict[str, Any]:
        while name not in (found := client.get(path).json()):
            pass
        return dict(found)

    def leave_open(self) -> None:
        """A page that follows what happens."""
        page = self.browser.new_context(base_url=self.gateway.url).new_page()
        with page.expect_response(LIVE):
            log_in(page, "rita")

    @contextmanager
    def visit(self, who: str | None = None, **options: Any) -> Iterator[Page]:
        """A page of a new browser context, logged in as somebody."""
        known = self.log_ins.get(who or "")
        options = {"base_url": self.gateway.url, "storage_state": known, **options}
        context = self.browser.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        try:
            page = context.new_page()
            if who is not None:
                page.goto("/review/escalations")
                if "/review/login" in page.url:
                    log_in(page, who)
                    page.wait_for_url("**/review/escalations")
                    self.log_ins[who] = context.storage_state()
            yield page
        finally:
            context.close()


def log_in(page: Page, who: str, password: str = PASSWORD) -> None:
    """By the form."""
    if "/review/login" not in page.url:
        page.goto("/review/login")
    page.get_by_label("Name").fill(who)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def read_text(page: Page) -> Any:
    """What the page says of the last answer."""
    return expect(page.get_by_role("status"))


def answer(page: Page, path: str, button: str, why: str = "looked at it") -> None:
    """Answer what waits."""
    page.goto(path)
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name=button).click()


def load_until(page: Page, shown: Locator) -> None:
    """Load a page again until it shows something: a gateway may read it after the answer to its cause."""
    for _ in range(LOOKS):
        if shown.count():
            return
        page.wait_for_timeout(BETWEEN_MS)
        page.reload()
    pytest.fail(f"{page.url} does not show {shown}")


def run_in_thread(ask: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What a function gives that runs an event loop of its own: the browser has one in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(ask, *given, **named).result()


def token(page: Page) -> str:
    """That of the session's forms."""
    return page.locator("[name=csrf_token]").first.get_attribute("value") or ""


def is_accessible(page: Page, where: str) -> None:
    """Axe finds nothing by day and by night, and all of it fits the width of the window."""
    for scheme, rules in RULES.items():
        page.emulate_media(color_scheme=scheme)
        results = Axe().run(page, options={"resultTypes": ["violations"], **rules})
        assert results.violations_count == 0, f"{where}, {scheme}: {results.generate_report()}"
    page.emulate_media(color_scheme="light")
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, where


def press(page: Page, *keys: str) -> None:
    """Press keys once the page can take them: its script runs after its text is there."""
    page.wait_for_load_state()
    for key in keys:
        page.keyboard.press(key)


def runs_nothing(page: Page, where: str) -> None:
    """No script ran, no element of theirs is there, and no link leads out of the pages."""
    assert page.evaluate("window.pwned") is None, where
    main = page.get_by_role("main")
    assert main.locator("script, img, svg:not(.bars), iframe, object, [onload], [onerror]").count() == 0, (
        where
    )
    assert main.locator('[hx-get]:not([hx-get^="/review/"]), [hx-trigger="load"]').count() == 0, where
    links = main.locator("a").evaluate_all("all => all.map(one => one.getAttribute('href'))")
    assert [one for one in links if not one.startswith("/review/")] == [], where


def complaints(context: BrowserContext) -> list[str]:
    """What the pages of a context say on the console, or throw, from now on."""
    said: list[str] = []
    context.on("console", lambda one: said.append(one.text))
    context.on("weberror", lambda one: said.append(str(one.error)))
    context.on("dialog", lambda one: said.append(f"dialog {one.message}"))
    return said


def chromium() -> str:
    """The system's browser. In CI a missing one is a failure."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and not os.environ.get("CI"):
        pytest.skip("no browser: apt-get install chromium")
    return found or pytest.fail("no browser: apt-get install chromium")


@contextmanager
def run_pages(kafka: str, folder: Path, name: str, **settings: Any) -> Iterator[PageInstallation]:
    """All of it, stopped in good order afterwards."""
    binary = chromium()
    expect.set_options(timeout=PATIENCE_MS)
    master = folder / "master.key"
    write_value_key(master, bytes(range(32)))
    own_settings = {
        "SLUICE_WORKER__TIMER_INTERVAL_S": "0.2",
        "SLUICE_VALUES__MASTER_KEY_FILE": str(master),
    }
    made = installation_on(kafka, folder, name, STAGES, **own_settings)
    patient = {**neutral_policy.bundle(stages=STAGES), "id": "load.patient"}
    found = {"id": "load.suspect", "reason": "words of a test", "source": "tests/kafka/pages_installation.py"}
    patient["patterns"] = {"text": [{**found, "severity": "warn", "pattern": SUSPECT}]}
    patient["memory"] = {**patient["memory"], "quarantineReviewMs": 3_600_000}
    wire = {"tier": "T4", "action_type": "PAYMENT", "reversible": False, "trusts_row_claims": True}
    own = [
        entry("tool", WIRE, **wire),
        entry("tool", TRANSFER, **{**wire, "tier": "T3", "roles": {"destination": ["$.iban"]}}),
        entry(
            "agent",
            PATIENT_AGENT,
            tenant_id=neutral_policy.TENANT,
            tier="T2",
            policy_bundle_id="load.patient",
        ),
    ]
    policy = [
        made.trust.sign_bundle(json.dumps(patient).encode()),
        made.trust.make_delegate([neutral_policy.TENANT, OTHER_TENANT]),
        *made.trust.sign_entries([*gateway_entries(), *own]),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    people, key = folder / "people.json", folder / "gateway.pem"
    hashed = hash_password(PASSWORD)
    accounts = [
        PersonAccount(
            name=name,
            hash=hashed,
            tenant_id=tenant,
            approver_id=approver,
            roles=roles,
            created_at="2026-11-23T00:00:00.000Z",
        )
        for name, (approver, roles, tenant) in PEOPLE.items()
    ]
    write_keys(people, PeopleFile(people=accounts))
    key.touch(mode=0o600)
    key.write_bytes(made.trust.write_pem("gateway"))
    given = {"people": str(people), "reviewers_key": str(key), "wait_s": 50, "longest_wait_s": 60, **settings}
    workers = run_worker(made)
    next(workers)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=binary, args=ARGUMENTS)
            with run_gateway(made, **given) as gateway:
                at = PageInstallation(made, gateway, given, browser)
                yield at
                at.leave_open()
                began = time.monotonic()
            assert time.monotonic() - began < STOP_S, "an open page holds up the gateway's stop"
            browser.close()
    finally:
        next(workers, None)
