"""A notifier process on a test's site, and a webhook's endpoint."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from tests.documents.blocks import ROOT
from tests.kafka.gateway_process import SLUICE
from tests.kafka.installation import DEADLINE_S, END_S
from tests.slack_api import SECRET, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from load.sites.site import Site
    from tests.slack_api import SlackApi


@dataclass
class NotifierProcess:
    """One that is running. `settings`: of the groups slack and notify, as environment variables."""

    site: Site
    settings: dict[str, str]
    name: str = "notifier"
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        own = {key: value for key, value in os.environ.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
        with (self.site.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*SLUICE, "notify"],
                cwd=ROOT,
                env={**own, **self.site.settings, **self.settings},
                stdout=log,
                stderr=log,
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it; its status."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(END_S)

    def said(self) -> str:
        """Its log."""
        return (self.site.folder / f"{self.name}.log").read_text(encoding="utf-8", errors="replace")

    def until(self, holds: Callable[[], bool]) -> None:
        """Return once it holds; fail with the log when it does not in time or the process has ended."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds():
            assert self.process is not None
            assert self.process.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)


def slack_settings(api: SlackApi, channels: list[dict[str, str]], **more: Any) -> dict[str, str]:
    """Of the group slack, and patience of tests."""
    given = {"channels": channels, "base_url": api.url, **more}
    found = {
        f"SLUICE_SLACK__{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }
    quick = {"SLUICE_NOTIFY__FIRST_RETRY_S": "0.1", "SLUICE_NOTIFY__LONGEST_RETRY_S": "0.4"}
    return {**found, **quick, "SLACK_BOT_TOKEN": TOKEN, "SLACK_SIGNING_SECRET": SECRET}


@contextmanager
def running_notifier(site: Site, settings: dict[str, str]) -> Iterator[NotifierProcess]:
    """A notifier, stopped in good order afterwards."""
    notifier = NotifierProcess(site, settings)
    notifier.start()
    try:
        yield notifier
    finally:
        assert notifier.process is not None
        if notifier.process.poll() is None:
            assert notifier.end() == 0, notifier.said()


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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.taken.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}/sluice"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
