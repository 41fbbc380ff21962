"""A long-running verb of `sluice` on an installation, killed and started again: a gateway, a notifier."""

from __future__ import annotations

import os
import signal
import socket
import sys
from importlib import import_module
from typing import TYPE_CHECKING

from load.installations.forked_process import ForkedProcess
from sluice.cli.main import VERBS, main

__all__ = ["main"]  # of the forks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from load.installations.installation import TestInstallation

SLUICE = [sys.executable, "-c", "from sluice.cli.main import main; main()"]
LATE = (
    *("sluice.cli.machine.gateway_parts", "sluice.gateway.http.http_protocol", "uvicorn", "uvloop"),
    *("aiokafka", "sluice.notify.notifier", "sluice.adapters.slack_messages", "sluice.adapters.webhook"),
    *("sluice.adapters.kafka.kafka_groups", "sluice.adapters.slack_calls"),
)
"""What these verbs import once they run."""
END_S = 60.0


def prepare() -> None:
    """Import what the verbs that run long import."""
    for name in ("gateway", "notify", "archive", "ledger", "witness"):
        import_module(VERBS[name].module)
    for module in LATE:
        import_module(module)


def start_command(
    words: Sequence[str], environment: Mapping[str, str], log: Path, module: str = __name__
) -> ForkedProcess:
    """`sluice` with these words; its output is added to the log. `module`: whose `main` it is."""
    with log.open("ab") as file:
        return ForkedProcess(module, words, environment, file.fileno())


class CommandProcess:
    """`sluice VERB` under the installation's settings and further ones, as environment variables."""

    def __init__(
        self, installation: TestInstallation, verb: str, settings: Mapping[str, str], name: str
    ) -> None:
        """`name`: of its log."""
        self._verb = verb
        self._environment = {**_drop_own(os.environ), **installation.settings, **settings}
        self._log = installation.folder / f"{name}.log"
        self.process: ForkedProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, or start it again."""
        self.process = start_command([self._verb], self._environment, self._log)

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
