"""The only reader of the environment and of config/.

Source, last wins: the defaults of `sluice/settings/groups.py`, `config/sluice.toml`, the file named by
`SLUICE_CONFIG`, environment variables (`SLUICE_KAFKA__TOPIC_PREFIX=…`). Each value is kept with the place
that says it, for messages. A variable or a key that no setting has is refused with the name that was probably
meant.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sluice.settings.groups import Settings
from sluice.shipped import SHIPPED_FILES
from sluice_topics.catalog import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

PREFIX = "SLUICE_"
CONFIG = f"{PREFIX}CONFIG"
_BETWEEN = "__"
_NEAR = 0.8
"""How alike two names are, by difflib's ratio, before one is taken for a slip of the other."""
_NEAR_KEY = 0.6
_SERVICE_LINK = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)\w*)?)")
"""What Kubernetes sets for a service named sluice: not ours, and no slip."""
_WRITTEN_AS_JSON = (list, tuple, dict)


class SettingsError(Exception):
    """A setting is wrong; the message names it and says why. Nothing was started."""


@dataclass
class SettingSources:
    """`values`: by group and name; `places`: where each was said last, as a person names it."""

    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[tuple[str, ...], str] = field(default_factory=dict)

    def put(self, group: str, name: str, value: Any, source: str) -> None:
        """A value that goes before what an earlier source said."""
        self.values.setdefault(group, {})[name] = value
        self.places[group, name] = source

    def describe_error(self, error: ErrorDetails) -> str:
        """What pydantic found wrong, under the name that its setting was given by."""
        location = tuple(map(str, error["loc"]))
        name = ".".join(location) or "settings"
        source = self.places.get(location[:2])
        where = name if source is None or source == name else f"{source} ({name})"
        message = error["msg"].removeprefix("Value error, ")
        return f"{where}: {message}"


def take_file(sources: SettingSources, path: Path, groups: Mapping[str, type[BaseModel]]) -> None:
    """A settings file's values. Raises SettingsError with the file and the key."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from None
    for group, names in document.items():
        if group not in groups:
            raise SettingsError(f"{path}: [{group}]: no such group of settings{_suggest_name(group, groups)}")
        if not isinstance(names, dict):
            raise SettingsError(f"{path}: {group}: a group of settings is written [{group}]")
        for name, value in names.items():
            fields = groups[group].model_fields
            if name not in fields:
                raise SettingsError(f"{path}: [{group}] {name}: no such setting{_suggest_name(name, fields)}")
            sources.put(group, name, value, f"{path}: [{group}] {name}")


def take_environment(
    sources: SettingSources, environment: Mapping[str, str], groups: Mapping[str, type[BaseModel]]
) -> set[tuple[str, str]]:
    """The values of our variables; which settings they are. Raises SettingsError with a line for each that is
    not readable."""
    ours = {
        f"{PREFIX}{group}{_BETWEEN}{name}".upper(): (group, name)
        for group, model in groups.items()
        for name in model.model_fields
    }
    wrong = []
    taken = set()
    for variable, text in sorted(environment.items()):
        upper = variable.upper()
        if upper in ours:
            group, name = ours[upper]
            taken.add((group, name))
            try:
                sources.put(
                    group, name, _parse_value(text, groups[group].model_fields[name].annotation), variable
                )
            except ValueError as error:
                wrong.append(f"{variable} ({group}.{name}): {error}")
        elif upper.startswith(PREFIX) and upper != CONFIG:
            wrong += _describe_unknown(variable, [*ours, CONFIG])
    if wrong:
        raise SettingsError("\n".join(wrong))
    return taken


def _describe_unknown(variable: str, ours: Iterable[str]) -> list[str]:
    upper = variable.upper()
    near = difflib.get_close_matches(upper, ours, n=1, cutoff=_NEAR)
    if not near and _BETWEEN not in upper:
        return []
    if _SERVICE_LINK.fullmatch(upper) and _BETWEEN not in upper:
        return []
    meant = f": did you mean {near[0]}?" if near else "; config/sluice.toml has all of them"
    return [f"{variable}: no such setting{meant}"]


def _parse_value(text: str, annotation: Any) -> Any:
    """Lists and tables are JSON, all else is text for pydantic to read. Raises ValueError."""
    origin = typing.get_origin(annotation)
    if origin not in _WRITTEN_AS_JSON:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        form = '{"name": "value"}' if origin is dict else '["value", "value"]'
        raise ValueError(f"must be JSON, {form}, and is not: {error}") from None  # secrets may be in it


def _suggest_name(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=_NEAR_KEY)
    return f": did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"


__all__ = ["Settings", "SettingsError", "describe_missing_trust", "list_real_names", "load_settings"]

SETTINGS_NAME = "sluice.toml"
DEFAULT_FILE = SHIPPED_FILES / SETTINGS_NAME

STAND_INS = (
    ("KAFKA_BOOTSTRAP_SERVERS", "kafka", "bootstrap_servers"),
    ("SLACK_BOT_TOKEN", "slack", "bot_token"),
    ("SLACK_SIGNING_SECRET", "slack", "signing_secret"),
)
"""Environment variables by their usual names, and which setting each stands for."""
KEYS_OF = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""The usual name of each provider's key: no provider is sent the key of another one."""
MODELS = ("analysis", "grader")


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
    sources = SettingSources()
    named = file or find_settings_file()
    if to_come and named is not None and not named.exists():
        named = None
    if named is not None and not named.is_file():
        raise SettingsError(f"{CONFIG}: no such file: {named}. `sluice init` writes one")
    for path in (DEFAULT_FILE, named):
        if path is not None:
            take_file(sources, path, _GROUPS)
    own = take_environment(sources, environment, _GROUPS)
    providers = {model: sources.values.get(model, {}).get("provider", "anthropic") for model in MODELS}
    keys = [(KEYS_OF.get(str(provider), ""), model, "api_key") for model, provider in providers.items()]
    for usual, group, name in (*STAND_INS, *keys):
        if (value := environment.get(usual)) and (group, name) not in own:
            sources.put(group, name, value, usual)
    try:
        return Settings.model_validate(sources.values)
    except ValidationError as error:
        raise SettingsError("\n".join(sources.describe_error(part) for part in error.errors())) from None


def list_real_names(settings: Settings) -> dict[str, str]:
    """Topic name on the broker by base name."""
    return {
        topic.name: topic.real_name(settings.kafka.topic_prefix, settings.worker.app_id) for topic in CATALOG
    }


def find_default_home() -> Path:
    """Where `sluice init` keeps keys and settings if it is not told."""
    return Path.home() / ".sluice"


def describe_missing_trust(settings: Settings) -> str | None:
    """What to do where a setting is empty without which nothing can be signed or believed; None: all are
    there."""
    sources = settings.policy
    lacking = [name for name in ("root_keys", "installation") if not getattr(sources, name)]
    if not lacking:
        return None
    made = find_default_home() / SETTINGS_NAME
    problem = f"policy.{lacking[0]} is empty, so no signature can count."
    if made.is_file() and find_settings_file() is None:
        return f"{problem} `sluice init` wrote it on this machine: export {CONFIG}={made}"
    if lacking[0] == "installation":
        return f"{problem} Give it an id of its own, for good: `openssl rand -hex 16` makes one."
    return f"{problem} `sluice init` makes keys, topics and a signed policy for a development machine."


def find_settings_file() -> Path | None:
    """The file that SLUICE_CONFIG names, there or not."""
    return Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None
