"""A measurement in a process of its own: nothing of an earlier round is in its caches."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from app.cli.machine.worker import GC_THRESHOLDS
from app.settings import ROOT

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def in_fresh_process(module: str, *arguments: int) -> Any:
    """What the module, run as a program, told by `tell`. Raises CalledProcessError when it failed."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    return json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


def settle() -> None:
    """The garbage collector as a worker sets it, before the measurement begins."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def tell(result: DataclassInstance) -> None:
    """Hand a dataclass of JSON values to the process that asked."""
    json.dump(asdict(result), sys.stdout)
