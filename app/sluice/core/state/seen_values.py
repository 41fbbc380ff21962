"""The values that a session has seen, as salted fingerprints: where a destination can come from.

Each input that brings values in is one entry of the agent's table `values`: what a tool returned, an item
that was served, a memory that was written. An entry holds no content, so that a state and a record may be
read by people who may not read what the agents read.

What is missing is never taken for known. A carried-out call of a tool whose results count opens an entry
that is incomplete until a signed outcome brings its values. What was cut off, or had to go for want of room,
leaves the entry LOST_ENTRY, so that from then on nothing is known to be new. STRANGERS_ENTRY says that text
came in of which no other entry tells. WRITTEN_ENTRY keeps the values that the session's agents used
themselves: what a system returns after that may be what they wrote into it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import a2b_base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice_topics.values import derive_tenant_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FINGERPRINT_BYTES = 8
"""Of the 16 that records carry: among the 1 500 values that an agent's table may hold, two are confused once
in 10^13."""
MOST_BYTES = 16_384
"""What an agent's table takes at most in its stored form."""
MOST_ENTRIES = 128
ENTRY_BYTES = 176
"""An entry's name, source and time, which are kept with the fingerprints."""
LOST_ENTRY = "lost"
STRANGERS_ENTRY = "strangers"
WRITTEN_ENTRY = "written"
MOST_WRITTEN = 256
"""Fingerprints of WRITTEN_ENTRY; with more, no trusted result counts."""
ECHO, UNEXPECTED = "=", "?"
"""What the name of an entry ends with that holds what a result repeats of its own call, or values of an
outcome that no signed outcome of an expected call brought. They do not tell that strangers' text came in: the
call itself did."""
EXPECTED, WHOLE, CUT = range(3)


_KEYS = 1024


@lru_cache(maxsize=_KEYS)
def find_tenant_key(master: bytes, tenant: str) -> bytes:
    """The key of a tenant's fingerprints."""
    return derive_tenant_key(master, tenant)


class SeenEntry(NamedTuple):
    """What one input brought in. `trusted`: the organisation's own word, by the registry and under a
    signature; `at_ms` broker time; `source`: the tool, item or memory; `state`: EXPECTED (a call that is
    carried out; `prints` are what the call itself said), WHOLE, or CUT (there were more values); `prints`:
    the fingerprints, `FINGERPRINT_BYTES` each, base64."""

    trusted: bool
    at_ms: int
    source: str
    state: int
    prints: str

    @property
    def size(self) -> int:
        """Bytes that it takes at most in the stored form."""
        return ENTRY_BYTES + len(self.prints)


class SeenValue(NamedTuple):
    """Where a value was seen: in the latest trusted entry that has it, else in the latest of the others.
    `written`: only after an agent of the session had used it itself, so that it is not trusted."""

    trusted: bool
    source: str
    at_ms: int
    written: bool = False

    def make_fields(self) -> dict[str, Any]:
        """The fields in a verdict."""
        origin = {"trusted": self.trusted, "source": self.source, "at_ms": self.at_ms}
        return {**origin, "written": True} if self.written else origin


class SeenUse(NamedTuple):
    """That a destination was used before: by which agent, in which role, its fingerprint (hex), how many
    times, on how many days, and last when (ms). The revision is that of the count. `answered_ms`, `until_ms`:
    when a person's answer made it known for the agent, and until when; 0: none did."""

    agent: str
    role: str
    fingerprint: str
    times: int
    days: int
    last_ms: int
    revision: int
    answered_ms: int = 0
    until_ms: int = 0

    def make_fields(self) -> dict[str, Any]:
        """The fields in a verdict."""
        fields = self._asdict()
        if not self.until_ms:
            del fields["answered_ms"], fields["until_ms"]
        return fields


_NO_USES: Mapping[str, SeenUse] = {}
_NO_PRINTS: Mapping[str, bytes] = {}


class ValuesSeen(NamedTuple):
    """What is known of an action's values. `values`: by the argument's path, of those that the session has
    seen. `complete`: it has seen all that came in, so that a value which is not among them came from nowhere.
    `uses`: by path, of those that the agent, or else one of its peers, has used in any session. `prints`: by
    path the value's fingerprint; `named`: what was looked up, as the gate reads it; both are not there where
    it is read from a verdict. `untainted`: nothing came in but trusted results and what the session's own
    agents said."""

    values: Mapping[str, SeenValue]
    complete: bool
    uses: Mapping[str, SeenUse] = _NO_USES
    prints: Mapping[str, bytes] = _NO_PRINTS
    named: Any = None
    untainted: bool = False

    def make_fields(self) -> dict[str, Any]:
        """The fields in a verdict."""
        fields: dict[str, Any] = {
            "complete": self.complete,
            "values": {path: value.make_fields() for path, value in self.values.items()},
        }
        if self.untainted:
            fields["untainted"] = True
        if self.uses:
            fields["uses"] = {path: use.make_fields() for path, use in self.uses.items()}
        return fields


NO_VALUES_SEEN = ValuesSeen({}, complete=False)
"""Of an action whose session keeps no values."""


def read_recorded_values(recorded: Mapping[str, Any]) -> ValuesSeen:
    """From a verdict: the way back of `ValuesSeen.recorded`."""
    values = {path: SeenValue(**value) for path, value in recorded["values"].items()}
    uses = {path: SeenUse(**value) for path, value in (recorded.get("uses") or {}).items()}
    return ValuesSeen(values, recorded["complete"], uses, untainted=bool(recorded.get("untainted")))


def unpack_fingerprints(prints: str) -> list[bytes]:
    """An entry's fingerprints."""
    raw = b64decode(prints)
    return [raw[at : at + FINGERPRINT_BYTES] for at in range(0, len(raw), FINGERPRINT_BYTES)]


def pack_fingerprints(fingerprints: Iterable[bytes]) -> str:
    """The text that an entry holds of fingerprints, each once."""
    return b64encode(
        b"".join(dict.fromkeys(fingerprint[:FINGERPRINT_BYTES] for fingerprint in fingerprints))
    ).decode()


def look_up(tables: Sequence[Mapping[str, Any]], fingerprints: Mapping[str, bytes]) -> ValuesSeen:
    """What the tables of several agents (stored SeenEntry by name) say of an action's values. `fingerprints`:
    by the argument's path."""
    values: dict[str, SeenValue] = {}
    complete, untainted = True, not holds_strangers(tables)
    wanted = [(path, print_[:FINGERPRINT_BYTES]) for path, print_ in fingerprints.items()]
    written = _find_written(tables, wanted)
    for table in tables:
        for name, stored in table.items():
            trusted, at_ms, source, state, prints = stored
            complete = complete and state == WHOLE
            if not prints or state == EXPECTED or name == WRITTEN_ENTRY:
                continue
            raw = _decode(prints)
            for path, fingerprint in wanted:
                if fingerprint in raw and _holds(raw, fingerprint):
                    is_written = bool(trusted) and path in written
                    value = SeenValue(bool(trusted) and not is_written, source, at_ms, is_written)
                    observed = values.get(path)
                    if observed is None or (value.trusted, value.at_ms) > (observed.trusted, observed.at_ms):
                        values[path] = value
    return ValuesSeen(values, complete, untainted=untainted)


def holds_strangers(tables: Sequence[Mapping[str, Any]]) -> bool:
    """Whether anything came in that is not trusted, as far as these tables tell."""
    return any(
        not entry[0] and name != WRITTEN_ENTRY and not name.endswith((ECHO, UNEXPECTED))
        for table in tables
        for name, entry in table.items()
    )


def _find_written(tables: Sequence[Mapping[str, Any]], wanted: Sequence[tuple[str, bytes]]) -> frozenset[str]:
    """The paths of values that an agent used before a trusted result had them; all where not all are kept."""
    entries = [table[WRITTEN_ENTRY] for table in tables if WRITTEN_ENTRY in table]
    if any(entry[3] == CUT for entry in entries):
        return frozenset(path for path, _ in wanted)
    every = [_decode(entry[4]) for entry in entries]
    return frozenset(path for path, fingerprint in wanted if any(_holds(raw, fingerprint) for raw in every))


@lru_cache(maxsize=1024)
def _decode(prints: str) -> bytes:
    return a2b_base64(prints)


def _holds(raw: bytes, fingerprint: bytes) -> bool:
    at = raw.find(fingerprint)
    while at > 0 and at % FINGERPRINT_BYTES:
        at = raw.find(fingerprint, at + 1)
    return at >= 0
