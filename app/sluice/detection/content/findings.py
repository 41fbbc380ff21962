"""What a text was found to hold: values, which trust scoring weighs and the ledger keeps."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Kind = Literal[
    "instruction_override",
    "identity_change",
    "goal_change",
    "exfiltration",
    "persistence",
    "tool_smuggling",
    "memory_poisoning",
    "hidden_markup",
    "disguise",
    "harmful_capability",
]
Weight = Literal["weak", "strong", "definite"]


class Finding(NamedTuple):
    """One pattern found. `form`: the disguises taken off, outermost first ("plain", "base64 > look-alike").

    `start` and `end` count characters in the form's text. A framed finding (quoted, reported, taught) is
    listed with weight "weak" whatever its pattern weighs. `field`: in whose text it is, None for the content;
    the place then counts in what the field says in words.
    """

    id: str
    kind: Kind
    weight: Weight
    form: str
    reason: str
    source: str
    framed: bool
    start: int
    end: int
    field: str | None = None

    @property
    def named(self) -> str:
        """Its id, and where it is if that is not the content."""
        return self.id if self.field is None else f"{self.id} in {self.field}"


class ContentInspection(NamedTuple):
    """All that was found in a text of `characters` characters.

    `removed_share`: the share of characters that normalising took away (invisible characters, tags);
    `special_share`: that of characters which are neither letter, digit nor white space; both 0..1.
    `inconclusive`: the bound that was passed; the text was then judged by a linear scan alone.
    """

    findings: tuple[Finding, ...]
    characters: int
    removed_share: float
    special_share: float
    inconclusive: str | None


def make_finding_fields(finding: Finding) -> dict[str, Any]:
    """A finding as records carry it; one in the content names no field."""
    fields = {
        "id": finding.id,
        "kind": finding.kind,
        "weight": finding.weight,
        "form": finding.form,
        "reason": finding.reason,
        "source": finding.source,
        "framed": finding.framed,
        "start": finding.start,
        "end": finding.end,
    }
    return fields if finding.field is None else {**fields, "field": finding.field}
