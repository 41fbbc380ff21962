"""Running a bundle's own cases: each input through its gates under this bundle and a small registry."""

from __future__ import annotations

import json
from copy import copy
from typing import TYPE_CHECKING, Any

from sluice.core.actions.action_kinds import ACTION
from sluice.core.actions.action_similarity import ActionSimilarity, SimilarityPolicy
from sluice.core.actions.plan import sort_stages
from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.cases.case_failure import CaseFailure, add_places, describe_decision, make_unusable
from sluice.core.cases.quality_cases import run_quality_cases
from sluice.core.cases.write_cases import find_write_failures, make_answer
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import find_answer
from sluice.core.decide.replay import decide
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.errors import BundleError, RegistryError
from sluice.core.foundation.input_record import InputRecord
from sluice.core.foundation.limits import ROOM_FOR_ONE, SessionLimits
from sluice.core.foundation.strict import json_object
from sluice.core.policy.bundle_cases import LONGEST_MS, MOST_EARLIER
from sluice.core.policy.policy import Policy
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.core.quality_bundle.quality_bundle import QualityBundle, load_quality_bundle
from sluice.core.registry.loading import build_registry, make_neutral_agent, make_neutral_tool
from sluice.core.state.session import NEVER_DUE_MS, Counted, EntryKept, Moved, SessionState, session_key, who
from sluice_topics.record_reading import Unreadable, read
from sluice_topics.records import ProposedAction

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sluice.core.actions.stage import Stage
    from sluice.core.policy.bundle_cases import Case, Earlier
    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.registry import Registry
    from sluice.core.state.decision import Decision


__all__ = ["CaseFailure", "run_cases"]

TENANT = "case"
IDS = {"action_id": "case-action", "agent_id": "case-agent", "session_id": "case-session"}
NOT_EVALUATED = "not evaluated"
ROOM_FOR_MORE = SessionLimits(
    action_window_ms=LONGEST_MS,
    idle_timeout_ms=LONGEST_MS + 1,
    max_recent_actions=MOST_EARLIER + 1,
    max_early_outcomes=0,
)
"""Of a session in which earlier actions came."""


def run_cases(bundle: Bundle, stages: Sequence[Stage] | None = None) -> tuple[CaseFailure, ...]:
    """Every difference between what the bundle's cases expect and what its gates do. None: it passes them.

    `stages`: the gates that there are; None: those that ship. Pure; durations are zero.

    Raises UnknownStageError.
    """
    registered = list_shipped_stages() if stages is None else tuple(stages)
    order = sort_stages(bundle.stages, registered)
    return add_places(_find_failures(bundle, order, case) for case in bundle.cases)


def _find_failures(bundle: Bundle, stages: tuple[Stage, ...], case: Case) -> Iterator[CaseFailure]:
    if case.write is not None:
        yield from find_write_failures(bundle, case, case.write)
    elif case.action is not None:
        yield from _find_action_failures(bundle, stages, case, case.action)


def _find_action_failures(
    bundle: Bundle, stages: tuple[Stage, ...], case: Case, case_fields: dict[str, Any]
) -> Iterator[CaseFailure]:
    at_ms = read_milliseconds(case.at)
    own = {**IDS, **case_fields}
    steps = [
        (at_ms - step.before_ms, _fill_in_earlier(own, index, step))
        for index, step in enumerate(case.earlier)
    ]
    actions: list[ProposedAction] = []
    for _, fields in (*steps, (at_ms, own)):
        action = read(ProposedAction, json.dumps(fields).encode())
        if isinstance(action, Unreadable):
            yield make_unusable(case.name, ACTION, action)
            return
        actions.append(action)
    try:
        registry = _make_registry(case, actions)
    except RegistryError as error:
        yield CaseFailure(case.name, "registry", "entries that load", str(error))
        return
    policy = Policy({bundle.id: _remove_encoder(bundle, case)}, registry, bundle.id)
    limits = ROOM_FOR_ONE if not steps else ROOM_FOR_MORE
    point = DecisionPoint(policy, stages, limits, stopwatch=lambda: 0, environment=TENANT)
    began_ms = min((at for at, _ in steps), default=at_ms)
    state = _make_session(case, registry, actions[-1], began_ms)
    for position, (at, fields) in enumerate((*steps, (at_ms, own))):
        raw = json.dumps(fields).encode()
        input_record = InputRecord(ACTION.topic, 0, position, at, state.session_id.encode(), raw)
        decision = decide(point, input_record, state, make_answer(case))
        state.apply(decision.session)
    yield from _compare(case, decision)


def _remove_encoder(bundle: Bundle, case: Case) -> Bundle:
    """The bundle as it judges where only the case's own answers are to be had."""
    if EMBEDDING in case.answers or ActionSimilarity.name not in bundle.parts:
        return bundle
    judging = copy(bundle)
    judging.parts = {**bundle.parts, ActionSimilarity.name: SimilarityPolicy()}
    return judging


def _fill_in_earlier(own: dict[str, Any], index: int, earlier: Earlier) -> dict[str, Any]:
    ids = {name: own[name] for name in ("agent_id", "session_id")}
    return {**ids, "action_id": f"case-earlier-{index}", **earlier.action}


def _make_registry(case: Case, actions: Sequence[ProposedAction]) -> Registry:
    """The case's entries, its agents and its tools added neutrally where they are not among them; the rows
    that a case gives are its author's word, not an agent's."""
    registered = {(entry.kind, entry.id) for entry in case.registry}
    entries = list(case.registry)
    agents = dict.fromkeys(action.agent_id for action in actions)
    tools = dict.fromkeys(action.tool_name for action in actions)
    entries += [make_neutral_agent(TENANT, name) for name in agents if ("agent", name) not in registered]
    entries += [
        make_neutral_tool(name, trusts_row_claims=True) for name in tools if ("tool", name) not in registered
    ]
    return build_registry(entries)


def _make_session(case: Case, registry: Registry, action: ProposedAction, at_ms: int) -> SessionState:
    state = SessionState(session_key(action.session_id))
    so_far = case.session
    owner = who(registry.agents[action.agent_id].tenant, action.agent_id)
    read = (so_far.read or {}).items()
    state.apply(
        [
            Counted(owner.tenant, so_far.aggregate_rows_affected, so_far.aggregate_action_count),
            *(EntryKept(*owner, "read", kind, (times, at_ms, "case")) for kind, times in read),
            Moved(at_ms, at_ms, NEVER_DUE_MS),
        ]
    )
    return state


def _compare(case: Case, decision: Decision) -> Iterator[CaseFailure]:
    verdict = find_answer(decision, ACTION)
    if isinstance(verdict, Unreadable):
        yield make_unusable(case.name, ACTION, verdict)
        return
    actual = _summarize(verdict)
    expect, description = case.expect, describe_decision(actual["outcome"], actual["gate"], actual["reason"])
    wanted = {"outcome": expect.outcome, "gate": expect.gate, "tier": expect.tier}
    for name, expected in wanted.items():
        if expected is not None and actual[name] != expected:
            yield CaseFailure(case.name, name, expected, actual[name], description)
    if expect.reason is not None and not str(actual["reason"] or "").startswith(expect.reason):
        yield CaseFailure(case.name, "reason", expect.reason, actual["reason"], description)
    for rule, passed in expect.rules.items():
        result = actual["rules"].get(rule, NOT_EVALUATED)
        if result is not passed:
            yield CaseFailure(case.name, f"rules.{rule}", passed, result, description)


def _summarize(verdict: dict[str, Any]) -> dict[str, Any]:
    failed = [gate["gate"] for gate in verdict["gateResults"] if not gate["passed"]]
    return {
        "outcome": verdict["outcome"],
        "gate": failed[-1] if failed else None,
        "reason": verdict["blockReason"],
        "tier": verdict["tier"],
        "rules": {entry["rule"]: entry["passed"] for entry in verdict["rule_results"]},
    }


QUALITY_FIELD = "action_matrix"
"""Every quality bundle has it, and no policy bundle may."""


def is_quality(raw: bytes) -> bool:
    """Whether a bundle document means to be a quality bundle. Raises BundleError if it is not a document."""
    try:
        return QUALITY_FIELD in json_object(raw)
    except ValueError as error:
        raise BundleError(str(error)) from None


def load_any_bundle(raw: bytes) -> Bundle | QualityBundle:
    """The bundle in a file's bytes. Raises BundleError with the path and the reason."""
    return load_quality_bundle(raw) if is_quality(raw) else load_bundle(raw)


def count_own_cases(bundle: Bundle | QualityBundle) -> int:
    """How many cases it carries."""
    return len(bundle.file.cases if isinstance(bundle, QualityBundle) else bundle.cases)


def run_own_cases(bundle: Bundle | QualityBundle) -> tuple[CaseFailure, ...]:
    """The cases that fail. Raises UnknownStageError for a policy bundle with a stage that does not ship."""
    from sluice.core.cases.cases import run_cases  # noqa: PLC0415 - the whole decision; to sign a bundle needs none of it

    return run_quality_cases(bundle) if isinstance(bundle, QualityBundle) else run_cases(bundle)
