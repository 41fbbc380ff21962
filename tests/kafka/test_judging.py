"""Gates that ask a model, on a real broker, worker and gateway: the real SDK asks a server on loopback."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy, quality_policy
from sluice.cli.main import cli
from sluice.core.actions.causal import EXTRACT, JUDGE, JUDGE_IN_CONTEXT
from sluice.core.actions.grading import GRADE, GRADE_IN_CONTEXT
from sluice.core.actions.inbound import WARNING
from sluice.core.foundation import content_judge as judge
from sluice.secrets.value_keys import write_value_key
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import VERDICTS
from tests.kafka.gateway_process import Gateway, run_gateway
from tests.kafka.installation import make_small_installation, read_stored, run_worker
from tests.kafka.retrievals import item
from tests.kafka.scripted_model import SLY, Model, serve_api
from tests.messages_api import MODEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
STAGES = ("controls", "inbound", "consequence", "causal", "destinations", "grader", "tier_auth")
PAY_TOOL, KNOWN_IBAN = "shop.pay", "DE89370400440532013000"
CLERK, PROMPT = "clerk", "You help customers of a shop. Never refund more than 100 euros."
RULES = [
    {"id": "kind", "reason": "be kind", "criterion": "It is kind.", "when": "has(action.parameters.kind)"}
]
KEY = "sk-ant-a-key-that-stays-in-the-settings"


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    made = Model()
    with serve_api(made):
        yield made


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory, model: Model
) -> TestInstallation:
    given = {"BASE_URL": model.api.base_url, "API_KEY": KEY, "MAX_RETRIES": "0"}
    settings = {
        f"SLUICE_{group}__{name}": value for group in ("GRADER", "ANALYSIS") for name, value in given.items()
    }
    folder = tmp_path_factory.mktemp("judging")
    write_value_key(folder / "master.key", bytes(range(32)))
    settings["SLUICE_VALUES__MASTER_KEY_FILE"] = str(folder / "master.key")
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."), STAGES, **settings)
    parts = {
        "causal": {"enabled": True, "budget_ms": 20_000},
        "grader": {"budget_ms": 20_000, "rules": RULES},
        "destinations": {"mode": "enforce", "graded_origins": ["untainted"], "tiers": {"T2": {}}},
        "inbound": {"mode": "nudge", "judge": "always", "budget_ms": 20_000},
    }
    bundle = {**neutral_policy.bundle(2, stages=STAGES), **parts}
    reads = {**quality_policy.document(2), "content_judge": {"judge": "always", "budget_ms": 20_000}}
    spec = {
        "tenant_id": neutral_policy.TENANT,
        "tier": "T2",
        "system_prompt": PROMPT,
        "destinations": [KNOWN_IBAN],
    }
    pays = {"tier": "T2", "action_type": "PAYMENT", "reversible": True, "roles": {"destination": ["$.iban"]}}
    tool = {"kind": "tool", "id": PAY_TOOL, "revision": 1, "spec": pays}
    entry = {"kind": "agent", "id": CLERK, "revision": 1, "spec": spec}
    proof = {
        "kind": "model_proof",
        "id": MODEL,
        "revision": 1,
        "spec": {
            "golden": "sha256:" + "0a" * 32,
            "prompts": {one.name: one.version for one in (GRADE, GRADE_IN_CONTEXT, JUDGE, JUDGE_IN_CONTEXT)},
            "cases": 160,
            "agreement": 0.95,
            "flips": 1,
            "p50_ms": 40.0,
            "p99_ms": 120.0,
            "proved_at": "2026-11-01T00:00:00.000Z",
        },
    }
    records = [
        made.trust.sign_bundle(json.dumps(bundle).encode()),
        *made.trust.sign_entries([entry, tool, proof]),
    ]
    records.append(quality_policy.sign_bundle(made.trust, reads))
    asyncio.run(publish_policy(kafka, made.prefix, records))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    with run_gateway(installation, wait_s=50) as started:
        yield started


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[httpx2.Client]:
    with gateway.client(gateway.key(agents=[CLERK])) as made:
        yield made


def write(installation: TestInstallation) -> list[dict[str, Any]]:
    """Every verdict so far."""
    return [json.loads(one.value or b"null") for one in read_stored(installation, VERDICTS)]


def propose(client: httpx2.Client, session: str, mode: str = "high_stakes", **parameters: Any) -> Any:
    body = {
        "toolName": neutral_policy.READ_TOOL,
        "parameters": parameters,
        "sessionId": session,
        "mode": mode,
    }
    return client.post("/v1/evaluate", json=body)


def test_what_the_model_lets_pass_is_clear_and_its_analysis_can_be_fetched(
    client: httpx2.Client, gateway: Gateway, installation: TestInstallation
) -> None:
    answer = propose(client, "clear", table="orders")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ALLOW")
    assert answer.headers["X-AIP-Verdict"] == "clear"
    assert "integrity=pass" in answer.headers["X-Mnemom-Verdict"]
    path = f"/v1/integrity-checkpoints/{answer.headers['X-AIP-Checkpoint-Id']}"
    found = client.get(path)
    assert (found.status_code, found.headers["X-Mnemom-Schema"]) == (200, "sluice/integrity_checkpoint/v1")
    verdicts = {one["verdict_id"]: one for one in write(installation)}
    assert found.json()["event_hash"] == verdicts[answer.json()["verdict_id"]]["event_hash"]
    (analysis,) = found.json()["analyses"]
    assert analysis["detail"]["constraint"] == PROMPT.partition(". ")[2]
    assert [one["port"] for one in found.json()["model_outputs"]] == ["constraints", "causal"]
    with gateway.client() as other:
        assert other.get(path).status_code == 404
    for wrong in ("checkpoint:", "checkpoint:verdict:gate.actions.proposed:0:999999", "verdict:x:0:1"):
        assert client.get(f"/v1/integrity-checkpoints/{wrong}").status_code == 404


def test_what_it_finds_to_violate_a_constraint_is_denied(client: httpx2.Client) -> None:
    answer = propose(client, "violation", violation=0.9)
    assert (answer.status_code, answer.json()["blockReason"]) == (
        422,
        "semantic_violation: 0.90: Never refund more than 100 euros.",
    )
    assert answer.json()["error"]["code"] == "semantic_violation"
    assert answer.headers["X-AIP-Verdict"] == "boundary_violation"
    assert "integrity=enforced" in answer.headers["X-Mnemom-Verdict"]
    advised = propose(client, "violation", "standard", violation=0.91)
    assert (advised.status_code, advised.json()["verdict"]) == (200, "denied")
    assert "integrity=observed" in advised.headers["X-Mnemom-Verdict"]


@pytest.mark.parametrize(
    ("scores", "status", "said"),
    [
        ([0.9, 0], 200, "clear"),
        ([0.8, 0.9], 200, "clear"),
        ([0.8, 0.8], 202, "ambiguous"),
        ([0.5, 0], 422, "boundary_violation"),
    ],
)
def test_the_grader_asks_once_more_where_it_cannot_tell(
    client: httpx2.Client, scores: list[float], status: int, said: str
) -> None:
    answer = propose(client, f"graded-{scores}", kind=scores)
    assert (answer.status_code, answer.headers["X-AIP-Verdict"]) == (status, said)


def test_the_same_question_is_asked_once(client: httpx2.Client, model: Model) -> None:
    before = model.ask(JUDGE.system)
    for session in ("once", "once", "and-in-another"):
        assert propose(client, session, table="the same").status_code == 200
    assert model.ask(JUDGE.system) == before + 1
    assert model.ask(EXTRACT.system) == 1
    assert {one.headers["authorization"] for one in model.api.exchanges} == {f"Bearer {KEY}"}


@pytest.mark.parametrize("mode", ["standard", "high_stakes"])
def test_a_model_that_is_down_leaves_it_to_a_person(client: httpx2.Client, model: Model, mode: str) -> None:
    model.broken = True
    try:
        answer = propose(client, f"down-{mode}", mode, table=f"never seen {mode}")
    finally:
        model.broken = False
    assert (answer.json()["outcome"], answer.json()["blockReason"]) == (
        "ESCALATE",
        "inconclusive: causal got no answer of causal",
    )
    assert answer.headers["X-AIP-Verdict"] == "error"
    assert "X-AIP-Checkpoint-Id" not in answer.headers
    assert "integrity=observed" in answer.headers["X-Mnemom-Verdict"]


def find_questions(model: Model, prompt: str) -> list[dict[str, Any]]:
    """The questions of a prompt so far."""
    asked = (one.body for one in model.api.exchanges if one.body["system"][0]["text"] == prompt)
    return [json.loads(one["messages"][0]["content"]) for one in asked]


def test_models_are_shown_where_values_come_from_and_may_let_a_new_destination_pass(
    client: httpx2.Client, model: Model, installation: TestInstallation
) -> None:
    """Each in a session in which all that came in is trusted: what the tool returns is not."""

    def propose_payment(session: str, iban: str, **more: Any) -> httpx2.Response:
        body = {"toolName": PAY_TOOL, "sessionId": session, "mode": "high_stakes"}
        return client.post("/v1/evaluate", json={**body, "parameters": {"iban": iban, **more}})

    answers = [
        propose_payment("pays-known", KNOWN_IBAN),
        propose_payment("pays-new", "GB82WEST12345698765432"),
        propose_payment("pays-unkind", "GB82WEST12345698765432", kind=[0.4, 0.4]),
    ]
    assert [one.json()["outcome"] for one in answers[:2]] == ["ALLOW", "ALLOW"]
    assert answers[2].json()["blockReason"] != answers[1].json()["blockReason"]
    shown = [one["origins"][0]["origin"] for one in find_questions(model, JUDGE_IN_CONTEXT.system)]
    assert shown == ["registry", "untainted", "untainted"]
    (verdict,) = (one for one in write(installation) if one["verdict_id"] == answers[1].json()["verdict_id"])
    ports = [(one["gate"], one["port"]) for one in verdict["model_outputs"]]
    assert ("destinations", "grader_in_context") in ports
    model.broken = True
    try:
        down = propose_payment("pays-down", "FR1420041010050500013M02606")
    finally:
        model.broken = False
    assert down.json()["outcome"] == "ESCALATE"


def test_what_an_action_carries_is_judged_and_given_back_with_a_warning(client: httpx2.Client) -> None:
    answer = propose(client, "carries", note=SLY, table="orders")
    assert (answer.status_code, answer.json()["outcome"]) == (200, "ALLOW")
    assert "front=nudged" in answer.headers["X-Mnemom-Verdict"]
    assert answer.json()["replacement"] == {"note": f"{SLY} {WARNING}", "table": "orders"}
    plain = propose(client, "carries", note="See you at ten.")
    assert "front=pass" in plain.headers["X-Mnemom-Verdict"]
    assert plain.json()["replacement"] is None


def test_each_retrieved_body_is_judged_by_itself(client: httpx2.Client, model: Model) -> None:
    asked = {
        "sessionId": "reads",
        "items": [item("plain"), item("sly", body=f"A price. {SLY}"), item("other")],
    }
    before = model.ask(judge.SYSTEM)
    answer = client.post("/v1/retrievals/evaluate", json=asked)
    assert (answer.status_code, "front=enforced" in answer.headers["X-Mnemom-Verdict"]) == (200, True)
    assert [one["item_id"] for one in answer.json()["items"]] == ["plain", "other"]
    assert [one["item_id"] for one in answer.json()["withheld"]] == ["sly"]
    assert model.ask(judge.SYSTEM) == before + 3
    again = client.post("/v1/retrievals/evaluate", json=asked)
    assert len(again.json()["withheld"]) == 1
    assert model.ask(judge.SYSTEM) == before + 3


def test_every_decision_is_executed_again_without_the_model(
    installation: TestInstallation, client: httpx2.Client
) -> None:
    without = {name: value for name, value in installation.settings.items() if "API_KEY" not in name}
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=without)
    assert told.exit_code == 0, told.stdout
    by_kind = json.loads(told.stdout)["by_kind"]
    assert by_kind["verdict"]["identical"] == len(write(installation))
    assert by_kind["quality_decision"]["identical"] == 6
    assert KEY not in json.dumps(write(installation))


def show_agent(installation: TestInstallation, *words: str) -> str:
    """What `sluice registry show` prints of the agent."""
    found = CliRunner().invoke(cli, ["registry", "show", f"agent/{CLERK}", *words], env=installation.settings)
    assert found.exit_code == 0, found.output
    return found.stdout


def test_registry_show_has_the_constraints_that_a_model_found_or_a_person_signed(
    client: httpx2.Client, kafka: str, installation: TestInstallation
) -> None:
    assert propose(client, "shown", table="shown").status_code == 200
    (found,) = json.loads(show_agent(installation, "--json"))
    told = found["constraints"]
    assert (told["source"], told["model"], told["prompt_version"]) == ("model", MODEL, EXTRACT.version)
    assert told["texts"] == [PROMPT.partition(". ")[2]]
    verdicts = {one["verdict_id"]: one for one in write(installation)}
    assert verdicts[told["verdict_id"]]["registry_hashes"][f"agent/{CLERK}@1"] == found["hash"]
    text = show_agent(installation)
    assert f"as {MODEL} found them" in text
    assert f"1. {PROMPT.partition('. ')[2]}" in text
    spec = {"tenant_id": neutral_policy.TENANT, "tier": "T2", "system_prompt": PROMPT}
    for revision, more in ((2, {"constraints": ["Never refund."]}), (3, {"constraints": None})):
        entry = {"kind": "agent", "id": CLERK, "revision": revision, "spec": {**spec, **more}}
        asyncio.run(publish_policy(kafka, installation.prefix, installation.trust.sign_entries([entry])))
        (now,) = json.loads(show_agent(installation, "--json"))
        assert now["constraints"]["source"] == ("signed" if revision == 2 else None)
        assert ("1. Never refund." in show_agent(installation)) == (revision == 2)
    assert "no verdict since then" in show_agent(installation)
