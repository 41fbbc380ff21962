"""A real Redis on a port of its own, which can be stopped and started again."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Self

from sluice.secrets.redis_seal import make_seal_key, write_seal_keys

if TYPE_CHECKING:
    from pathlib import Path

END_S = 10.0


class RedisServer:
    """A context manager: started inside, ended behind it. What it kept is gone with its process."""

    def __init__(self, folder: Path) -> None:
        """`folder` is there: for its log. Raises FileNotFoundError without the program."""
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError("no redis-server (on Debian and Ubuntu: apt-get install redis-server)")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = int(free.getsockname()[1])
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._words = [
            program, "--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder),
        ]  # fmt: skip

    @property
    def key_file(self) -> Path:
        """A file of keys for whoever keeps entries in it."""
        path = self._folder / "redis.keys"
        if not path.exists():
            write_seal_keys(path, (make_seal_key(),))
        return path

    @property
    def url(self) -> str:
        """Where it listens while it runs: the same after each start."""
        return f"redis://127.0.0.1:{self._port}/0"

    def start(self) -> None:
        """Return when it answers. Raises RuntimeError with its log if it ends first."""
        log = self._folder / "redis.log"
        with log.open("wb") as written:
            self._process = subprocess.Popen(self._words, stdout=written, stderr=written)
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(log.read_text())
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return

    def send(self, signal: int) -> None:
        """A signal: SIGSTOP makes it hang with its port open."""
        if self._process is not None:
            self._process.send_signal(signal)

    def stop(self) -> None:
        """Kill it, whatever state it is in."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_S)
            self._process = None

    def __enter__(self) -> Self:
        """Started."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ended."""
        self.stop()
