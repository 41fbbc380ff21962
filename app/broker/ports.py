"""Loopback ports that nobody listens on."""

from __future__ import annotations

import os
import socket

LOOPBACK = "127.0.0.1"
# Below the range from which systems take ports for outgoing connections: a client that retries while the
# broker is down could otherwise be given the broker's own port, and connect to itself.
FIRST, LAST = 20000, 29000


def is_free(port: int) -> bool:
    """Whether a listener could bind `port` on loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    """`count` free ports; where to begin depends on our pid, so that parallel runs do not meet."""
    begin = os.getpid() * 16 % (LAST - FIRST)
    order = (FIRST + (begin + step) % (LAST - FIRST) for step in range(LAST - FIRST))
    free = (port for port in order if is_free(port))
    return [next(free) for _ in range(count)]
