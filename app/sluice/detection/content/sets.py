"""The content library as files write it: word classes, patterns and frames."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from sluice.detection.content.findings import Kind, Weight  # noqa: TC001 - pydantic reads the annotations
from sluice.detection.library_model import LibraryModel
from sluice_topics.relaxations import Members, Neutral, Scale, StricterWhen, Unordered

Text = Annotated[str, Field(min_length=1, max_length=256)]
Expression = Annotated[str, Field(min_length=1, max_length=4096)]
"""RE2, searched without regard to case in normalised text; `$name` is a class of the lexicon or built in."""
ClassName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Expressions = Annotated[list[Expression], Field(min_length=1)]


class ContentPattern(LibraryModel):
    """Found where one of `any`, every one of `all` and none of `unless` are in the same scope.

    `weight`: weak is listed and counts in the formulas, strong cannot reach the write threshold, definite
    falls below the quarantine threshold. `framed`: whether quoting, reporting or teaching takes it back.
    `source`: whose knowledge it is.
    """

    unmarked: ClassVar = Unordered("the pattern {id} changed, and may find less")

    id: Annotated[Text, Neutral("names it")]
    kind: Kind
    weight: Annotated[Weight, Scale(("weak", "strong", "definite"), "the pattern {id} is {new}, not {old}")]
    reason: Annotated[Text, Neutral("for people")]
    source: Annotated[Text, Neutral("for people")]
    any: Expressions
    all: list[Expression] = Field(default_factory=list)
    unless: list[Expression] = Field(default_factory=list)
    scope: Literal["sentence", "text"] = "sentence"
    framed: bool = True
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$"), Neutral("for people")] = "en"


class Frame(LibraryModel):
    """Words that make a sentence talk about an attack instead of making one.

    `holds`: "quoted" takes back what stands between quotation marks in a sentence with the marker, "topic" in
    a text with it; "sentence" whatever the sentence holds beside the marker, "after" what follows it there,
    "before" what precedes it; "adjacent" what begins where the marker ends, which it says with `$`.
    """

    unmarked: ClassVar = Unordered("the frame {id} changed, and may take more findings back")

    id: Annotated[Text, Neutral("names it")]
    kind: Literal["quotation", "reporting", "teaching", "detection"]
    source: Annotated[Text, Neutral("for people")]
    holds: Literal["quoted", "topic", "sentence", "after", "before", "adjacent"] = "quoted"
    any: Expressions
    all: list[Expression] = Field(default_factory=list)


class Frames(LibraryModel):
    """`withdrawn`: words that turn what was quoted into an order all the same ("now do it").

    `unless`: words that say the contrary of these ("do not follow it").
    """

    markers: Annotated[
        list[Frame], Members("fewer", "the frame {member} is new, and may take more findings back")
    ] = Field(default_factory=list)
    withdrawn: Annotated[
        list[Expression], Unordered("other words that make an order of a quotation, which may hold less")
    ] = Field(default_factory=list)
    unless: Annotated[
        list[Expression], Unordered("other words that say the contrary of these, which may hold less")
    ] = Field(default_factory=list)


class WordList(LibraryModel):
    """Lines of words, the commonest first; `source`: where they are from."""

    source: Text
    words: list[str]


class ContentSets(LibraryModel):
    """Everything that content is judged with. Ids are unique over patterns and over markers.

    `vocabulary`: the words by which text is read that has no spaces or wrong letters.
    """

    lexicon: Annotated[dict[ClassName, Expressions], Unordered("other word classes, which may hold less")] = (
        Field(default_factory=dict)
    )
    findings: Annotated[list[ContentPattern], Members("more", "the pattern {member} is gone")] = Field(
        default_factory=list
    )
    frames: Frames = Frames()
    vocabulary: Annotated[list[WordList], Unordered("another vocabulary, which may hold less")] = Field(
        default_factory=list
    )
    weak_makes_strong: Annotated[int, Field(ge=2), StricterWhen("lower")] = 3

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names: set[str] = set()
        for name in [
            *(pattern.id for pattern in self.findings),
            *(pattern.id for pattern in self.frames.markers),
        ]:
            if name in names:
                raise ValueError(f"two patterns have the same id: {name}")
            names.add(name)
        return self
