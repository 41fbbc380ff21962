"""What a signing agent tells of its chain follows from its parents' signed grants, or it is denied."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sluice.client import InputSigner, delegation_grant
from sluice_topics.audience import UNNAMED
from sluice_topics.catalog import ACTIONS
from tests.documents.blocks import blocks
from tests.unit.core.scene import MINUTE, START
from tests.unit.core.signing_scene import (
    CHILD,
    NEXT,
    OWN,
    STRANGE,
    Signing,
    key_entry,
    key_id,
    make_signing_agent,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

KEYS = {"root": OWN, "middle": NEXT, "leaf": CHILD}
ENTRIES = (
    make_signing_agent("root", key_entry(OWN), delegates_to=["middle"]),
    make_signing_agent("middle", key_entry(NEXT), callers=["root"], delegates_to=["leaf"]),
    make_signing_agent("leaf", key_entry(CHILD), callers=["middle"]),
)


def grant(parent: str, child: str, key: Ed25519PrivateKey | None = None, **changed: Any) -> dict[str, Any]:
    """What the client makes for a parent, changed before it is signed."""
    pem = (key or KEYS[parent]).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    given = {"session_id": "s-1", "until": _make_time(START + MINUTE), "max_depth": 1, **changed}
    signer = InputSigner(pem, UNNAMED)
    return delegation_grant(signer, (parent, child), given.pop("session_id"), given.pop("until"), **given)


def _make_time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def act(agent: str, told: dict[str, Any] | None, now: int = START, **fields: Any) -> dict[str, Any]:
    """The verdict on a signed action of an agent, which reruns the same."""
    case = Signing(entries=ENTRIES, now=now)
    found = case.verdict(case.sign(case.make(ACTIONS, agent, governanceContext=told, **fields), KEYS[agent]))
    assert {one.status for one in case.rerun_all()} == {"identical"}
    return found


TO_MIDDLE, TO_LEAF = grant("root", "middle"), grant("middle", "leaf", max_depth=0)


def test_a_chain_that_its_grants_prove_is_allowed_and_recorded() -> None:
    told = {"chainDepth": 2, "rootAgentId": "root", "parentAgentId": "middle", "grants": [TO_MIDDLE, TO_LEAF]}
    found = act("leaf", told)
    assert found["verdict"] == "allowed"
    assert found["gateResults"][0]["detail"] == {
        "root_agent_id": "root",
        "chain_depth": 2,
        "key_ids": [key_id(OWN), key_id(NEXT)],
    }
    assert {"agent/root@1", "agent/middle@1", "agent/leaf@1"} <= found["registry_hashes"].keys()


def test_the_grants_alone_give_the_depth_of_a_further_delegation() -> None:
    found = act("middle", {"grants": [TO_MIDDLE]}, delegate_to="leaf")
    topology = next(one for one in found["gateResults"] if one["gate"] == "topology")
    assert (found["verdict"], topology["detail"]["delegations"]) == ("allowed", 2)


def test_a_root_needs_no_grant() -> None:
    assert act("root", {"chainDepth": 0, "rootAgentId": "root"})["verdict"] == "allowed"


@pytest.mark.parametrize(
    ("agent", "told", "why"),
    [
        ("root", {"chainDepth": 1}, "names no grants"),
        ("root", {"rootAgentId": "middle"}, "names no grants"),
        ("leaf", {"chainDepth": 0}, "names no grants"),
        ("leaf", {"parentAgentId": "middle"}, "names no grants"),
        ("leaf", {"chainDepth": 1, "grants": [TO_MIDDLE, TO_LEAF]}, "chainDepth is 2"),
        ("leaf", {"rootAgentId": "leaf", "grants": [TO_MIDDLE, TO_LEAF]}, "rootAgentId is root"),
        ("leaf", {"parentAgentId": "root", "grants": [TO_MIDDLE, TO_LEAF]}, "parentAgentId is middle"),
        ("leaf", {"grants": [TO_MIDDLE]}, "the last grant is for middle"),
        ("leaf", {"grants": [TO_LEAF, TO_MIDDLE]}, "the last grant is for middle"),
        ("leaf", {"grants": [grant("root", "leaf")]}, "not_in_delegates_to"),
        ("leaf", {"grants": [grant("root", "middle", max_depth=0), TO_LEAF]}, "0 further delegations"),
        ("leaf", {"grants": [TO_MIDDLE, grant("root", "leaf")]}, "to whom nothing was granted"),
        ("middle", {"grants": [grant("root", "middle", STRANGE)]}, "unknown_key"),
        ("middle", {"grants": [grant("root", "middle", session_id="s-2")]}, "is for session s-2"),
        ("middle", {"grants": [grant("root", "middle", until=_make_time(START))]}, "counted until"),
        ("middle", {"grants": [grant("root", "middle", tools=["change"])]}, "does not name the tool find"),
        ("middle", {"grants": [{**TO_MIDDLE, "max_depth": 9}]}, "bad_signature"),
        ("middle", {"grants": [{**TO_MIDDLE, "until": "2027-02-30T00:00:00.000Z"}]}, "counted until"),
        ("middle", {"grants": [grant("operator", "middle", OWN)]}, "operator may not delegate"),
    ],
)
def test_a_chain_that_is_told_otherwise_than_its_grants_say_is_denied(
    agent: str, told: dict[str, Any], why: str
) -> None:
    found = act(agent, told)
    reason = found["blockReason"]
    assert (found["verdict"], reason.split(":")[0]) == ("denied", "delegation_unproven")
    assert why in reason


def test_a_revoked_parent_s_grants_count_no_more() -> None:
    revoked = make_signing_agent(
        "root", key_entry(OWN, revoked_at="2025-11-21T13:00:00.000Z"), delegates_to=["middle"]
    )
    case = Signing(entries=(revoked, *ENTRIES[1:]))
    made = case.make(ACTIONS, "middle", governanceContext={"grants": [TO_MIDDLE]})
    assert "revoked_key" in case.verdict(case.sign(made, NEXT))["blockReason"]


def test_what_an_agent_without_keys_tells_is_its_word_as_before() -> None:
    case = Signing(entries=ENTRIES)
    found = case.verdict(case.make(ACTIONS, "operator", governanceContext={"chainDepth": 2}))
    assert found["verdict"] == "allowed"
    assert found["gateResults"][0]["gate"] == "controls"


def test_the_lines_of_the_guide_make_a_chain_that_is_allowed() -> None:
    """Mend 22.21: as written, but for the session, the tool and the installation of the cases here."""
    (lines,) = [one.text for one in blocks("docs/signing-agents.md") if one.text.startswith("grant = ")]
    called: list[Any] = []
    child = SimpleNamespace(propose=lambda *args, **kwargs: called.append((args, kwargs)))
    pem = OWN.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    names = {
        "Audience": lambda _: UNNAMED,
        "InputSigner": InputSigner,
        "delegation_grant": delegation_grant,
        "parent_pem": pem,
        "until": _make_time(START + MINUTE),
    }
    here = lines.replace("ticket-4711", "s-1").replace('"search"', '"find"')
    exec(here, {**names, "child": child, "chain": []})  # noqa: S102 - our own
    ((tool, parameters), fields) = called[0]
    entries = (
        make_signing_agent("planner", key_entry(OWN), delegates_to=["researcher"]),
        make_signing_agent("researcher", key_entry(NEXT), callers=["planner"]),
    )
    case = Signing(entries=entries, now=START)
    made = case.make(ACTIONS, "researcher", toolName=tool, parameters=parameters, **fields)
    assert case.verdict(case.sign(made, NEXT))["verdict"] == "allowed"
