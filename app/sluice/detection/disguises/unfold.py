"""The one way in which disguises are taken off a text, one within another, for actions and for content.

A disguise is a function from a text to the texts that it may stand for. Actions are read without look-alikes
and escapes (`forms`); content without everything that a language model sees through
(sluice/detection/disguises/forms.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sluice.detection.disguises.encodings import decodings
from sluice.detection.disguises.letters import fold_look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Undisguise = Callable[[str], Iterable[tuple[str, str]]]
    """(disguise, text) of each text that one may stand for; it may give the same text, and an empty one."""

LAYERS = 3
"""The most disguises that are taken off one text."""
FORMS = 24
"""The most forms of one text. More is inconclusive: ordinary text has fewer than 6."""
GROWTH = 2
"""The most characters in all other forms together, as a multiple of the text's; short texts have spare."""
SPARE_CHARS = 32 * 1024
PLAIN = "plain"


class UnfoldedText(NamedTuple):
    """`how`: the disguises taken off, outermost first: "plain", "look-alike", "url > base64"."""

    how: str
    text: str


class TooManyForms(Exception):
    """A text has more forms than are read, so that one of those left may say anything."""


def unfold(first: Iterable[UnfoldedText], undisguise: Undisguise, size: int) -> Iterator[UnfoldedText]:
    """The forms that the first ones unfold to, each different text once; not the first ones themselves.

    `size`: of the text, in characters. Raises TooManyForms where there are more.
    """
    layer = [*first]
    texts = {form.text for form in layer}
    left = GROWTH * size + SPARE_CHARS
    for _ in range(LAYERS):
        before, outer, layer = texts.copy(), layer, []
        for form in outer:
            for disguise, text in undisguise(form.text):
                if text in before:
                    continue
                left -= len(text)
                if text in texts:
                    continue
                if len(texts) >= FORMS or left < 0:
                    raise TooManyForms("the text unfolds to more forms than are read")
                texts.add(text)
                layer.append(
                    UnfoldedText(disguise if form.how == PLAIN else f"{form.how} > {disguise}", text)
                )
                yield layer[-1]


def forms(text: str) -> Iterator[UnfoldedText]:
    """What a text in an action unfolds to; not the text itself. Raises TooManyForms where it is too much."""
    return unfold([UnfoldedText(PLAIN, text)], _undisguise, len(text))


def _undisguise(text: str) -> Iterator[tuple[str, str]]:
    yield "look-alike", fold_look(text)
    yield from decodings(text)
