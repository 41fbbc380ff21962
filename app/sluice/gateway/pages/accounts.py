"""Who may log in to the pages: a file of people, with Argon2id hashes of their passwords.

An account is of one tenant. It names the registered approver that the person is. What the person may decide
follows from that entry, which the worker checks; the account's roles narrow it. The file is read again when
it changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluice.gateway.http.api_keys import ApiKeyFileError, Name, read_file_state

if TYPE_CHECKING:
    from pathlib import Path

_HASHER = PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=1)
"""More than OWASP's minimum for Argon2id: people choose passwords."""
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1024
AccountRole = Literal["reviewer", "vp", "admin"]
"""A reviewer answers escalations and reviews memories, a vp those of T4 too. An admin reads everything of the
tenant and ends log-ins; it answers nothing."""


class PersonAccount(BaseModel):
    """One person's log-in. `hash` None: only by single sign-on. Times are RFC 3339."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$")]
    hash: str | None
    tenant_id: Name
    approver_id: Name
    roles: Annotated[list[AccountRole], Field(min_length=1, max_length=3)]
    created_at: str
    revoked_at: str | None = None

    @property
    def decides(self) -> bool:
        """Whether the person may answer at all."""
        return "reviewer" in self.roles or "vp" in self.roles

    def object_to(self, required_role: str) -> str | None:
        """Why this log-in does not answer what needs this role; None: it does."""
        if required_role == "vp" and "vp" not in self.roles:
            return "this needs the role vp, which your log-in does not have"
        return None if self.decides else "your log-in only reads"


class PeopleFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    people: list[PersonAccount] = []


class PeopleStore:
    """The people of one file."""

    def __init__(self, path: Path) -> None:
        """The file need not be there: then nobody logs in. Raises ApiKeyFileError."""
        self._path = path
        self._file_state: tuple[int, int, int] | None = None
        self._people: dict[str, PersonAccount] = {}
        self.get("")

    def get(self, name: str) -> PersonAccount | None:
        """The account of this name that counts now. Raises ApiKeyFileError."""
        state = read_file_state(self._path)
        if state != self._file_state:
            self._people = {
                person.name: person for person in read_people(self._path).people if person.revoked_at is None
            }
            self._file_state = state
        return self._people.get(name)

    def verify(self, name: str, password: str) -> PersonAccount | None:
        """The account, if the password is its own. Takes as long for a name that is not there; not for the
        event loop. Raises ApiKeyFileError."""
        account = self.get(name)
        hashed = _NOBODY if account is None or account.hash is None else account.hash
        try:
            fits = _HASHER.verify(hashed, password)
        except (VerificationError, InvalidHashError):
            return None
        return account if fits and account is not None and hashed is account.hash else None


def read_people(path: Path) -> PeopleFile:
    """Read the people of a file; a file that does not exist has none. Raises ApiKeyFileError."""
    try:
        return PeopleFile.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return PeopleFile()
    except OSError as error:
        raise ApiKeyFileError(f"cannot read {path}: {error.strerror}") from None
    except ValidationError as error:
        raise ApiKeyFileError(f"{path} is no file of people: {error.errors()[0]['msg']}") from None


def hash_password(password: str) -> str:
    """The Argon2id hash. Raises ValueError for a password that is too short or too long."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise ValueError(f"a password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
    return _HASHER.hash(password)


_NOBODY = _HASHER.hash("the password of nobody")
