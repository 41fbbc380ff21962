"""Benchmarks, fault runs and attacks: programs that print figures."""

import ssl
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP on loopback. It trusts nobody; a context of its own for each client reads all
certificates that the machine trusts, in 40 ms."""
