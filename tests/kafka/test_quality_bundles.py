"""Quality bundles and overrides on a real broker, by the commands alone: published, refused, logged."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from sluice.adapters.kafka import kafka_topics
from sluice.cli.quality.quality_changes import override
from sluice_topics.layout import TopicLayout
from tests.unit.cli.policy.policy_files import make, sluice, write
from tests.unit.core.trust.quality_scene import DAY_S, ROLES, SIGNS, org, quality_document
from tests.unit.core.trust.scene import approver

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka

OVERRIDE = typer.Typer()
OVERRIDE.command()(override)
LOOSER = quality_document(2, ttl=2 * DAY_S, rationale="prices hold for two days now")


class Owners:
    """A broker's topics, two approvers that the root key made, the commands with the settings for them."""

    def __init__(self, kafka: str, prefix: str, folder: Path) -> None:
        asyncio.run(kafka_topics.create(kafka, TopicLayout(prefix, f"{prefix}app", 1), replication=1))
        self.folder = folder
        keys = {name: make(folder, name) for name in ("root", "alice", "bob")}
        self.settings = {
            "SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka,
            "SLUICE_KAFKA__TOPIC_PREFIX": prefix,
            "SLUICE_POLICY__INSTALLATION": "here",
            "SLUICE_POLICY__ROOT_KEYS": json.dumps([keys["root"].public.text]),
        }
        trusted = [approver(name, keys[name], signs=SIGNS, roles=ROLES) for name in ("alice", "bob")]
        assert self.publish("registry", self.sign("registry", {"entries": trusted}, "root")) == []

    def sign(self, noun: str, document: dict[str, Any], *names: str) -> Path:
        """The document's envelopes in a file."""
        file, out = write(self.folder / "source.json", document), self.folder / "signed"
        assert sluice(noun, "sign", file, *self._keys(names), "--out", out).exit_code == 0
        return out

    def publish(self, noun: str, file: Path) -> list[tuple[str, str]]:
        """What was refused, by key and code."""
        found = sluice(noun, "publish", file, "--json", **self.settings)
        refused = [(one["key"], one["code"]) for one in json.loads(found.stdout)["refused"]]
        assert found.exit_code == (1 if refused else 0)
        return refused

    def run_verb(self, *words: object) -> Any:
        """What a `sluice bundle` verb says as JSON."""
        return json.loads(sluice("bundle", *words, "--json", **self.settings).stdout)

    def override(self, *words: str, name: str) -> Result:
        """An override of the item doc-1, signed with the key of that name."""
        why = ("--justification", "read it, the price list still holds", "--yes", "--json")
        place = ("--item", "doc-1", "--tenant", "acme", *words, *map(str, self._keys([name])))
        return CliRunner().invoke(OVERRIDE, [*place, *why], env=self.settings)

    def _keys(self, names: Any) -> list[object]:
        return [word for name in names for word in ("--key", self.folder / f"{name}.pem")]


@pytest.fixture
def owners(kafka: str, prefix: str, tmp_path: Path) -> Owners:
    return Owners(kafka, prefix, tmp_path)


def test_a_relaxed_bundle_waits_for_the_second_approver_and_the_log_knows_all_of_it(owners: Owners) -> None:
    assert owners.publish("bundle", owners.sign("bundle", quality_document(), "alice")) == []
    file = owners.sign("bundle", LOOSER, "alice")
    assert owners.publish("bundle", file) == [("q@2", "second_approver_missing")]
    bob = ("--key", owners.folder / "bob.pem")
    assert sluice("bundle", "cosign", file, *bob).exit_code == 0
    told = json.loads(sluice("bundle", "publish", file, "--json", **owners.settings).stdout)
    assert (told["refused"], len(told["relaxations"])) == ([], 1)
    assert "of q@1: " in told["relaxations"][0]
    assert "product_pricing" in told["relaxations"][0]
    first, second = owners.run_verb("log", "q")
    assert (first["name"], first["state"], first["approvers"]) == ("q@1", "replaced", ["alice"])
    assert (second["name"], second["state"], second["approvers"]) == ("q@2", "in force", ["alice", "bob"])
    assert second["rationale"] == LOOSER["rationale"]
    assert "product_pricing" in second["relaxations"][0]
    assert owners.run_verb("diff", "q@1", "q")["relaxations"] == second["relaxations"]
    assert owners.run_verb("log", "other") == []


def test_a_bundle_goes_back_to_what_an_earlier_revision_said_signed_as_any_other_change(
    owners: Owners,
) -> None:
    """Mend 22.24: a rollback is the next revision, and as loose as it is it needs its approvers."""
    stricter = quality_document(2, ttl=DAY_S / 2, rationale="prices hold for half a day now")
    for document in (quality_document(), stricter):
        assert owners.publish("bundle", owners.sign("bundle", document, "alice")) == []
    alice, bob = ("--key", owners.folder / "alice.pem"), ("--key", owners.folder / "bob.pem")

    def back(*words: object) -> Result:
        return sluice("bundle", "rollback", *words, **owners.settings)

    alone = back("q@1", *alice, "--json")
    assert [one["code"] for one in json.loads(alone.stdout)["refused"]] == ["second_approver_missing"]
    assert "relaxed of q@2: " in alone.stderr
    assert "sluice bundle cosign FILE" in alone.stderr
    for name, said in (
        ("q@7", "it has 1, 2"),
        ("r@1", "none of this bundle"),
        ("q@2", "the revision in force"),
    ):
        refused = back(name, *alice, *bob)
        assert refused.exit_code == 1
        assert said in refused.stderr

    signed = owners.folder / "back"
    out = back("q@1", *alice, "--reason", "half a day was too short", "--out", signed)
    assert out.exit_code == 0, out.stderr
    assert "relaxed of q@2: " in out.stderr
    assert sluice("bundle", "cosign", signed, *bob).exit_code == 0
    assert owners.publish("bundle", signed) == []
    last = owners.run_verb("log", "q")[-1]
    assert (last["name"], last["state"], last["approvers"]) == ("q@3", "in force", ["alice", "bob"])
    assert last["rationale"] == "back from revision 2 to 1: half a day was too short"
    assert [one["path"] for one in owners.run_verb("diff", "q@1", "q")["changes"]] == [
        "$.rationale",
        "$.revision",
    ]
    assert "q@3 is in force, and says what q@1 said" in back("q@1", *alice).stderr
    assert back("q@2", *alice).exit_code == 0
    assert owners.run_verb("log", "q")[-1]["name"] == "q@4"


def test_a_tenant_is_led_to_another_bundle_by_two_approvers(owners: Owners) -> None:
    switch = {"entries": [org(quality_bundle_id="q")]}
    refused = [("org/acme@1", "second_approver_missing")]
    assert owners.publish("registry", owners.sign("registry", switch, "alice")) == refused
    assert owners.publish("registry", owners.sign("registry", switch, "alice", "bob")) == []


def test_an_override_is_published_by_the_approver_whose_word_it_is(owners: Owners) -> None:
    another = owners.override("--approver", "bob", "--expires-in", "8h", name="alice")
    assert another.exit_code == 1
    assert [one["code"] for one in json.loads(another.stdout)["refused"]] == ["key_not_allowed"]
    endless = owners.override("--approver", "alice", "--expires-in", "31d", name="alice")
    assert endless.exit_code == 2
    own = owners.override("--approver", "alice", "--expires-in", "8h", "--id", "o1", name="alice")
    assert own.exit_code == 0
    assert [one["key"] for one in json.loads(own.stdout)["written"]] == ["quality_override/o1@1"]
