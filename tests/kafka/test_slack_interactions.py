"""What people press in Slack: a form, an answer that the worker decides on, and what is refused."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from load import PLAIN
from load.installations import approvers, neutral_policy
from load.installations.slack_api import SECRET, TOKEN, SlackApi, sign_request, slack_api, slack_settings
from sluice.notify.slack_blocks import DECISION_FORM
from sluice_demo.throwaway_trust import GATEWAY, publish_policy
from sluice_topics.catalog import ESCALATIONS, REVIEWS
from tests.kafka.gateway_process import Gateway, run_gateway
from tests.kafka.installation import (
    DEADLINE_S,
    action,
    make_small_installation,
    publish,
    run_worker,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
PATH = "/v1/slack/interactions"
TEAM = "T0SLUICE"
USERS = {"U0ANN": "ann", "U0BEN": "ben", "U0VERA": "vera", f"{TEAM}/U0VIC": "victor", "U0AUDIT": "audit"}
STRICT_AGENT = "strict-agent"
"""Its bundle demands the approver's own key for T4."""
LATE_AGENT, LATE_MS = "late-agent", 300
"""Its escalations wait so many milliseconds."""


@pytest.fixture(scope="module")
def api() -> Iterator[SlackApi]:
    with slack_api() as started:
        yield started


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory, api: SlackApi
) -> TestInstallation:
    made = make_small_installation(
        kafka,
        tmp_path_factory.mktemp("interactions"),
        module_prefix.rstrip("."),
        SLUICE_WORKER__TIMER_INTERVAL_S="60",  # nothing expires before somebody asks for it
        **slack_settings(api, [], approvers=USERS, answer_s=60),
    )
    terms: list[dict[str, Any]] = [
        {"id": "load.strict", "approvals": {"own_key_tiers": ["T4"]}},
        {"id": "load.late", "escalation_ttl_ms": LATE_MS},
    ]
    spec = {"tenant_id": neutral_policy.TENANT, "tier": "T2"}
    agents = [
        approvers.entry("agent", STRICT_AGENT, policy_bundle_id="load.strict", **spec),
        approvers.entry("agent", LATE_AGENT, policy_bundle_id="load.late", **spec),
    ]
    policy = [
        *approvers.records(made.trust),
        made.trust.make_delegate([neutral_policy.TENANT]),
        *(made.trust.sign_bundle(json.dumps(neutral_policy.bundle() | one).encode()) for one in terms),
        *made.trust.sign_entries(agents),
    ]
    asyncio.run(publish_policy(kafka, made.prefix, policy))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    key = installation.folder / "people.pem"
    key.write_bytes(installation.trust.write_pem(GATEWAY))
    key.chmod(0o600)
    with run_gateway(installation, reviewers_key=str(key)) as started:
        yield started


def escalate(
    installation: TestInstallation, worker: WorkerProcess, tool: str = approvers.REFUND, **more: Any
) -> dict[str, Any]:
    """What opened an action's escalation."""
    session = f"{approvers.PREFIX}{uuid.uuid4().hex}"
    fields = {"toolName": tool, "agent_id": approvers.ASKING_AGENT, "parameters": {"amount": 5}}
    publish(installation, [action(session, f"a-{session}") | fields | more])
    return wait_for(installation, ESCALATIONS, session, 1, worker)[0]


def press_button(waits: dict[str, Any], decision: str, user: str, channel: str = "C0DESK") -> dict[str, Any]:
    """A button of a message."""
    return {
        "type": "block_actions",
        "user": {"id": user},
        "team": {"id": TEAM},
        "channel": {"id": channel},
        "trigger_id": "trigger",
        "actions": [
            {
                "action_id": f"sluice_decision_{decision}",
                "value": waits["escalation_id"],
                "action_ts": f"{time.time():.6f}",
            }
        ],
    }


def list_sent(
    view: dict[str, Any], user: str, why: str = "the customer confirmed it", days: str | None = None
) -> dict[str, Any]:
    """A form that a person has filled in."""
    values = {"justification": {"justification": {"type": "plain_text_input", "value": why}}}
    if days is not None:
        values["remember_days"] = {"remember_days": {"type": "number_input", "value": days}}
    return {
        "type": "view_submission",
        "user": {"id": user},
        "team": {"id": TEAM},
        "trigger_id": uuid.uuid4().hex,
        "view": {**view, "state": {"values": values}},
    }


def post(gateway: Gateway, payload: dict[str, Any], **how: Any) -> httpx2.Response:
    """Send it as Slack does."""
    body, headers = sign_request(payload, **how)
    return httpx2.post(
        f"{gateway.url}{PATH}", content=body, headers=headers, timeout=DEADLINE_S, verify=PLAIN
    )


def form(gateway: Gateway, api: SlackApi, waits: dict[str, Any], decision: str, user: str) -> dict[str, Any]:
    """The form that a press opens, once the gateway's reader has the escalation."""
    deadline, before = time.monotonic() + DEADLINE_S, len(api.views)
    while len(api.views) == before:
        assert time.monotonic() < deadline, api.ephemeral
        assert post(gateway, press_button(waits, decision, user)).status_code == 200
        time.sleep(0.05)
    return api.views[-1]


def collect_refusals(gateway: Gateway, api: SlackApi, waits: dict[str, Any], decision: str, user: str) -> str:
    """What a person is told to whom no form is shown."""
    deadline, told = time.monotonic() + DEADLINE_S, ""
    while not told or "has not read of it yet" in told:
        assert time.monotonic() < deadline
        api.ephemeral.clear()
        views = len(api.views)
        assert post(gateway, press_button(waits, decision, user)).status_code == 200
        assert len(api.views) == views
        (one,) = api.ephemeral
        assert (one["user"], one["channel"]) == (user, "C0DESK")
        told = one["text"]
    return told


def answer(gateway: Gateway, view: dict[str, Any], user: str, **more: Any) -> tuple[str, str]:
    """Title and text of the view that comes in the form's place."""
    told = post(gateway, list_sent(view, user, **more)).json()
    assert told["response_action"] == "update"
    return told["view"]["title"]["text"], told["view"]["blocks"][0]["text"]["text"]


def list_resolutions(
    installation: TestInstallation, worker: WorkerProcess, waits: dict[str, Any], count: int
) -> list[dict[str, Any]]:
    """Of an escalation with at least `count` records: on a slow machine its group is reminded in between."""
    events = wait_for(installation, ESCALATIONS, waits["session_id"], count, worker)
    return [event for event in events if event["schema"] == approvers.RESOLVED]


@pytest.mark.parametrize(
    ("decision", "ends"), [("approve", ("Approved", "ALLOW")), ("deny", ("Denied", "BLOCK"))]
)
def test_a_person_answers_in_a_form_that_shows_the_whole_action(
    installation: TestInstallation,
    worker: WorkerProcess,
    gateway: Gateway,
    api: SlackApi,
    decision: str,
    ends: tuple[str, str],
) -> None:
    waits = escalate(installation, worker, parameters={"amount": 5, "note": "turn \u202eback"})
    view = form(gateway, api, waits, decision, "U0ANN")
    shown = json.dumps(view)
    assert approvers.REFUND in shown
    assert "turn <U+202E>back" in shown
    assert waits["action_digest"] in shown
    assert answer(gateway, view, "U0ANN")[0] == ends[0]
    (ended,) = list_resolutions(installation, worker, waits, 2)
    assert (ended["approver_id"], ended["outcome"]) == ("ann", ends[1])
    assert ended["justification"] == "the customer confirmed it"
    assert (ended["delegate"]["id"], ended["delegate"]["channel"]) == (GATEWAY, "slack")


def test_days_in_the_form_are_part_of_the_answer_and_thirty_at_most(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker)
    view = form(gateway, api, waits, "approve", "U0ANN")
    for days in ("31", "0", "a week"):
        title, text = answer(gateway, view, "U0ANN", days=days)
        assert (title, "than or equal to" in text) == ("Not answered", True)
    assert answer(gateway, view, "U0ANN", days="7")[0] == "Approved"
    wait_for(installation, ESCALATIONS, waits["session_id"], 2, worker)
    (review,) = wait_for(installation, REVIEWS, waits["session_id"], 1, worker)
    assert review["remember_days"] == 7


def test_of_two_who_answer_at_once_one_counts_and_the_other_is_told(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker)
    views = [form(gateway, api, waits, "approve", "U0ANN"), form(gateway, api, waits, "deny", "U0BEN")]
    with ThreadPoolExecutor() as pool:
        told = list(
            pool.map(lambda one: answer(gateway, *one)[0], zip(views, ("U0ANN", "U0BEN"), strict=True))
        )
    assert sorted(told) in (["Approved", "It does not count"], ["Denied", "It does not count"])
    assert (
        len(
            [
                one
                for one in wait_for(installation, ESCALATIONS, waits["session_id"], 2, worker)
                if "decision" in one
            ]
        )
        == 1
    )
    title, text = answer(gateway, views[0], "U0ANN", why="once more, pressed twice")
    assert (title, text.partition(":")[0]) == ("It does not count", "already_ended")


def test_who_answers_too_late_is_told_so_although_the_answer_itself_ends_it(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway
) -> None:
    """Five times: of the two records of such an answer either may be read first."""
    all_waiting = [escalate(installation, worker, agent_id=LATE_AGENT) for _ in range(5)]
    time.sleep(LATE_MS / 1000)
    for waits in all_waiting:
        kept = {name: waits[name] for name in ("escalation_id", "session_id", "tenant_id", "action_digest")}
        view = {"callback_id": DECISION_FORM, "private_metadata": json.dumps({**kept, "decision": "approve"})}
        assert answer(gateway, view, "U0ANN")[0] == "It does not count"
        ended = wait_for(installation, ESCALATIONS, waits["session_id"], 2, worker)[1]
        assert ended["schema"] == approvers.EXPIRED


def test_t4_needs_two_people_with_the_role(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker, approvers.WIRE)
    view = form(gateway, api, waits, "approve", "U0ANN")
    assert answer(gateway, view, "U0ANN")[1].startswith("wrong_role")
    assert answer(gateway, view, "U0VERA") == ("Counted", "1 of 2 approvals.")
    assert answer(gateway, view, "U0VERA")[1].startswith("already_counted")
    assert answer(gateway, view, "U0VIC")[0] == "Approved"


def test_where_the_own_key_is_demanded_the_person_is_told_how_to_answer(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker, approvers.WIRE, agent_id=STRICT_AGENT)
    told = collect_refusals(gateway, api, waits, "approve", "U0VERA")
    assert f"sluice escalations approve {waits['escalation_id']} --as vera --key FILE" in told


def test_who_is_no_approver_and_what_nobody_can_see_is_not_answered_here(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker)
    view = form(gateway, api, waits, "deny", "U0ANN")
    for stranger in ("U0NOBODY", "U0VIC2"):
        assert "no registered approver" in collect_refusals(gateway, api, waits, "approve", stranger)
        assert answer(gateway, view, stranger)[0] == "Not answered"
    assert answer(gateway, view, "U0AUDIT")[1].startswith("wrong_role")
    for gone in ("escalation:gate.actions.proposed:0:99999", "escalation:gate.actions.proposed:99:0", "x"):
        assert "does not wait any more" in collect_refusals(
            gateway, api, {"escalation_id": gone}, "approve", "U0ANN"
        )
    long = escalate(installation, worker, parameters={"all": "x" * 20_000})
    assert "too long to be shown" in collect_refusals(gateway, api, long, "approve", "U0ANN")
    assert answer(gateway, form(gateway, api, long, "deny", "U0ANN"), "U0ANN")[0] == "Denied"


def test_only_what_slack_signed_just_now_and_for_the_first_time_is_taken(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    waits = escalate(installation, worker)
    view = form(gateway, api, waits, "approve", "U0ANN")
    payload = list_sent(view, "U0ANN")
    body, headers = sign_request(payload)
    other, _ = sign_request(list_sent(view, "U0BEN"))
    wrong = [
        sign_request(payload, secret="another secret"),  # noqa: S106 - a wrong one
        sign_request(payload, late_s=301),
        sign_request(payload, late_s=-600),
        (other, headers),
        (body, headers | {"X-Slack-Signature": ""}),
        (body, headers | {"X-Slack-Request-Timestamp": "soon"}),
        (body, {"Content-Type": headers["Content-Type"]}),
    ]
    with httpx2.Client(base_url=gateway.url, timeout=DEADLINE_S, verify=PLAIN) as client:
        for content, given in wrong:
            assert client.post(PATH, content=content, headers=given).status_code == 401
        assert not list_resolutions(installation, worker, waits, 1)
        assert client.post(PATH, content=body, headers=headers).json()["view"]["title"]["text"] == "Approved"
        assert client.post(PATH, content=body, headers=headers).status_code == 401, "a replay"
    assert not {TOKEN, SECRET} & set(gateway.read_log().split())
    assert TOKEN not in gateway.read_log()


def test_a_copy_for_another_gateway_and_another_workspaces_namesake_answer_nothing(
    installation: TestInstallation, worker: WorkerProcess, gateway: Gateway, api: SlackApi
) -> None:
    """Attack: T4 needs two people, and the attacker has one signed request, or the id of the other."""
    waits = escalate(installation, worker, approvers.WIRE)
    view = form(gateway, api, waits, "approve", "U0VERA")
    body, headers = sign_request(list_sent(view, "U0VERA"))
    with run_gateway(installation, "second", reviewers_key=str(installation.folder / "people.pem")) as second:
        told = [
            httpx2.post(f"{one.url}{PATH}", content=body, headers=headers, timeout=DEADLINE_S, verify=PLAIN)
            for one in (gateway, second, gateway, second)
        ]
    assert [one.status_code for one in told] == [200, 200, 401, 401]
    first, copy = (one.json()["view"]["blocks"][0]["text"]["text"] for one in told[:2])
    assert first == "1 of 2 approvals."
    assert copy.startswith("already_counted")
    foreign = list_sent(view, "U0VIC") | {"team": {"id": "T0OTHER"}}
    for stranger in (foreign, foreign | {"team": None}):
        assert post(gateway, stranger).json()["view"]["title"]["text"] == "Not answered"
    assert answer(gateway, view, "U0VIC")[0] == "Approved", "it had waited for the second person"
