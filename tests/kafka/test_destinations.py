"""Where destinations come from, on a real broker: results, the registry, what is usual; shown and rerun."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from load.installations import neutral_policy
from load.installations.approvers import approver
from sluice.cli.main import cli
from sluice.cli.policy.key_files import make_private_key, read_private_key
from sluice.client import ActionAnswer, ClientOptions, GateClient
from sluice.secrets.value_keys import write_value_key
from sluice_demo.throwaway_trust import publish_policy
from sluice_topics.catalog import VERDICTS
from sluice_topics.values import derive_tenant_key
from tests.kafka.installation import make_small_installation, read_stored, run_worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = pytest.mark.kafka
MASTER = bytes(range(32))
REGISTERED, IN_CONTACTS, IN_MAIL = (
    "DE89 3704 0044 0532 0130 00",
    "GB82 WEST 1234 5698 7654 32",
    "FR14 2004 1010 0505 0001 3M02 606",
)
READS: dict[str, Any] = {"tier": "T1", "action_type": "DATABASE_READ", "reversible": True}
PAYS: dict[str, Any] = {
    "tier": "T2",
    "action_type": "PAYMENT",
    "reversible": False,
    "roles": {"destination": ["$.iban"]},
}


def entry(kind: str, name: str, revision: int = 1, **spec: Any) -> dict[str, Any]:
    return {"kind": kind, "id": name, "revision": revision, "spec": spec}


def agent(revision: int, **spec: Any) -> dict[str, Any]:
    return entry("agent", "payer", revision, tenant_id=neutral_policy.TENANT, tier="T2", **spec)


def publish_entries(installation: TestInstallation, *entries: dict[str, Any]) -> None:
    signed = installation.trust.sign_entries([*entries])
    asyncio.run(publish_policy(installation.bootstrap_servers, installation.prefix, signed))


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    folder = tmp_path_factory.mktemp("destinations")
    master, point = folder / "master.key", folder / "point.pem"
    write_value_key(master, MASTER)
    make_private_key(point)
    stages = ("controls", "destinations", "tier_auth")
    settings = {"SLUICE_VALUES__MASTER_KEY_FILE": str(master)}
    made = make_small_installation(kafka, folder, module_prefix.rstrip("."), stages, **settings)
    public = read_private_key(point).public.text
    vera = approver(made.trust, "vera", make_private_key(folder / "vera.pem"), ["approver"])
    asyncio.run(publish_policy(kafka, made.prefix, [vera]))
    publish_entries(
        made,
        agent(1, destinations=[REGISTERED]),
        entry("tool", "pay", **PAYS),
        entry("tool", "wire", **{**PAYS, "tier": "T3"}),
        entry("tool", "contacts", **READS, returns_trusted=True),
        entry("tool", "inbox", **READS, returns_untrusted=True),
        entry("enforcement_point", "payers-point", tenant_id=neutral_policy.TENANT, public_key=public),
    )
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


def open_gate(installation: TestInstallation) -> GateClient:
    options = ClientOptions(
        topic_prefix=installation.prefix,
        installation=installation.trust.installation,
        deadline_s=60.0,
        reported_by="payers-point",
        signing_key=installation.folder / "point.pem",
        values_key=derive_tenant_key(MASTER, neutral_policy.TENANT),
    )
    return GateClient(installation.bootstrap_servers, "payer", options)


def find_origin(record: Mapping[str, Any]) -> str:
    """Of a payment's one destination, by its verdict."""
    (result,) = (one for one in record["gateResults"] if one["gate"] == "destinations")
    (origin,) = result["detail"]["origins"]
    return str(origin)


def pay(gate: GateClient, session: str, iban: str) -> str:
    with gate.action("pay", {"iban": iban}, session_id=session) as permit:
        return find_origin(permit.verdict.record)


def test_results_and_registry_say_where_an_account_comes_from_and_what_was_used_is_usual(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    with open_gate(installation) as gate:
        contacts = gate.guard("contacts", session_id="first")(lambda: {"name": "Ann", "iban": IN_CONTACTS})
        inbox = gate.guard("inbox", session_id="first")(lambda: f"Our new account is {IN_MAIL}, thank you.")
        contacts()
        inbox()
        deadline = time.monotonic() + 60
        while (origin := pay(gate, "first", IN_CONTACTS)) != "trusted_result":
            assert origin == "unknown", origin
            assert time.monotonic() < deadline
        assert pay(gate, "first", IN_MAIL.replace(" ", "").lower()) == "untrusted_read"
        assert pay(gate, "first", REGISTERED) == "registry"
        assert pay(gate, "other", IN_CONTACTS) == "untainted", "another session was told nothing"
        publish_entries(installation, agent(2))
        places: list[str] = []
        while not places or places[-1] != "history":
            assert time.monotonic() < deadline, set(places)
            places.append(pay(gate, f"later-{len(places)}", REGISTERED))
        assert set(places) <= {"registry", "untainted", "history"}
        assert pay(gate, "last", IN_CONTACTS) == "untainted", "what a result said teaches nothing"
    shown = CliRunner().invoke(cli, ["usual", "show", "payer", "--json"], env=installation.settings)
    assert shown.exit_code == 0, shown.output
    (use,) = json.loads(shown.stdout)
    assert (use["tool"], use["role"], use["days"]) == ("pay", "destination", 1)
    asked = CliRunner().invoke(cli, ["usual", "backtest", "--json"], env=installation.settings)
    assert asked.exit_code == 0, asked.output
    (row,) = json.loads(asked.stdout)
    assert (row["agent"], row["tool"], row["denied"]) == ("payer", "pay", 0)
    assert row["would_ask"] == row["allowed"] >= 1
    assert row["judged"] > row["would_ask"]
    assert "untrusted_read 1" in row["origins"]
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=installation.settings)
    assert told.exit_code == 0, told.stdout[:2000]
    assert json.loads(told.stdout)["by_kind"]["verdict"]["identical"] == len(
        read_stored(installation, VERDICTS)
    )
    without_key = {key: value for key, value in installation.settings.items() if "VALUES" not in key}
    told = CliRunner().invoke(cli, ["rerun", "--all", "--json"], env=without_key)
    found = json.loads(told.stdout)
    assert (found["by_kind"]["verdict"]["different"], told.exit_code) == (0, 0), told.stdout[:2000]
    assert any("master key of values" in why for why in found["not_checked"]), found["not_checked"]


def test_an_answer_makes_an_account_known_for_days(
    installation: TestInstallation, worker: WorkerProcess
) -> None:
    def command(*words: str) -> Any:
        done = CliRunner().invoke(cli, [*words, "--json"], env=installation.settings)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    with open_gate(installation) as gate:

        def wire(session: str) -> ActionAnswer:
            return gate.propose("wire", {"iban": IN_MAIL}, session_id=session, rows_affected=1)

        waits = wire("asked")
        (value,) = command("escalations", "show", str(waits.escalation_id))["events"][0]["values"]
        assert (value["path"], value["origin"]) == ("$.iban", "untainted")
        signed = (
            "--as",
            "vera",
            "--key",
            str(installation.folder / "vera.pem"),
            "--justification",
            "our supplier",
        )
        command("escalations", "approve", str(waits.escalation_id), *signed, "--yes", "--remember-days", "7")
        gate.report_outcome(gate.await_approval(waits, 60), 1)
        deadline, number = time.monotonic() + 60, 0
        while (origin := find_origin(wire(f"known-{number}").record)) != "history":
            assert origin == "untainted"
            assert time.monotonic() < deadline
            number += 1
    counts = command("usual", "show", "payer")
    (use,) = (one for one in counts if one["tool"] == "wire")
    assert (use["times"], use["known_until"] > use["answered_at"]) == (0, True)
    assert "known by an answer until" in " ".join(
        CliRunner()
        .invoke(cli, ["usual", "show", "payer"], env={**installation.settings, "COLUMNS": "300"})
        .stdout.split()
    )
    (ended,) = (one for one in command("escalations", "show", str(waits.escalation_id))["events"][-1:])
    assert ended["known_until"] is not None
    assert command("rerun", "--all")["by_kind"]["verdict"]["different"] == 0


def test_an_agent_forgets_by_its_entry(
    installation: TestInstallation, worker: WorkerProcess, tmp_path: Path
) -> None:
    out = tmp_path / "forget.json"
    made = CliRunner().invoke(cli, ["usual", "forget", "payer", str(out)], env=installation.settings)
    assert made.exit_code == 0, made.output
    (drafted,) = json.loads(out.read_bytes())["entries"]
    assert (drafted["id"], drafted["revision"]) == ("payer", 3)
    publish_entries(installation, drafted)
    with open_gate(installation) as gate:
        deadline, number = time.monotonic() + 60, 0
        while pay(gate, f"forgotten-{number}", REGISTERED) != "untainted":
            assert time.monotonic() < deadline
            number += 1
    assert CliRunner().invoke(cli, ["usual", "show", "nobody"], env=installation.settings).exit_code == 1
