"""The only reader of the environment and of config/.

Source, last wins: the defaults of `app/setting_groups.py`, `config/sluice.toml`, the file named by
`SLUICE_CONFIG`, environment variables (`SLUICE_KAFKA__TOPIC_PREFIX=…`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from app.given_settings import CONFIG, Given, SettingsError, take_environment, take_file
from app.setting_groups import Settings
from topics.catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

__all__ = ["Settings", "SettingsError", "load_settings", "real_names"]

SETTINGS_NAME = "sluice.toml"
ROOT = Path(__file__).resolve().parent.parent
DEFAULT_FILE = ROOT / "config" / SETTINGS_NAME

STAND_INS = (
    ("KAFKA_BOOTSTRAP_SERVERS", "kafka", "bootstrap_servers"),
    ("ANTHROPIC_API_KEY", "analysis", "api_key"),
)
"""Environment variables by their usual names, and which setting each stands for."""


_GROUPS: dict[str, type[BaseModel]] = {
    name: type(described.default) for name, described in Settings.model_fields.items()
}


def load_settings(
    file: Path | None = None, *, to_come: bool = False, environment: Mapping[str, str] = os.environ
) -> Settings:
    """The settings in force. Raises SettingsError with a line per wrong setting.

    `file` is read instead of the one that SLUICE_CONFIG names; `to_come`: it need not be there yet. The usual
    names of STAND_INS stand in for our own: they go before files, and our own before them. `environment`: of
    another process, whose settings are asked for.
    """
    given = Given()
    named = file or settings_file()
    if to_come and named is not None and not named.exists():
        named = None
    if named is not None and not named.is_file():
        raise SettingsError(f"{CONFIG}: no such file: {named}. `sluice init` writes one")
    for path in (DEFAULT_FILE, named):
        if path is not None:
            take_file(given, path, _GROUPS)
    for usual, group, name in STAND_INS:
        if value := environment.get(usual):
            given.put(group, name, value, usual)
    take_environment(given, environment, _GROUPS)
    try:
        return Settings.model_validate(given.values)
    except ValidationError as error:
        raise SettingsError("\n".join(given.line(part) for part in error.errors())) from None


def real_names(settings: Settings) -> dict[str, str]:
    """Topic name on the broker by base name."""
    return {one.name: one.real_name(settings.kafka.topic_prefix, settings.worker.app_id) for one in CATALOG}


def default_home() -> Path:
    """Where `sluice init` keeps keys and settings if it is not told."""
    return Path.home() / ".sluice"


def no_root_keys() -> str:
    """What to do where policy.root_keys is empty and something has to be signed or believed."""
    made = default_home() / SETTINGS_NAME
    wanted = "policy.root_keys is empty, so no signature can count."
    if made.is_file():
        return f"{wanted} `sluice init` wrote them on this machine: export {CONFIG}={made}"
    return f"{wanted} `sluice init` makes keys, topics and a signed policy for a development machine."


def settings_file() -> Path | None:
    """The file that SLUICE_CONFIG names, there or not."""
    return Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None
