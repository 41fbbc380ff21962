"""`sluice keys people`: who may log in; the file has no password."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner, Result

from sluice.cli.main import cli
from sluice.gateway.pages.accounts import PeopleStore

if TYPE_CHECKING:
    from pathlib import Path


def people(file: Path, *words: str, said: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["keys", "people", *words, "--file", str(file)], input=said)


def test_a_person_is_added_listed_verified_and_revoked(tmp_path: Path) -> None:
    file = tmp_path / "people.json"
    made = people(file, "new", "ann", "--tenant", "acme", "--role", "vp", "--approver", "ann-1", "--json")
    assert made.exit_code == 0, made.output
    password = json.loads(made.stdout)["password"]
    assert password not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    (listed,) = json.loads(people(file, "list", "--json").stdout)
    assert (listed["name"], listed["tenant_id"], listed["approver_id"], listed["roles"]) == (
        "ann",
        "acme",
        "ann-1",
        ["vp"],
    )
    store = PeopleStore(file)
    assert store.verify("ann", password) is not None
    assert people(file, "revoke", "ann").exit_code == 0
    assert store.verify("ann", password) is None
    assert people(file, "revoke", "ann").exit_code == 1


def test_a_password_is_asked_for_twice_and_has_a_length(tmp_path: Path) -> None:
    file = tmp_path / "people.json"
    words = ("new", "ben", "--tenant", "acme")
    assert people(file, *words, said="short\nshort\n").exit_code == 2
    assert people(file, *words, said="a longer password\na longer password\n").exit_code == 0
    assert PeopleStore(file).verify("ben", "a longer password") is not None


def test_a_name_is_given_once_and_a_role_is_one_of_three(tmp_path: Path) -> None:
    file = tmp_path / "people.json"
    assert people(file, "new", "ann", "--tenant", "acme", "--sso").exit_code == 0
    assert people(file, "new", "ann", "--tenant", "acme", "--sso").exit_code == 1
    assert people(file, "new", "ben", "--tenant", "acme", "--sso", "--role", "boss").exit_code == 2
    assert people(file, "new", "b n", "--tenant", "acme", "--sso").exit_code == 2
    assert PeopleStore(file).verify("ann", "") is None, "only by single sign-on"
