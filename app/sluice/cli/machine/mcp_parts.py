"""What the proxy of `sluice mcp` is made of, by its options, its file and the settings."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.adapters.mcp.proxy_file import Parking, ProxyFile, ProxyFileError, read_proxy_file
from sluice.cli.machine.mcp_pins import require_private_key
from sluice.cli.output import stop
from sluice.client import ClientOptions
from sluice.secrets.value_keys import ValueKeyError, make_value_key, read_value_key, write_value_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcp import StdioServerParameters

    from sluice.adapters.mcp.listening import Door
    from sluice.bootstrap.followed_freezes import FollowedFreezes
    from sluice.bootstrap.followed_sealing import FollowedSealing
    from sluice.settings.reader import Settings

_OURS = "SLUICE_"
_LANGUAGE = ("LANG", "LC_ALL", "LC_CTYPE")


class Calling(NamedTuple):
    """Who calls what. `session` None: a new one; `mandate`: {} without a task."""

    agent: str
    session: str | None
    server: str
    mandate: dict[str, Any]


def read_config(config: Path | None) -> ProxyFile:
    try:
        return ProxyFile() if config is None else read_proxy_file(config)
    except ProxyFileError as error:
        stop(str(error))


def require_calling(
    file_options: ProxyFile, task: Path | None, agent: str | None, session: str | None, server: str | None
) -> Calling:
    """Who calls what, by the options, the file and the task, in this order."""
    mandate = _read_mandate(task or _resolve_file(file_options.task))
    session = session or file_options.session or mandate.get("session_id")
    agent = agent or file_options.agent or mandate.get("agent_id")
    server = server or file_options.server
    if mandate and (agent, session) != (mandate.get("agent_id"), mandate.get("session_id")):
        stop("--task is for another agent or session: leave --agent and --session out, or give its own")
    if agent is None or server is None:
        stop("say who calls and what: --agent and --server, or a file with --config")
    return Calling(agent, session, server, mandate)


def require_door(file_options: ProxyFile, listen: str | None, token_file: Path | None) -> Door | None:
    """Where the proxy listens; None: on standard input and output."""
    from sluice.adapters.mcp.listening import read_door  # noqa: PLC0415 - only to serve

    listening, address = file_options.listen, listen or file_options.listen.address
    try:
        if address is None:
            return None
        return read_door(address, listening, token_file or _resolve_file(listening.token_file))
    except ProxyFileError as error:
        stop(str(error))


def build_target(
    command: Sequence[str], env: Sequence[str] | None, file_options: ProxyFile
) -> StdioServerParameters:
    """How the server is started."""
    from mcp import StdioServerParameters  # noqa: PLC0415 - an extra

    environment = _select_environment(env or file_options.env, file_options.listen.token_env)
    return StdioServerParameters(command=command[0], args=list(command[1:]), env=environment)


def build_gate_options(
    settings: Settings, file_options: ProxyFile, agent_key: Path | None, verdict_keys: Iterable[str]
) -> ClientOptions:
    return ClientOptions(
        topic_prefix=settings.kafka.topic_prefix,
        deadline_s=file_options.deadline_s,
        agent_key=_read_pem(agent_key or _resolve_file(file_options.agent_key)),
        installation=settings.policy.installation,
        verdict_keys=(*settings.verdicts.public_keys, *verdict_keys),
        journal=_resolve_file(file_options.journal),
        reported_by=file_options.reported_by,
        signing_key=_read_pem(_resolve_file(file_options.signing_key)),
        values_key=_read_values_key(_resolve_file(file_options.values_key) or settings.values.key_file),
        freezes=_follow_freezes(settings) if file_options.follow_freezes else None,
        sealing=_follow_sealing(settings),
    )


def _follow_sealing(settings: Settings) -> Callable[[], FollowedSealing] | None:
    if not settings.sealing.is_on:
        return None
    from sluice.bootstrap.followed_sealing import follow_sealing  # noqa: PLC0415 - and with it the whole core
    from sluice.cli.policy.control_topics import require_roots  # noqa: PLC0415 - as above
    from sluice.core.trust.in_force import PolicyError  # noqa: PLC0415 - as above

    require_roots(settings)
    try:
        return follow_sealing(settings)
    except PolicyError as error:
        stop(str(error))


def _follow_freezes(settings: Settings) -> Callable[[], FollowedFreezes]:
    from sluice.bootstrap.followed_freezes import follow_freezes  # noqa: PLC0415 - and with it the whole core
    from sluice.cli.policy.control_topics import require_roots  # noqa: PLC0415 - as above

    require_roots(settings)
    policy = settings.policy
    retired = {key: round(at.timestamp() * 1000) for key, at in policy.retired_root_keys.items()}
    return follow_freezes(
        settings.kafka.connection,
        policy.root_keys,
        settings.build_audience(),
        retired_root_keys=retired,
        refresh_s=policy.refresh_s,
        max_lag_s=policy.max_lag_s,
    )


def build_parking(file_options: ProxyFile, agent: str, session: str | None) -> Parking | None:
    """How calls are parked. A state outlives the proxy, so what it stands on must, too."""
    key = _resolve_file(file_options.parking_key)
    if key is None:
        return None
    if file_options.journal is None or session is None:
        stop(
            "parking_key needs a journal and a session that stay the same: `journal`, and `session` or a task"
        )
    try:
        if not key.exists():
            write_value_key(key, make_value_key())
        return Parking(read_value_key(key), agent, file_options.parked_s)
    except ValueKeyError as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot write {key}: {error.strerror}")


def _resolve_file(written: str | None) -> Path | None:
    return None if written is None else Path(written).expanduser()


def _read_pem(file: Path | None) -> bytes | None:
    """The bytes of a private key that can be used."""
    if file is None:
        return None
    require_private_key(file)
    return file.read_bytes()


def _read_mandate(file: Path | None) -> dict[str, Any]:
    """The mandate in a file; {} where there is no file."""
    if file is None:
        return {}
    try:
        mandate = json.loads(file.expanduser().read_bytes())
    except OSError as error:
        stop(f"cannot read {file}: {error.strerror}")
    except ValueError as error:
        stop(f"{file} is no JSON: {error}")
    if not isinstance(mandate, dict) or "mandate_id" not in mandate or "session_id" not in mandate:
        stop(f"{file} is no mandate: `sluice mandate issue --out FILE` writes one")
    return mandate


def _read_values_key(file: Path | None) -> bytes | None:
    try:
        return None if file is None else read_value_key(file.expanduser())
    except ValueKeyError as error:
        stop(str(error))


def _select_environment(names: Iterable[str], token: str | None) -> dict[str, str]:
    """Select the server's environment: the variables that are named, and the language. The SDK adds HOME,
    LOGNAME, PATH, SHELL, TERM, USER."""
    environment = {name: os.environ[name] for name in _LANGUAGE if name in os.environ}
    for name in names:
        if name.upper().startswith(_OURS):
            stop(f"--env {name}: Sluice's own settings, which may hold keys, are not given to a server")
        if name == token:
            stop(f"--env {name}: the token of the proxy's clients is not given to a server")
        if name not in os.environ:
            stop(f"--env {name}: it is not set")
        environment[name] = os.environ[name]
    return environment
