"""What a worker under a supervisor leaves in the supervisor's folder: that it lives, and where it listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class SupervisedFiles:
    """Of one worker. `beat` is touched while its loop turns; `ready` exists while it decides."""

    def __init__(self, stem: Path) -> None:
        """`stem`: the path of all of them, without their endings."""
        self.beat = stem.with_name(f"{stem.name}.beat")
        self.ready = stem.with_name(f"{stem.name}.ready")
        self._port = stem.with_name(f"{stem.name}.port")

    def write_port(self, port: int) -> None:
        """Say on which port of loopback the worker serves its metrics."""
        self._port.write_text(str(port), encoding="ascii")

    def read_port(self) -> int | None:
        """None: it does not listen yet, or no more."""
        try:
            return int(self._port.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def read_beat(self) -> int | None:
        """A number that is another one after each beat; None: there was none yet."""
        try:
            return self.beat.stat().st_mtime_ns
        except OSError:
            return None

    def remove(self) -> None:
        """Remove what a worker that has ended has left."""
        for file in (self.beat, self.ready, self._port):
            file.unlink(missing_ok=True)
