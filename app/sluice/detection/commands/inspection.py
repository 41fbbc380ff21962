"""What every pattern of Gate 1 says about itself, and what Gate 1 found in an action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, NamedTuple, get_args

from pydantic import Field

from sluice.detection.library_model import LibraryModel
from sluice_topics.records.base import Severity
from sluice_topics.relaxations import Neutral, Scale, Unordered

if TYPE_CHECKING:
    from collections.abc import Sequence

Text = Annotated[str, Field(min_length=1, max_length=256)]
Expression = Annotated[str, Field(min_length=1, max_length=4096)]


class Described(LibraryModel):
    """`severity`: critical blocks, warn escalates, info is only listed. `source`: whose knowledge it is."""

    unmarked: ClassVar = Unordered("the pattern {id} changed, and may find less")

    id: Annotated[Text, Neutral("names it")]
    reason: Annotated[Text, Neutral("for people")]
    severity: Annotated[Severity, Scale(get_args(Severity), "the pattern {id} is {new}, not {old}")]
    source: Annotated[Text, Neutral("for people")]


class Hit(NamedTuple):
    """A pattern that was found.

    `path` is the JSON path of the leaf ("$.parameters.cmd[2]"), `form` how it was found there: "plain",
    or the disguises and languages that were seen through, outermost first ("base64 > sh -c").
    """

    id: str
    reason: str
    severity: Severity
    path: str
    form: str


class Inspection(NamedTuple):
    """`inconclusive` says which bound stopped the reading, None where everything was read.

    `texts` are all texts in which a target may be named: leaves, keys, and every form that was unfolded.
    `changes`: whether something was read that deletes or writes, forbidden or not, or could not be read.
    """

    hits: tuple[Hit, ...]
    inconclusive: str | None
    texts: tuple[str, ...]
    changes: bool = False


def together(read: Sequence[Inspection]) -> Inspection:
    """What several readings of the same action found, each hit of a place once."""
    hits = {(hit.id, hit.path): hit for inspection in read for hit in inspection.hits}
    return Inspection(
        tuple(hits.values()),
        next((inspection.inconclusive for inspection in read if inspection.inconclusive is not None), None),
        tuple(dict.fromkeys(text for inspection in read for text in inspection.texts)),
        any(inspection.changes for inspection in read),
    )
