"""What waits as messages in Slack channels: posted when it opens, updated until it ends; alarms, posted once.

Slack is a view: what is shown is kept in `KafkaNotified`, and what cannot be shown now is shown later. A
message that may have been posted without our knowing (an answer that never came, a process killed in between)
is looked for in the channel before it is posted again.

Slack: "chat.postMessage", "chat.update", as of 2026.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slack_sdk.errors import SlackApiError

from sluice.adapters.slack_calls import OF_THE_BLOCKS, RefusedError, SlackCalls, code_of
from sluice.notify.notifier import TryLaterError
from sluice.notify.slack_blocks import (
    FIELD_CHARS,
    MESSAGE_CHARS,
    cut,
    message_of,
    metadata_of,
    plain_message_of,
    reminder_of,
)
from sluice.notify.told_subject import REMINDED, REROUTED, ToldSubject, fold
from sluice_topics.records import NotifiedSubject
from sluice_topics.records.escalation_events import PostedMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from slack_sdk import WebClient

    from sluice.notify.backlog import LedgerRecord, Part, Pending
    from sluice.notify.notifier import Notified
    from sluice.notify.told_subject import Shown

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
    page_of: Callable[[ToldSubject], str | None]
    action_of: Callable[[ToldSubject], Awaitable[Action | None]]
    approved_of: Callable[[ToldSubject], Awaitable[str | None]]
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
        self._told: dict[str, NotifiedSubject] = {}
        self._ended: dict[str, int] = {}
        self._began_s = 0.0
        self._unsure: set[str] = set()
        self._posted: dict[str, tuple[float, dict[str, str]]] = {}

    def subject_of(self, record: LedgerRecord) -> str | None:
        """The escalation, the held memory or the alarm; None for grants."""
        fields = record.fields
        return next((str(fields[name]) for name in ID_FIELDS if name in fields), None)

    def scope_of(self, pending: Pending) -> str | None:
        """The channel of whose turn it is."""
        fields = pending.records[0].fields if pending.records else {}
        known = self._told.get(pending.subject)
        group = fields.get("group") if known is None else (known.told.get("groups") or [None])[-1]
        if "alarm_id" in fields:
            return self._places.channel_of(fields.get("tenant_id", ""), fields["recipient"], "alarm")
        what: Shown = "memory" if "memory_id" in fields else "escalation"
        return self._places.channel_of(str(fields.get("tenant_id")), group, what)

    async def assign(self, parts: Iterable[Part]) -> None:
        """Read what was told of what waits in these partitions."""
        for record in (await self._notified.of({number for _, number in parts})).values():
            self._remember(record)
        self._began_s, self._posted = self._now_s(), {}

    async def deliver(self, subject: str, records: Sequence[LedgerRecord]) -> None:
        """Bring the messages of one subject up to date. Raises TryLaterError and KafkaError."""
        known = self._told.get(subject)
        done = self._ended.get(subject, -1) if known is None else known.offset
        new = [one for one in records if one.offset > done]
        told = None if known is None else ToldSubject.of(known.told)
        for one in new:
            told = fold(told, one.fields)
        if told is None or not new:
            return
        channels = self._channels(told)
        posted = [] if known is None else list(known.messages)
        if not channels and not posted:
            return
        if known is None:
            told = await self._with_action(told)
        if told.is_narrowed and told.narrowed is None:
            approved = await self._places.approved_of(told)
            told = replace(told, narrowed=approved and cut(approved, MESSAGE_CHARS))
        number, there = new[0].part[1], list(posted)
        for channel in channels:
            if all(one.channel != channel for one in posted):
                posted.append(await self._post(told, channel, new[0].timestamp_ms / 1000))
                before = told if known is None else ToldSubject.of(known.told)
                await self._keep(number, before, done, posted)
        for message in there:
            await self._update(told, message)
        await self._reply(told, new, there)
        await self._keep(number, told, new[-1].offset, posted)

    async def close(self) -> None:
        """Give up the connections to the broker."""
        await self._notified.close()
        await self._places.close()

    def _channels(self, told: ToldSubject) -> list[str]:
        """Of each group that got it so far, in that order."""
        found = [self._channel(told, group) for group in told.groups or (None,)]
        return list(dict.fromkeys(one for one in found if one is not None))

    def _channel(self, told: ToldSubject, group: str | None) -> str | None:
        what: Shown = "escalation" if told.kind in {"action", "retrieval"} else "memory"
        if told.kind == "alarm":
            what = "alarm"
        return self._places.channel_of(told.tenant, group, what)

    async def _with_action(self, told: ToldSubject) -> ToldSubject:
        action = await self._places.action_of(told)
        if action is None:
            return told
        return replace(told, tool=cut(action[0], FIELD_CHARS), parameters=cut(action[1], MESSAGE_CHARS))

    async def _keep(
        self, number: int, told: ToldSubject, offset: int, messages: Sequence[PostedMessage]
    ) -> None:
        record = NotifiedSubject(
            schema_name="sluice/notified_subject/v1",
            subject_id=told.subject_id,
            told=told.fields(),
            offset=offset,
            messages=list(messages),
        )
        await self._notified.keep(number, record)
        self._remember(record)

    def _remember(self, record: NotifiedSubject) -> None:
        """Of one that has ended, that it was told: it may come again."""
        self._told.pop(record.subject_id, None)
        if record.told.get("status") == "waiting" or record.offset < 0:
            self._told[record.subject_id] = record
        else:
            self._ended[record.subject_id] = record.offset

    async def _post(self, told: ToldSubject, channel: str, since_s: float) -> PostedMessage:
        ts = await self._find(told, channel, since_s)
        if ts is not None and await self._update(told, PostedMessage(channel=channel, ts=ts)):
            return PostedMessage(channel=channel, ts=ts)
        more: dict[str, Any] = {"metadata": metadata_of(told), **AS_WRITTEN}
        try:
            ts = await self._send(
                told, channel, lambda how: self._slack.client.chat_postMessage(**how, **more)
            )
        except RefusedError:
            raise
        except TryLaterError:
            self._unsure.add(told.subject_id)
            raise
        return PostedMessage(channel=channel, ts=ts)

    async def _update(self, told: ToldSubject, message: PostedMessage) -> bool:
        """False: it is gone, or not ours."""
        channel, ts = message.channel, message.ts
        try:
            await self._send(told, channel, lambda how: self._slack.client.chat_update(ts=ts, **how))
        except SlackApiError as error:
            log.warning("slack: the message of %s is not updated: %s", told.subject_id, code_of(error))
            return False
        return True

    async def _send(self, told: ToldSubject, channel: str, call: Callable[[dict[str, Any]], Any]) -> str:
        """The message's ts. Raises TryLaterError, and SlackApiError where the message is gone."""
        try:
            answer = await self._slack.call(
                lambda: call({"channel": channel, **message_of(told, self._places.page_of(told))}),
                channel,
            )
        except SlackApiError as error:
            if code_of(error) not in OF_THE_BLOCKS:
                raise
            log.error("slack: refuses the blocks of %s: %s", told.subject_id, code_of(error))  # noqa: TRY400 - as above
            plain = {"channel": channel, **plain_message_of(told), "blocks": []}
            answer = await self._slack.call(lambda: call(plain), channel)
        return str(answer["ts"])

    async def _reply(
        self, told: ToldSubject, new: Sequence[LedgerRecord], there: Sequence[PostedMessage]
    ) -> None:
        """An update notifies nobody; a reply under a message that was there does."""
        is_turn = any(one.fields.get("schema") in (REMINDED, REROUTED) for one in new)
        if not is_turn or told.status != "waiting":
            return
        channel = self._channel(told, told.group)
        under = next((one for one in there if one.channel == channel), None)
        if under is not None:
            how: dict[str, Any] = {"channel": under.channel, "thread_ts": under.ts, **AS_WRITTEN}
            how |= {"text": reminder_of(told), "reply_broadcast": True}
            await self._slack.call(lambda: self._slack.client.chat_postMessage(**how), under.channel)

    async def _find(self, told: ToldSubject, channel: str, since_s: float) -> str | None:
        """The ts of a message of this subject that was posted without our knowing."""
        if told.subject_id not in self._unsure and since_s > self._began_s + CLOCKS_APART_S:
            return None
        oldest, found = self._posted.get(channel, (float("inf"), {}))
        if since_s < oldest or told.subject_id in self._unsure:
            found = await self._slack.history(channel, since_s - CLOCKS_APART_S)
            self._posted[channel] = (since_s, found)
            self._unsure.discard(told.subject_id)
        return found.get(told.subject_id)
