"""A notifier process on a test's installation, and a webhook's endpoint."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from load.installations.command_process import CommandProcess
from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http
from tests.documents.blocks import blocks
from tests.kafka.installation import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.installations.installation import TestInstallation


class NotifierProcess(CommandProcess):
    """One on a test's site."""

    def __init__(self, installation: TestInstallation, settings: dict[str, str], name: str) -> None:
        super().__init__(installation, "notify", settings, name)
        self.settings = settings

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Return once it holds; fail with the log when it does not in time or the process has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert self.is_running, self.read_log()
            assert time.monotonic() < deadline, self.read_log()
            time.sleep(0.05)


@contextmanager
def run_notifier(
    installation: TestInstallation, settings: dict[str, str], name: str = "notifier"
) -> Iterator[NotifierProcess]:
    """A notifier, stopped in good order afterwards."""
    notifier = NotifierProcess(installation, settings, name)
    notifier.start()
    try:
        yield notifier
    finally:
        if notifier.is_running:
            assert notifier.end() == 0, notifier.read_log()


@dataclass
class Endpoint:
    """Takes webhooks. `taken`: headers in lower case and body of each request; `statuses`: of the next
    answers, 204 after them."""

    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    url: str = ""


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """One that listens."""
    found = Endpoint()

    def take(call: HttpCall) -> HttpAnswer:
        found.taken.append(({name.lower(): value for name, value in call.headers.items()}, call.body))
        return HttpAnswer(found.statuses.pop(0) if found.statuses else 204)

    with serve_http(take) as url:
        found.url = f"{url}/sluice"
        yield found


def show_text(message: dict[str, Any]) -> str:
    """All texts of a message's blocks."""
    return json.dumps(message["blocks"], ensure_ascii=False)


def buttons(message: dict[str, Any]) -> list[str]:
    """The values of its buttons."""
    return [
        one["value"] for block in message["blocks"] if block["type"] == "actions" for one in block["elements"]
    ]


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(node, dict):
        yield node
    for one in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(one)


def receivers_check() -> Callable[[dict[str, str], bytes, str], bool]:
    """The function that the documentation gives to receivers."""
    (block,) = [one for one in blocks("docs/notifications.md") if one.kind == "python"]
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - our own document
    return names["is_from_sluice"]  # type: ignore[no-any-return]
