"""Whether what agents did under mandates and limits may be so, from the inputs and the ledger alone.

Imports nothing of the core. What an action comes to, under which mandate and with which origin, the rerun
says: it decides each action again in its session (load/recomputation/reruns.py). Held together here is what
a rerun believes of a record or does not read:

- no limit is exceeded: what was allowed within any of its windows, over all partitions, by the latest time
  that each partition had seen (docs/limits.md), is at most the limit,
  and each action fits into what its partition said was left; a destination that an outcome of an action that
  was held had brought before counts as used, and not as allowed;
- what a partition said that it had used is no less than what it had allowed, so nothing was forgotten;
- a mandate that an action of its session found revoked stays so, also under a next owner of the partition,
  which may lag behind the one before;
- an action teaches once, and only after it was carried out under a signature and its destination was known by
  registry or mandate; counts are the sum of these uses.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from load.installations.task_policy import (
    COUNT_LIMIT,
    DISTINCT_LIMIT,
    LIMITS,
    PAY,
    ROW_LIMIT,
    SUM_LIMIT,
    derive_values_key,
    is_of_tasks,
)
from load.recomputation import figures
from load.recomputation.input_answers import account, place_of
from load.recomputation.stored_sessions import VALUES, read_stored_sessions
from sluice_topics.catalog import ACTIONS, MANDATES, OUTCOMES
from sluice_topics.values import fingerprint, read_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from load.installations.installation import Evidence
    from load.recomputation.figures import RunFigure
    from load.recomputation.input_answers import AnswerAccount

VERDICT, SETTLED = "sluice/verdict/v1", "sluice/reservation_settled/v1"
RECORDED = "sluice/mandate_recorded/v1"
MOST_INDEX_BYTES = 16_384
MOST_LESSONS = 16
"""Of one agent in a session: actions whose outcome will teach."""
THOUSANDTHS = 1000
OUTSIDE = ("none_named", "absent", "ended", "over", "condition", "count")
ORIGINS = (
    *("task", "registry", "history", "peers", "trusted_result", "untrusted_read", "unknown"),
    "nowhere",
)


@dataclass(frozen=True, slots=True)
class _Use:
    """What an allowed action adds to limits. `at_ms`: the latest broker time of an action that its partition
    had counted by then; `rows`: the fewest that it ever counted."""

    partition: int
    at_ms: int
    agent: str
    tool: str
    rows: int
    amount: int
    to: str


@dataclass(slots=True)
class _RecountedSession:
    """What the ledger has said of a session so far. `allowed`: actions by their ids; `lessons`: by agent
    allowed actions that will teach, with their fingerprints; `revoked`: mandates that an action found so."""

    allowed: dict[str, dict[str, Any]] = field(default_factory=dict)
    lessons: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    revoked: set[str] = field(default_factory=set)


class TaskRecount:
    """One run. `problems` by what is wrong, `tally` counts what happened."""

    def __init__(self, answers: AnswerAccount) -> None:
        self._answers = answers
        self._key = derive_values_key()
        self._sessions: dict[str, _RecountedSession] = defaultdict(_RecountedSession)
        self._uses: dict[str, _Use] = {}
        self._spent: dict[tuple[str, str, int], list[_Use]] = defaultdict(list)
        self._clock_ms: dict[int, int] = defaultdict(int)
        self._held: dict[str, tuple[int, str]] = {}
        self._happened: set[tuple[int, str]] = set()
        self._due: Counter[tuple[str, str, str]] = Counter()
        self.tally: Counter[str] = Counter()
        self.problems: dict[str, list[str]] = defaultdict(list)

    def fold(self, ledger: Iterable[dict[str, Any]]) -> None:
        """All records of all partitions, each in the order of its chain."""
        for body in ledger:
            coordinates = place_of(body)
            answered = None if coordinates is None else self._answers.inputs.get(coordinates)
            if answered is None or not answered.readable:
                continue
            if body["schema"] == RECORDED:
                self.tally["mandates"] += 1
                self.tally["mandates_within"] += bool(answered.message.get("parents"))
            elif body["schema"] == SETTLED and not body["early"]:
                self._take_outcome(answered.message, body)
            elif body["schema"] == VERDICT:
                self._take_verdict(answered.message, body)
        self._check_limits()

    def _take_outcome(self, outcome: dict[str, Any], body: dict[str, Any]) -> None:
        session = self._sessions[outcome["session_id"]]
        name = outcome["action_id"]
        action = session.allowed.get(name)
        if name in self._held:
            self._happened.add(self._held[name])
        if not body["signed"]:
            return
        if name in self._uses:
            use = self._uses[name]
            self._uses[name] = replace(use, rows=min(use.rows, outcome["rows_affected"]))
        lesson = None if action is None else session.lessons[action["agent_id"]].pop(name, None)
        if lesson is not None and not body["disputed"]:
            self._due[name, outcome["session_id"], lesson] += 1

    def _take_verdict(self, action: dict[str, Any], body: dict[str, Any]) -> None:
        if body["duplicate_of"] is not None:
            return
        session = self._sessions[action["session_id"]]
        if body["session"].get("limits"):
            latest_ms = max(self._clock_ms[body["partition"]], body["input"]["timestamp"])
            self._clock_ms[body["partition"]] = latest_ms
        origin = self._take_gates(body)
        if (mandate := body["session"].get("mandate")) is not None:
            if mandate.get("void", "").startswith("revoked by "):
                session.revoked.add(mandate["digest"])
            elif mandate["digest"] in session.revoked:
                self.problems["revoked_mandates_back"].append(str(place_of(body)))
        if body["outcome"] != "ALLOW":
            self.tally["held"] += 1
            self._held[action["action_id"]] = body["partition"], action["parameters"].get("to", "")
            return
        self.tally["allowed"] += 1
        session.allowed[action["action_id"]] = action
        self._use_limits(action, body)
        if action["toolName"] == PAY and origin in ("task", "registry"):
            lessons = session.lessons[action["agent_id"]]
            while len(lessons) >= MOST_LESSONS:
                del lessons[next(iter(lessons))]
            to = read_value(action["parameters"]["to"])
            lessons[action["action_id"]] = fingerprint(self._key, to).hex()

    def _take_gates(self, body: dict[str, Any]) -> str | None:
        """Note what the gates said; the origin of the action's destination, None where nobody looked."""
        gates = {result["gate"]: result["detail"] for result in body["gateResults"]}
        outside = gates.get("mandate", {}).get("outside")
        self.tally[f"outside {outside}"] += outside is not None
        for spent in gates.get("limits", {}).get("spent") or ():
            self.tally[f"spent {spent['limit']}"] += 1
        origin = next(iter(gates.get("destinations", {}).get("origins") or ()), None)
        self.tally[f"origin {origin}"] += 1
        return origin

    def _use_limits(self, action: dict[str, Any], body: dict[str, Any]) -> None:
        parameters = action["parameters"]
        use = _Use(
            body["partition"],
            self._clock_ms[body["partition"]],
            action["agent_id"],
            action["toolName"],
            action["rows_affected"],
            parameters.get("amount", 0),
            parameters.get("to", ""),
        )
        limits = body["session"].get("limits") or {}
        for name, spec in LIMITS.items():
            if "tools" in spec and use.tool not in spec["tools"]:
                continue
            where, used = (name, _find_subject(name, use), use.partition), limits.get(name)
            if used is None or used["used"] is None:
                self.problems["limits_exceeded"].append(f"{body['verdict_id']}: {name} was not looked up")
                continue
            adds = used["new"] if name == DISTINCT_LIMIT else self._measure(name, [use])
            if adds and used["used"] + adds > used["share"]:
                self.problems["limits_exceeded"].append(f"{body['verdict_id']}: {name}: {used}, adds {adds}")
            before = [earlier for earlier in self._spent[where] if _is_within(earlier, use, spec)]
            least = self._measure(name, before)
            if "slow" not in parameters and name != ROW_LIMIT and used["used"] < least:
                text = f"{body['verdict_id']}: {name} has used {used['used']}, recounted {least}"
                self.problems["limits_forgotten"].append(text)
            self._spent[where].append(use)
        self._uses[action["action_id"]] = use

    def _check_limits(self) -> None:
        by_limit: dict[tuple[str, str], list[_Use]] = defaultdict(list)
        for use in self._uses.values():
            for name, spec in LIMITS.items():
                if "tools" not in spec or use.tool in spec["tools"]:
                    by_limit[name, _find_subject(name, use)].append(use)
        for (name, subject), uses in by_limit.items():
            spec = LIMITS[name]
            scale = THOUSANDTHS if name == SUM_LIMIT else 1
            most = max(
                self._list_windows(name, sorted(uses, key=lambda spent: spent.at_ms), spec["window_ms"])
            )
            self.tally[f"most {name}"] = max(self.tally[f"most {name}"], most // scale)
            if most > spec["most"] * scale:
                self.problems["limits_exceeded"].append(f"{name} of {subject}: {most / scale}")

    def _list_windows(self, name: str, uses: list[_Use], window_ms: int) -> Iterator[int]:
        """What each window that ends with an action holds; `uses` in the order of time."""
        first = 0
        for last, use in enumerate(uses):
            while uses[first].at_ms <= use.at_ms - window_ms:
                first += 1
            yield self._measure(name, uses[first : last + 1])

    def _measure(self, name: str, uses: list[_Use]) -> int:
        if name == DISTINCT_LIMIT:
            return len({(use.partition, use.to) for use in uses} - self._happened)
        if name == COUNT_LIMIT:
            return len(uses)
        return sum(use.rows if name == ROW_LIMIT else use.amount * THOUSANDTHS for use in uses)

    def check_learnt(self, evidence: Evidence) -> None:
        """What was learnt is what actions had to teach, once each, and counts are its sum."""
        mine = [json.loads(use.value or b"null") for use in evidence.uses]
        learnt = Counter(
            (use["action_id"], fingerprint)
            for use in mine
            for fingerprints in use["used"].values()
            for fingerprint in fingerprints
        )
        due = Counter({(name, lesson): count for (name, _, lesson), count in self._due.items()})
        self.tally["lessons"] = due.total()
        self.problems["wrong_lessons"] += [f"missing {lesson}" for lesson in due - learnt]
        self.problems["wrong_lessons"] += [f"undue {lesson}" for lesson in learnt - due]
        counts = Counter(
            (use["agent_id"], use["tool"], role, fingerprint)
            for use in mine
            for role, fingerprints in use["used"].items()
            for fingerprint in fingerprints
        )
        stored: dict[tuple[str, str, str, str], int] = {}
        for record in sorted(evidence.usual, key=lambda record: record.offset):
            body = json.loads(record.value or b"null")
            stored[body["agent_id"], body["tool"], body["role"], body["fingerprint"]] = body["times"]
        if stored != counts:
            for name in stored.keys() | counts.keys():
                if stored.get(name, 0) != counts[name]:
                    self.problems["wrong_usual"].append(f"{name}: {stored.get(name)}, not {counts[name]}")


def _find_subject(name: str, use: _Use) -> str:
    return use.agent if LIMITS[name]["per"] == "agent" else ""


def _is_within(before: _Use, use: _Use, spec: dict[str, Any]) -> bool:
    window_ms: int = spec["window_ms"]
    return before.at_ms > use.at_ms - window_ms


def _list_index_bytes(evidence: Evidence) -> Iterator[int]:
    """Of each agent's index of values, in every session that is stored in the end."""
    for name, session in read_stored_sessions(evidence.changelog).items():
        if is_of_tasks(name):
            yield from (size for (_, _, table), size in session.sizes.items() if table == VALUES)


def task_figures(evidence: Evidence) -> list[RunFigure]:
    """What happened in these sessions, and goals of zero for all that must not."""
    answers = account(evidence, is_of_tasks)
    recount = TaskRecount(answers)
    everything = [json.loads(record.value or b"null") for record in evidence.ledger]
    recount.fold(sorted(everything, key=lambda body: (body["partition"], body["sequence"])))
    recount.check_learnt(evidence)
    answered = ("lost", "doubled", "contradicted", "unread", "faulted")
    topics = Counter(topic for topic, _, _ in answers.inputs)
    tally = recount.tally
    return [
        *(figures.some(f"task_{base.split('.')[-1]}", topics[base], "inputs") for base in _TOPICS),
        figures.some("task_mandates_recorded", tally["mandates"], "mandates"),
        figures.report("task_mandates_within_others", tally["mandates_within"], "mandates"),
        figures.some("task_allowed", tally["allowed"], "actions"),
        figures.some("task_held", tally["held"], "actions"),
        *(figures.report(f"task_outside_{name}", tally[f"outside {name}"], "actions") for name in OUTSIDE),
        *(figures.report(f"task_spent_{name}", tally[f"spent {name}"], "actions") for name in LIMITS),
        *(figures.report(f"task_most_of_{name}", tally[f"most {name}"], "in a window") for name in LIMITS),
        *(figures.report(f"task_origin_{name}", tally[f"origin {name}"], "actions") for name in ORIGINS),
        figures.report("task_lessons", tally["lessons"], "actions"),
        *(figures.none(f"task_{name}", answers.count(name), "inputs") for name in answered),
        figures.none("task_answers_without_input", answers.foreign, "records"),
        *(figures.no_problems(f"task_{name}", recount.problems[name]) for name in _GOALS),
        figures.require_at_most(
            "task_index_bytes", max(_list_index_bytes(evidence), default=0), MOST_INDEX_BYTES, "bytes"
        ),
    ]


_TOPICS = (ACTIONS, OUTCOMES, MANDATES)
_GOALS = ("limits_exceeded", "limits_forgotten", "revoked_mandates_back", "wrong_lessons", "wrong_usual")
