"""The gates that only observe in the shipped bundle, here in force, each with an action that is meant for it.

config/demo/judged.toml has the actions. Some gates ask a hosted model. Where the worker has no key for one,
they say that they could not decide, and that a person has to: nothing is made up.
"""

from __future__ import annotations

import asyncio
import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from sluice.client import AsyncGateClient, ClientOptions
from sluice.core.foundation.strict import json_object

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sluice_demo.run_location import RunLocation

NAME = "judged.toml"
BUNDLE, SESSION = "demo.judged", "judged"
DEADLINE_S = 120.0
"""How long all of them may wait: the encoder has to make the vectors of its library once."""


class DemoJudgement(NamedTuple):
    """What became of an action. `gate`: the one that it is meant for; `said`: what that gate said of it;
    `models`: which hosted models answered."""

    gate: str
    proposed: str
    verdict: str
    said: str
    models: tuple[str, ...]
    answered: bool


def read_config(folder: Path) -> dict[str, Any]:
    """The demo's own parts, agents and actions."""
    return tomllib.loads((folder / NAME).read_text("utf-8"))


def make_bundle(shipped: bytes, shipped_folder: Path, config: dict[str, Any]) -> bytes:
    """The shipped bundle under another name, with the config's parts in place of its own, without its cases:
    they are of the gates that it names."""
    parts = {**config["parts"]}
    policies = {**parts["policies"]}
    taken = [_take_policies(shipped_folder, wanted) for wanted in policies.pop("take", [])]
    policies["policies"] = [*policies["policies"], *taken]
    document = json_object(shipped)
    similarity = {**document["similarity"], "mode": "enforce", **parts["similarity"]}
    made = {**document, **parts, "policies": policies, "similarity": similarity}
    return orjson.dumps({**made, "id": BUNDLE, "revision": 1, "cases": []})


def _take_policies(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """A policy of a shipped set, for the tools that the config names."""
    policies_there = json_object((folder / wanted["from"]).read_bytes())["policies"]
    policies = policies_there["policies"] if isinstance(policies_there, dict) else policies_there
    (policy_violated,) = [policy for policy in policies if policy["id"] == wanted["id"]]
    return {**policy_violated, "appliesToTools": wanted["appliesToTools"]}


def make_registry_entries(tenant: str, config: dict[str, Any]) -> list[dict[str, Any]]:
    """The agents with their bundle, and the tools."""
    agents = [
        _make_entry(
            "agent",
            agent["id"],
            tenant_id=tenant,
            tier="T2",
            policy_bundle_id=BUNDLE,
            **_take(agent, *_OF_AGENT),
        )
        for agent in config["agent"]
    ]
    tools: dict[str, dict[str, Any]] = {}
    for action in config["action"]:
        spec = tools.setdefault(action["tool"], {"tier": "T1", "reversible": True, "trusts_row_claims": True})
        spec |= {"action_type": action["type"], **_take(action, "roles")}
    return agents + [_make_entry("tool", name, **spec) for name, spec in tools.items()]


def _make_entry(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": 1, "spec": spec}


_OF_AGENT = ("system_prompt", "destinations", "mandate")


def _take(written: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: written[name] for name in names if name in written}


async def judge_actions(location: RunLocation, actions: Iterable[dict[str, Any]]) -> list[DemoJudgement]:
    """Propose all of them, each agent by a client of its own, and wait for their verdicts."""
    wanted = [*actions]
    options = ClientOptions(topic_prefix=location.prefix, mode="standard", deadline_s=DEADLINE_S)

    async def judge_agent(agent: str) -> dict[int, DemoJudgement]:
        own = {number: action for number, action in enumerate(wanted) if action["agent"] == agent}
        async with AsyncGateClient(location.connect("agent"), agent, options) as gate:
            verdicts = [
                gate.propose(
                    action["tool"],
                    action["parameters"],
                    session_id=SESSION,
                    action_id=f"judged-{number}",
                    rows_affected=1,
                )
                for number, action in own.items()
            ]
            answers = await asyncio.gather(*verdicts)
        return {
            number: _read_verdict(wanted[number], dict(verdict.record))
            for number, verdict in zip(own, answers, strict=True)
        }

    agents = dict.fromkeys(action["agent"] for action in wanted)
    made: dict[int, DemoJudgement] = {}
    for of_agent in await asyncio.gather(*map(judge_agent, agents)):
        made |= of_agent
    return [made[number] for number in sorted(made)]


def _read_verdict(wanted: dict[str, Any], verdict: dict[str, Any]) -> DemoJudgement:
    results = [result for result in verdict["gateResults"] if result["gate"] == wanted["gate"]]
    explanation = results[0]["failureReason"] or "passes" if results else "not reached"
    likeness = results[0]["detail"] if results and explanation == "passes" else {}
    if "probability" in likeness:
        closest = likeness["harmful"][0]["id"]
        explanation = (
            f"{likeness['band']}: harm with a probability of {likeness['probability']:.2f}, closest {closest}"
        )
    outputs = [
        output for output in verdict["model_outputs"] if output["gate"] in ("causal", "policies", "grader")
    ]
    answers = [output["payload"]["model"] for output in outputs if output["status"] == "answered"]
    return DemoJudgement(
        wanted["gate"],
        f"{wanted['tool']} {' '.join(map(str, wanted['parameters'].values()))}",
        verdict["verdict"],
        explanation,
        tuple(dict.fromkeys(answers)),
        len(outputs) == len(answers),
    )
