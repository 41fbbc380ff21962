"""A long-running verb of `sluice` on a run's site, to be killed and started again: a gateway, a notifier."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from load import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from load.installations.site import Site

SLUICE = [sys.executable, "-c", "from sluice.cli.main import main; main()"]
END_S = 60.0


class CommandProcess:
    """`sluice VERB` under the site's settings and further ones, as environment variables."""

    def __init__(self, site: Site, verb: str, settings: Mapping[str, str], name: str) -> None:
        """`name`: of its log."""
        self._verb = verb
        self._environment = {**_drop_own(os.environ), **site.settings, **settings}
        self._log = site.folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, or start it again."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*SLUICE, self._verb], cwd=ROOT, env=self._environment, stdout=log, stderr=log
            )

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it, or kill it; its status. 0 where it does not run."""
        if self.process is None:
            return 0
        if self.is_running:
            self.process.send_signal(how)
        return self.process.wait(END_S)

    def read_log(self) -> str:
        """Its log."""
        return self._log.read_text(encoding="utf-8", errors="replace")


def free_port() -> int:
    """A port of this machine on which nothing listens now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _drop_own(environment: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in environment.items() if not key.startswith(("SLUICE_", "KAFKA_"))}
