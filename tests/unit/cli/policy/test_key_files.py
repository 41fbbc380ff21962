"""`sluice keys`: private keys stay private."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner, Result

from sluice.cli.policy.key_files import cli, read_private_key
from sluice.core.registry.keys import PublicKey
from sluice.secrets.value_keys import ValueKeyError, read_value_key
from sluice_topics.values import derive_tenant_key

if TYPE_CHECKING:
    from pathlib import Path


def keys(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_a_new_key_is_its_owners_alone_and_its_public_half_is_printed(tmp_path: Path) -> None:
    made = keys("new", "root", "--out", str(tmp_path / "mine"), "--json")
    assert made.exit_code == 0
    pem = tmp_path / "mine" / "root.pem"
    assert stat.S_IMODE(pem.stat().st_mode) == 0o600
    assert stat.S_IMODE(pem.parent.stat().st_mode) == 0o700
    public = PublicKey.from_text(json.loads(made.stdout)["public_key"])
    assert public == read_private_key(pem).public
    assert (tmp_path / "mine" / "root.pub").read_text() == public.text + "\n"


def test_nothing_of_the_private_half_is_printed(tmp_path: Path) -> None:
    said = keys("new", "root", "--out", str(tmp_path))
    body = (tmp_path / "root.pem").read_text().splitlines()[1]
    assert said.exit_code == 0
    assert body not in said.output
    assert "PRIVATE" not in said.output


def test_no_key_is_overwritten(tmp_path: Path) -> None:
    keys("new", "root", "--out", str(tmp_path))
    before = (tmp_path / "root.pem").read_bytes()
    again = keys("new", "root", "--out", str(tmp_path))
    (tmp_path / "root.pub").unlink()
    and_again = keys("new", "root", "--out", str(tmp_path))
    assert (again.exit_code, and_again.exit_code) == (2, 2)
    assert (tmp_path / "root.pem").read_bytes() == before


def test_a_folder_in_a_git_work_tree_is_refused_unless_forced(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    inside = str(tmp_path / "some" / "folder")
    refused = keys("new", "root", "--out", inside)
    assert refused.exit_code == 2
    assert "git work tree" in refused.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / ".git"]
    assert keys("new", "root", "--out", inside, "--force").exit_code == 0


def test_a_link_into_a_work_tree_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    assert keys("new", "root", "--out", str(tmp_path / "link")).exit_code == 2


def test_a_worktree_whose_git_is_a_file_is_one(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    assert keys("new", "root", "--out", str(tmp_path)).exit_code == 2


def test_a_name_is_no_path(tmp_path: Path) -> None:
    for name in ("../root", "a/b", ".hidden", "-x", ""):
        assert keys("new", "--out", str(tmp_path / "keys"), "--", name).exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    keys("new", "root", "--out", str(tmp_path))
    pem = tmp_path / "root.pem"
    assert keys("public", str(pem)).exit_code == 0
    pem.chmod(0o640)
    refused = keys("public", str(pem))
    assert refused.exit_code == 2
    assert "chmod 600" in refused.stderr


def test_a_file_that_is_no_key_is_named_and_not_shown(tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text("something that is secret")
    other.chmod(0o600)
    refused = keys("public", str(other))
    assert refused.exit_code == 2
    assert "not a private key" in refused.stderr
    assert "something" not in refused.output


def test_a_tenants_key_of_values_follows_from_the_master_key(tmp_path: Path) -> None:
    master, of_acme = tmp_path / "home" / "values.key", tmp_path / "acme.key"
    made = keys("values", str(master))
    derived = keys("values", str(master), "--tenant", "acme", "--out", str(of_acme))
    assert (made.exit_code, derived.exit_code) == (0, 0)
    assert read_value_key(of_acme) == derive_tenant_key(read_value_key(master), "acme")
    for file in (master, of_acme):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().strip() not in made.output + derived.output

    before = master.read_bytes()
    assert keys("values", str(master)).exit_code == 2
    assert keys("values", str(master), "--tenant", "acme", "--out", str(of_acme)).exit_code == 2
    assert keys("values", str(master), "--tenant", "acme").exit_code == 2
    assert master.read_bytes() == before


def test_a_key_of_values_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "values.key"
    with pytest.raises(ValueKeyError, match="cannot read"):
        read_value_key(file)
    keys("values", str(file))
    file.chmod(0o640)
    with pytest.raises(ValueKeyError, match="mode 0640"):
        read_value_key(file)
    file.chmod(0o600)
    file.write_text("secret-that-is-no-key")
    with pytest.raises(ValueKeyError, match="holds no key") as refused:
        read_value_key(file)
    assert "secret-that" not in str(refused.value)
    file.write_text("ab" * 32 + "\n")
    assert read_value_key(file) == b"\xab" * 32
