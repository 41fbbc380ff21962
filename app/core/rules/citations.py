"""From the facts that a bundle's rules name to the revisions that speak of an action's time."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from app.core.cel.evaluation import Allowance, Evaluation
from app.core.cel.language import ExpressionError, Failure
from app.core.rules.variables import milliseconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.cel.language import Expression, Language
    from app.core.registry.facts import Fact
    from app.core.rules.rule import FactReference
    from app.core.rules.variables import Cited

_MAX_NAMED_ID = 120


class Resolved(NamedTuple):
    """By alias: the facts that were found, and why the others were not."""

    facts: Mapping[str, Fact]
    missing: Mapping[str, str]


NO_FACTS = Resolved({}, {})


class Citation(NamedTuple):
    """A compiled reference; `id_from` is None where the id is written down, `valid_at` where now is meant."""

    fact_id: str | None
    id_from: Expression | None
    valid_at: Expression | None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """What must be evaluated to know which fact is meant."""
        return tuple(one for one in (self.id_from, self.valid_at) if one is not None)


def citation(language: Language, alias: str, reference: FactReference) -> Citation:
    """Raises ExpressionError when one of the reference's expressions is refused; it names the field."""
    moment = None if reference.valid_at_from is None else f"timestamp({reference.valid_at_from}\n)"
    return Citation(
        reference.id,
        _compiled(language, f"facts.{alias}.id_from", reference.id_from, ("STRING", "DYN")),
        _compiled(language, f"facts.{alias}.valid_at_from", moment, ("TIMESTAMP",)),
    )


def _compiled(
    language: Language, field: str, source: str | None, types: tuple[str, ...]
) -> Expression | None:
    if source is None:
        return None
    try:
        return language.compile(source, types)
    except ExpressionError as error:
        raise ExpressionError(f"{field}: {error.message}") from None


class Citations:
    """All facts that the rules of a bundle may cite, by alias."""

    def __init__(self, language: Language, citations: Mapping[str, Citation]) -> None:
        """Compiled in this language."""
        self._language = language
        self._citations = citations
        self.expressions = [one for citation in citations.values() for one in citation.expressions]
        """All expressions in the references."""
        self._together = Allowance(self.expressions)

    def resolve(self, variables: Mapping[str, Any], cited: Cited) -> Resolved:
        """The revisions valid at each reference's time, as the registry knows them."""
        if not self._citations:
            return NO_FACTS
        facts: dict[str, Fact] = {}
        missing: dict[str, str] = {}
        asked = Evaluation(self._language, self._together, variables) if self.expressions else None
        for alias, citation in self._citations.items():
            found = _resolve(citation, asked, cited)
            if isinstance(found, Failure):
                missing[alias] = f"unresolved_fact: {alias}: {found.message}"
            else:
                facts[alias] = found
        return Resolved(facts, missing)


def _resolve(citation: Citation, asked: Evaluation | None, cited: Cited) -> Fact | Failure:
    fact_id, at_ms = citation.fact_id, cited.now_ms
    if asked is not None and citation.id_from is not None:
        fact_id = asked.value_of(citation.id_from)
    if asked is not None and citation.valid_at is not None:
        moment = asked.value_of(citation.valid_at)
        if not isinstance(moment, datetime):
            return moment if isinstance(moment, Failure) else Failure("valid_at_from yields no time")
        at_ms = milliseconds(moment)
    if not isinstance(fact_id, str):
        return fact_id if isinstance(fact_id, Failure) else Failure("id_from yields no text")
    found = cited.fact(fact_id, at_ms)
    return found or Failure(f"no revision of {fact_id[:_MAX_NAMED_ID]} is valid at that time")
