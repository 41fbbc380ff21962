"""Settings of notifications: where they go, and who answers them there."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from sluice.settings.base import ListenAddress, Positive, Seconds, SettingGroup

if TYPE_CHECKING:
    from sluice.notify.reported_subject import Shown


_READ_ALIKE = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without a backslash, which some readers take for a slash."""


def _check_url(text: str) -> str:
    """Secrets go there: in clear text to this machine alone."""
    url = urlsplit(text)
    host, is_plain = url.hostname or "", url.username is None and _READ_ALIKE.fullmatch(text) is not None
    if is_plain and ((url.scheme == "https" and host) or (url.scheme == "http" and _is_this_machine(host))):
        return text
    raise ValueError("must be an https URL without a user (http: on this machine alone)")


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


SafeUrl = Annotated[str, AfterValidator(_check_url)]


class WebhookSettings(SettingGroup):
    """An endpoint that is told of every record of its tenant; without a tenant, of all."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    url: SafeUrl
    secret: Annotated[SecretStr, Field(min_length=24, max_length=512)]
    tenant: Annotated[str, Field(min_length=1, max_length=256)] | None = None


class NotifySettings(SettingGroup):
    """What `sluice notify` tells, and how patiently."""

    webhooks: tuple[WebhookSettings, ...] = ()
    look_back_s: Seconds = 604_800.0
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 10.0
    first_retry_s: Seconds = 0.5
    longest_retry_s: Seconds = 60.0
    max_waiting: Positive = 2000
    metrics_address: ListenAddress = ""

    @model_validator(mode="after")
    def _check_consistency(self) -> NotifySettings:
        names = [webhook.name for webhook in self.webhooks]
        if len(set(names)) < len(names):
            raise ValueError("two webhooks have one name")
        if self.first_retry_s > self.longest_retry_s:
            raise ValueError("first_retry_s is above longest_retry_s")
        return self


class ChannelSettings(SettingGroup):
    """Where escalations, `memories` that wait for a reviewer, or `alarms` are shown; a field that is None
    matches everything. `group`: of alarms the recipient whom the bundle names; `tenant` "": alarms that are
    the installation's."""

    channel: Annotated[str, Field(pattern=r"^[A-Z0-9]{2,64}$")]
    tenant: str | None = None
    group: str | None = None
    memories: bool = False
    alarms: bool = False

    @model_validator(mode="after")
    def _check_kind(self) -> ChannelSettings:
        if self.memories and self.alarms:
            raise ValueError("a line is for memories or for alarms")
        return self

    def matches(self, tenant: str, group: str | None, what: Shown) -> bool:
        """Whether it is for this tenant's escalations whose turn this group has, its memories, or its alarms
        to this recipient."""
        shows = "memory" if self.memories else "alarm" if self.alarms else "escalation"
        return shows == what and self.tenant in (None, tenant) and self.group in (None, group)


class SlackSettings(SettingGroup):
    """The Slack app, its channels and its people."""

    channels: tuple[ChannelSettings, ...] = ()
    bot_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    approvers: dict[str, Annotated[str, Field(min_length=1, max_length=256)]] = {}  # noqa: RUF012 - pydantic copies it
    show_parameters: bool = True
    answer_s: Annotated[float, Field(gt=0, le=60)] = 2.2
    base_url: SafeUrl = "https://slack.com/api/"

    @model_validator(mode="after")
    def _require_token(self) -> SlackSettings:
        if (self.channels or self.signing_secret is not None) and self.bot_token is None:
            raise ValueError("channels and a signing_secret need a bot_token")
        return self

    def find_channel(self, tenant: str, group: str | None, what: Shown = "escalation") -> str | None:
        """The channel of the first line that matches."""
        channels = (channel.channel for channel in self.channels if channel.matches(tenant, group, what))
        return next(channels, None)
