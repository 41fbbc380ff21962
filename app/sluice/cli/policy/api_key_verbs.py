"""`sluice keys api`: the API keys of the HTTP gateway. Make one, list them, revoke one."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output import WRONG, clean, console, print_json, require_settings, stop
from sluice.cli.tables import build_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

    from sluice.gateway.http.api_keys import ApiKeyFile

cli = typer.Typer(
    name="api",
    no_args_is_help=True,
    help="The API keys with which agents call the HTTP gateway. The file (setting gateway.api_keys) holds "
    "hashes alone; a running gateway reads it again when it changes.",
)
AsJson = Annotated[bool, typer.Option("--json", help="One JSON value on standard output.")]
File = Annotated[
    Path | None, typer.Option(dir_okay=False, help="The file of keys; default: gateway.api_keys.")
]


@cli.command()
def new(
    tenant: Annotated[str, typer.Option(help="The tenant whose agents it speaks for.")],
    *,
    agent: Annotated[
        list[str] | None, typer.Option(help="An agent of the tenant; may be given several times; none: all.")
    ] = None,
    reviewer: Annotated[
        bool, typer.Option("--reviewer", help="It reads the content and the counts of the quarantine.")
    ] = False,
    note: Annotated[str, typer.Option(help="Who has it, for `list`.")] = "",
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and show it once: the file keeps only a hash of it.

    Exit codes: 0 made, 2 could not do it.

    Example: sluice keys api new --tenant acme --agent my-agent
    """
    from sluice.gateway.http.api_keys import ApiKeyFile, make_key  # noqa: PLC0415 - an extra

    with _open_keys(file) as (keys, write):
        key, words = make_key(tenant, agent or None, note, read_clock(), "reviewer" if reviewer else None)
        write(ApiKeyFile(keys=[*keys.keys, key]))
    if as_json:
        print_json({"id": key.id, "key": words})
        return
    console.print(f"key: {words}", soft_wrap=True, highlight=False)
    console.print(f"id:  {key.id}. It is not shown again.", soft_wrap=True, highlight=False)


@cli.command("list")
def list_keys(file: File = None, as_json: AsJson = False) -> None:
    """List the keys: whose they are, and whether they count.

    Exit codes: 0 shown, 2 could not read.
    """
    keys = _read(_find_path(file)).keys
    if as_json:
        print_json([key.model_dump(exclude={"hash"}) for key in keys])
        return
    rows = (
        (
            *map(clean, (key.id, key.tenant_id, "all" if key.agents is None else ", ".join(key.agents))),
            *map(clean, (key.role or "agent", key.created_at, key.revoked_at or "", key.note)),
        )
        for key in keys
    )
    console.print(build_table("id", "tenant", "agents", "role", "made", "revoked", "note", rows=rows))


@cli.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")], file: File = None
) -> None:
    """Revoke a key: gateways refuse it with their next request.

    Exit codes: 0 revoked, 1 there is no such key, or it was revoked
    before; 2 could not do it.
    """
    from sluice.gateway.http.api_keys import ApiKeyFile  # noqa: PLC0415 - an extra

    with _open_keys(file) as (keys, write):
        api_key = next((key for key in keys.keys if key.id == key_id), None)
        if api_key is None or api_key.revoked_at is not None:
            stop(
                f"{key_id}: {'no such key' if api_key is None else f'revoked at {api_key.revoked_at}'}", WRONG
            )
        ended = api_key.model_copy(update={"revoked_at": read_clock()})
        write(ApiKeyFile(keys=[ended if key is api_key else key for key in keys.keys]))
    console.print(f"[green]revoked[/] {clean(key_id)}", highlight=False)


class Write:
    """Replaces a file in one step."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, document: BaseModel) -> None:
        """Write it. Raises OSError."""
        from sluice.gateway.http.api_keys import write_keys  # noqa: PLC0415 - an extra

        write_keys(self._path, document)


@contextmanager
def open_for_writing(path: Path) -> Iterator[Write]:
    """Lock a file, and give the function that replaces it: one command at a time has it. Ends the command
    where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.with_name(f"{path.name}.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Write(path)
    except OSError as error:
        stop(f"cannot write {error.filename or path}: {error.strerror}")


@contextmanager
def _open_keys(file: Path | None) -> Iterator[tuple[ApiKeyFile, Write]]:
    """The keys that are there, and how to replace them."""
    path = _find_path(file)
    with open_for_writing(path) as write:
        yield _read(path), write


def _read(path: Path) -> ApiKeyFile:
    try:
        from sluice.gateway.http.api_keys import ApiKeyFileError, read_keys  # noqa: PLC0415 - an extra
    except ImportError:
        stop("this needs argon2-cffi: install the extra `gateway` (in a checkout: make setup)")
    try:
        return read_keys(path)
    except ApiKeyFileError as error:
        stop(str(error))


def _find_path(file: Path | None) -> Path:
    return file or Path(require_settings().gateway.api_keys).expanduser()


def read_clock() -> str:
    """RFC 3339, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
