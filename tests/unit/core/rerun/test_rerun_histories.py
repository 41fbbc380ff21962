"""Whatever a session has gone through, each of its decisions on memories comes out the same again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.rerun.test_rerun_memory import BAD, GOOD, HELD, case
from tests.unit.core.scene import LIMITS, MINUTE

if TYPE_CHECKING:
    from sluice.core.foundation.limits import SessionLimits

SCRIPTS = st.lists(
    st.fixed_dictionaries(
        {
            "write_id": st.sampled_from(["a", "b", "c"]),
            "session_id": st.sampled_from(["s-1", "s-2"]),
            "agent_id": st.sampled_from(["operator", "trial", "other", "nobody"]),
            "content": st.sampled_from([GOOD, HELD, BAD]),
            "source": st.fixed_dictionaries(
                {
                    "id": st.sampled_from(["crm", "web"]),
                    "type": st.sampled_from(["user", "system", "external"]),
                }
            ),
            "derived_from": st.lists(
                st.integers(0, 8).map("memory:gate.memory.writes.proposed:3:{}".format), max_size=2
            ),
            "wait": st.sampled_from([0, 40 * MINUTE, 25 * 60 * MINUTE]),
            "review": st.sampled_from([None, "approve", "reject"]),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(
    SCRIPTS,
    st.sampled_from([LIMITS, replace(LIMITS, max_recent_writes=2, max_known_sources=1, max_quarantine=1)]),
)
def test_whatever_went_before_each_decision_comes_out_the_same(
    script: list[dict[str, Any]], limits: SessionLimits
) -> None:
    of = case(limits=limits)
    for step in script:
        fields = dict(step)
        of.now += fields.pop("wait")
        review = fields.pop("review")
        memory = of.remember(**fields)
        if review is not None and memory["action"] == "quarantine":
            of.review(memory, review)
    assert [one for one in of.rerun_all() if one.status != "identical"] == []
