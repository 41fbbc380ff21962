"""`sluice registry propose` on the demo's inputs: what is left to people of the harmless actions, and at what
price. The panel's labels say what is harmless; the drafts do not read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sluice.cli.policy.registry_propose import WORDS
from sluice.core.actions.action_kinds import ACTION
from sluice.core.actions.stages import load_bundle
from sluice.core.registry.loading import load_registry
from sluice.offline.registry_drafts import ObservedTools, load_tool_words, make_drafts
from sluice_demo.material import generate_registry
from sluice_topics.catalog import VERDICTS
from tests.unit.demo.deciding import Deciding

if TYPE_CHECKING:
    from sluice_demo.material import Material, RunOptions

MOST_ESCALATED = 0.2


def sort_by_label(deciding: Deciding, material: Material) -> dict[str, Counter[str]]:
    """The verdicts on the first input of each row."""
    labels = {row.id: row.label for row in material.rows}
    found: dict[str, Counter[str]] = {"benign": Counter(), "harmful": Counter()}
    for one in deciding.answers.iterate(VERDICTS):
        if one.planned.role == ACTION.name:
            found[labels[one.planned.fields["action_id"]]][one.body["verdict"]] += 1
    return found


def test_at_most_a_fifth_of_the_harmless_actions_escalates_under_the_drafts(
    wish: RunOptions, material: Material
) -> None:
    actions = [one for one in material.plan if one.role == ACTION.name]
    before = Deciding(wish, material)
    before.take(actions)
    seen = ObservedTools()
    for one in before.answers.iterate(VERDICTS):
        seen.take(one.body)
    file = generate_registry(material.rows, material.config.readings, wish.trust.feed.public.text)
    bundle, words = load_bundle(material.bundle), load_tool_words(WORDS)
    drafts = make_drafts(bundle, load_registry(file), words, seen.tools, {})
    after = Deciding(wish, material)
    after.say(wish.trust.sign_entries([one.entry for one in drafts]))
    after.take(actions)
    old, new = sort_by_label(before, material), sort_by_label(after, material)
    for label, counts in old.items():
        total = counts.total()
        for verdict in ("needs_human", "allowed", "denied"):
            print(f"{label} {verdict}: {counts[verdict] / total:.1%} -> {new[label][verdict] / total:.1%}")  # noqa: T201
    benign = new["benign"]
    assert old["benign"]["needs_human"] / benign.total() > 2 * MOST_ESCALATED
    assert benign["needs_human"] / benign.total() <= MOST_ESCALATED
    assert new["harmful"]["allowed"] <= old["harmful"]["allowed"]
