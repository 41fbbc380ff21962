"""The definitions of an MCP server's tools as they were accepted: one file for each server.

A tool's description and schemas are text that a model reads and obeys, and a server may change them after a
person has looked at them ("rug pull"). The proxy pins the tools when it sees a server for the first time. It
holds back a tool that is new or changed later, until a person accepts it.

A file is a DSSE envelope. With a private key the proxy signs it when it pins. With a public key alone it pins
nothing by itself, and only what the key signed counts. Without a key the file has no signature: then the
proxy notices a change of the server, but not a change of the file.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from sluice.core.registry.keys import SigningKey
from sluice.core.trust.dsse import find_valid_keys, read_envelope, sign
from sluice_topics.json_text import Unreadable, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.core.registry.keys import PublicKey
    from sluice.core.trust.dsse import Envelope

PAYLOAD_TYPE = "application/vnd.sluice.mcp-pins+json"
INSTRUCTIONS = "instructions"
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Without a dot: so tool "b.c" of server "a" is never taken for tool "c" of a server "a.b"."""
_TOOL = "tool/"
_ENDING, _HELD_ENDING = ".pins.json", ".held.json"


class PinsError(Exception):
    """The pins of a server cannot be used; the message says what to do."""


def name_key(name: str) -> str:
    """The key under which a tool is pinned. `INSTRUCTIONS` is the key of the server's instructions."""
    return f"{_TOOL}{name}"


def read_tool(key: str) -> str | None:
    """The tool that a key names; None for the server's instructions."""
    return key.removeprefix(_TOOL) if key.startswith(_TOOL) else None


def compute_digest(definition: Any) -> str:
    """The digest of a definition, in the form that people compare."""
    return "sha256:" + sha256(_write_text(definition).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Pins:
    """The pins of one server in a folder."""

    folder: Path
    server: str
    key: SigningKey | PublicKey | None = None

    def __post_init__(self) -> None:
        """Raises PinsError if the server cannot have this name."""
        if not SERVER_NAME.fullmatch(self.server):
            raise PinsError(
                f"{self.server!r}: a server's name has letters, digits, dash and underscore, no dot"
            )

    def admit(self, shown: Mapping[str, Any]) -> frozenset[str]:
        """Return the keys that the agent may see of what a server shows now. The others are held for a
        person.

        `shown`: definitions by key. Raises PinsError, and OSError where the folder cannot be written.
        """
        if not self._file.exists() and (self.key is None or isinstance(self.key, SigningKey)):
            self._pin_first_sight(shown)
        accepted = self.read_accepted()
        unaccepted = {
            key: definition for key, definition in shown.items() if not _is_pinned(accepted, key, definition)
        }
        if unaccepted:
            self._write(self._held_file, json.dumps(unaccepted, ensure_ascii=False).encode())
        else:
            self._held_file.unlink(missing_ok=True)
        return frozenset(shown.keys() - unaccepted.keys())

    def read_accepted(self) -> dict[str, Any]:
        """The pinned definitions by key; none if there is no file yet. Raises PinsError."""
        try:
            raw = self._file.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise PinsError(f"cannot read {self._file}: {error.strerror}") from None
        envelope = self._read(raw)
        if self.key is None and envelope.signatures:
            raise PinsError(f"{self._file} is signed: give the key, or its public half, with --pins-key")
        public = self.key.public if isinstance(self.key, SigningKey) else self.key
        if public is not None and not find_valid_keys(envelope, [public]):
            raise PinsError(
                f"{self._file} is not signed with this key. Move the file away, and accept the tools anew: "
                "`sluice mcp pins accept`"
            )
        return self._read_definitions(envelope)

    def read_recorded(self) -> dict[str, Any]:
        """The pinned definitions without a check of the signature, to be shown to people."""
        return self._read_definitions(self._read(self._file.read_bytes())) if self._file.exists() else {}

    def read_held(self) -> dict[str, Any]:
        """Read what was held back when the server was last listed, by key. It is not signed."""
        try:
            definitions = parse(self._held_file.read_bytes())
        except OSError:
            return {}
        return definitions if isinstance(definitions, dict) else {}

    def accept(self, shown: Mapping[str, Any]) -> None:
        """Pin definitions as a person has seen them, by key. What a proxy that runs meanwhile holds under the
        same key, because the server has changed it once more, stays held. Raises PinsError and OSError."""
        self._write(self._file, self._seal_definitions({**self.read_accepted(), **shown}))
        left = {
            key: definition
            for key, definition in self.read_held().items()
            if not _is_pinned(shown, key, definition)
        }
        self._write(self._held_file, json.dumps(left, ensure_ascii=False).encode())

    @property
    def _file(self) -> Path:
        return self.folder / f"{self.server}{_ENDING}"

    @property
    def _held_file(self) -> Path:
        return self.folder / f"{self.server}{_HELD_ENDING}"

    def _read(self, raw: bytes) -> Envelope:
        envelope = read_envelope(raw)
        if isinstance(envelope, Unreadable) or envelope.payload_type != PAYLOAD_TYPE:
            raise PinsError(f"{self._file}: no pins of an MCP server")
        return envelope

    def _read_definitions(self, envelope: Envelope) -> dict[str, Any]:
        document = parse(envelope.payload)
        if not isinstance(document, dict) or document.get("server") != self.server:
            raise PinsError(f"{self._file}: the pins of another server")
        return dict(document["definitions"])

    def _seal_definitions(self, definitions: Mapping[str, Any]) -> bytes:
        if self.key is not None and not isinstance(self.key, SigningKey):
            raise PinsError("a public key cannot sign: give the private one with --key")
        signers = [] if self.key is None else [self.key]
        payload = _write_text({"server": self.server, "definitions": definitions}).encode()
        return sign(PAYLOAD_TYPE, payload, signers).encode() + b"\n"

    def _pin_first_sight(self, shown: Mapping[str, Any]) -> None:
        """If two proxies see a new server at the same time, one of them pins it."""
        mine = self._write_beside(self._file, self._seal_definitions(shown))
        try:
            with suppress(FileExistsError):
                self._file.hardlink_to(mine)
        finally:
            mine.unlink()

    def _write(self, file: Path, raw: bytes) -> None:
        self._write_beside(file, raw).replace(file)

    def _write_beside(self, file: Path, raw: bytes) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self.folder, prefix=f".{file.name}.", delete=False) as new:
            new.write(raw)
        return Path(new.name)


def list_servers(folder: Path) -> list[str]:
    """The names of the servers that have pins or held tools in a folder."""
    endings = (_ENDING, _HELD_ENDING)
    files = [file.name for file in folder.glob("*.json")] if folder.is_dir() else []
    return sorted({name.removesuffix(end) for name in files for end in endings if name.endswith(end)})


def _is_pinned(accepted: Mapping[str, Any], key: str, definition: Any) -> bool:
    return key in accepted and _write_text(accepted[key]) == _write_text(definition)


def _write_text(value: Any) -> str:
    """Definitions are compared as text, because 1, 1.0 and True are equal in Python."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
