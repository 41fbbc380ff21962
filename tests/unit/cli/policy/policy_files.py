"""A small bundle, a small registry and keys, as files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from typer.testing import CliRunner, Result

from sluice.cli.policy import bundle, key_files, registry_verbs
from sluice.cli.policy.key_files import read_private_key

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey

_VERBS = {"bundle": bundle.cli, "keys": key_files.cli, "registry": registry_verbs.cli}


def sluice(noun: str, *words: object, **env: str) -> Result:
    """The command, as a person types it."""
    return CliRunner().invoke(_VERBS[noun], [str(word) for word in words], env=env)


def make(folder: Path, name: str) -> SigningKey:
    """A new key in `folder`/NAME.pem."""
    assert sluice("keys", "new", name, "--out", folder).exit_code == 0
    return read_private_key(folder / f"{name}.pem")


def write(path: Path, document: dict[str, Any]) -> Path:
    """The document as a file."""
    path.write_text(json.dumps(document))
    return path
