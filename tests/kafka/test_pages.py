"""The pages in the system's Chromium: people log in, read, answer; nothing that agents write runs there."""

from __future__ import annotations

import json
import re
import threading
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from playwright.sync_api import expect
from typer.testing import CliRunner

from load.installations import neutral_policy, quality_policy
from sluice.cli.main import cli
from sluice.gateway.pages import rendering
from sluice_demo.throwaway_trust import OWNER, REVIEWER
from sluice_topics.catalog import REGISTRY, VERDICTS
from tests.kafka.gateway_process import ESCALATING_TOOL, action, run_gateway
from tests.kafka.installation import read_stored, records
from tests.kafka.pages_installation import (
    ATTEMPTS,
    LIVE,
    PATIENT_AGENT,
    PHONE,
    WIRE,
    PageInstallation,
    answer,
    complaints,
    is_accessible,
    load_until,
    log_in,
    press,
    read_text,
    run_in_thread,
    runs_nothing,
    token,
)
from tests.kafka.retrievals import item

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.kafka, pytest.mark.browser]
PROMPT_S = 10.0
"""Less than the 15 s after which a stream says that it is still there."""
TEMPLATES = Path(rendering.__file__).parent / "templates"


def test_who_logs_in_gets_a_session_and_who_logs_out_loses_it(at: PageInstallation) -> None:
    with at.visit() as page:
        page.goto("/review/posture")
        assert "/review/login?next=" in page.url
        log_in(page, "olga", "not the password")
        expect(page.get_by_role("alert")).to_contain_text("do not fit")
        log_in(page, "olga")
        page.wait_for_url("**/review/posture")
        cookies = {one["name"]: one for one in page.context.cookies()}
        session = cookies["sluice_session"]
        assert (session["httpOnly"], session["sameSite"]) == (True, "Strict")
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/review/login")
        old = {"Cookie": f"sluice_session={session['value']}"}
        answered = httpx2.get(f"{at.gateway.url}/review/escalations", headers=old)
        assert (answered.status_code, "/review/login" in answered.headers["location"]) == (303, True)
        page.goto("/review/login?next=//evil.example/")
        log_in(page, "olga")
        page.wait_for_url("**/review/escalations")


@pytest.mark.usefixtures("real_redis")
def test_a_log_in_counts_at_every_gateway_of_the_redis_and_so_does_its_end(at: PageInstallation) -> None:
    with at.visit("vic") as page, run_gateway(at.installation, **at.given) as other:
        page.goto(f"{other.url}/review/posture")
        expect(page.get_by_role("main")).to_be_visible()
        assert page.url == f"{other.url}/review/posture"
        page.get_by_role("button", name="Log out").click()
        page.wait_for_url("**/review/login")
        page.goto(f"{at.gateway.url}/review/posture")
        assert "/review/login?next=" in page.url


def test_an_approval_on_the_page_lets_the_action_run_and_the_ledger_names_the_person(
    at: PageInstallation,
) -> None:
    waits = at.escalate(parameters={"order": "17"})
    with at.visit("olga") as page:
        answer(page, f"/review/escalations/{waits['escalation_id']}", "Approve", "the customer confirmed")
        read_text(page).to_contain_text("Your answer counted. The action is allowed.")
        story = page.get_by_role("main")
        expect(story).to_contain_text(f"{OWNER}, by browser through gateway: the customer confirmed")
        expect(story).to_contain_text("The hash is that of this record.")
    with at.client() as client:
        told = client.get(f"/v1/escalations/{waits['escalation_id']}", params={"wait": 30}).json()
    assert told["status"] == "approved"


def test_each_value_is_shown_with_where_it_comes_from(at: PageInstallation) -> None:
    iban, source = "GB82 WEST 1234 5698 7654 32", f"invoice.pdf {ATTEMPTS[0]}"
    read, new = at.transfer(iban, read_in=source), at.transfer(iban)
    with at.visit("olga") as page:
        path = f"/review/escalations/{read['escalation_id']}"
        page.goto(path)
        row = page.get_by_role("row", name="the account at $.iban")
        for said in (iban, "destination", "it stood only in what is not trusted", "in invoice.pdf <script>"):
            expect(row).to_contain_text(said)
        expect(row).to_contain_text(re.compile(r"\d+ (ms|s) before"))
        expect(row).to_contain_text(f"{neutral_policy.AGENT} has never used it")
        runs_nothing(page, path)
        page.goto(f"/review/escalations/{new['escalation_id']}")
        expect(page.get_by_role("row", name="the account at $.iban")).to_contain_text("it was seen nowhere")
        is_accessible(page, "an escalation with values")
        days = page.get_by_label("Known for so many days")
        days.fill("7")
        page.get_by_label("Why").fill("our supplier")
        page.get_by_role("button", name="Approve").click()
        read_text(page).to_contain_text("its destinations are known for this agent and tool until")
        page.goto(f"/review/escalations/{at.escalate(WIRE)['escalation_id']}")
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        expect(days).to_have_count(0)
    shown = run_in_thread(
        CliRunner().invoke, cli, ["escalations", "show", read["escalation_id"]], env=at.installation.settings
    )
    assert "the account at $.iban (destination): it stood only in what is not trusted; in invoice.pdf" in (
        " ".join(shown.output.split())
    )


def test_an_approver_narrows_the_action_on_the_page(at: PageInstallation) -> None:
    waits = at.escalate(parameters={"order": "17"})
    path = f"/review/escalations/{waits['escalation_id']}"
    with at.visit("rita") as page:
        page.goto(path)
        page.get_by_text("Let it run with other parameters").click()
        page.get_by_label("Parameters as JSON").fill("no JSON")
        page.get_by_label("Why").fill("one order")
        page.get_by_role("button", name="Approve").click()
        read_text(page).to_contain_text("the parameters are not JSON")
        page.get_by_text("Let it run with other parameters").click()
        page.get_by_label("Parameters as JSON").fill('{"order": "none"}')
        page.get_by_label("Why").fill("one order")
        page.get_by_role("button", name="Approve").click()
        read_text(page).to_contain_text("Your answer counted")
    with at.client() as client:
        told = client.get(f"/v1/escalations/{waits['escalation_id']}", params={"wait": 30}).json()
    assert told["parameters"] == {"order": "none"}


def test_a_denial_is_given_with_the_keyboard_alone(at: PageInstallation) -> None:
    waits = at.escalate()
    with at.visit("olga") as page:
        page.goto(f"/review/escalations/{waits['escalation_id']}")
        press(page, "Tab")
        expect(page.get_by_text("Skip to the content")).to_be_focused()
        page.get_by_label("Why").focus()
        page.keyboard.type("not this account")
        press(page, *["Tab"] * 3)
        expect(page.get_by_role("button", name="Deny")).to_be_focused()
        press(page, "Enter")
        read_text(page).to_contain_text("The action is denied.")
    with at.client() as client:
        told = client.get(f"/v1/escalations/{waits['escalation_id']}", params={"wait": 30}).json()
    assert (told["status"], "not this account" in told["reason"]) == ("denied", True)


def forge(page: Page, path: str, **fields: str) -> str:
    """The page that follows a form that this page does not have, sent with the session's own token."""
    form: dict[str, str | float | bool] = {"csrf_token": token(page), **fields}
    return page.request.post(path, form=form).text()


def test_who_may_not_answer_has_no_form_and_a_forged_one_is_refused(at: PageInstallation) -> None:
    """Mend 22.20: of the highest tier without the role, and of any tier with a log-in that only reads."""
    of_t4, of_t3 = (
        f"/review/escalations/{at.escalate(tool)['escalation_id']}" for tool in (WIRE, ESCALATING_TOOL)
    )
    role, reads = "this needs the role vp, which your log-in does not have", "your log-in only reads"
    for who, path, why in (("rita", of_t4, role), ("ada", of_t4, role), ("ada", of_t3, reads)):
        with at.visit(who) as page:
            page.goto(path)
            expect(page.get_by_role("main")).to_contain_text(f"You cannot answer it: {why}.")
            expect(page.get_by_role("button", name=re.compile("Approve|Deny"))).to_have_count(0)
            for decision in ("approve", "deny"):
                told = forge(page, path, decision=decision, justification="forged")
                assert f"Refused: {why}." in told
            subject = path.rpartition("/")[2]
            told = forge(
                page, "/review/escalations", subject=subject, decision="deny", justification="forged"
            )
            assert "0 of 1 answer counted" in told
    with at.visit("ada") as page:
        page.goto("/review/escalations")
        expect(page.locator("[data-key=row]").first).to_be_visible()
        expect(page.get_by_role("checkbox", name="Select")).to_have_count(0)
        expect(page.get_by_role("button", name="Deny selected")).to_have_count(0)
        page.goto(f"{of_t3}/grant?uses=5&days=1&why=the+known+refunds")
        expect(page.get_by_role("main")).to_contain_text(f"No grant: {reads}.")
        expect(page.get_by_role("button", name="Prepare it")).to_have_count(0)
        refused = page.request.get(f"{of_t3}/grant/entry?uses=5&days=1&why=the+known+refunds")
        assert refused.status == 409
    with at.visit("vic") as page:
        answer(page, of_t4, "Approve")
        read_text(page).to_contain_text("Refused: wrong_role: the escalation needs the role vp")
    with at.visit("olga") as page:
        answer(page, of_t4, "Approve")
        read_text(page).to_contain_text("Your answer counted")


def retrieval(request_id: str) -> dict[str, Any]:
    """One whose item the quality gate denies."""
    return {
        "sessionId": f"s-{uuid.uuid4().hex}",
        "request_id": request_id,
        "autonomy_tier": "high_privilege",
        "tool_category": quality_policy.CATEGORY,
        "items": [item("old", timestamp="1990-01-01T00:00:00Z")],
    }


def test_denied_items_of_a_retrieval_are_let_through_on_the_page(at: PageInstallation) -> None:
    asked = retrieval("the-retrieval")
    with at.client() as client, at.visit("olga") as page:
        (withheld,) = client.post("/v1/retrievals/evaluate", json=asked).json()["withheld"]
        page.goto("/review/escalations")
        page.get_by_role("link", name="the-retrieval").click()
        expect(page.get_by_role("main")).to_contain_text("Items that were denied")
        page.get_by_label("Why").fill("short")
        page.get_by_role("button", name="Approve").click()
        read_text(page).to_contain_text("Refused: short_justification")
        answer(
            page, f"/review/escalations/{withheld['escalation_id']}", "Approve", "the old lease is in force"
        )
        read_text(page).to_contain_text("Your answer counted.")
        expect(page.get_by_role("main")).to_contain_text("the old lease is in force")
        again = client.post("/v1/retrievals/evaluate", json=asked).json()
    assert [one["item_id"] for one in again["items"]] == ["old"]


def test_held_memories_are_read_and_reviewed(at: PageInstallation) -> None:
    kept, gone = at.hold(), at.hold()
    with at.visit("rita") as page:
        page.goto(f"/review/quarantine/{kept['memory_id']}")
        expect(page.get_by_role("main")).to_contain_text(neutral_policy.DOUBT)
        answer(page, f"/review/quarantine/{kept['memory_id']}", "Release it")
        read_text(page).to_contain_text("Your answer counted.")
        expect(page.get_by_role("main")).to_contain_text(f"{REVIEWER}, by browser through gateway")
        answer(page, f"/review/quarantine/{gone['memory_id']}", "Reject it")
        read_text(page).to_contain_text("Your answer counted.")
        expect(page.get_by_role("main")).to_contain_text("quarantine rejected")
        for path in (f"decisions/{gone['memory_id']}", "decisions?about=memories"):
            page.goto(f"/review/{path}")
            expect(page.locator(".word").first).to_have_text("reject")


def test_a_list_shows_what_opens_and_ends_without_a_click(at: PageInstallation) -> None:
    with at.visit("olga") as page:
        with page.expect_response(LIVE):
            page.goto("/review/escalations")
        waits = at.escalate(action_id="the-live-one")
        row = page.get_by_role("link", name="the-live-one")
        expect(row).to_be_visible()
        with at.visit("rita") as other, at.visit("vic") as third:
            with third.expect_response(LIVE):
                third.goto(f"/review/escalations/{waits['escalation_id']}")
            third.get_by_label("Why").fill("what vic writes stays")
            answer(other, f"/review/escalations/{waits['escalation_id']}", "Deny")
            expect(third.get_by_role("alert")).to_contain_text("It has ended meanwhile")
            expect(third.get_by_label("Why")).to_have_value("what vic writes stays")
        expect(row).to_have_count(0)


def test_what_happened_between_a_page_and_its_stream_is_told_at_once(at: PageInstallation) -> None:
    """Mend 22.20: the page says which changes it shows; before, it missed one until the next or a minute."""
    with at.visit("olga") as page:
        page.goto("/review/escalations")
        stream = page.locator("#live").get_attribute("hx-sse:connect") or ""
        (cookie,) = (one for one in page.context.cookies() if one["name"] == "sluice_session")
        at.escalate()
        page.goto("/review/login")  # gives its own stream up
        headers = {"Cookie": f"sluice_session={cookie['value']}"}
        with httpx2.stream("GET", f"{at.gateway.url}{stream}", headers=headers, timeout=PROMPT_S) as told:
            assert next(told.iter_lines()) == "event: changed"


def test_nothing_that_an_agent_or_a_person_writes_runs_or_leads_away(at: PageInstallation) -> None:
    paths, all_of_them = at.attempt_all(), " ".join(ATTEMPTS)
    with at.visit("olga") as page:
        found, asked = complaints(page.context), []
        page.context.on("request", lambda one: asked.append(one.url))
        for path in paths:
            opened = page.goto(path)
            assert opened is not None
            assert opened.status == 200, path
            runs_nothing(page, path)
        answer(page, paths[1], "Approve", all_of_them)
        read_text(page).to_contain_text("Your answer counted")
        runs_nothing(page, "the story after the answer")
        expect(page.get_by_role("main")).to_contain_text("<script>window.pwned=1</script>")
        shown = page.get_by_role("main").inner_text()
        assert all(number in shown for number in ("U+202E", "U+2066", "U+200B", "U+E0041"))
        assert found == []
        assert {httpx2.URL(one).host for one in asked} == {"127.0.0.1"}


def test_axe_finds_nothing_on_any_page_and_a_phone_shows_all_of_it(at: PageInstallation) -> None:
    """Mend 22.20: by day and by night, with every form; no template is left out."""
    waits, other = at.escalate(parameters={"order": "17"}, reasoning="x" * 300), at.escalate()
    held, an_id, session = at.hold(), waits["escalation_id"], waits["session_id"]
    with at.client() as client:
        (withheld,) = client.post("/v1/retrievals/evaluate", json=retrieval("to-deny")).json()["withheld"]
    shown: set[str] = set()

    def look(page: Page, path: str | None = None) -> None:
        if path is not None:
            page.goto(f"/review/{path}")
        is_accessible(page, page.url)
        shown.add(page.locator("h1").inner_text())

    with at.visit("olga", viewport=PHONE) as page:
        for path in (
            "escalations",
            f"escalations/{an_id}",
            f"escalations/{an_id}/grant?uses=5&days=1&when=true&why=they+are+known+well",
            "quarantine",
            f"quarantine/{held['memory_id']}",
            "decisions",
            "decisions?about=memories",
            f"decisions/{waits['verdict_id']}",
            f"decisions/{held['memory_id']}",
            f"search?text={session}",
            "sessions?last=hour",
            f"sessions?id={session}",
            f"agents?id={PATIENT_AGENT}",
            "posture?from=2020-01-01+00:00&to=2020-01-02+00:00",
            "posture",
            "quality",
            "people",
            "decisions/verdict:gate.actions.proposed:0:99999",
        ):
            look(page, path)
        answer(page, f"/review/escalations/{withheld['escalation_id']}", "Deny")
        read_text(page).to_contain_text("Your answer counted")
        look(page)
        page.goto("/review/escalations")
        page.locator(f"[name=subject][value='{other['escalation_id']}']").check()
        page.locator("#answers").get_by_label("Why").fill("no order of ours")
        page.get_by_role("button", name="Deny selected").click()
        page.get_by_role("heading", name="Your answers").wait_for()
        look(page)
    with at.visit("ada", viewport=PHONE) as page:
        look(page, "people")
        look(page, f"audit?question=activity&agent={neutral_policy.AGENT}&last=hour")
    with at.visit(viewport=PHONE) as page:
        look(page, "login")
    titles = [re.search(r"block title %}([^{]+)", one.read_text()) for one in TEMPLATES.glob("*.html")]
    named = [one[1] for one in titles if one is not None]
    assert len(named) > len(shown) / 2
    assert [one for one in named if not any(title.startswith(one) for title in shown)] == []


def test_other_tenants_people_see_nothing_of_it(at: PageInstallation) -> None:
    waits, held = at.escalate(), at.hold()
    with at.visit("otto") as page:
        for path in (
            f"escalations/{waits['escalation_id']}",
            f"quarantine/{held['memory_id']}",
            f"decisions/{waits['verdict_id']}",
            f"sessions?id={waits['session_id']}",
            f"agents?id={neutral_policy.AGENT}",
        ):
            opened = page.goto(f"/review/{path}")
            assert opened is not None
            assert opened.status == 404, path
        for path in ("escalations", "quarantine", "decisions", "sessions", "posture", "quality"):
            page.goto(f"/review/{path}")
            shown = page.inner_text("main")
            assert neutral_policy.AGENT not in shown, path
            assert PATIENT_AGENT not in shown, path


def test_a_form_of_another_page_is_refused(at: PageInstallation) -> None:
    waits = at.escalate()
    path = f"/review/escalations/{waits['escalation_id']}"
    with at.visit("olga") as page:
        page.goto(path)
        page.evaluate("document.querySelector('.answer [name=csrf_token]').value = 'guessed'")
        page.get_by_label("Why").fill("forged")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("alert")).to_contain_text("no longer of your session")
        page.goto(path)
        expect(page.get_by_role("button", name="Approve")).to_be_visible()


def test_an_admin_ends_a_log_in(at: PageInstallation) -> None:
    with at.visit("vic") as victim, at.visit("ada") as admin:
        admin.goto("/review/people")
        ends = admin.get_by_role("button", name="the log-in of vic")
        while ends.count():  # an earlier test's too
            ends.first.click()
            read_text(admin).to_contain_text("ended a log-in of vic")
        victim.goto("/review/escalations")
        assert "/review/login" in victim.url


def press_freeze(page: Page, path: str, kind: str, why: str) -> None:
    """Freeze what a page shows."""
    page.goto(path)
    page.get_by_label("Why").fill(why)
    page.get_by_label("Freeze it.").check()
    page.get_by_role("button", name=f"Freeze this {kind}").click()


def test_a_freeze_from_a_page_stops_the_agent_within_a_second(at: PageInstallation) -> None:
    """Mend 22.20: actions come meanwhile; a busy machine delays the freeze by no more than it delays them."""
    session, path, over = f"s-{uuid.uuid4().hex[:8]}", f"/review/agents?id={PATIENT_AGENT}", threading.Event()
    reason = f"frozen_agent: {ATTEMPTS[0]} twice"

    def propose() -> None:
        with at.client(PATIENT_AGENT) as client:
            while not over.is_set():
                client.post("/v1/evaluate", json=action(session, mode="standard"))

    proposing = threading.Thread(target=propose)
    with at.visit("rita") as page:
        proposing.start()
        try:
            while not run_in_thread(records, at.installation, VERDICTS, session):
                pass
            found = complaints(page.context)
            press_freeze(page, path, "agent", f"{ATTEMPTS[0]} twice")
            read_text(page).to_contain_text(f"Frozen: agent/{PATIENT_AGENT}.")
            expect(page.get_by_role("region", name="Frozen")).to_contain_text(f"by {REVIEWER}: {ATTEMPTS[0]}")
            expect(page.get_by_role("region", name="Frozen")).to_contain_text("sluice thaw agent")
            runs_nothing(page, path)
            while run_in_thread(records, at.installation, VERDICTS, session)[-1]["blockReason"] != reason:
                pass
        finally:
            over.set()
            proposing.join()
        expect(page.get_by_role("button", name="Freeze this agent")).to_have_count(0)
        again = {"kind": "agent", "id": PATIENT_AGENT, "reason": "once more", "confirmed": "yes"}
        assert "is in force: only an approver" in forge(page, "/review/freezes", **again)
        assert found == []
    key = f"freeze/agent/{PATIENT_AGENT}@1".encode()
    frozen_ms = next(
        one.timestamp_ms for one in run_in_thread(read_stored, at.installation, REGISTRY) if one.key == key
    )
    written = [
        (json.loads(one.value or b""), one.timestamp_ms)
        for one in run_in_thread(read_stored, at.installation, VERDICTS)
    ]
    ours = [(one, at_ms) for one, at_ms in written if one["session_id"] == session]
    took = [ms - one["input"]["timestamp"] for one, ms in ours]
    passed = [one["input"]["timestamp"] for one, _ in ours if one["blockReason"] != reason]
    assert max(passed) - frozen_ms <= 1000 + max(took)
    thaw(at, "agent", PATIENT_AGENT)


def thaw(at: PageInstallation, *subject: str) -> None:
    """With the owner's own key, as the page says."""
    key = at.installation.folder / "owner.pem"
    key.touch(mode=0o600)
    key.write_bytes(at.installation.trust.write_pem(OWNER))
    words = ["thaw", subject[0], "--reason", "WHY", "--key", str(key), "--", subject[1]]
    ran = run_in_thread(CliRunner().invoke, cli, words, env=at.installation.settings)
    assert ran.exit_code == 0, ran.output


def test_a_session_is_frozen_on_its_page_and_only_by_who_may(at: PageInstallation) -> None:
    """Mend 22.20: with a reason, confirmed, from a page of this session; who only reads has no form."""
    with at.client() as client:
        client.post("/v1/evaluate", json=action(session := f"-s {uuid.uuid4().hex[:8]}"))
        path = f"/review/sessions?{httpx2.QueryParams({'id': session})}"
        with at.visit("ada") as page:
            page.goto(path)
            expect(page.get_by_role("button", name="Freeze this session")).to_have_count(0)
            form = {"kind": "session", "id": session, "reason": "x", "confirmed": "yes"}
            assert "your log-in only reads" in forge(page, "/review/freezes", **form)
        with at.visit("otto") as page:
            of_others = form | {"kind": "agent", "id": neutral_policy.AGENT}
            assert "Not found" in forge(page, "/review/freezes", **of_others)
            page.goto(path)
            expect(page.get_by_role("button", name="Freeze this session")).to_have_count(0)
        with at.visit("rita") as page:
            page.goto(path)
            for guessed in ({"csrf_token": "guessed"}, {}):
                assert page.request.post("/review/freezes", form={**form, **guessed}).status == 403
            assert "Not sent: say why" in forge(page, "/review/freezes", **form | {"confirmed": ""})
            press_freeze(page, path, "session", "odd")
            read_text(page).to_contain_text("Frozen: session/")
            is_accessible(page, "a frozen session")
        told = action(session)
        while client.post("/v1/evaluate", json=told).json()["blockReason"] != "frozen_session: odd":
            pass
    thaw(at, "session", session)


def test_posture_and_sessions_show_a_range_of_time_in_charts_and_tables(at: PageInstallation) -> None:
    """Mend 22.20: what was decided in the range is in its bars; a time before the ledger has none."""
    agent_session = at.escalate()["session_id"]
    with at.client() as client:
        told = client.post("/v1/evaluate", json=action(agent_session)).json()
        outcome = {"action_id": told["action_id"], "session_id": agent_session, "rows_affected": 90_000}
        client.post("/v1/outcomes", json={**outcome, "reported_by": neutral_policy.AGENT})
    past = "from=2020-01-01+00:00&to=2020-01-02+00:00"
    at.hold()
    with at.visit("olga", viewport=PHONE) as page:
        found = complaints(page.context)
        for path, names in (
            ("posture?", ("Decisions on actions", "Decisions on memories", "Escalations", "Alarms")),
            (f"sessions?id={agent_session}&", ("Decisions on actions",)),
            ("sessions?", ("Decisions on actions",)),
        ):
            for name in names:
                page.goto(f"/review/{path}last=hour")
                load_until(page, page.get_by_role("img", name=name))
                page.get_by_text(f"{name} in numbers").click()
                table = page.get_by_role("region", name=f"{name}, in steps of 5 min")
                cells = table.locator("tbody td").all_inner_texts()
                drawn = page.get_by_role("img", name=name).locator("rect").count()
                assert drawn == len([one for one in cells if one != "0"]) > 0, name
            is_accessible(page, path)
            page.goto(f"/review/{path}{past}")
            expect(page.get_by_text("None in this time.").first).to_be_visible()
            expect(page.get_by_role("img")).to_have_count(0)
        page.goto("/review/sessions?last=week")
        expect(page.get_by_role("link", name=agent_session)).to_be_visible()
        page.get_by_text("From and to").click()
        page.get_by_label("From, in UTC").fill(ATTEMPTS[0])
        page.get_by_role("button", name="Show").click()
        expect(page.get_by_role("alert")).to_contain_text("write a time like")
        runs_nothing(page, "a range that is none")
        assert [one for one in found if "400" not in one] == []
