"""The file of `sluice mcp --config`, TOML."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from sluice.core.foundation.strict import Name, StrictModel, first_error

if TYPE_CHECKING:
    from pathlib import Path


class ProxyFileError(Exception):
    """The file cannot be used; the message names it and says why."""


class ProxyFile(StrictModel):
    """The file's fields; an option of the command overrides the file.

    `tools`: names in the registry by the server's own names; a tool that is not listed is "SERVER.TOOL".
    `results`: fields of retrieved items (docs/quality.md) for `--results-as-retrievals`.
    """

    agent: Name | None = None
    session: Name | None = None
    server: Name | None = None
    tools: dict[str, Name] = Field(default_factory=dict)
    results: dict[str, Any] = Field(default_factory=dict)
    deadline_s: float = Field(default=10.0, gt=0)
    approval_s: float | None = Field(default=None, gt=0)
    agent_key: str | None = None
    journal: str | None = None


def read_proxy_file(file: Path) -> ProxyFile:
    """Raises ProxyFileError."""
    try:
        return ProxyFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ProxyFileError(f"cannot read {file}: {error.strerror}") from None
    except ValidationError as error:
        raise ProxyFileError(f"{file}: {first_error(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProxyFileError(f"{file}: not TOML: {error}") from None
