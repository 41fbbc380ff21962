"""What the log says while a broker is away: one line of ours when it goes and one when it is back.

Kafka's client writes a line for each try of each connection, hundreds a second, and Faust a traceback for
each. Of their lines the first of each kind passes, then one in a while with the count of those left out.
Whether the broker is away they are not asked: a connection of our own is tried when they complain.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.client.kafka_connection import list_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
CLIENTS = ("aiokafka", "faust", "mode")
"""The loggers whose lines are thinned out."""
EVERY_S = 60.0
PASSING_S = 5.0
"""What the client itself tries again, such as a request to a leader that moved, is no news before."""
CONNECT_S = 1.0
LOOK_S = 0.5
MOST_KINDS = 256


def thin_out_kafka_lines(bootstrap_servers: str) -> KafkaLines:
    """Pass fewer of the lines of Kafka's client in this process from now on, and watch these servers too.
    Configures no handler of the application's: lines that pass go where they went."""
    installed = [
        handler for handler in logging.getLogger(CLIENTS[0]).handlers if isinstance(handler, KafkaLines)
    ]
    lines = installed[0] if installed else KafkaLines()
    lines.watch(bootstrap_servers)
    for name in () if installed else CLIENTS:
        logger = logging.getLogger(name)
        logger.addHandler(lines)
        logger.propagate = False
    return lines


@dataclass(slots=True)
class _Kind:
    since_s: float
    is_passing: bool
    left_out: int = 0


@dataclass(slots=True)
class _Outage:
    since_s: float
    left_out: int


class KafkaLines(logging.Handler):
    """Passes the first line of each kind on to the root logger, and says when the broker goes and comes."""

    def __init__(
        self,
        every_s: float = EVERY_S,
        look_s: float = LOOK_S,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`every_s`: after so long a line of a kind passes again; `look_s`: between two looks at a broker."""
        super().__init__()
        self._every_s, self._look_s, self._now_s = every_s, look_s, now_s
        self._kinds: OrderedDict[tuple[str, str], _Kind] = OrderedDict()
        self._left_out = 0
        self._watchers: Counter[str] = Counter()
        self._outages: dict[str, _Outage] = {}
        self._changing = threading.Lock()
        self._looking = threading.Lock()
        self._looked_s = float("-inf")

    def watch(self, bootstrap_servers: str) -> None:
        """Say when these go and come, until `unwatch` was called as often."""
        with self._changing:
            self._watchers[bootstrap_servers] += 1

    def unwatch(self, bootstrap_servers: str) -> None:
        """Say no more of these once nobody watches them: who has disconnected does not care."""
        with self._changing:
            self._watchers[bootstrap_servers] -= 1
            if self._watchers[bootstrap_servers] <= 0:
                del self._watchers[bootstrap_servers]
                self._outages.pop(bootstrap_servers, None)

    def is_away(self, bootstrap_servers: str) -> bool:
        """Whether none of these could be reached when somebody complained, and none has been since."""
        return bootstrap_servers in self._outages

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on, or count it."""
        if record.levelno >= logging.WARNING:
            self._schedule_look()
        more = self._count_left_out(record)
        if more is None:
            return
        if more:
            record.msg, record.args = f"{record.getMessage()} ({more} more of this kind before)", None
        logging.getLogger().handle(record)

    def _count_left_out(self, record: logging.LogRecord) -> int | None:
        """Count the lines of its kind that were left out before a line that passes; None: it does not
        pass."""
        name, now_s = (record.name, str(record.msg)[:200]), self._now_s()
        kind = self._kinds.get(name)
        age_s = float("inf") if kind is None else now_s - kind.since_s
        is_new = age_s >= self._every_s
        is_due = kind is not None and kind.is_passing and PASSING_S <= age_s < self._every_s
        if kind is None or is_new or is_due:
            before = kind.left_out if kind is not None else 0
            kind = self._kinds[name] = _Kind(now_s, is_passing=is_new and _is_passing(record))
            self._kinds.move_to_end(name)
            if len(self._kinds) > MOST_KINDS:
                self._kinds.popitem(last=False)
            if not kind.is_passing:
                return before
        kind.left_out += 1
        self._left_out += 1
        return None

    def _schedule_look(self) -> None:
        if self._now_s() - self._looked_s < self._look_s or not self._looking.acquire(blocking=False):
            return
        threading.Thread(target=self._look, name="broker watch", daemon=True).start()

    def _look(self) -> None:
        """At every broker, until all can be reached."""
        try:
            while True:
                for servers in list(self._watchers):
                    self._note(servers, is_there=_is_reachable(servers))
                if not self._outages:
                    return
                time.sleep(self._look_s)
        finally:
            self._looked_s = self._now_s()
            self._looking.release()

    def _note(self, servers: str, *, is_there: bool) -> None:
        with self._changing:
            outage = self._outages.get(servers)
            if servers not in self._watchers or is_there == (outage is None):
                return
            if outage is None:
                self._outages[servers] = _Outage(self._now_s(), self._left_out)
            else:
                del self._outages[servers]
        if outage is None:
            log.error("broker away since %s: %s", time.strftime("%H:%M:%S"), servers)
        else:
            away_s, unsaid = self._now_s() - outage.since_s, self._left_out - outage.left_out
            line = "broker back after %.1f s: %s (%d lines of Kafka's client were left out)"
            log.warning(line, away_s, servers, unsaid)


def _is_passing(record: logging.LogRecord) -> bool:
    """Whether a line is of an error that Kafka's client tries again by itself."""
    return any(getattr(arg, "retriable", False) for arg in record.args or ())


def _is_reachable(bootstrap_servers: str) -> bool:
    try:
        addresses = list_addresses(bootstrap_servers)
    except ValueError:
        return False
    for address in addresses:
        try:
            with socket.create_connection(address, CONNECT_S):
                return True
        except OSError:
            continue
    return False
