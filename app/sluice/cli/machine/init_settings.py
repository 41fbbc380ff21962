"""The settings file that `sluice init` writes, and what one of an earlier version lacks."""

from __future__ import annotations

import json
import re
import secrets
import stat
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.cli.output import stop
from sluice.secrets.secret_files import replace_file
from sluice.settings.reader import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SEAL_KEYS, VERDICT_KEY, VALUES_KEY = "redis.keys", "verdicts.pem", "values.key"
INSTALLATION_BYTES = 16
_WRITTEN_BACK = {
    "kafka": (
        "bootstrap_servers",
        "topic_prefix",
        "partitions",
        "replication_factor",
        "security_protocol",
        "ca_file",
        "certificate_file",
        "key_file",
        "key_password_file",
        "sasl_mechanism",
        "username",
        "password_file",
        "token_command",
        "token_url",
        "token_scope",
        "token_ca_file",
        "client_id",
        "client_secret_file",
    ),
    "worker": ("app_id",),
}
"""Settings that the topics were made with, so that every later command finds the same topics. Secrets that
the environment gave stay there."""
OwnSettings = dict[str, dict[str, Any]]
"""By group and name."""


class NotExtendedError(Exception):
    """Lines cannot be put into a settings file without changing what it says."""


def make_own_settings(
    settings: Settings, root_key: str, verdict_key: str | None, folder: Path
) -> OwnSettings:
    """Make the settings of a home: the root key, the installation's id, the files of seal keys, of the
    workers' key and of the master key of values, all in `folder`. `verdict_key` None: the workers have no key
    there."""
    own: OwnSettings = {
        "redis": {"key_file": str(folder / SEAL_KEYS)},
        "values": {"master_key_file": str(folder / VALUES_KEY)},
    }
    if verdict_key is not None:
        own["verdicts"] = {"signing_key": str(folder / VERDICT_KEY), "public_keys": [verdict_key]}
    installation = settings.policy.installation or secrets.token_hex(INSTALLATION_BYTES)
    return {**own, "policy": {"root_keys": [root_key], "installation": installation}}


def write_settings(settings: Settings, own: OwnSettings) -> str:
    """A whole file: what differs from the defaults in how topics are made, and the home's own settings."""
    made: OwnSettings = {}
    for group, names in _WRITTEN_BACK.items():
        group_settings, default = getattr(settings, group), getattr(Settings(), group)
        values = {name: getattr(group_settings, name) for name in names}
        values = {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
        made[group] = {name: value for name, value in values.items() if value != getattr(default, name)}
    lines = ["# Written by `sluice init`. Every setting and its default: config/sluice.toml."]
    for group, values in {**made, **own}.items():
        lines += ["", f"[{group}]", *_write_lines(values)] if values else []
    return "\n".join([*lines, ""])


def find_missing(text: str, own: OwnSettings) -> OwnSettings:
    """Those of the home's own settings that its file does not name. A file that says anything of the workers'
    keys says it all, but for the public half of a key that it lets workers sign with. Raises
    tomllib.TOMLDecodeError."""
    there = tomllib.loads(text)
    return {
        group: lacking for group, values in own.items() if (lacking := _find_lacking(there, group, values))
    }


def _find_lacking(there: Mapping[str, Any], group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    named = there.get(group, {})
    if group == "verdicts" and named and named.get("signing_key") != values["signing_key"]:
        return {}
    return {name: value for name, value in values.items() if name not in named}


def split_by_breaks(missing: OwnSettings, settings: Settings) -> tuple[OwnSettings, OwnSettings]:
    """The settings that change nothing for what is in the ledger already, and those that a person has to add.

    Readers that are told a public key pass over each record that it did not sign, and a signature is for one
    installation: what waits from before would vanish, unanswered. `settings`: those in force, which the
    environment may have given."""
    in_force = {
        ("verdicts", "public_keys"): list(settings.verdicts.public_keys),
        ("policy", "installation"): settings.policy.installation,
    }
    groups: tuple[OwnSettings, OwnSettings] = {}, {}
    for group, values in missing.items():
        for name, value in values.items():
            breaks = in_force.get((group, name), value) != value
            groups[breaks].setdefault(group, {})[name] = value
    return groups


def extend(text: str, missing: OwnSettings) -> str:
    """The file with further settings, and every line that was there. Raises NotExtendedError, with the
    further lines."""
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    for group, values in missing.items():
        lines = "".join(f"{line}\n" for line in _write_lines(values))
        header = re.search(rf"^\[{group}\][^\n]*\n", whole, re.MULTILINE)
        if header is None:
            whole += f"\n[{group}]\n{lines}"
        else:
            whole = whole[: header.end()] + lines + whole[header.end() :]
    before = tomllib.loads(text)
    due = before | {group: {**before.get(group, {}), **values} for group, values in missing.items()}
    if _parse(whole) != due:
        needed = "".join(
            f"[{group}]\n" + "\n".join(_write_lines(values)) for group, values in missing.items()
        )
        raise NotExtendedError(needed)
    return whole


def _parse(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _write_lines(values: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{name} = {json.dumps(value)}" for name, value in values.items())


def extend_or_stop(
    file: Path, own: OwnSettings, settings: Settings, *, fresh: bool
) -> tuple[list[str], OwnSettings]:
    """Put what a settings file lacks into it: the names of these settings, and those that are left to a
    person. `fresh`: nothing was decided or published with the file yet, so none is."""
    try:
        text = file.read_text(encoding="utf-8")
        missing = find_missing(text, own)
        safe, left = (missing, {}) if fresh else split_by_breaks(missing, settings)
        if safe:
            replace_file(file, extend(text, safe).encode(), stat.S_IMODE(file.stat().st_mode))
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    except NotExtendedError as error:
        stop(f"{file} lacks these settings, and they cannot be put into it safely: add them\n{error}")
    return [f"{group}.{name}" for group, values in safe.items() for name in values], left


def describe_left(file: Path, left: OwnSettings) -> Iterator[str]:
    """Lines for a person: what to add to the file, and when."""
    if "verdicts" in left:
        yield f"{file} does not name the workers' public key yet: readers that know it pass over all that was"
        yield "decided before, also what still waits. Add this line once nothing from before waits any more"
        yield "(`sluice escalations list` and `sluice quarantine list` show it),"
        yield from _write_lines_under("verdicts", left)
    if "policy" in left:
        yield f"{file} names no policy.installation, without which nothing can be signed. Reviews, inputs and"
        yield "grants that were signed before you add this line count no more. Add it, and run"
        yield "`sluice init` again,"
        yield from _write_lines_under("policy", left)


def _write_lines_under(group: str, left: OwnSettings) -> Iterator[str]:
    """The file has the group's header already, and TOML lets it have no second one."""
    yield f"under its line [{group}]:"
    yield from (f"  {line}" for line in _write_lines(left[group]))
