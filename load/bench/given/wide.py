"""64 KB of ASCII parameters in the shapes that cost the most: all of an action that Gate 1 has to look at."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTES = 64 * 1024
_SENTENCE = "the account of every customer was moved to another region before the report was due again"
_WORDS = _SENTENCE.split()
_SQL = "SELECT name, total FROM orders WHERE region = 'north' AND total > 10 ORDER BY name;\n"
_SHELL = "tar czf backup.tgz /var/lib/app && cp backup.tgz /mnt/store; ls -l | grep tgz\n"
_PATH = "../reports/./2025//q3/summary.txt "
_URL = "see http://reports.example.com:8080/a/b?c=d for it, "
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Wide(NamedTuple):
    """A shape's name, and an action of it."""

    shape: str
    tool: str
    parameters: dict[str, Any]


def wide(salt: int) -> Iterator[Wide]:
    """Every shape, with other content for every salt."""
    chance = random.Random(salt)
    words = [f"{chance.choice(_WORDS)}" for _ in range(BYTES // 5)]
    text = f"{salt} {' '.join(words)}"[:BYTES]
    yield Wide("one text", "archive", {"value": text})
    yield Wide("one message", "send", {"message": text})
    yield Wide("1000 texts", "archive", {"values": [text[n * 60 : n * 60 + 60] for n in range(1000)]})
    yield Wide("10000 words", "archive", {"values": text.split()[:10_000]})
    yield Wide("many keys", "archive", {f"{word}_{n}": word for n, word in enumerate(text.split()[:3_500])})
    yield Wide("nesting", "archive", _nested(text))
    yield Wide("SQL", "sql", {"query": _filled(_SQL, salt)})
    yield Wide("shell", "bash", {"command": _filled(_SHELL, salt)})
    yield Wide("100 SQL texts", "sql", {"statements": [_SQL * 7 + str(salt + n) for n in range(100)]})
    yield Wide("100 commands", "bash", {"commands": [_SHELL * 8 + str(salt + n) for n in range(100)]})
    yield Wide("base64", "archive", {"value": "".join(chance.choices(_BASE64, k=BYTES))})
    yield Wide(
        "1000 base64 texts",
        "archive",
        {"values": ["".join(chance.choices(_BASE64, k=60)) for _ in range(1000)]},
    )
    yield Wide("paths", "archive", {"value": _filled(_PATH, salt)})
    yield Wide("URLs", "archive", {"value": _filled(_URL, salt)})


def _filled(unit: str, salt: int) -> str:
    return f"{unit * (BYTES // len(unit) - 1)}{salt}"


def _nested(text: str) -> dict[str, Any]:
    """Chains of maps as deep as a record may have them, as many as fit."""
    chains = [text[n * 1100 : n * 1100 + 600] for n in range(60)]
    for depth in range(50):
        chains = [{f"k{depth}": one} for one in chains]  # type: ignore[misc]
    return {"value": chains}
