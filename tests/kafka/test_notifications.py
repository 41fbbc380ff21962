"""What waits is told in Slack and to webhooks, each once, whatever is away meanwhile."""

from __future__ import annotations

import asyncio
import json
import signal
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from load.installations import approvers, neutral_policy
from load.installations.slack_api import TOKEN, SlackApi, slack_api, slack_settings
from sluice.core.trust.signing import sign_review
from sluice_demo.throwaway_trust import REVIEWER, publish_policy
from sluice_topics.catalog import ESCALATIONS, MEMORY_WRITES, QUARANTINE, REVIEWS
from tests.kafka.installation import (
    action,
    make_small_installation,
    publish,
    read_stored,
    run_worker,
    wait_for,
    wait_until,
)
from tests.kafka.memories import make_held_write
from tests.kafka.notifier_process import (
    Endpoint,
    NotifierProcess,
    buttons,
    endpoint,
    objects,
    receivers_check,
    run_notifier,
    show_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka

DESK, LEADS = "C0DESK", "C0LEADS"
MEMORIES = "C0MEMORIES"
CHANNELS: list[dict[str, Any]] = [
    {"group": "desk", "channel": DESK},
    {"group": "leads", "channel": LEADS},
    {"memories": True, "channel": MEMORIES},
]
WEBHOOK_SECRET = "of-the-webhook-in-the-tests"  # noqa: S105 - of nothing else
HOSTILE = "<!channel> <https://evil.example|ok> *bold* \u202etxt\u200b\x1b[2J @here `x` :skull:" + "A" * 5000


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    made = make_small_installation(
        kafka,
        tmp_path_factory.mktemp("notify"),
        module_prefix.rstrip("."),
        SLUICE_WORKER__TIMER_INTERVAL_S="0.2",
    )
    asyncio.run(publish_policy(kafka, made.prefix, approvers.records(made.trust)))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def api() -> Iterator[SlackApi]:
    with slack_api() as started:
        yield started


@pytest.fixture(scope="module")
def hook() -> Iterator[Endpoint]:
    with endpoint() as started:
        yield started


@pytest.fixture(scope="module")
def notifier(
    installation: TestInstallation, worker: WorkerProcess, api: SlackApi, hook: Endpoint
) -> Iterator[NotifierProcess]:
    webhook = {"name": "pager", "url": hook.url, "secret": WEBHOOK_SECRET}
    settings = slack_settings(api, CHANNELS) | {"SLUICE_NOTIFY__WEBHOOKS": json.dumps([webhook])}
    with run_notifier(installation, settings) as started:
        yield started


def escalate(installation: TestInstallation, **more: Any) -> str:
    """An action that waits for an approver; the escalation's id."""
    fields = {"toolName": approvers.REFUND, "agent_id": approvers.ASKING_AGENT, "parameters": {"amount": 5}}
    session = f"{approvers.PREFIX}{uuid.uuid4().hex}"
    (sent,) = publish(installation, [action(session, f"a-{session}") | fields | more])
    return f"escalation:gate.actions.proposed:{sent.partition}:{sent.offset}"


def events(installation: TestInstallation, escalation_id: str) -> list[dict[str, Any]]:
    """What the ledger says of it."""
    found = [json.loads(one.value or b"null") for one in read_stored(installation, ESCALATIONS)]
    return [one for one in found if one.get("escalation_id") == escalation_id]


def answer(installation: TestInstallation, escalation_id: str, decision: str, approver: str = "ann") -> None:
    """What an approver signs."""
    opened: list[dict[str, Any]] = []
    while not opened:
        opened = events(installation, escalation_id)
    fields = {
        "subject_id": escalation_id,
        "session_id": opened[0]["session_id"],
        "decision": decision,
        "approver_id": approver,
        "digest": opened[0]["action_digest"],
        "justification": "looked at it",
    }
    review = sign_review(fields, approvers.KEYS[approver], installation.audience).model_dump(
        mode="json", exclude_unset=True
    )
    publish(installation, [review], REVIEWS)


def list_at_desk(api: SlackApi, escalation_id: str) -> list[dict[str, Any]]:
    """Its messages in the first group's channel: on a busy machine the second group's turn comes too."""
    return [one for one in api.list_messages(escalation_id) if one["channel"] == DESK]


def test_an_escalation_is_posted_once_and_its_message_says_how_it_ended(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    waits = escalate(installation)
    notifier.wait_until(lambda: bool(api.list_messages(waits)))
    (message,) = list_at_desk(api, waits)
    assert buttons(message) == [waits, waits]
    assert approvers.REFUND in show_text(message)
    assert '\\"amount\\": 5' in show_text(message)
    answer(installation, waits, "approve")
    notifier.wait_until(lambda: "Approved by ann" in show_text(api.list_messages(waits)[0]))
    (message,) = list_at_desk(api, waits)
    assert not buttons(message)
    assert "looked at it" in show_text(message)


def test_the_group_is_reminded_in_the_thread_and_the_next_one_gets_a_message_of_its_own(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    expires = escalate(installation, agent_id=approvers.HASTY_AGENT)
    waits = escalate(installation)
    notifier.wait_until(lambda: len(api.list_messages(waits)) == 2)
    assert sorted(one["channel"] for one in api.list_messages(waits)) == [DESK, LEADS]
    threads = {one["ts"] for one in api.list_messages(waits)}
    notifier.wait_until(lambda: any(one["thread_ts"] in threads for one in api.replies))
    replies = [one for one in api.replies if one["thread_ts"] in threads]
    assert len({one["thread_ts"] for one in replies}) == len(replies), "one in each channel"
    assert all(one["reply_broadcast"] for one in replies)
    answer(installation, waits, "deny", approvers.LATER)
    notifier.wait_until(
        lambda: all(f"Denied by {approvers.LATER}" in show_text(one) for one in api.list_messages(waits))
    )
    assert len(api.list_messages(waits)) == 2
    notifier.wait_until(
        lambda: bool(api.list_messages(expires)) and "Expired" in show_text(api.list_messages(expires)[0])
    )


def test_a_held_memory_is_shown_with_its_content_until_it_leaves_the_quarantine(
    installation: TestInstallation, worker: WorkerProcess, api: SlackApi, notifier: NotifierProcess
) -> None:
    """It waits for six seconds: on a busy machine it expires before the review comes."""
    session = f"s-{uuid.uuid4().hex}"
    publish(
        installation, [make_held_write(session, "w", content=f"{neutral_policy.DOUBT}\u202e")], MEMORY_WRITES
    )
    held = wait_for(installation, QUARANTINE, session, 1, worker)[0]
    notifier.wait_until(lambda: bool(api.list_messages(held["memory_id"])))
    (message,) = api.list_messages(held["memory_id"])
    assert message["channel"] == MEMORIES
    assert f"{neutral_policy.DOUBT}<U+202E>" in show_text(message)
    assert not buttons(message)
    fields = {
        "subject_id": held["memory_id"],
        "session_id": session,
        "decision": "reject",
        "approver_id": REVIEWER,
        "digest": held["content_digest"],
        "justification": "nobody knows who said so",
    }
    review = sign_review(fields, installation.trust.reviewer, installation.audience).model_dump(
        mode="json", exclude_unset=True
    )
    publish(installation, [review], REVIEWS)
    notifier.wait_until(
        lambda: (
            "Reject" in show_text(api.list_messages(held["memory_id"])[0])
            or "Expired" in show_text(api.list_messages(held["memory_id"])[0])
        )
    )
    assert len(api.list_messages(held["memory_id"])) == 1


def test_text_of_agents_is_shown_and_never_read_as_markup(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    waits = escalate(installation, parameters={HOSTILE: HOSTILE}, action_id=HOSTILE[:200])
    notifier.wait_until(lambda: bool(api.list_messages(waits)))
    (message,) = list_at_desk(api, waits)
    text = show_text(message)
    assert "<U+202E>" in text
    assert "<U+200B>" in text
    assert "characters more" in text
    assert not {"\u202e", "\u200b", "\x1b"} & set(text + message["text"])
    assert "<" not in message["text"]
    assert (message["parse"], message["unfurl_links"]) == ("none", False)
    kinds = {one["type"] for one in objects(message["blocks"]) if "text" in one or "elements" in one}
    assert "mrkdwn" not in kinds
    assert {one["emoji"] for one in objects(message["blocks"]) if one.get("type") == "plain_text"} == {False}


def test_nothing_is_lost_or_doubled_while_slack_fails_and_is_away(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    api.faults += [("429", 1.0), ("500", 0.0), ("lost", 0.0), ("503", 0.0)]
    during = [escalate(installation) for _ in range(3)]
    notifier.wait_until(lambda: not api.faults)
    api.stop()
    during += [escalate(installation) for _ in range(5)]
    answer(installation, during[0], "approve")
    answer(installation, during[-1], "deny")
    notifier.wait_until(lambda: "does not answer" in notifier.read_log())
    api.start()
    notifier.wait_until(lambda: all(api.list_messages(one) for one in during))
    notifier.wait_until(
        lambda: (
            not buttons(api.list_messages(during[0])[0])
            and not any(map(buttons, api.list_messages(during[-1])))
        )
    )
    assert [len(list_at_desk(api, one)) for one in during] == [1] * 8


def test_after_a_restart_messages_are_updated_and_none_is_posted_again(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    before = escalate(installation)
    notifier.wait_until(lambda: bool(api.list_messages(before)))
    assert notifier.end() == 0
    meanwhile = escalate(installation)
    answer(installation, before, "approve")
    notifier.start()
    notifier.wait_until(
        lambda: not any(map(buttons, api.list_messages(before))) and bool(api.list_messages(meanwhile))
    )
    assert [len(list_at_desk(api, one)) for one in (before, meanwhile)] == [1, 1]


def test_another_notifier_takes_over_from_one_that_is_killed_while_it_posts(
    installation: TestInstallation, api: SlackApi, notifier: NotifierProcess
) -> None:
    with run_notifier(installation, notifier.settings, "second") as second:
        api.faults.append(("lost", 5.0))  # posted, and the notifier is killed before it learns of it
        unsure = escalate(installation)
        notifier.wait_until(lambda: bool(api.list_messages(unsure)))
        notifier.end(signal.SIGKILL)
        meanwhile = escalate(installation)
        answer(installation, unsure, "approve")
        second.wait_until(
            lambda: bool(api.list_messages(meanwhile)) and not any(map(buttons, api.list_messages(unsure)))
        )
        notifier.start()
        answer(installation, meanwhile, "deny")
        second.wait_until(lambda: not any(map(buttons, api.list_messages(meanwhile))))
        assert [len(list_at_desk(api, one)) for one in (unsure, meanwhile)] == [1, 1]


def test_a_webhook_gets_every_record_signed_in_order_and_again_after_a_failure(
    installation: TestInstallation, hook: Endpoint, notifier: NotifierProcess
) -> None:
    hook.statuses += [500, 429, 400]
    waits = escalate(installation)
    answer(installation, waits, "approve")

    def describe() -> list[str]:
        bodies = [json.loads(body) for _, body in hook.taken]
        return [one["record"]["schema"] for one in bodies if one["record"].get("escalation_id") == waits]

    notifier.wait_until(lambda: not hook.statuses and approvers.RESOLVED in describe())
    assert (
        list(dict.fromkeys(describe()))
        == [one["schema"] for one in events(installation, waits)][: len(set(describe()))]
    )
    is_from_sluice = receivers_check()
    by_id: dict[str, set[bytes]] = {}
    for headers, body in hook.taken:
        assert is_from_sluice(headers, body, WEBHOOK_SECRET)
        assert not is_from_sluice(headers, body + b" ", WEBHOOK_SECRET)
        assert json.loads(body)["id"] == headers["webhook-id"]
        by_id.setdefault(headers["webhook-id"], set()).add(body)
    assert {len(bodies) for bodies in by_id.values()} == {1}, "the same record has the same bytes"
    assert len(hook.taken) > len(by_id), "what failed came again"


def test_a_new_destination_is_told_what_still_waits_and_nothing_of_what_is_over(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    over, waits = escalate(installation), escalate(installation)
    answer(installation, over, "deny")
    wait_until(lambda: any(one["schema"] == approvers.RESOLVED for one in events(installation, over)), worker)
    with endpoint() as hook:
        webhook = {"name": "new", "url": hook.url, "secret": WEBHOOK_SECRET}
        with run_notifier(
            installation, {"SLUICE_NOTIFY__WEBHOOKS": json.dumps([webhook])}, "new"
        ) as notifier:

            def describe() -> set[str]:
                return {json.loads(body)["record"].get("escalation_id") for _, body in hook.taken}

            notifier.wait_until(lambda: waits in describe())
            later = escalate(installation)
            notifier.wait_until(lambda: later in describe())
            assert over not in describe()


def test_no_secret_is_told(
    installation: TestInstallation, api: SlackApi, hook: Endpoint, notifier: NotifierProcess
) -> None:
    told = notifier.read_log() + json.dumps(api.calls) + str(hook.taken)
    assert TOKEN not in told
    assert WEBHOOK_SECRET not in told
