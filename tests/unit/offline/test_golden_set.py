"""The golden set, and `sluice grader prove` on a real SDK before a server on loopback."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from sluice.cli.main import cli
from sluice.core.actions.causal import JUDGE, JUDGE_IN_CONTEXT
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.core.registry.loading import load_registry
from sluice.offline.golden_set import GOLDEN, GoldenRun, GoldenSetError, build_proof_entry, load_golden_set
from tests.messages_api import MODEL, make_failing, messages_api, reply_with_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.messages_api import Exchange

SCORES = {"passed": (0.95, 0.1), "failed": (0.2, 0.9), "doubtful": (0.75, 0.6)}
"""The compliance and the violation confidence that agree with a label."""


def label() -> dict[str, str]:
    """From a case's question to its label."""
    return {json.dumps(one.question["action"]): one.expect for one in load_golden_set().cases}


@contextmanager
def serve_api(judges: Callable[[str, bool], float | None]) -> Iterator[str]:
    """A server of the Messages API that answers a golden case as `judges` says of its label and prompt."""
    labels, ready, loop = label(), threading.Event(), asyncio.new_event_loop()
    ended, address = asyncio.Event(), [""]

    async def answer(exchange: Exchange) -> None:
        question = json.loads(exchange.body["messages"][0]["content"])
        system = exchange.body["system"][0]["text"]
        known = not {"task", "origins"}.isdisjoint(question)
        causal = system == (JUDGE_IN_CONTEXT if known else JUDGE).system
        number = judges(labels[json.dumps(question["action"])], causal)
        if number is None:
            await make_failing(500, "api_error")(exchange)
            return
        assert causal or system == (GRADE_IN_CONTEXT if known else GRADE).system
        said: dict[str, Any] = {"reasoning": "so"}
        said |= {"violation_confidence": number, "constraint": 1} if causal else {"compliance": number}
        await reply_with_text(json.dumps(said))(exchange)

    async def serve() -> None:
        async with messages_api(answer) as api:
            address[0] = api.base_url
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


def prove(url: str, out: Path, *more: str) -> Any:
    environment = {
        "SLUICE_GRADER__BASE_URL": url,
        "SLUICE_GRADER__API_KEY": "sk-ant-nobodys",
        "SLUICE_GRADER__MAX_RETRIES": "0",
    }
    return CliRunner().invoke(cli, ["grader", "prove", str(out), "--json", *more], env=environment)


def agree(label: str, causal: bool) -> float:
    return SCORES[label][causal]


def test_the_set_has_cases_of_every_kind() -> None:
    golden = load_golden_set()
    assert len(golden.cases) >= 150
    counts = Counter((one.port, one.expect) for one in golden.cases)
    assert min(counts[port, label] for port in ("grader", "causal") for label in ("passed", "failed")) >= 15
    assert counts["grader", "doubtful"] >= 5
    assert all(bool(one.criterion) is (one.port == "grader") for one in golden.cases)
    assert all(bool(one.constraints) is (one.port == "causal") for one in golden.cases)
    in_context = Counter(one.port for one in golden.cases if one.context.is_known)
    assert min(in_context["grader"], in_context["causal"]) >= 15


def test_a_set_without_contexts_has_the_digest_and_the_proof_that_it_had(tmp_path: Path) -> None:
    lines = [
        one for one in GOLDEN.read_text().splitlines() if not {"task", "origins"} & json.loads(one).keys()
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(lines))
    golden = load_golden_set(tmp_path / "cases.jsonl")
    assert golden.digest == "sha256:1ce3f8579f7b1014edb508c925977cb55bb1fc951952d6740924775e8773e1b7"
    run = GoldenRun(MODEL, {one.id: one.expect for one in golden.cases}, [1.0])
    proof = build_proof_entry(golden, run, 1, "2026-11-01T00:00:00.000Z")
    assert proof["spec"]["prompts"] == {
        "grader": "grader:d41e5e803f8e9264",
        "causal": "causal:1d45571094235b7a",
    }


def test_a_model_that_agrees_gets_a_proof_that_can_be_signed(tmp_path: Path) -> None:
    with serve_api(agree) as url:
        ran = prove(url, tmp_path / "proof.json")
    assert ran.exit_code in {0, 1}, ran.output  # how fast the loopback is decides
    told = json.loads(ran.stdout)
    assert (told["id"], told["disagrees"]) == (MODEL, [])
    assert (told["spec"]["agreement"], told["spec"]["flips"]) == (1, 0)
    every = (GRADE, GRADE_IN_CONTEXT, JUDGE, JUDGE_IN_CONTEXT)
    assert told["spec"]["prompts"] == {one.name: one.version for one in every}
    proof = load_registry((tmp_path / "proof.json").read_bytes()).model_proofs[MODEL]
    assert (proof.agreement, proof.golden) == (1, load_golden_set().digest)


def test_a_model_that_turns_answers_round_is_told_so(tmp_path: Path) -> None:
    def contrary(label: str, causal: bool) -> float:
        return SCORES[{"failed": "passed"}.get(label, label)][causal]

    with serve_api(contrary) as url:
        ran = prove(url, tmp_path / "proof.json")
    refusals = sum(one.expect == "failed" for one in load_golden_set().cases)
    told = json.loads(ran.stdout)
    assert ran.exit_code == 1
    assert (told["spec"]["flips"], len(told["disagrees"])) == (refusals, refusals)


def test_without_answers_there_is_no_proof(tmp_path: Path) -> None:
    with serve_api(lambda *_: None) as url:
        ran = prove(url, tmp_path / "proof.json")
    assert (ran.exit_code, (tmp_path / "proof.json").exists()) == (2, False)
    assert "answered 500" in ran.output


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "no case"),
        ('{"id": "a.1"}', "line 1: "),
        ("nothing", "line 1: "),
    ],
)
def test_a_file_that_is_no_set(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "cases.jsonl").write_text(lines)
    with pytest.raises(GoldenSetError, match=said):
        load_golden_set(tmp_path / "cases.jsonl")
