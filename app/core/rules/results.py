"""What a rule came to, and how a verdict's rule_results say it (seed 000)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.core.facts import Fact
    from app.core.rules.rule_set import Rule


@dataclass(frozen=True)
class RuleResult:
    """`passed` None is inconclusive, `why` then says what was missing; `applies` False: its `when` was false.

    `facts`: those that it used, by alias.
    """

    rule: Rule
    passed: bool | None
    why: str | None = None
    applies: bool = True
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The entry of rule_results. Only a failed assertion may be overridden by a person (product.md).

        Built once and shared by every verdict that says the same of a rule: it is written out, never into.
        """
        rule = self.rule
        said: dict[str, Any] = {"rule": rule.id, "type": rule.type, "passed": self.passed}
        if not self.applies:
            said["applies"] = False
        if self.facts:
            said["facts"] = {alias: fact.key for alias, fact in self.facts.items()}
        if self.passed is not True:
            said["severity"] = rule.severity
            said["reason"] = rule.reason if self.why is None else f"inconclusive: {self.why}"
        if self.passed is False:
            said["overridable"] = rule.type == "assertion"
        return said
