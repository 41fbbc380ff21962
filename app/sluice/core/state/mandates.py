"""The mandates that a session remembers of each agent.

They lie beside what gates remember of the agent, each under a part of its digest, in the form in which
verdicts show them (sluice_topics/records/mandates.py, MandateSeen), until the time of each is over. They are
bounded in number and in bytes.

What was used of counts is kept by the digest of the mandate that says the count: those that lie within it
share it, whichever agent of the session has them. Each agent's memory has what its own calls used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_MANDATES = 8
"""Of one agent in a session."""
LARGEST_MANDATE = 4096
"""Bytes of a mandate as it is kept."""
USES = "mandate"
"""The gate under whose name it is kept what an agent used of counts (MandateMemory in actions/mandate.py)."""
_PREFIX = "mandate "
_KEPT_DIGITS = 32


def find_mandate(gates: Mapping[str, Any], digest: str) -> Mapping[str, Any] | None:
    """The mandate of this digest among what is kept beside gates in stored form; None for none."""
    stored = gates.get(name_mandate(digest))
    return None if stored is None or stored[1]["digest"] != digest else stored[1]


def count_mandates(gates: Mapping[str, Any], now_ms: int) -> int:
    """How many mandates count at this time."""
    return sum(memory[0] > now_ms for name, memory in gates.items() if name.startswith(_PREFIX))


def find_end_of_mandates(gates: Mapping[str, Any], now_ms: int, count: int) -> int | None:
    """The time, ms, at which so many of the mandates that count now are over; None where there are not so
    many, or none is asked for."""
    ends = sorted(
        memory[0] for name, memory in gates.items() if name.startswith(_PREFIX) and memory[0] > now_ms
    )
    return ends[count - 1] if 0 < count <= len(ends) else None


def name_mandate(digest: str) -> str:
    """The name under which a mandate is kept."""
    return _PREFIX + digest.removeprefix("sha256:")[:_KEPT_DIGITS]


def list_past(gates: Mapping[str, Any], now_ms: int) -> list[str]:
    """The names of mandates whose time is over."""
    return [name for name, memory in gates.items() if name.startswith(_PREFIX) and memory[0] <= now_ms]


def find_end_ms(mandate: Mapping[str, Any], scope: Mapping[str, Any]) -> int:
    """Until when one of a mandate's scopes counts, ms."""
    end_ms: int = scope.get("until_ms") or mandate["until_ms"]
    return end_ms


def add_others_uses(
    mandate: Mapping[str, Any], others: Iterable[Mapping[str, Any]], now_ms: int
) -> Mapping[str, Any]:
    """The mandate with what other agents have used of the counts in its chain, by digest and place; the same
    where they have used nothing. `others`: what is kept beside the gates of each."""
    used: dict[str, dict[str, int]] = {}
    digests = [scope["digest"] for scope in mandate["scopes"]]
    for gates in others:
        uses = gates[USES][1]["uses"] if USES in gates else {}
        for digest in digests:
            if digest in uses and uses[digest]["until"] > now_ms:
                sums = used.setdefault(digest, {})
                for position, calls in uses[digest]["used"].items():
                    sums[position] = sums.get(position, 0) + calls
    return {**mandate, "used_by_others": used} if used else mandate
