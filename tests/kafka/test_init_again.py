"""Mend 22.26.1: `sluice init` on a home of an earlier version hides nothing that waits on its topics."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from tests.kafka.test_init import ACTIONS, READY_S, init, run_deciding, sluice

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def list_waiting(**env: str) -> list[str]:
    """The ids of the escalations that `sluice escalations list` shows."""
    listed = json.loads(sluice("escalations", "list", "--json", **env).stdout)
    return [one["escalation_id"] for one in listed]


def test_what_waited_before_init_gave_workers_a_key_is_listed_and_answered_after_it(
    kafka: str, prefix: str, tmp_path: Path
) -> None:
    """Readers learn the key from a person alone. Mend 22.26.3: a draft in the home is not signed."""
    home = tmp_path / "home"
    bare = {"SLUICE_KAFKA__BOOTSTRAP_SERVERS": kafka, "SLUICE_KAFKA__TOPIC_PREFIX": prefix}
    bare |= {"SLUICE_KAFKA__PARTITIONS": "1", "SLUICE_WORKER__APP_ID": f"{prefix}worker"}
    only = {"SLUICE_CONFIG": init(home, **bare)["settings"]}
    text = (home / "sluice.toml").read_text()
    (home / "sluice.toml").write_text(text[: text.index("[verdicts]")] + text[text.index("[policy]") :])
    for name in ("verdicts.pem", "verdicts.pub"):
        (home / name).unlink()
    for _ in run_deciding(only, tmp_path / "ready"):
        assert sluice("publish", ACTIONS, **only).exit_code == 0
        deadline = time.monotonic() + READY_S
        while not (before := list_waiting(**only)):
            assert time.monotonic() < deadline
    assert sluice("keys", "new", "somebody", "--out", tmp_path / "keys").exit_code == 0
    (owner, *_) = json.loads((home / "approvers.json").read_bytes())["entries"]
    spec = owner["spec"] | {"public_key": (tmp_path / "keys" / "somebody.pub").read_text().strip()}
    draft = {"entries": [{**owner, "id": "somebody", "spec": spec}]}
    (home / "approvers.draft.json").write_text(json.dumps(draft))

    told = init(home)
    assert told["settings_added"] == ["verdicts.signing_key"]
    public = (home / "verdicts.pub").read_text().strip()
    assert told["settings_left"] == {"verdicts": {"public_keys": [public]}}
    assert told["published"] == []
    said = sluice("init", "--home", home).stdout
    assert public in said
    assert "Nothing was missing." not in said
    assert list_waiting(**only) == before

    approve = ("escalations", "approve", before[0], "--as", "owner", "--justification", "right")
    for _ in run_deciding(only, tmp_path / "ready again"):
        answered = sluice(*approve, "--key", home / "keys" / "owner.pem", "--yes", **only)
        assert answered.exit_code == 0, answered.output
        deadline = time.monotonic() + READY_S
        while list_waiting(**only):
            assert time.monotonic() < deadline

    under = next(line for line in said.splitlines() if public in line)
    now = (home / "sluice.toml").read_text().replace("[verdicts]\n", f"[verdicts]\n{under}\n")
    (home / "sluice.toml").write_text(now)
    assert sluice("init", "--home", home).stdout.count("Nothing was missing.") == 1
