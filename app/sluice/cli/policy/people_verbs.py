"""`sluice keys people`: who may log in to the gateway's pages. Add a person, list them, revoke a log-in."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from pydantic import ValidationError

from sluice.cli.output import WRONG, clean, console, print_json, require_settings, stop
from sluice.cli.policy.api_key_verbs import open_for_writing, read_clock
from sluice.cli.tables import build_table
from sluice.core.foundation.strict import first_error

if TYPE_CHECKING:
    from sluice.gateway.pages.accounts import PeopleFile, PersonAccount

cli = typer.Typer(
    name="people",
    no_args_is_help=True,
    help="The people who log in to the gateway's pages. The file (setting gateway.people) holds hashes of "
    "their passwords; a running gateway reads it again when it changes.",
)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]
File = Annotated[
    Path | None, typer.Option(dir_okay=False, help="The file of people; default: gateway.people.")
]
GENERATED_BYTES = 18


@cli.command()
def new(  # noqa: PLR0913 - options of a command
    name: Annotated[str, typer.Argument(metavar="NAME", help="With which the person logs in.")],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant whose matters the person sees.")],
    role: Annotated[
        list[str], typer.Option(help="reviewer, vp or admin; may be given several times.", show_default=True)
    ] = ["reviewer"],  # noqa: B006 - Typer reads the default, and copies it
    approver: Annotated[
        str | None, typer.Option(help="The registered approver that the person is; default: NAME.")
    ] = None,
    generate: Annotated[bool, typer.Option("--generate", help="Make a password and show it once.")] = False,
    sso: Annotated[bool, typer.Option("--sso", help="Without a password: only by single sign-on.")] = False,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Let a person log in. It asks for the password, unless it makes one.

    What the person may decide, the registry's entry of the approver says;
    a log-in's roles narrow it.

    Exit codes: 0 added, 1 the name is taken, 2 could not do it.

    Example: sluice keys people new ann --tenant acme --role vp --generate
    """
    document, write_to = _read(_find_path(file)), _find_path(file)
    _stop_if_taken(document, name)
    made = secrets.token_urlsafe(GENERATED_BYTES) if generate or as_json else None
    account = _make_account(name, tenant, role, approver or name, None if sso else made or _ask_password())
    from sluice.gateway.pages.accounts import PeopleFile  # noqa: PLC0415 - an extra

    with open_for_writing(write_to) as write:
        document = _read(write_to)
        _stop_if_taken(document, name)
        write(PeopleFile(people=[*document.people, account]))
    if as_json:
        print_json({"name": name, "password": None if sso else made})
        return
    console.print(f"[green]added[/] {clean(name)} of {clean(tenant)}", highlight=False)
    if made is not None and not sso:
        console.print(f"password: {made}   It is not shown again.", soft_wrap=True, highlight=False)


@cli.command("list")
def list_people(file: File = None, as_json: AsJson = False) -> None:
    """List the people: their tenants and roles, and whether they may log in.

    Exit codes: 0 shown, 2 could not read.
    """
    people = _read(_find_path(file)).people
    if as_json:
        print_json([person.model_dump(exclude={"hash"}) for person in people])
        return
    rows = (
        (
            *map(clean, (person.name, person.tenant_id, person.approver_id, ", ".join(person.roles))),
            *map(clean, (person.created_at, person.revoked_at or "")),
        )
        for person in people
    )
    console.print(build_table("name", "tenant", "approver", "roles", "added", "revoked", rows=rows))


@cli.command()
def revoke(name: Annotated[str, typer.Argument(metavar="NAME")], file: File = None) -> None:
    """Revoke a log-in: its sessions end with their next request.

    Exit codes: 0 revoked, 1 nobody of this name may log in, 2 could not do
    it.
    """
    path = _find_path(file)
    with open_for_writing(path) as write:
        document = _read(path)
        account = next(
            (person for person in document.people if person.name == name and person.revoked_at is None), None
        )
        if account is None:
            stop(f"{name}: nobody of this name may log in", WRONG)
        ended = account.model_copy(update={"revoked_at": read_clock()})
        people = [ended if person is account else person for person in document.people]
        write(document.model_copy(update={"people": people}))
    console.print(f"[green]revoked[/] {clean(name)}", highlight=False)


def _make_account(
    name: str, tenant: str, roles: list[str], approver: str, password: str | None
) -> PersonAccount:
    from sluice.gateway.pages.accounts import PersonAccount, hash_password  # noqa: PLC0415 - an extra

    try:
        fields = {
            "name": name,
            "hash": None if password is None else hash_password(password),
            "tenant_id": tenant,
            "approver_id": approver,
            "roles": roles,
            "created_at": read_clock(),
        }
        return PersonAccount.model_validate(fields)
    except ValidationError as error:
        stop(first_error(error))
    except ValueError as error:
        stop(str(error))


def _ask_password() -> str:
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))


def _stop_if_taken(document: PeopleFile, name: str) -> None:
    if any(person.name == name and person.revoked_at is None for person in document.people):
        stop(f"{name}: somebody of this name may log in already", WRONG)


def _read(path: Path) -> PeopleFile:
    try:
        from sluice.gateway.http.api_keys import ApiKeyFileError  # noqa: PLC0415 - an extra
        from sluice.gateway.pages.accounts import read_people  # noqa: PLC0415 - as above
    except ImportError:
        _stop_without_extra()
    try:
        return read_people(path)
    except ApiKeyFileError as error:
        stop(str(error))


def _stop_without_extra() -> NoReturn:
    stop("this needs argon2-cffi: install the extra `gateway` (in a checkout: make setup)")


def _find_path(file: Path | None) -> Path:
    return file or Path(require_settings().gateway.people).expanduser()
