"""Fail-stop: a fault of the broker or of a port ends the process at once, so that it cannot act on doubt.

Nothing is cleaned up: what was staged never committed, and the next owner's producers fence this one. The
supervisor (compose, systemd, Kubernetes) starts the worker again.
"""

from __future__ import annotations

import logging
import os
from typing import NoReturn

from aiokafka.errors import ProducerFenced

EXIT_STOPPED = 0
EXIT_FAULT = 3
EXIT_FENCED = 4

log = logging.getLogger(__name__)


def fail_stop(fault: BaseException) -> None:
    """Log the fault and end the process: status 4 when another worker took over, 3 for any other fault."""
    fenced = isinstance(fault, ProducerFenced)
    if fenced:
        log.error("fenced: another worker owns this partition now; this one stops")
    else:
        log.error("fault, the worker stops: %s", fault, exc_info=fault)
    _exit_with(EXIT_FENCED if fenced else EXIT_FAULT)


def end_stopped(what_is_left: str) -> None:
    """End the process in good order, though something of no consequence has not ended: log what."""
    log.warning("stopped: %s", what_is_left)
    _exit_with(EXIT_STOPPED)


def _exit_with(status: int) -> NoReturn:
    logging.shutdown()
    os._exit(status)
