"""What `sluice evaluate --hosted` asks of the user's own models, and what that took and cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from sluice.bootstrap.model_ports import build_trial_model
from sluice.cli.output import clean, console
from sluice.core.foundation.content_judge import PORT as CONTENT
from sluice.core.memory.analysis import PORT as ANALYSIS
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sluice.adapters.models.guarded_model import GuardedModel
    from sluice.ports import Port
    from sluice.settings.reader import Settings

KINDS = ("input", "output", "cache_read", "cache_write")
MILLION = 1_000_000


class NoPrice(Exception):
    """A price that cannot be read; the message says why."""


def read_prices(words: Sequence[str]) -> dict[str, float]:
    """Prices of a million tokens by kind, of words such as `input=1.0`. Raises NoPrice."""
    prices = {}
    for word in words:
        kind, _, value = word.partition("=")
        try:
            price = float(value)
        except ValueError:
            price = -1.0
        if kind not in KINDS or not 0 <= price < MILLION:
            raise NoPrice(f"--price {word}: write one of {', '.join(KINDS)}, = and a number from 0")
        prices[kind] = price
    return prices


class HostedTrial:
    """The models of `[grader]` and `[analysis]`, as far as they are asked."""

    def __init__(self, settings: Settings, prices: Mapping[str, float]) -> None:
        """`prices`: of a million tokens, by kind."""
        self._settings = settings
        self._prices = prices
        self._models: defaultdict[str, list[GuardedModel]] = defaultdict(list)
        self._unanswered: Counter[str] = Counter()

    def build_ports(self, group: Literal["analysis", "grader"]) -> dict[str, Port]:
        """The ports of a group, of a model that closes with them. Raises PolicyError."""
        model, ports = build_trial_model(self._settings, group)
        self._models[group].append(model)
        return ports

    def note(self, unanswered: Mapping[str, int]) -> None:
        """Questions that got no answer, by port."""
        for port, count in unanswered.items():
            self._unanswered["analysis" if port in {ANALYSIS, CONTENT} else "grader"] += count

    def write_fields(self) -> dict[str, Any]:
        """Write by group: the model, calls, tokens, questions without an answer, and the cost; null where a
        kind of tokens was used whose price is unknown."""
        return {group: self._sum_group(group, models) for group, models in self._models.items()}

    def _sum_group(self, group: str, models: Sequence[GuardedModel]) -> dict[str, Any]:
        used: Counter[str] = Counter()
        for model in models:
            used.update(asdict(model.usage))
        fields = {"model": models[0].name, **used, "unanswered": self._unanswered[group]}
        tokens = {kind: used[kind] for kind in KINDS if used[kind]}
        has_prices = tokens.keys() <= self._prices.keys() and bool(self._prices)
        cost = (
            sum(count * self._prices[kind] for kind, count in tokens.items()) / MILLION
            if has_prices
            else None
        )
        return {**fields, "cost": cost}

    def print_costs(self) -> None:
        """A line for each model."""
        for group, fields in self.write_fields().items():
            tokens = ", ".join(f"{fields[kind]} {kind.replace('_', ' ')}" for kind in KINDS)
            cost = "unknown without --price" if fields["cost"] is None else f"{fields['cost']:.4f}"
            console.print(
                f"{group}: {clean(fields['model'])}, {count_noun(fields['calls'], 'call')}, "
                f"{count_noun(fields['unanswered'], 'question')} without an answer. "
                f"Tokens: {tokens}. Cost: {cost}.",
                soft_wrap=True,
            )
