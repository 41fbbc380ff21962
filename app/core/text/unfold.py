"""Every form in which a text may be meant: as it looks, and decoded, one disguise within another."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from app.core.text.encodings import decodings
from app.core.text.lookalikes import as_seen

if TYPE_CHECKING:
    from collections.abc import Iterator

LAYERS = 3
"""The most disguises that are taken off one text."""
FORMS = 8
"""The most forms of one text."""
PLAIN = "plain"


class Form(NamedTuple):
    """`how`: the disguises taken off, outermost first: "plain", "look-alike", "url > base64"."""

    how: str
    text: str


def forms(text: str) -> Iterator[Form]:
    """What a text unfolds to, each different text once; not the text itself."""
    seen = {text}
    layer = [Form(PLAIN, text)]
    for _ in range(LAYERS):
        layer = [one for form in layer for one in _unfolded(form)]
        for one in layer:
            if one.text not in seen and len(seen) < FORMS:
                seen.add(one.text)
                yield one
        layer = [one for one in layer if one.text in seen][:FORMS]


def _unfolded(form: Form) -> Iterator[Form]:
    looks = as_seen(form.text)
    if looks != form.text:
        yield Form(_after(form.how, "look-alike"), looks)
    for encoding, decoded in decodings(form.text):
        if decoded != form.text:
            yield Form(_after(form.how, encoding), decoded)


def _after(how: str, disguise: str) -> str:
    return disguise if how == PLAIN else f"{how} > {disguise}"
