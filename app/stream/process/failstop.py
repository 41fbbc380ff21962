"""Fail-stop: a fault of the broker or of a port ends the process at once, so that it cannot act on doubt.

Nothing is cleaned up: what was staged never committed, and the next owner's producers fence this one. The
supervisor (compose, systemd, Kubernetes) starts the worker again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from typing import NoReturn

from aiokafka.errors import KafkaError, ProducerFenced

from app.stream.process.log_line import Explained, reasons

EXIT_STOPPED = 0
EXIT_FAULT = 3
EXIT_FENCED = 4

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a worker ends: its status, one line for the log, and whether a traceback is to follow."""

    status: int
    line: str
    traced: bool


def ending(fault: BaseException) -> Ending:
    """Status 4 when another worker took over, 3 for any other fault."""
    if isinstance(fault, ProducerFenced):
        told = "another worker has taken over a partition of this one"
        return Ending(EXIT_FENCED, f"the worker stops with status {EXIT_FENCED}: {told}", traced=False)
    expected = isinstance(fault, Explained | KafkaError | OSError)  # time-outs are OSErrors
    return Ending(EXIT_FAULT, f"the worker stops with status {EXIT_FAULT}: {reasons(fault)}", not expected)


def fail_stop(fault: BaseException) -> None:
    """Log why and end the process."""
    found = ending(fault)
    log.error(found.line, exc_info=fault if found.traced else None)
    _exit_with(found.status)


def end_stopped(what_is_left: str) -> None:
    """End the process in good order, though something of no consequence has not ended: log what."""
    log.warning("the worker stops with status %d: it was asked to; %s", EXIT_STOPPED, what_is_left)
    _exit_with(EXIT_STOPPED)


def _exit_with(status: int) -> NoReturn:
    logging.shutdown()
    os._exit(status)
