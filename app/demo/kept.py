"""A demo that `--keep` left running, found again by `--stop`."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.broker import own
from app.broker.process import ProcessIdentity
from app.demo.worker import stop_process

NAME = "kept.json"


class KeptError(Exception):
    """The note of a kept demo cannot be read."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The worker, and the folders of its run and its keys; the broker's note lies beside it."""

    run: str
    folder: Path
    keys: Path
    worker: ProcessIdentity


def remember(home: Path, kept: Kept) -> None:
    """Write it down under `home`."""
    record = {
        "run": kept.run,
        "folder": str(kept.folder),
        "keys": str(kept.keys),
        "pid": kept.worker.pid,
        "started": kept.worker.started,
    }
    (home / NAME).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def recall(home: Path) -> Kept | None:
    """The one that was left, whether it still runs or not. Raises KeptError."""
    path = home / NAME
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        worker = ProcessIdentity(int(record["pid"]), str(record["started"]))
        return Kept(str(record["run"]), Path(record["folder"]), Path(record["keys"]), worker)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise KeptError(f"{path} is not what `sluice demo --keep` writes ({error}); remove it") from error


def stop(home: Path) -> Kept | None:
    """Stop worker and broker of the kept demo and remove its folder; None if none was left.

    Raises KeptError and BrokerError.
    """
    kept = recall(home)
    if kept is None:
        return None
    stop_process(kept.worker)
    broker = own.recall(home)
    if broker is not None:
        broker.close()
    own.forget(home)
    for folder in (kept.folder, kept.keys):
        shutil.rmtree(folder, ignore_errors=True)
    (home / NAME).unlink()
    return kept
