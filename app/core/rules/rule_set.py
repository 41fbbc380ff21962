"""The rules of a bundle, as written and as compiled (seed 000, Stage 1).

An invariant and an assertion must hold, what is forbidden must not. The difference between the first two is
who may overrule them: a person an assertion, nobody an invariant or what is forbidden.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from cel_expr_python import cel
from pydantic import Field, model_validator

from app.core.cel.allowance import MAX_WORK, Allowance
from app.core.cel.bounds import MAX_SOURCE
from app.core.cel.evaluation import Evaluation
from app.core.cel.language import ExpressionError, Language
from app.core.cel.sizes import NOTHING
from app.core.cel.work import coarse
from app.core.errors import BundleError
from app.core.rules.citations import Citation, Citations, citation
from app.core.rules.compiled import FACTS, CompiledRule
from app.core.rules.groups import Group
from app.core.rules.variables import VARIABLES, known_as
from app.core.strict import StrictModel
from topics.records.base import Severity  # noqa: TC001 - pydantic reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from app.core.rules.results import RuleResult
    from app.core.rules.variables import Cited

Made = TypeVar("Made")
Name = Annotated[str, Field(min_length=1, max_length=256)]
Source = Annotated[str, Field(min_length=1, max_length=MAX_SOURCE)]
Alias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]


class FactReference(StrictModel):
    """Which fact: `id`, or `id_from`, a CEL string. Valid when: `valid_at_from`, a CEL timestamp or RFC 3339
    text, else the broker's time of the input."""

    id: Name | None = None
    id_from: Source | None = None
    valid_at_from: Source | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.id is None) == (self.id_from is None):
            raise ValueError("give one of id and id_from")
        return self


class Rule(StrictModel):
    """`when` and `condition` are CEL and yield bool; a rule whose `when` is false has passed.

    `reason` is what a person reads when the rule fails; `facts` are read as `facts.<alias>`.
    """

    id: Name
    type: Literal["invariant", "assertion", "forbidden"]
    description: str = ""
    reason: Name
    severity: Severity = "critical"
    when: Source | None = None
    condition: Source
    facts: dict[Alias, FactReference] = Field(default_factory=dict)


class RuleSet:
    """The compiled rules of one bundle, evaluated together."""

    def __init__(self, rules: list[Rule]) -> None:
        """Raises BundleError, with the path, for the first rule refused: alone or beside the others."""
        _check_together(rules)
        types = {name: known.type for name, known in VARIABLES.items()}
        self._citations = _citations(Language(types), rules)
        aliases = {f"{FACTS}{alias}": cel.Type.DYN for rule in rules for alias in rule.facts}
        self._language = Language(types | aliases)
        self._rules = [
            _placed(index, partial(CompiledRule, self._language, rule)) for index, rule in enumerate(rules)
        ]
        expressions = [one for rule in self._rules for one in rule.expressions]
        if coarse(one.work for one in expressions).bound(NOTHING) > MAX_WORK:
            raise BundleError("$.rules: too many to be decided together in time")
        self._group = Group(self._language, [rule for rule in self._rules if not rule.cites])
        self._together = Allowance(expressions, self._group.enough)
        read = {path[0] for one in (*expressions, *self._citations.expressions) for path in one.reads}
        self.variables = known_as(read)
        """The variables that some rule reads: all that `evaluate` needs."""

    def __len__(self) -> int:
        return len(self._rules)

    def evaluate(self, variables: Mapping[str, Any], cited: Cited) -> list[RuleResult]:
        """Every rule's result, in the bundle's order."""
        resolved = self._citations.resolve(variables, cited)
        facts = {f"{FACTS}{alias}": fact.value for alias, fact in resolved.facts.items()}
        asked = Evaluation(self._language, self._together, variables, facts)
        if not asked.roomy:
            return [rule.evaluate(asked, resolved) for rule in self._rules]
        found = self._group.evaluate(asked)
        if len(found) == len(self._rules):
            return found
        free = iter(found)
        return [rule.evaluate(asked, resolved) if rule.cites else next(free) for rule in self._rules]


def _citations(language: Language, rules: list[Rule]) -> Citations:
    known: dict[str, Citation] = {}
    for index, rule in enumerate(rules):
        for alias, reference in rule.facts.items():
            known[alias] = _placed(index, partial(citation, language, alias, reference))
    return Citations(language, known)


def _placed(index: int, step: Callable[[], Made]) -> Made:
    try:
        return step()
    except ExpressionError as error:
        raise _refused(index, error.message) from None


def _refused(index: int, message: str) -> BundleError:
    return BundleError(f"$.rules[{index}].{message}")


def _check_together(rules: list[Rule]) -> None:
    ids: set[str] = set()
    meant: dict[str, FactReference] = {}
    for index, rule in enumerate(rules):
        if rule.id in ids:
            raise _refused(index, f"id: another rule is called {rule.id} too")
        ids.add(rule.id)
        for alias, reference in rule.facts.items():
            if meant.setdefault(alias, reference) != reference:
                raise _refused(index, f"facts.{alias}: the alias names another fact in another rule")
