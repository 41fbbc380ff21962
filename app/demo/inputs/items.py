"""Retrieved items as a store would hand them over: a text with its age, score, and what stands behind it."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from app.core.foundation.clock import rfc3339
from app.core.retrieval.signed_assertion import signed_assertion

if TYPE_CHECKING:
    from app.core.trust.dsse import Signer
    from app.demo.inputs.library import Library, Told

VERIFIED, ALTERED, MISSING = "verified", "altered", ""
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one item in one reading. `reference`: VERIFIED, ALTERED, MISSING, or an URI of which nobody recorded
    anything."""

    item_id: str
    content_class: str
    text: str
    age_ms: int
    score: float
    reference: str


class Store:
    """Hands over items at one moment; `feed` signs for the sources that do."""

    def __init__(self, library: Library, feed: Signer, now_ms: int) -> None:
        self._library = library
        self._feed = feed
        self._now_ms = now_ms

    def item(self, facts: Facts) -> dict[str, Any]:
        """A RetrievedItem by wire names."""
        made = {
            "item_id": facts.item_id,
            "content_class": facts.content_class,
            "timestamp": rfc3339(self._now_ms - facts.age_ms),
            "confidence_score": facts.score,
            "body": facts.text,
        }
        if facts.reference == MISSING:
            return made
        made |= {"provenance_uri": self._uri(facts), "provenance_hash": digest_of(facts.text)}
        if self._library.source_of(facts.content_class).by == "signed":
            made = self._asserted(made)
        if facts.reference == ALTERED:
            made["provenance_hash"] = digest_of(f"{facts.text} (as it is now)")
        return made

    def told(self, one: Told) -> dict[str, Any]:
        """An item of the story."""
        age_ms = round(one.age_days * _DAY_MS)
        return self.item(Facts(one.item_id, one.content_class, one.text, age_ms, one.score, one.reference))

    def _uri(self, facts: Facts) -> str:
        if facts.reference in (VERIFIED, ALTERED):
            return uri_of(self._library, facts.content_class, facts.text)
        return facts.reference

    def _asserted(self, made: dict[str, Any]) -> dict[str, Any]:
        """The feed's signed word in place of the timestamp."""
        asserted_at = made.pop("timestamp")
        signed = signed_assertion(asserted_at, made["provenance_uri"], made["provenance_hash"])
        signature = base64.b64encode(self._feed.sign(signed)).decode()
        return made | {"freshness_assertion": {"asserted_at": asserted_at, "signature": signature}}


def uri_of(library: Library, content_class: str, text: str) -> str:
    """The reference under which the class's source has the text."""
    return library.source_of(content_class).uri + digest_of(text).removeprefix("sha256:")[:12]


def digest_of(text: str) -> str:
    """ "sha256:" and the hex digest of its UTF-8."""
    return f"sha256:{sha256(text.encode()).hexdigest()}"
