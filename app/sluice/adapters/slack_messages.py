"""What waits as messages in Slack channels: posted when it opens, updated until it ends; alarms, posted once.

Slack is a view: what is shown is kept in `KafkaNotified`, and what cannot be shown now is shown later. A
message that may have been posted without our knowing (an answer that never came, a process killed in between)
is looked for in the channel before it is posted again.

Slack: "chat.postMessage", "chat.update", as of 2026.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from sluice.adapters.slack_calls import OF_THE_BLOCKS, RefusedError, SlackCalls, read_code
from sluice.core.reports.pending_subject import REMINDED, REROUTED
from sluice.core.reports.value_words import add_texts
from sluice.notify.notifier import TryLaterError
from sluice.notify.reported_subject import ReportedSubject, apply_record
from sluice.notify.slack_blocks import (
    FIELD_CHARS,
    MESSAGE_CHARS,
    MOST_VALUES,
    build_message,
    build_metadata,
    build_plain_message,
    shorten,
    write_reminder,
)
from sluice_topics.records import NotifiedSubject
from sluice_topics.records.escalation_events import PostedMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from slack_sdk import WebClient

    from sluice.notify.backlog import CommittedEvent, Part, Pending
    from sluice.notify.notifier import Notified
    from sluice.notify.reported_subject import Shown

log = logging.getLogger(__name__)
AS_WRITTEN = {"parse": "none", "unfurl_links": False, "unfurl_media": False}
CLOCKS_APART_S = 60
ID_FIELDS = ("escalation_id", "memory_id", "alarm_id")
Action = tuple[str, str]
"""A tool's name and its parameters, as they are shown."""


@dataclass(frozen=True, slots=True)
class SlackPlaces:
    """`channel_of` a tenant and the group whose turn it is, or an alarm's recipient, and of what: an
    escalation, a memory or an alarm; None: not shown.
    `page_of` it: its address on the review pages; None where there are none. `action_of` it: what waits; None
    where it cannot be read, or should not be shown; `approved_of` it: the parameters of the approvals so far.
    `close` gives up what `action_of` holds."""

    channel_of: Callable[[str, str | None, Shown], str | None]
    page_of: Callable[[ReportedSubject], str | None]
    action_of: Callable[[ReportedSubject], Awaitable[Action | None]]
    approved_of: Callable[[ReportedSubject], Awaitable[str | None]]
    close: Callable[[], Awaitable[None]]


class SlackMessages:
    """A destination. One delivery at a time."""

    name = "slack"

    def __init__(
        self, client: WebClient, notified: Notified, places: SlackPlaces, now_s: Callable[[], float]
    ) -> None:
        """`now_s`: the time, in seconds since 1970."""
        self._now_s = now_s
        self._slack = SlackCalls(client)
        self._notified = notified
        self._places = places
        self._subjects: dict[str, NotifiedSubject] = {}
        self._ended: dict[str, int] = {}
        self._began_s = 0.0
        self._unsure: set[str] = set()
        self._posted: dict[str, tuple[float, dict[str, str]]] = {}

    def name_subject(self, record: CommittedEvent) -> str | None:
        """The escalation, the held memory or the alarm; None for grants."""
        fields = record.fields
        return next((str(fields[name]) for name in ID_FIELDS if name in fields), None)

    def name_scope(self, pending: Pending) -> str | None:
        """The channel of whose turn it is."""
        fields = pending.records[0].fields if pending.records else {}
        subject = self._subjects.get(pending.subject)
        group = fields.get("group") if subject is None else (subject.told.get("groups") or [None])[-1]
        if "alarm_id" in fields:
            return self._places.channel_of(fields.get("tenant_id", ""), fields["recipient"], "alarm")
        what: Shown = "memory" if "memory_id" in fields else "escalation"
        return self._places.channel_of(str(fields.get("tenant_id")), group, what)

    async def assign(self, parts: Iterable[Part]) -> None:
        """Read what was told of what waits in these partitions."""
        for record in (await self._notified.read_newest({number for _, number in parts})).values():
            self._remember(record)
        self._began_s, self._posted = self._now_s(), {}

    async def deliver(self, subject: str, records: Sequence[CommittedEvent]) -> None:
        """Bring the messages of one subject up to date. Raises TryLaterError and KafkaError."""
        notified = self._subjects.get(subject)
        done = self._ended.get(subject, -1) if notified is None else notified.offset
        new = [record for record in records if record.offset > done]
        reported = None if notified is None else ReportedSubject.read(notified.told)
        for event in new:
            reported = apply_record(reported, event.fields)
        if reported is None or not new:
            return
        channels = self._list_channels(reported)
        posted = [] if notified is None else list(notified.messages)
        if not channels and not posted:
            return
        if notified is None:
            reported = await self._add_action(reported)
        if reported.is_narrowed and reported.narrowed is None:
            approved = await self._places.approved_of(reported)
            reported = replace(reported, narrowed=approved and shorten(approved, MESSAGE_CHARS))
        number, there = new[0].part[1], list(posted)
        for channel in channels:
            if all(posted_message.channel != channel for posted_message in posted):
                posted.append(await self._post(reported, channel, new[0].timestamp_ms / 1000))
                before = reported if notified is None else ReportedSubject.read(notified.told)
                await self._keep(number, before, done, posted)
        for message in there:
            await self._update(reported, message)
        await self._reply(reported, new, there)
        await self._keep(number, reported, new[-1].offset, posted)

    async def close(self) -> None:
        """Give up the connections to the broker."""
        await self._notified.close()
        await self._places.close()

    def _list_channels(self, reported: ReportedSubject) -> list[str]:
        """Of each group that got it so far, in that order."""
        channels = [self._find_channel(reported, group) for group in reported.groups or (None,)]
        return list(dict.fromkeys(channel for channel in channels if channel is not None))

    def _find_channel(self, reported: ReportedSubject, group: str | None) -> str | None:
        what: Shown = "escalation" if reported.kind in {"action", "retrieval"} else "memory"
        if reported.kind == "alarm":
            what = "alarm"
        return self._places.channel_of(reported.tenant, group, what)

    async def _add_action(self, reported: ReportedSubject) -> ReportedSubject:
        action = await self._places.action_of(reported)
        if action is None:
            return reported
        values = add_texts(reported.values[:MOST_VALUES], json.loads(action[1])) if reported.values else []
        return replace(
            reported,
            tool=shorten(action[0], FIELD_CHARS),
            parameters=shorten(action[1], MESSAGE_CHARS),
            values=(*values, *reported.values[MOST_VALUES:]),
        )

    async def _keep(
        self, number: int, reported: ReportedSubject, offset: int, messages: Sequence[PostedMessage]
    ) -> None:
        record = NotifiedSubject(
            schema_name="sluice/notified_subject/v1",
            subject_id=reported.subject_id,
            told=reported.write_fields(),
            offset=offset,
            messages=list(messages),
        )
        await self._notified.keep(number, record)
        self._remember(record)

    def _remember(self, record: NotifiedSubject) -> None:
        """Of one that has ended, that it was told: it may come again."""
        self._subjects.pop(record.subject_id, None)
        if record.told.get("status") == "waiting" or record.offset < 0:
            self._subjects[record.subject_id] = record
        else:
            self._ended[record.subject_id] = record.offset

    async def _post(self, reported: ReportedSubject, channel: str, since_s: float) -> PostedMessage:
        ts = await self._find(reported, channel, since_s)
        if ts is not None and await self._update(reported, PostedMessage(channel=channel, ts=ts)):
            return PostedMessage(channel=channel, ts=ts)
        more: dict[str, Any] = {"metadata": build_metadata(reported), **AS_WRITTEN}
        try:
            ts = await self._send(
                reported, channel, lambda how: self._slack.client.chat_postMessage(**how, **more)
            )
        except RefusedError:
            raise
        except TryLaterError:
            self._unsure.add(reported.subject_id)
            raise
        return PostedMessage(channel=channel, ts=ts)

    async def _update(self, reported: ReportedSubject, message: PostedMessage) -> bool:
        """False: it is gone, or not ours."""
        channel, ts = message.channel, message.ts
        try:
            await self._send(reported, channel, lambda how: self._slack.client.chat_update(ts=ts, **how))
        except SlackApiError as error:
            log.warning("slack: the message of %s is not updated: %s", reported.subject_id, read_code(error))
            return False
        return True

    async def _send(
        self, reported: ReportedSubject, channel: str, call: Callable[[dict[str, Any]], Any]
    ) -> str:
        """The message's ts. Raises TryLaterError, and SlackApiError where the message is gone."""
        try:
            answer = await self._slack.call(
                lambda: call({"channel": channel, **build_message(reported, self._places.page_of(reported))}),
                channel,
            )
        except SlackApiError as error:
            if read_code(error) not in OF_THE_BLOCKS:
                raise
            log.error("slack: refuses the blocks of %s: %s", reported.subject_id, read_code(error))  # noqa: TRY400 - as above
            plain = {"channel": channel, **build_plain_message(reported), "blocks": []}
            answer = await self._slack.call(lambda: call(plain), channel)
        return str(answer["ts"])

    async def _reply(
        self, reported: ReportedSubject, new: Sequence[CommittedEvent], there: Sequence[PostedMessage]
    ) -> None:
        """An update notifies nobody; a reply under a message that was there does."""
        is_turn = any(event.fields.get("schema") in (REMINDED, REROUTED) for event in new)
        if not is_turn or reported.status != "waiting":
            return
        channel = self._find_channel(reported, reported.group)
        under = next((message for message in there if message.channel == channel), None)
        if under is not None:
            how: dict[str, Any] = {"channel": under.channel, "thread_ts": under.ts, **AS_WRITTEN}
            how |= {"text": write_reminder(reported), "reply_broadcast": True}
            await self._slack.call(lambda: self._slack.client.chat_postMessage(**how), under.channel)

    async def _find(self, reported: ReportedSubject, channel: str, since_s: float) -> str | None:
        """The ts of a message of this subject that was posted without our knowing."""
        if reported.subject_id not in self._unsure and since_s > self._began_s + CLOCKS_APART_S:
            return None
        oldest, history = self._posted.get(channel, (float("inf"), {}))
        if since_s < oldest or reported.subject_id in self._unsure:
            history = await self._slack.fetch_history(channel, since_s - CLOCKS_APART_S)
            self._posted[channel] = (since_s, history)
            self._unsure.discard(reported.subject_id)
        return history.get(reported.subject_id)
