"""Running a bundle's case of a memory write: the memory gate under this bundle and a small registry."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

from sluice.core.actions.stages import list_shipped_stages
from sluice.core.cases.case_failure import CaseFailure, describe_decision, make_unusable
from sluice.core.decide.decision_point import DecisionPoint
from sluice.core.decide.kinds import find_answer
from sluice.core.decide.replay import decide_alone
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.errors import RegistryError
from sluice.core.foundation.limits import ROOM_FOR_ONE
from sluice.core.foundation.requests import Answer
from sluice.core.memory.analysis import PORT as ANALYSIS
from sluice.core.memory.memory_kinds import WRITE
from sluice.core.policy.policy import Policy
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.core.registry.loading import build_registry, make_neutral_agent
from sluice_topics.record_reading import Unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sluice.core.foundation.requests import Request
    from sluice.core.metadata.write_quality import WriteQuality
    from sluice.core.policy.bundle_cases import Case
    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.registry import Registry
    from sluice.core.state.decision import Decision


ANY_CLASS = "note"
SOURCE_ID = "neutral-source"
_ELSEWHERE = "neutral.example/record"
_SOME_HASH = "sha256:" + "0" * 64


def make_neutral_metadata(quality: WriteQuality, at: str) -> dict[str, Any]:
    """The quality fields of a write in which `quality` finds no fault; `at`: its time, RFC 3339."""
    return {
        "content_class": quality.content_classes[0] if quality.content_classes else ANY_CLASS,
        "timestamp": at,
        "confidence_score": 1,
        "provenance_uri": f"{quality.provenance_schemes[0]}://{_ELSEWHERE}",
        "provenance_hash": _SOME_HASH,
    }


TENANT = "case"
IDS = {"write_id": "case-write", "agent_id": "case-agent", "session_id": "case-session"}
ABSENT = "not found"


def find_write_failures(bundle: Bundle, case: Case, write: dict[str, Any]) -> Iterator[CaseFailure]:
    """Every difference between what the case expects and what the memory gate does. Pure."""
    record = {**_make_neutral(bundle, case), **write}
    try:
        registry = _make_registry(case, record)
    except RegistryError as error:
        yield CaseFailure(case.name, "registry", "entries that load", str(error))
        return
    judging = _remove_ports(bundle, case)
    policy = Policy({bundle.id: judging}, registry, bundle.id)
    point = DecisionPoint(
        policy, list_shipped_stages(), ROOM_FOR_ONE, stopwatch=lambda: 0, environment=TENANT
    )
    at_ms = read_milliseconds(case.at)
    yield from _compare(case, decide_alone(point, WRITE, record, at_ms, answer=make_answer(case)))


def _make_neutral(bundle: Bundle, case: Case) -> dict[str, Any]:
    source = {"id": SOURCE_ID, "type": "user"}
    return {**IDS, "source": source, **make_neutral_metadata(bundle.memory.quality, case.at)}


def _make_registry(case: Case, record: dict[str, Any]) -> Registry:
    """The case's entries, its agent added neutrally where it is not among them."""
    registered = {(entry.kind, entry.id) for entry in case.registry}
    agent = str(record["agent_id"])
    more = [] if ("agent", agent) in registered else [make_neutral_agent(TENANT, agent)]
    return build_registry([*case.registry, *more])


def _remove_ports(bundle: Bundle, case: Case) -> Bundle:
    """The bundle as it judges where only the case's own answers are to be had."""
    memory, asked = bundle.memory, case.answers
    when = memory.trust.llm_analysis if ANALYSIS in asked else "off"
    trust = memory.trust.model_copy(update={"llm_analysis": when})
    similarity = memory.similarity if EMBEDDING in asked else None
    judging = copy(bundle)
    judging.memory = memory.model_copy(update={"trust": trust, "similarity": similarity})
    return judging


def make_answer(case: Case) -> Callable[[Request], Answer]:
    """What the case says that a port answers."""
    answers: dict[str, Any] = dict(case.answers.items())

    def answer(request: Request) -> Answer:
        if request.port in answers:
            return Answer("answered", answers[request.port])
        return Answer("unavailable", detail=f"the case has no answer of {request.port}")

    return answer


def _compare(case: Case, decision: Decision) -> Iterator[CaseFailure]:
    actual, expect = find_answer(decision, WRITE), case.expect
    if isinstance(actual, Unreadable):
        yield make_unusable(case.name, WRITE, actual)
        return
    came = describe_decision(actual["action"], None, actual["reason"])
    if actual["action"] != expect.action:
        yield CaseFailure(case.name, "action", expect.action, actual["action"], came)
    if expect.reason is not None and not actual["reason"].startswith(expect.reason):
        yield CaseFailure(case.name, "reason", expect.reason, actual["reason"], came)
    ids = {finding["id"] for finding in actual["findings"]}
    for missed in [finding for finding in expect.findings if finding not in ids]:
        yield CaseFailure(case.name, "findings", missed, ABSENT, came)
