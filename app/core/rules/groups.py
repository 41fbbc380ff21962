"""Rules evaluated together: one list of their answers for one call of the evaluator.

A list has no value when one of its entries has none, so a group that cannot answer asks its parts, and at
last each rule alone: what one rule cannot tell changes nothing for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.cel.allowance import MAX_WORK
from app.core.cel.work import EVALUATION, NODE
from app.core.rules.citations import NO_FACTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from app.core.cel.evaluation import Evaluation
    from app.core.cel.language import Language
    from app.core.rules.compiled import CompiledRule
    from app.core.rules.results import RuleResult

LARGEST = 64
"""Rules of one list: another list costs 3 us, a longer one more wherever one of its rules is undecided."""
PARTS = 8
"""Rules of a part: one undecided rule of 64 then costs seventeen calls instead of 65."""
_CODE = 6 * NODE
"""Two choices between constants, and an entry of the list."""


class Group:
    """Rules that read no facts, in order."""

    def __init__(self, language: Language, rules: Sequence[CompiledRule]) -> None:
        """Every rule was compiled alone before."""
        self._rules = tuple(rules)
        fits = 1 < len(rules) <= LARGEST
        self._listing = language.listing([rule.coded for rule in rules]) if fits else None
        self._outcomes = [rule.outcomes for rule in rules]
        size = LARGEST if len(rules) > LARGEST else PARTS
        starts = range(0, len(rules), size) if len(rules) > size else ()
        self._parts = [Group(language, rules[start : start + size]) for start in starts]

    @property
    def enough(self) -> int:
        """The work of all rules alone up to which all lists can be tried in vain before, under MAX_WORK.

        A list makes the work of its rules once more, but for the calls: it is one call itself.
        """
        lists = [*self.lists()]
        calls = sum(len(rule.expressions) for one in lists for rule in one) - len(lists)
        codes = sum(map(len, lists)) * _CODE
        return min(MAX_WORK, (MAX_WORK + calls * EVALUATION - codes) // (1 + self.depth))

    def evaluate(self, asked: Evaluation) -> list[RuleResult]:
        """Every rule's result."""
        codes = None if self._listing is None else asked.values_of(self._listing)
        if codes is not None:
            return [outcomes[code] for outcomes, code in zip(self._outcomes, codes, strict=True)]
        if self._parts:
            return [result for part in self._parts for result in part.evaluate(asked)]
        return [rule.evaluate(asked, NO_FACTS) for rule in self._rules]

    @property
    def depth(self) -> int:
        """How many lists a rule is in at most."""
        return (self._listing is not None) + max((part.depth for part in self._parts), default=0)

    def lists(self) -> Iterator[tuple[CompiledRule, ...]]:
        """The rules of each list."""
        if self._listing is not None:
            yield self._rules
        for part in self._parts:
            yield from part.lists()
