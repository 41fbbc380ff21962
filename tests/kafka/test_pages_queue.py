"""Mend 22.20: three hundred escalations wait, and a person reads, filters and answers them in a browser."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from typer.testing import CliRunner

from load.sites import neutral_policy
from sluice.cli.demo.throwaway_trust import OWNER
from sluice.cli.main import cli
from sluice.client.input_kinds import ESCALATIONS, REVIEWS, VERDICTS
from sluice.gateway.ledger_scan import Asked, LedgerScan
from tests.kafka.gateway_process import ESCALATING_TOOL, action
from tests.kafka.installation import stored
from tests.kafka.pages_site import (
    ATTEMPTS,
    PATIENT_AGENT,
    SUSPECT,
    WIRE,
    PageSite,
    complaints,
    running_pages,
    runs_nothing,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = [pytest.mark.kafka, pytest.mark.browser]
WAITING, ROWS, PAGES, AT_ONCE = 300, 50, 6, 8
QUICK_S = 3.0
"""Measured are 0.1 s on a machine with nothing else to do."""
PHONE = {"width": 360, "height": 740}
LIST = "/review/escalations"


@pytest.fixture(scope="module")
def at(kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageSite]:
    """A site where 300 wait: every seventh of T4, one of another agent with a text that a pattern finds."""
    name = module_prefix.rstrip(".")
    with running_pages(kafka, tmp_path_factory.mktemp("queue"), name) as site:
        with site.client() as client, ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda number: open_one(client, number), range(WAITING - 1)))
        parameters = {"order": "1", "amount": 7.5, "currency": "EUR", "memo": f"please {SUSPECT}", "last": 1}
        site.escalate(agent=PATIENT_AGENT, action_id="the-suspect", parameters=parameters)
        yield site


def open_one(client: httpx2.Client, number: int) -> None:
    """One of the 300."""
    told = client.post(
        "/v1/evaluate",
        json=action(
            f"s-{number % 40}",
            toolName=ESCALATING_TOOL if number % 7 else WIRE,
            action_id=f"waits-{number:03}",
            rows_affected=number,
            parameters={"order": str(10_000 + number), "currency": "EUR"},
        ),
    )
    assert told.status_code == 202, told.text


def is_read(page: Page, address: str = LIST) -> None:
    """Open the list once every action in it is read."""
    for _ in range(120):
        page.goto(f"{address}{'&' if '?' in address else '?'}tool=(not+read+yet)")
        if "0 of" in (page.locator("#found").text_content() or ""):
            break
        page.wait_for_timeout(500)
    expect(page.locator("#found")).to_contain_text("0 of")
    page.goto(address)


def lines(page: Page) -> Any:
    """The lines of the list."""
    return page.locator("[data-key=row]")


def test_three_hundred_are_shown_page_by_page_and_quickly(at: PageSite) -> None:
    with at.visiting("olga") as page:
        is_read(page)
        expect(page.locator("#found")).to_contain_text(f"page 1 of {PAGES}")
        expect(lines(page)).to_have_count(ROWS)
        began = time.monotonic()
        page.goto(f"{LIST}?page={PAGES}")
        expect(lines(page)).to_have_count(ROWS)
        assert time.monotonic() - began < QUICK_S
        last = lines(page).last
        expect(last).to_contain_text("the-suspect")
        expect(last).to_contain_text("in 59 min")
        expect(last).to_contain_text("UTC")


def test_a_line_shows_the_parameters_that_decided(at: PageSite) -> None:
    """`memo` is the fourth parameter: it is shown because the finding is in it."""
    with at.visiting("olga") as page:
        is_read(page, f"{LIST}?reason=suspicious_pattern")
        expect(lines(page)).to_have_count(1)
        expect(lines(page)).to_contain_text(f"memo please {SUSPECT}")
        expect(lines(page)).to_contain_text("These decided.")
        expect(lines(page)).not_to_contain_text("currency")
        page.goto(f"{LIST}?text=waits-001")
        expect(lines(page)).to_contain_text("order 10001")
        expect(lines(page)).not_to_contain_text("These decided.")


def test_the_list_is_filtered_searched_sorted_and_grouped(at: PageSite) -> None:
    with at.visiting("olga") as page:
        is_read(page)
        page.get_by_label("Tool").select_option(WIRE)
        page.get_by_label("Order").select_option("rows")
        page.get_by_role("button", name="Show").click()
        expect(lines(page).first).to_contain_text("waits-294")
        page.get_by_label("Search").fill("waits-01")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#found")).to_contain_text(f"1 of {WAITING}")
        page.goto(f"{LIST}?by=group&agent={neutral_policy.AGENT}")
        expect(lines(page)).to_have_count(2)
        expect(lines(page).first).to_contain_text("1 to 298")
        lines(page).first.get_by_role("link").click()
        expect(page.locator("#found")).to_contain_text("256 of 300")


def test_next_and_previous_stay_within_the_filtered_list(at: PageSite) -> None:
    with at.visiting("olga") as page:
        is_read(page, f"{LIST}?tool={WIRE}&text=waits-1")
        lines(page).nth(1).get_by_role("link").first.click()
        walk = page.get_by_role("navigation", name="The list")
        expect(walk).to_contain_text("2 of 14 that fit the filter")
        expect(page.get_by_role("main")).to_contain_text("waits-112")
        walk.get_by_role("link", name="Next").click()
        expect(page.get_by_role("main")).to_contain_text("waits-119")
        page.keyboard.press("p")
        expect(page.get_by_role("main")).to_contain_text("waits-112")
        page.keyboard.press("u")
        expect(page.locator("#found")).to_contain_text(f"14 of {WAITING}")


def test_one_reason_answers_many_and_each_shows_its_own_result(at: PageSite) -> None:
    with at.visiting("olga") as page:
        is_read(page, f"{LIST}?text=waits-02")
        for one in ("waits-020", "waits-021", "waits-022"):
            page.get_by_label(f"Select {one}").check()
        expect(page.locator("#many")).to_contain_text("3")
        page.locator("#answers").get_by_label("Why").fill("the parcels came back")
        page.get_by_role("button", name="Approve selected").click()
        page.get_by_role("heading", name="Your answers").wait_for()
        shown = page.get_by_role("main")
        expect(shown).to_contain_text("2 of 3 answers counted")
        expect(page.get_by_role("row", name="waits-021")).to_contain_text("approved on its own page")
        expect(page.get_by_role("row", name="waits-020")).to_contain_text("The action came to ALLOW.")
    with ThreadPoolExecutor(1) as pool:  # this thread has the browser's event loop
        reviews = [json.loads(one.value or b"") for one in pool.submit(stored, at.site, REVIEWS).result()]
    own = [one for one in reviews if one["justification"] == "the parcels came back"]
    assert (len(own), len({one["signature"] for one in own})) == (2, 2)
    assert {one["approver_id"] for one in own} == {OWNER}


def test_a_group_is_answered_at_once(at: PageSite) -> None:
    with at.visiting("rita") as page:
        is_read(page, f"{LIST}?by=group&text=waits-03&tool={ESCALATING_TOOL}")
        page.get_by_label(f"Select all 9 of {ESCALATING_TOOL}").check()
        page.locator("#answers").get_by_label("Why").fill("nobody asked for these")
        page.get_by_role("button", name="Deny selected").click()
        expect(page.get_by_role("main")).to_contain_text("9 of 9 answers counted")
        page.get_by_role("link", name="Back to the list").click()
        expect(page.get_by_role("main")).to_contain_text("Nothing that waits fits this filter.")


def _load_until_gone(page: Page, name: str) -> None:
    """The gateway takes an end from the ledger, which may come after the list."""
    for _ in range(120):
        expect(lines(page).first).to_be_visible()
        if page.get_by_role("link", name=name).count() == 0:
            return
        page.wait_for_timeout(500)
        page.reload()
    pytest.fail(f"{name} is answered and still in the list")


def test_the_list_is_worked_through_with_keys_alone(at: PageSite) -> None:
    with at.visiting("olga") as page:
        is_read(page)
        page.keyboard.press("/")
        page.keyboard.type("waits-04")
        page.keyboard.press("Enter")
        expect(page.locator("#found")).to_contain_text(f"10 of {WAITING - 11}")
        page.get_by_role("heading", name="Escalations").click()
        for key in "jjjk":
            page.keyboard.press(key)
        second = lines(page).nth(1).get_by_role("link").first
        expect(second).to_be_focused()
        name = (second.text_content() or "").split()[-1]
        page.keyboard.press("d")
        confirm = page.get_by_role("dialog", name="Deny selected: 1")
        expect(confirm.get_by_label("Your reason")).to_be_focused()
        page.keyboard.press("Escape")
        expect(confirm).to_have_count(0)
        expect(page.get_by_label(f"Select {name}")).to_be_checked()
        page.keyboard.press("d")
        page.keyboard.type("with the keys")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_contain_text("1 of 1 answers counted")
        page.keyboard.press("u")
        _load_until_gone(page, name)
        first = lines(page).nth(0).get_by_role("link").first
        expect(first).to_be_visible()
        page.keyboard.press("j")
        expect(first).to_be_focused()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="What waits").wait_for()
        page.keyboard.press("a")
        confirm = page.get_by_role("dialog", name="Approve this one?")
        confirm.get_by_label("Your reason").fill("seen")
        confirm.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status")).to_contain_text("Your answer counted")
        page.keyboard.press("?")
        page.get_by_label("Single keys are on").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("u")
        expect(page.get_by_role("heading", name="A decision")).to_be_visible()


def test_what_was_selected_and_written_stays_when_the_list_changes(at: PageSite) -> None:
    with at.visiting("olga") as page:
        with page.expect_response("**/review/live"):
            is_read(page, f"{LIST}?text=waits-05")
        page.get_by_label("Select waits-052").check()
        page.locator("#answers").get_by_label("Why").fill("half a reason")
        at.escalate(action_id="waits-05-more")
        expect(page.get_by_role("link", name="waits-05-more")).to_be_visible()
        expect(page.get_by_label("Select waits-052")).to_be_checked()
        expect(page.locator("#answers").get_by_label("Why")).to_have_value("half a reason")


def test_nothing_written_in_an_address_or_by_an_agent_runs(at: PageSite) -> None:
    waits = at.escalate(action_id=f"x {ATTEMPTS[1]}", parameters={one: one for one in ATTEMPTS})
    written = httpx2.QueryParams({"text": ATTEMPTS[0], "agent": ATTEMPTS[1], "reason": ATTEMPTS[5]})
    paths = (
        f"{LIST}?{written}",
        f"{LIST}?{written}&by=group",
        f"{LIST}?text=window.pwned",
        f"{LIST}?text=window.pwned&by=group",
        f"{LIST}/{waits['escalation_id']}?{httpx2.QueryParams({'in': str(written)})}",
        f"{LIST}/{waits['escalation_id']}?{httpx2.QueryParams({'in': ATTEMPTS[1]})}",
    )
    with at.visiting("olga") as page:
        found = complaints(page.context)
        is_read(page)
        for path in paths:
            page.goto(path)
            runs_nothing(page, path)
        page.goto(f"{LIST}?text=window.pwned")
        page.get_by_label("Select x").check()
        page.locator("#answers").get_by_label("Why").fill(" ".join(ATTEMPTS))
        page.get_by_role("button", name="Deny selected").click()
        page.get_by_role("heading", name="Your answers").wait_for()
        runs_nothing(page, "the results")
        assert found == []


def test_many_answers_need_the_token_of_the_session(at: PageSite) -> None:
    with at.visiting("olga") as page:
        page.goto(LIST)
        page.evaluate("document.querySelector('#answers [name=csrf_token]').value = 'guessed'")
        page.locator("[name=subject]").first.check()
        page.locator("#answers").get_by_label("Why").fill("forged")
        page.get_by_role("button", name="Deny selected").click()
        expect(page.get_by_role("alert")).to_contain_text("no longer of your session")


def test_axe_finds_nothing_in_the_list_and_a_phone_shows_cards(at: PageSite) -> None:
    with at.visiting("olga", viewport=PHONE) as page:
        is_read(page)
        for path in (LIST, f"{LIST}?by=group", f"{LIST}?text=nothing+like+it"):
            page.goto(path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                results = Axe().run(page, options={"resultTypes": ["violations"]})
                assert results.violations_count == 0, f"{path}, {scheme}: {results.generate_report()}"
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        page.goto(LIST)
        card = lines(page).first.bounding_box()
        assert card is not None
        assert card["height"] > 2 * card["width"] / 3, "a card, not a line"
        page.keyboard.press("?")
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()


def test_an_escalations_page_says_what_follows_and_a_denial_is_called_denied(at: PageSite) -> None:
    """Mend 22.20, the page of one: what approval does, the totals, what was answered to the like."""
    first = at.escalate(agent=PATIENT_AGENT, action_id="to-be-denied")
    second = at.escalate(agent=PATIENT_AGENT, action_id="like-it")
    with at.visiting("rita") as page:
        is_read(page)
        page.goto(f"{LIST}/{first['escalation_id']}")
        shown = page.get_by_role("main")
        expect(shown).to_contain_text("Every gate judges the action again")
        expect(shown).to_contain_text("The session's totals when it was asked")
        page.get_by_label("Why").fill(f"no order of ours {ATTEMPTS[0]}")
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_role("status")).to_contain_text("Your answer counted")
        expect(page.locator(".headline")).to_contain_text("denied")
        expect(page.locator(".headline")).not_to_contain_text("needs_human")
        page.goto("/review/decisions")
        line = page.get_by_role("row", name="to-be-denied")
        expect(line.locator(".word")).to_have_text("denied")
        page.goto(f"{LIST}/{second['escalation_id']}")
        past = page.get_by_role("region", name="What was answered to the like")
        expect(past.get_by_role("row", name="to-be-denied")).to_contain_text("no order of ours")
        runs_nothing(page, "what was answered before")
        page.get_by_role("link", name="The session as it is now").click()
        page.get_by_role("heading", name="A session").wait_for()
        results = Axe().run(page)
        assert results.violations_count == 0, results.generate_report()


def test_a_grant_is_prepared_on_a_page_and_signed_with_the_persons_own_key(at: PageSite) -> None:
    """Mend 22.20: the page's command gives a grant that a worker counts; the downloaded entry is the same."""
    waits = at.escalate(agent=PATIENT_AGENT, action_id="grant-me", parameters={"amount": 7.5})
    path, why = f"{LIST}/{waits['escalation_id']}", f"{ATTEMPTS[0]} weekly, it's known"
    with at.visiting("olga") as page:
        found = complaints(page.context)
        page.goto(path)
        page.get_by_role("link", name="a standing grant").click()
        expect(page.get_by_role("main")).to_contain_text("own_key_needed")
        page.get_by_label("For how many days").fill("30")
        page.get_by_label("Only for actions").fill("double(action.parameters.amount) <")
        page.get_by_label("Why").fill(why)
        page.get_by_role("button", name="Prepare it").click()
        expect(page.get_by_role("alert")).to_contain_text("condition:")
        page.get_by_label("Only for actions").fill("double(action.parameters.amount) < 100.0")
        page.get_by_role("button", name="Prepare it").click()
        prepared = page.get_by_role("region", name="Prepared")
        command = shlex.split(prepared.locator("pre").first.inner_text())
        with page.expect_download() as download:
            prepared.get_by_role("link", name="the entry").click()
        (entry,) = json.loads(download.value.path().read_bytes())["entries"]
        assert (entry["kind"], entry["spec"]["justification"]) == ("agent_grant", why)
        assert entry["spec"]["when"] == "double(action.parameters.amount) < 100.0"
        runs_nothing(page, path)
        key = at.site.folder / "olga.pem"
        key.touch(mode=0o600)
        key.write_bytes(at.site.trust.pem(OWNER))
        words = [str(key) if one == "YOUR_KEY.pem" else one for one in command[1:]]
        with ThreadPoolExecutor(1) as pool:  # this thread has the browser's event loop
            ran = pool.submit(CliRunner().invoke, cli, [*words, "--yes"], env=at.site.settings).result()
        assert ran.exit_code == 0, ran.output
        grants = page.get_by_role("region", name="Grants in force")
        for _ in range(60):
            page.reload()
            if grants.count():
                break
        expect(grants).to_contain_text(f"{OWNER}double(action.parameters.amount) < 100.020")
        results = Axe().run(page, options={"resultTypes": ["violations"]})
        assert results.violations_count == 0, results.generate_report()
        assert found == []
    with at.client(PATIENT_AGENT) as client:
        told = action("s-granted", toolName=ESCALATING_TOOL, parameters={"amount": 7.5})
        answer = client.post("/v1/evaluate", json=told)
        assert (answer.status_code, answer.json()["verdict"]) == (200, "allowed"), answer.text


def test_the_highest_tier_has_no_grant_and_other_tenants_see_none(at: PageSite) -> None:
    """Mend 22.20: nor is one prepared for more than 30 days."""
    of_t4, of_t3 = (at.escalate(tool)["escalation_id"] for tool in (WIRE, ESCALATING_TOOL))
    wish = "uses=5&days=31&why=the+known+refunds"
    with at.visiting("olga", viewport=PHONE) as page:
        page.goto(f"{LIST}/{of_t4}/grant?{wish}")
        expect(page.get_by_role("main")).to_contain_text("an action of tier T4 is approved one by one")
        assert page.request.get(f"{LIST}/{of_t4}/grant/entry?{wish}").status == 409
        assert page.request.get(f"{LIST}/{of_t3}/grant/entry?{wish}").status == 400
        page.goto(f"{LIST}/{of_t3}/grant?{wish.replace('31', '30')}")
        expect(page.get_by_role("region", name="Prepared")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    with at.visiting("otto") as page:
        assert page.request.get(f"{LIST}/{of_t3}/grant").status == 404


def test_the_search_finds_every_kind_of_id_and_goes_on_where_it_ended(at: PageSite) -> None:
    """Mend 22.20: the agent has more than 100 records, so the first page ends before the oldest."""
    with at.client() as client:
        one = client.post("/v1/evaluate", json=action("s search", action_id="find-me")).json()
    waits = at.escalate(action_id="find-me-too")
    texts = ("find-me", one["verdict_id"], "s search", waits["escalation_id"], waits["session_id"])
    with at.visiting("rita") as page:
        found = complaints(page.context)
        page.goto("/review/decisions")
        for text in texts:
            page.get_by_label("Find what has this id").fill(text)
            page.get_by_role("button", name="Find").click()
            expect(page.locator("#progress")).to_contain_text("to the oldest that is kept")
            expect(page.get_by_role("region", name="What has this id")).to_contain_text(r"find-me")
        page.get_by_role("region", name="What has this id").get_by_role(
            "link", name="escalation opened"
        ).click()
        expect(page.get_by_role("main")).to_contain_text("find-me-too")
        shown: list[str] = []
        page.goto(f"/review/search?text={neutral_policy.AGENT}")
        for _ in range(20):
            shown += page.locator("tbody th a").evaluate_all("all => all.map(one => one.href)")
            further = page.get_by_role("link", name="Look further back")
            if not further.count():
                break
            expect(page.locator("#progress")).to_contain_text("older ones are left")
            further.click()
        expect(page.locator("#progress")).to_contain_text("to the oldest that is kept")
        assert len([one for one in shown if "verdict:" in one]) >= WAITING
        for attempt in ATTEMPTS:
            page.goto(f"/review/search?{httpx2.QueryParams({'text': attempt, 'before': attempt})}")
            runs_nothing(page, attempt)
            page.goto(f"/review/search?{httpx2.QueryParams({'text': attempt})}")
            runs_nothing(page, attempt)
        page.goto("/review/search?text=find-me&before=2020-01-01+00:00")
        expect(page.get_by_role("main")).to_contain_text("Nothing of your tenant that is kept")
        assert [one for one in found if "400" not in one] == []
    with at.visiting("otto", viewport=PHONE) as page:
        page.goto("/review/search?text=find-me")
        expect(page.get_by_role("main")).to_contain_text("Nothing of your tenant that is kept")
        results = Axe().run(page, options={"resultTypes": ["violations"]})
        assert results.violations_count == 0, results.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_scan_in_many_small_steps_finds_each_record_once(at: PageSite) -> None:
    """Mend 22.20: a step reads few records of each partition and says from where the next one goes on."""
    site = at.site
    given = {"bootstrap_servers": site.bootstrap_servers}
    scan = LedgerScan(given, f"{site.prefix}", site.partitions, most_read=1, window=1)
    asked = Asked([VERDICTS, ESCALATIONS], neutral_policy.TENANT)

    async def steps() -> list[list[tuple[str, int]]]:
        found, before = [], asked.before_ms
        while True:
            step = await scan.back(asked._replace(before_ms=before))
            found.append(
                [(one.topic, int(one.said["sequence"]) * 1000 + one.said["partition"]) for one in step.found]
            )
            assert step.read <= (site.partitions * 2 + 1) * 20
            if step.next_ms is None:
                return found
            before = step.next_ms

    with ThreadPoolExecutor(1) as pool:
        found = [one for step in pool.submit(asyncio.run, steps()).result() for one in step]
        everything = [
            (topic, said["sequence"] * 1000 + said["partition"])
            for topic in asked.topics
            for one in pool.submit(stored, site, topic).result()
            if (said := json.loads(one.value or b"")).get("tenant_id") == neutral_policy.TENANT
        ]
    assert len(found) >= 2 * WAITING
    assert sorted(found) == sorted(everything)
