"""The port `closest` on the real encoder: which policies of a bundle an action is near to."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from sluice.adapters.sentence_encoder import ClosestTexts, SentenceEncoder
from sluice.core.actions.closest import NamedTexts, ask_for_closest, read_closest
from sluice.offline.bundle_source import SHIPPED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.model
POLICIES: list[dict[str, Any]] = [
    one
    for name in ("gdpr", "soc2")
    for one in json.loads((SHIPPED / "policies" / f"{name}.json").read_text())["policies"]
]
TITLES = {one["id"]: one["title"] for one in POLICIES}
SHELF = NamedTexts.of({one["id"]: f"{one['title']}: {one['text']}" for one in POLICIES})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def encoder() -> AsyncIterator[SentenceEncoder]:
    made = SentenceEncoder(libraries=[SHELF])
    await made.start()
    yield made
    await made.close()


async def measure_nearness(encoder: SentenceEncoder, text: str, most: int = 5) -> dict[str, float]:
    payload = ask_for_closest(text, SHELF, most, 1000).payload
    found = read_closest(await ClosestTexts(encoder).ask(payload), SHELF)
    assert found is not None
    return found


NEAR = (
    ("monitoring.mute", {"alert": "disk full", "muted": True}, "Monitoring"),
    ("storage.delete_backup", {"bucket": "nightly-backups"}, "Backups and recovery"),
    ("firewall.add_rule", {"rule": "allow 0.0.0.0/0 port 22"}, "Protection at the boundary"),
    ("crm.note", {"diagnosis": "depression", "patient": "p-3"}, "Special categories"),
    ("marketing.subscribe", {"user": "u-7", "withdrew_consent": True}, "Withdrawn consent"),
)


@pytest.mark.parametrize(("tool", "parameters", "title"), NEAR)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_policy_that_concerns_an_action_is_among_the_closest(
    encoder: SentenceEncoder, tool: str, parameters: dict[str, Any], title: str
) -> None:
    found = await measure_nearness(encoder, json.dumps({"parameters": parameters, "tool": tool}))
    assert title in [TITLES[one] for one in found]
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert len(found) == 5


@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_is_closest_to_itself_and_a_long_one_is_read_in_windows(
    encoder: SentenceEncoder,
) -> None:
    for place in (0, 7, len(SHELF.ids) - 1):
        alone = await measure_nearness(encoder, SHELF.texts[place], 1)
        assert list(alone) == [SHELF.ids[place]]
        assert alone[SHELF.ids[place]] == pytest.approx(1, abs=0.01)
    hidden = "The weather is fine. " * 120 + SHELF.texts[7] + " The weather is fine." * 120
    assert SHELF.ids[7] in await measure_nearness(encoder, hidden, 3)
    assert await measure_nearness(encoder, "") == {}
