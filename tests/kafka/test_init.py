"""Mend 12: `sluice init` brings a machine from nothing to a policy that a worker decides with.

Mend 22.17: and with its VP's key a person lets an action of tier T4 run, by README's own commands.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from sluice.settings.reader import load_settings
from tests.conftest import KEPT
from tests.documents.blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = ROOT / "config" / "examples" / "actions.jsonl"
READY_S = 90.0
WHERE = "/var/lib/sluice"
"""The home of init in the image."""


@pytest.fixture
def bare(kafka: str, prefix: str) -> dict[str, str]:
    """A broker and topics of the test's own, and not one word about policy."""
    return {
        "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
        "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
        "SLUICE_KAFKA__PARTITIONS": "1",
        "SLUICE_WORKER__APP_ID": f"{prefix}worker",
    }


def sluice(*words: object, **env: str) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words], env=env)


def init(home: Path, **env: str) -> dict[str, Any]:
    done = sluice("init", "--home", home, "--json", **env)
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def run_deciding(environment: dict[str, str], ready: Path) -> Iterator[None]:
    """While a worker decides that knows nothing but what it is given here, and a file to say so in."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    told = {**ours, **environment, "SLUICE_WORKER__READY_FILE": str(ready)}
    worker = subprocess.Popen([sys.executable, "-m", "sluice", "worker"], cwd=ROOT, env=told)
    try:
        deadline = time.monotonic() + READY_S
        while not ready.exists():
            assert worker.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0


def test_a_worker_decides_after_init_with_nothing_but_the_settings_file(
    bare: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    told = init(home, **bare)
    for name in ("root", "owner", "reviewer", "vp"):
        assert stat.S_IMODE((home / "keys" / f"{name}.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    only = {"SLUICE_CONFIG": told["settings"]}
    for _ in run_deciding(only, tmp_path / "ready"):
        assert sluice("publish", ACTIONS, **only).exit_code == 0
        watched = sluice(
            "watch", "gate.verdicts", "--from-beginning", "--max", 5, "--timeout", 30, "--json", **only
        )
    verdicts = [json.loads(line) for line in watched.stdout.splitlines() if line.startswith("{")]
    answered = [(one["action_id"], one["verdict"]) for one in (v.get("value", v) for v in verdicts)]
    assert answered == [
        ("a-1", "allowed"),
        ("a-2", "allowed"),
        ("a-3", "needs_human"),
        ("a-4", "denied"),
        ("a-5", "denied"),
    ]


def test_the_vp_that_init_made_lets_a_payment_happen_once(bare: dict[str, str], tmp_path: Path) -> None:
    """From an empty folder, with what README's first steps say and nothing else."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    init(tmp_path / ".sluice", **bare)
    only = {"SLUICE_CONFIG": str(tmp_path / ".sluice" / "sluice.toml")}
    agent, answer = readme("python docs/examples/payment.py"), readme("sluice escalations list --role vp")
    for _ in run_deciding(only, tmp_path / "ready"):
        client = {"SLUICE_KAFKA__TOPIC_PREFIX": bare["SLUICE_KAFKA__TOPIC_PREFIX"]}
        client["KAFKA_BOOTSTRAP_SERVERS"] = bare["SLUICE_KAFKA__BOOTSTRAP_SERVERS"]
        with bash(agent, tmp_path, **client) as paying:
            (opened,) = list_waiting(paying, **only)
            assert (opened["required_role"], opened["tier"]) == ("vp", "T4")
            by_owner = answer.replace("vp.pem", "owner.pem").replace("--as vp", "--as owner")
            said = {}
            for person, script in (("owner", by_owner), ("vp", answer), ("vp again", answer)):
                typed = script.replace("3:17", opened["escalation_id"])
                with bash(typed, tmp_path, **only) as answering:
                    said[person], _ = answering.communicate("y\n", READY_S)
                assert answering.returncode == (0 if person == "vp" else 1), said[person]
            paid = paying.communicate(timeout=READY_S)[0]
        with bash(agent, tmp_path, **client) as again:
            told = again.communicate(timeout=READY_S)[0]
    assert "wrong_role" in said["owner"]
    assert paid == "paid: 250 EUR\n"
    assert told.startswith("not paid again")
    assert (tmp_path / "payments.txt").read_text() == "4711: 250 EUR to acme\n"
    assert sluice("ledger", "verify", **only).exit_code == 0


def readme(beginning: str) -> str:
    """README's commands."""
    (found,) = (one.text for one in blocks("README.md") if one.text.startswith(beginning))
    return found


@contextmanager
def bash(script: str, home: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A person's shell, at home; nothing of it is left."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    told = {**ours, "HOME": str(home), "PATH": path, "SLUICE_CACHE__FOLDER": str(KEPT), **env}
    words, pipe = ["bash", "-euo", "pipefail", "-c", f"exec 2>&1\n{script}"], subprocess.PIPE
    shell = subprocess.Popen(
        words, cwd=home, env=told, stdin=pipe, stdout=pipe, text=True, start_new_session=True
    )
    try:
        yield shell
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()


def list_waiting(agent: subprocess.Popen[str], **env: str) -> list[dict[str, Any]]:
    """What waits for a VP, once something does."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and agent.poll() is None:
        listed: list[dict[str, Any]] = json.loads(
            sluice("escalations", "list", "--role", "vp", "--json", **env).stdout
        )
        if listed:
            return listed
    raise AssertionError(agent.poll() is None or agent.communicate()[0])


def test_a_second_init_changes_nothing_and_an_interrupted_one_is_completed(
    bare: dict[str, str], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    first = init(home, **bare)
    before = contents(home)
    again = init(home)  # the settings file knows broker, prefix and partitions
    assert (again["keys_made"], again["files_written"], again["published"]) == ([], [], [])
    assert again["topics_created"] == []
    assert contents(home) == before
    (home / "registry.json").unlink()
    (home / "keys" / "reviewer.pub").unlink()
    assert init(home)["files_written"] == ["registry.json"]
    entries = json.loads((home / "registry.json").read_bytes())["entries"]
    mine = {**entries[0], "id": "mine"}
    (home / "registry.json").write_text(json.dumps({"entries": [*entries, mine]}))
    assert init(home)["published"] == ["org/mine@1"]
    assert "org/example@1" in first["published"]


def test_a_home_of_an_earlier_version_gets_what_it_lacks_and_keeps_what_it_has(
    bare: dict[str, str], tmp_path: Path
) -> None:
    """Mend 22.24: no key of workers, none for entries in a Redis, no VP: init adds them, and says each."""
    home = tmp_path / "home"
    init(home, **bare)
    for name in ("redis.keys", "values.key", "verdicts.pem", "verdicts.pub", "keys/vp.pem", "keys/vp.pub"):
        (home / name).unlink()
    entries = json.loads((home / "approvers.json").read_bytes())["entries"]
    without = [one for one in entries if one["id"] != "vp"]
    (home / "approvers.json").write_text(json.dumps({"entries": without}))
    text = (home / "sluice.toml").read_text()
    earlier = text[: text.index("[redis]")] + text[text.index("[policy]") :].replace("installation", "# mine")
    (home / "sluice.toml").write_text(earlier)
    before = contents(home)
    prefix = f"{bare['SLUICE_KAFKA__TOPIC_PREFIX']}e."
    other = {**bare, "SLUICE_KAFKA__TOPIC_PREFIX": prefix, "SLUICE_WORKER__APP_ID": f"{prefix}worker"}

    told = init(home, **other)
    assert told["keys_made"] == ["vp"]
    assert told["files_written"] == [
        "verdicts.pem",
        "verdicts.pub",
        "redis.keys",
        "values.key",
        "approvers.vp.json",
    ]
    added = [
        "redis.key_file",
        "values.master_key_file",
        "verdicts.signing_key",
        "verdicts.public_keys",
        "policy.installation",
    ]
    assert told["settings_added"] == added
    assert "approver/vp@1" in told["published"]
    after = contents(home)
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"sluice.toml"}
    lines = after["sluice.toml"].decode().splitlines()
    assert all(line in lines for line in earlier.splitlines())
    assert load_settings(home / "sluice.toml", environment={}).verdicts.public_keys

    again = sluice("init", "--home", home, **other)
    assert "Nothing was missing." in again.stdout
    assert contents(home) == after


def test_what_is_in_force_is_kept_and_the_difference_told(bare: dict[str, str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    init(home, **bare)
    file = json.loads((home / "registry.json").read_bytes())
    file["entries"][0]["spec"]["irreversible_row_threshold"] = 1
    (home / "registry.json").write_text(json.dumps(file))
    told = init(home)
    assert told["published"] == []
    assert [line.split()[0] for line in told["differing"]] == ["org/example@1"]


def test_a_policy_that_has_an_owner_is_left_alone(bare: dict[str, str], tmp_path: Path) -> None:
    init(tmp_path / "home", **bare)
    config = str(tmp_path / "home" / "sluice.toml")
    refused = sluice("init", "--home", tmp_path / "other", SLUICE_CONFIG=config)
    assert refused.exit_code == 2
    assert "has an owner" in refused.stderr
    assert not (tmp_path / "other").exists()
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    inside = sluice("init", "--home", tmp_path / "tree" / "home", **bare)
    assert inside.exit_code == 2
    assert "git work tree" in inside.stderr
    assert not (tmp_path / "tree" / "home").exists()


def test_compose_runs_init_and_gives_the_worker_its_settings(bare: dict[str, str], tmp_path: Path) -> None:
    """No Docker here: the service's own command and environment, in a folder instead of its volume."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

    def here(text: str) -> str:
        return text.replace(WHERE, str(tmp_path / "home"))

    def environment(name: str) -> dict[str, str]:
        given = {key: here(value) for key, value in services[name]["environment"].items()}
        return given | bare

    command = [here(word) for word in services["init"]["command"]]
    for _ in range(2):
        assert sluice(*command, **environment("init")).exit_code == 0
    ours = environment("worker")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ours.items():
            patch.setenv(name, value)
        assert len(load_settings().policy.root_keys) == 1
    log = sluice("bundle", "log", "--json", **ours)
    in_force = {line["name"] for line in json.loads(log.stdout) if line["state"] == "in force"}
    assert in_force == {"sluice.default@1", "finance.recon.v0@1", "sluice.quality@1"}
    signer = environment("signer")
    assert sluice(*services["signer"]["command"], "--once", **signer).exit_code == 0
    public = Path(signer["SLUICE_HEADS__SIGNING_KEY"]).with_suffix(".pub").read_text().strip()
    assert sluice("ledger", "verify", "--head-key", public, **ours).exit_code == 0
