"""Where one run of the demo lives: its name, its folder, its broker, and the settings that follow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from topics.layout import TopicLayout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PARTITIONS = 8
SETTINGS_PREFIX = "SLUICE_"


@dataclass(frozen=True, slots=True)
class Place:
    """`run` names topics and consumer group, so that runs on one broker never meet. `root_key` is where trust
    starts, base64; `keys` the folder of the private keys, outside the tree."""

    run: str
    folder: Path
    bootstrap_servers: str
    root_key: str
    keys: Path

    @property
    def prefix(self) -> str:
        return f"{self.run}."

    @property
    def layout(self) -> TopicLayout:
        return TopicLayout(self.prefix, self.run, PARTITIONS)

    @property
    def ready_file(self) -> Path:
        return self.folder / "worker.ready"

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    def for_commands(self) -> dict[str, str]:
        """Environment variables that set any `sluice` command to this run's topics."""
        return {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": self.bootstrap_servers,
            "SLUICE_KAFKA__TOPIC_PREFIX": self.prefix,
            "SLUICE_KAFKA__PARTITIONS": str(PARTITIONS),
            "SLUICE_WORKER__APP_ID": self.run,
            "SLUICE_POLICY__ROOT_KEYS": json.dumps([self.root_key]),
            "SLUICE_POLICY__ENVIRONMENT": "demo",
        }

    def for_worker(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The worker's whole environment: `environment` with this run's settings instead of its own."""
        kept = {name: value for name, value in environment.items() if not name.startswith(SETTINGS_PREFIX)}
        return {
            **kept,
            **self.for_commands(),
            "SLUICE_WORKER__READY_FILE": str(self.ready_file),
        }
