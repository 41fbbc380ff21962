"""W3C Trace Context: continuing a caller's trace without randomness."""

from __future__ import annotations

import re
from hashlib import sha256

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-([0-9a-f]{2})(-.*)?"
)
_CURRENT_VERSION = "00"


def traceparent_for(record_id: str, received: str | None) -> str:
    """The `traceparent` of a record that answers an input.

    A valid `received` header keeps its trace id and flags; otherwise the trace id comes from the record's id
    too, unsampled. The span id always comes from the record's id: a redelivered input gives the same header.
    """
    derived = sha256(record_id.encode("utf-8", "surrogatepass")).hexdigest()
    span = derived[:16]
    match = _TRACEPARENT.fullmatch(received) if received else None
    if match is None or (match[1] == _CURRENT_VERSION and match[4]):
        return f"00-{derived[16:48]}-{span}-00"
    return f"00-{match[2]}-{span}-{match[3]}"
