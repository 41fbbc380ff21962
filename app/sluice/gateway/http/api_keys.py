"""API keys: a file of argon2 hashes, each key bound to a tenant and to agents of it.

A key is `sluice_ID_SECRET`. The file holds no secret; it is read again when it changes, so a revoked key
counts no more with the next request. What verified once is remembered by its SHA-256 until then: argon2 is
slow by intent.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Annotated, Literal

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluice.secrets.secret_files import read_state, replace_secret

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.secrets.secret_files import FileState

_HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
"""OWASP's cheaper choice for Argon2id: what is hashed has 256 random bits, and is no password."""
_FORM = re.compile(r"sluice_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
SECRET_BYTES = 32
ID_BYTES = 6
MOST_REMEMBERED = 10_000
Name = Annotated[str, Field(min_length=1, max_length=256)]
KeyRole = Literal["reviewer"]
"""A reviewer's key reads what held memories say, which no agent may."""


class ApiKey(BaseModel):
    """A key as the file has it. `agents` None: every agent of the tenant; `role` None: an agent's key. Times
    are RFC 3339."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")]
    hash: str
    tenant_id: Name
    agents: Annotated[list[Name] | None, Field(min_length=1)] = None
    role: KeyRole | None = None
    note: str = ""
    created_at: str
    revoked_at: str | None = None


class ApiKeyFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: list[ApiKey] = []


class ApiKeyFileError(Exception):
    """The file of API keys cannot be read; the message names it and says why."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request: a key, its tenant, the agents for which it speaks (None: all), its role."""

    key_id: str
    tenant: str
    agents: frozenset[str] | None
    role: KeyRole | None = None

    @property
    def name(self) -> str:
        """Of the key among those of all tenants."""
        return f"{self.tenant}/{self.key_id}"

    def is_bound_to(self, agent: str) -> bool:
        """Whether the key is bound to this agent. Whether the agent is the tenant's, the registry says."""
        return self.agents is None or agent in self.agents


class ApiKeyStore:
    """The keys of one file."""

    def __init__(self, path: Path, hasher: PasswordHasher = _HASHER) -> None:
        """The file need not be there: then no key counts. Raises ApiKeyFileError."""
        self._path = path
        self._hasher = hasher
        self._nobodys = hasher.hash("the key of nobody")
        self._file_state: FileState | None = None
        self._keys: dict[str, ApiKey] = {}
        self._verified: dict[bytes, str] = {}
        self._refresh()

    def find_verified(self, presented: str) -> Caller | None:
        """The caller of a key that verified before and still counts; None: `verify` must tell. Fast.

        Raises ApiKeyFileError.
        """
        self._refresh()
        key_id = self._verified.get(_compute_fingerprint(presented))
        return None if key_id is None else _make_caller(self._keys[key_id])

    def verify(self, presented: str) -> Caller | None:
        """The caller of a key; None for one that does not count. Takes some 20 ms of a core, as long where
        no key has its id: not for the event loop."""
        form = _FORM.fullmatch(presented)
        key = None if form is None else self._keys.get(form[1])
        if not self._is_match(key, presented) or key is None:
            return None
        if len(self._verified) >= MOST_REMEMBERED:
            self._verified.clear()
        if self._keys.get(key.id) is key:
            self._verified[_compute_fingerprint(presented)] = key.id
        return _make_caller(key)

    def _is_match(self, key: ApiKey | None, presented: str) -> bool:
        try:
            return self._hasher.verify(self._nobodys if key is None else key.hash, presented)
        except (VerificationError, InvalidHashError):
            return False

    def _refresh(self) -> None:
        state = read_file_state(self._path)
        if state != self._file_state:
            self._keys = {key.id: key for key in read_keys(self._path).keys if key.revoked_at is None}
            self._verified, self._file_state = {}, state


def read_keys(path: Path) -> ApiKeyFile:
    """Read the keys of a file; a file that does not exist has none. Raises ApiKeyFileError."""
    try:
        return ApiKeyFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return ApiKeyFile()
    except OSError as error:
        raise ApiKeyFileError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise ApiKeyFileError(f"{path} is no file of API keys: {error.errors()[0]['msg']}") from None


def write_keys(path: Path, keys: BaseModel) -> None:
    """Replace the file in one step, readable by its owner alone. Raises OSError."""
    text = json.dumps(keys.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"
    replace_secret(path, text.encode())


def make_key(
    tenant: str, agents: list[str] | None, note: str, now: str, role: KeyRole | None = None
) -> tuple[ApiKey, str]:
    """A key for the file, and the words that its caller presents, which are not kept anywhere."""
    key_id = secrets.token_hex(ID_BYTES)
    words = f"sluice_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}"
    key = ApiKey(
        id=key_id,
        hash=_HASHER.hash(words),
        tenant_id=tenant,
        agents=agents,
        role=role,
        note=note,
        created_at=now,
    )
    return key, words


def _make_caller(key: ApiKey) -> Caller:
    agents = None if key.agents is None else frozenset(key.agents)
    return Caller(key.id, key.tenant_id, agents, key.role)


def _compute_fingerprint(presented: str) -> bytes:
    return sha256(presented.encode("utf-8", "surrogatepass")).digest()


def read_file_state(path: Path) -> FileState | None:
    """Read a value that changes when the file does; None where there is no file. Raises ApiKeyFileError."""
    try:
        return read_state(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ApiKeyFileError(f"cannot read {path}: {error.strerror}") from None
