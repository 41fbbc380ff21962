"""Mend 15 on a broker: what is in force, since when and by whom; and a root key that is replaced."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner, Result

from sluice.adapters.kafka import kafka_topics
from sluice.cli.main import cli
from sluice.core.foundation.clock import rfc3339
from sluice_topics.layout import TopicLayout
from tests.unit.cli.policy.policy_files import make, write
from tests.unit.core.trust.scene import agent, approver, bundle_document

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey

pytestmark = pytest.mark.kafka


class Installation:
    """Control topics on the broker, keys in a folder, and the settings that its commands run under."""

    def __init__(self, kafka: str, prefix: str, folder: Path) -> None:
        asyncio.run(kafka_topics.create(kafka, TopicLayout(prefix, f"{prefix}app", 1), replication=1))
        self.folder = folder
        self.keys: dict[str, SigningKey] = {name: make(folder, name) for name in ("root", "next", "alice")}
        self.env = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
            "SLUICE_POLICY__INSTALLATION": "here",
        }
        self.trust(["root"])

    def public(self, name: str) -> str:
        return self.keys[name].public.text

    def trust(self, roots: list[str], **retired: str) -> None:
        """What every worker's settings say of root keys."""
        at = {self.public(name): moment for name, moment in retired.items()}
        self.env["SLUICE_POLICY__ROOT_KEYS"] = json.dumps([self.public(name) for name in roots])
        self.env["SLUICE_POLICY__RETIRED_ROOT_KEYS"] = json.dumps(at)

    def sluice(self, *words: object) -> Result:
        return CliRunner().invoke(cli, [str(word) for word in words], env=self.env)

    def run_verb(self, *words: object) -> Any:
        found = self.sluice(*words, "--json")
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    def publish(self, noun: str, document: dict[str, Any], signer: str) -> Result:
        source, signed = write(self.folder / "source.json", document), self.folder / "signed"
        done = self.sluice(noun, "sign", source, "--key", self.folder / f"{signer}.pem", "--out", signed)
        assert done.exit_code == 0, done.output
        return self.sluice(noun, "publish", signed)

    def approver(self, signer: str, revision: int = 1) -> Result:
        entry = approver("alice", self.keys["alice"], revision)
        return self.publish("registry", {"entries": [entry]}, signer)

    def agent(self, revision: int, **spec: Any) -> Result:
        return self.publish("registry", {"entries": [agent(revision=revision, **spec)]}, "alice")

    def find_in_force(self) -> set[str]:
        entries = {one["name"] for one in self.run_verb("registry", "list")}
        bundles = {one["name"] for one in self.run_verb("bundle", "log") if one["state"] == "in force"}
        return entries | bundles


@pytest.fixture
def installed(kafka: str, prefix: str, tmp_path: Path) -> Installation:
    return Installation(kafka, prefix, tmp_path)


def test_what_is_in_force_for_an_agent_since_when_and_by_whom(installed: Installation) -> None:
    assert installed.approver("root").exit_code == 0
    assert installed.agent(1).exit_code == 0
    assert installed.agent(2, tier="T2").exit_code == 0
    (found,) = installed.run_verb("registry", "show", "agent/reader")
    assert (found["name"], found["approvers"], found["spec"]["tier"]) == ("agent/reader@2", ["alice"], "T2")
    assert abs(time.time() - datetime.fromisoformat(found["since"]).timestamp()) < 600
    (first,) = installed.run_verb("registry", "show", "agent/reader@1")
    assert first["since"] < found["since"]
    log = installed.run_verb("registry", "log", "reader")
    assert [(one["name"], one["state"]) for one in log] == [
        ("agent/reader@1", "replaced"),
        ("agent/reader@2", "in force"),
    ]
    shown = installed.sluice("registry", "show", "reader").stdout
    assert "agent/reader@2 in force since" in shown
    assert "signed by alice" in shown
    assert "revision 1 since" in shown
    assert installed.sluice("registry", "show", "nobody").exit_code == 1
    assert {one["name"] for one in installed.run_verb("registry", "list", "approver")} == {"approver/alice@1"}
    assert "a root key" in installed.sluice("registry", "list", "approver").stdout


def test_a_root_key_is_replaced_as_docs_policy_says(installed: Installation) -> None:
    """Both trusted, approvers signed anew, the old one retired: nothing else is signed again."""
    assert installed.approver("root").exit_code == 0
    assert installed.agent(1).exit_code == 0
    assert installed.publish("bundle", bundle_document(), "alice").exit_code == 0
    before = installed.find_in_force()
    installed.trust(["root", "next"])
    assert installed.find_in_force() == before
    assert installed.approver("next", revision=2).exit_code == 0
    installed.trust(["next"], root=rfc3339(time.time_ns() // 1_000_000 + 1))
    assert installed.find_in_force() == before - {"approver/alice@1"} | {"approver/alice@2"}
    assert installed.agent(2).exit_code == 0
    refused = installed.approver("root", revision=3)
    assert refused.exit_code == 1
    assert "was retired at" in refused.stderr
    installed.trust(["next"])
    assert installed.find_in_force() == {"approver/alice@2", "agent/reader@2"}
