"""The measurement of `destinations` on deployments: it counts rightly, and no fault is laxer."""

from __future__ import annotations

from functools import cache

import pytest

from load import flows
from load.flows import FAULTS, GATE, LOOKED_AT, SHIPPED, Configuration, JudgedFlows, Knowledge
from sluice.core.actions.destinations import NAME

DEPLOYMENTS = tuple(flows.load_deployment(name) for name in ("bank", "mail"))


@cache
def judge(configuration: str) -> JudgedFlows:
    fault = next((one for one in FAULTS if one == configuration), None)
    chosen = {"gate": GATE, "looked at": LOOKED_AT}.get(configuration, Configuration("", fault=fault))
    return flows.judge(chosen, DEPLOYMENTS)


def test_some_attacks_are_stopped_and_some_honest_tasks_pass() -> None:
    found = judge("gate").count()
    assert (found.attacks, found.honest) == (20, 30)
    assert 10 <= found.stopped < 20
    assert 15 <= found.free < 30


def test_what_is_computed_from_the_origins_is_what_the_gate_answers() -> None:
    assert flows.count_table(judge("looked at"), DEPLOYMENTS, SHIPPED) == judge("gate").count()
    for deployment in DEPLOYMENTS:
        by_gate, looked_at = (judge(name).honest[deployment.name] for name in ("gate", "looked at"))
        for task, seen in zip(by_gate, looked_at, strict=True):
            assert flows.Judge(deployment).holds_task(seen) is task.is_held(NAME)


def test_what_is_computed_of_task_and_history_is_what_the_gates_make_of_mandates_and_past_uses() -> None:
    known = Knowledge(trusted=True, task=True, history=14, answers_teach=True)
    expected = [known._replace(task=False), known._replace(history=0, answers_teach=False), known]
    for configuration, knowledge in zip(flows.IN_ORDER, expected, strict=True):
        by_gates = flows.judge(configuration, DEPLOYMENTS)
        assert by_gates.count() == flows.count_known(judge("looked at"), DEPLOYMENTS, knowledge)
        for one in DEPLOYMENTS:
            stopped = [task.is_held(NAME) for task in by_gates.attacks[one.name]]
            learnt = flows.learn(one, knowledge, judge("looked at").honest[one.name])
            assert stopped == [learnt.holds_task(task) for task in judge("looked at").attacks[one.name]]


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_of_outcomes_makes_the_gate_laxer(fault: str) -> None:
    found = flows.compare_fault(judge("gate"), judge(fault))
    assert found.laxer == 0
    assert found.stricter > 0 or fault in ALIKE


ALIKE = ("truncated", "forged before")
"""Where all that is missing is a value that was seen nowhere, which as shipped is asked about as well."""


def test_a_laxer_answer_is_noticed() -> None:
    with pytest.raises(flows.LaxerError):
        flows.compare_fault(judge("unreported"), judge("gate"))


def test_more_that_is_known_asks_less_and_what_is_taught_by_answers_is_more() -> None:
    known = Knowledge(trusted=True, task=True)
    shares = [
        flows.count_known(judge("looked at"), DEPLOYMENTS, one)
        for one in (
            known._replace(task=False),
            known,
            known._replace(history=10),
            known._replace(history=10, answers_teach=True),
        )
    ]
    assert shares[0] == judge("gate").count()
    assert [one.free for one in shares] == sorted(one.free for one in shares)
    assert [one.stopped for one in shares] == sorted((one.stopped for one in shares), reverse=True)


def test_longer_history_counts_the_same_tasks_for_each_length() -> None:
    known = Knowledge(trusted=True, task=True, answers_teach=True)
    counts = [
        flows.count_long(judge("looked at"), DEPLOYMENTS, known._replace(history=length))
        for length in flows.LONG_HISTORY
    ]
    assert {(one.attacks, one.honest) for one in counts} == {(20, 2 * flows.LAST_TASKS)}
    stopped, free = ([getattr(one, name) for one in counts] for name in ("stopped", "free"))
    assert stopped == sorted(stopped, reverse=True)
    assert free == sorted(free)
    assert free[-1] > free[0]


def test_only_a_persons_answer_lets_repeated_calls_teach() -> None:
    mail = flows.load_deployment("mail")
    few = flows.Deployment(mail.name, mail.tools, (), mail.attacks[:3], ())
    poisoned = flows.judge_poisoned(few)
    assert poisoned.before == poisoned.unanswered >= poisoned.approved
