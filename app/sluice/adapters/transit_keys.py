"""The keys of persons, wrapped by a master key that never leaves HashiCorp Vault or OpenBao.

The Transit secrets engine encrypts with associated data (type aes256-gcm96), which its key's versions share a
name; a version is a master key here. `vault write -f transit/keys/NAME/rotate` begins with a new one, and
`sluice rewrap` wraps all with it. What stands for a person is Transit's HMAC, by the same key.

Vault: "Transit secrets engine (API)", as of 2026: encrypt, decrypt and hmac of batches, read key.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from base64 import b64decode, b64encode
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from sluice.adapters.models.model_api import BoundedTransport
from sluice.secrets.key_wrapping import PERSON_BYTES, KeyOwner, PersonKey, Wrapped
from sluice.secrets.secret_files import SecretFileError, read_secret
from sluice_topics.sealing import SECRET_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MOST_BATCH = 256
MOST_NAMED = 65_536
"""Persons whose names on the topic a process holds."""
VERSIONS_S = 60.0
"""How long the versions of the key are believed."""
MAX_BYTES = 4 * 1024 * 1024
"""Of an answer."""
_CIPHERTEXT = re.compile(r"vault:v([1-9][0-9]{0,8}):[A-Za-z0-9+/=]+")


class TransitAddress(NamedTuple):
    """Where the key is. `url`: of the server; `mount`: of the engine; `token_file`: read with each request,
    since tokens are renewed; `namespace`: of Vault Enterprise, "" for none; `ca_file`: of the authority that
    signed its certificate; None: one that the system trusts."""

    url: str
    mount: str
    key: str
    token_file: Path
    timeout_s: float
    namespace: str = ""
    ca_file: Path | None = None


class _Versions(NamedTuple):
    """Of the key, in force: their `numbers`, the newest first. `least_naming`: the least by which Transit
    computes HMACs, besides the newest: min_encryption_version."""

    numbers: tuple[int, ...]
    least_naming: int


class TransitError(OSError):
    """The server cannot be asked, or does not answer; no word of what was asked is in the message."""


class TransitKeyWrapper:
    """With a key of the Transit engine. On one event loop."""

    def __init__(self, address: TransitAddress) -> None:
        self._address = address
        self._client: httpx2.AsyncClient | None = None
        self._versions: tuple[float, _Versions] | None = None
        self._names: OrderedDict[tuple[int, bytes], bytes] = OrderedDict()

    async def close(self) -> None:
        """Give up the connection."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def wrap(self, keys: Sequence[tuple[KeyOwner, PersonKey]]) -> list[Wrapped]:
        """Wrap keys with the newest version. Raises TransitError."""
        items = [
            {"plaintext": _encode(key.secret + key.person), "associated_data": _bind(whose)}
            for whose, key in keys
        ]
        wrapped = [self._read_wrapped(item) for item in await self._ask_batch("encrypt", items)]
        if self._versions is not None:
            newest = self._name(self._versions[1].numbers[0])
            if any(each.by != newest for each in wrapped):
                self._versions = None  # the key was rotated: ask which versions there are
        return wrapped

    async def unwrap(self, keys: Sequence[tuple[KeyOwner, Wrapped]]) -> list[PersonKey | None]:
        """The keys that were wrapped for these; None for one that does not open. Raises TransitError."""
        own = [
            _CIPHERTEXT.fullmatch(text) is not None and wrapped.by == self._name(_read_version(text))
            for _, wrapped in keys
            for text in (wrapped.text.decode("ascii", "replace"),)
        ]
        items = [
            {"ciphertext": wrapped.text.decode("ascii"), "associated_data": _bind(whose)}
            for (whose, wrapped), is_own in zip(keys, own, strict=True)
            if is_own
        ]
        opened = iter(await self._ask_batch("decrypt", items))
        return [_read_key(next(opened)) if is_own else None for is_own in own]

    async def index(self, person: bytes) -> Sequence[bytes]:
        """What stands for a person on the topic, by each version of the key. Raises TransitError."""
        return (await self.index_all([person]))[0]

    async def index_all(self, persons: Sequence[bytes]) -> list[Sequence[bytes]]:
        """The same of each of these. Raises TransitError, also where Transit must not name by all versions
        in force: who erases would miss keys that are named by one."""
        versions = await self._list_versions()
        if versions.numbers[-1] < versions.least_naming:
            raise TransitError(
                f"Transit may name nobody by versions below {versions.least_naming}, and keys of version "
                f"{versions.numbers[-1]} are in force: set the key's min_encryption_version to 0 until "
                "`sluice rewrap` is done and min_decryption_version is raised"
            )
        by_version = [await self._name_by(version, persons) for version in versions.numbers]
        return [list(names) for names in zip(*by_version, strict=True)]

    async def list_masters(self) -> Sequence[str]:
        """The ids of the key's versions, the newest first. Raises TransitError."""
        return [self._name(version) for version in (await self._list_versions()).numbers]

    def _name(self, version: int) -> str:
        return f"{self._address.mount}/{self._address.key}:v{version}"

    async def _name_by(self, version: int, persons: Sequence[bytes]) -> list[bytes]:
        names = {person: self._names.get((version, person)) for person in persons}
        unnamed = [person for person, name in names.items() if name is None]
        path = f"hmac/{self._address.key}/sha2-256"
        for start in range(0, len(unnamed), MOST_BATCH):
            batch = unnamed[start : start + MOST_BATCH]
            asked = {"batch_input": [{"input": _encode(person)} for person in batch], "key_version": version}
            for person, item in zip(batch, await self._ask_for_each(path, asked, len(batch)), strict=True):
                text = str(item.get("hmac")) if isinstance(item, dict) else ""
                if _CIPHERTEXT.fullmatch(text) is None or _read_version(text) != version:
                    raise TransitError("Transit answered with no HMAC of the version that was asked for")
                names[person] = self._names[version, person] = b64decode(text.rpartition(":")[2])
        while len(self._names) > MOST_NAMED:
            self._names.popitem(last=False)
        return [name for person in persons if (name := names[person]) is not None]

    async def _list_versions(self) -> _Versions:
        if self._versions is None or time.monotonic() - self._versions[0] > VERSIONS_S:
            data = await self._ask("GET", f"keys/{self._address.key}")
            try:
                first, last = int(data["min_decryption_version"]), int(data["latest_version"])
                least_naming = int(data.get("min_encryption_version") or 0)
            except (KeyError, TypeError, ValueError):
                raise TransitError("Transit does not say which versions the key has") from None
            numbers = tuple(range(last, max(first, 1) - 1, -1))
            if not numbers or data.get("type") != "aes256-gcm96":
                raise TransitError("the key in Transit is none of type aes256-gcm96 with a version in force")
            self._versions = time.monotonic(), _Versions(numbers, least_naming)
        return self._versions[1]

    def _read_wrapped(self, item: Any) -> Wrapped:
        text = str(item.get("ciphertext")) if isinstance(item, dict) else ""
        if _CIPHERTEXT.fullmatch(text) is None:
            raise TransitError("Transit did not wrap a key")
        return Wrapped(text.encode(), self._name(_read_version(text)))

    async def _ask_batch(self, verb: str, items: Sequence[dict[str, str]]) -> list[Any]:
        results: list[Any] = []
        for start in range(0, len(items), MOST_BATCH):
            batch = items[start : start + MOST_BATCH]
            path = f"{verb}/{self._address.key}"
            results += await self._ask_for_each(path, {"batch_input": batch}, len(batch))
        return results

    async def _ask_for_each(self, path: str, body: dict[str, Any], count: int) -> list[Any]:
        """What is answered to each of so many. Transit says 400 where the fault is in what was asked for one
        of them, with the results of all; 500 where one met with a fault of its own, so that a key which it
        cannot open now is taken for no false one."""
        status, data = await self._request("POST", path, body)
        answered = None if data is None else data.get("batch_results")
        is_partial = status == httpx2.codes.BAD_REQUEST and isinstance(answered, list)
        if status != httpx2.codes.OK and not is_partial:
            raise _refuse(status, path)
        if not isinstance(answered, list) or len(answered) != count:
            raise TransitError(f"Transit did not answer to each of {count}")
        return answered

    def _connect(self) -> httpx2.AsyncClient:
        if self._client is None:
            context = ssl.create_default_context(cafile=self._address.ca_file)
            transport = BoundedTransport(
                httpx2.AsyncHTTPTransport(verify=context, trust_env=False), MAX_BYTES
            )
            self._client = httpx2.AsyncClient(
                transport=transport, timeout=self._address.timeout_s, follow_redirects=False, trust_env=False
            )
        return self._client

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The `data` of an answer. Raises TransitError."""
        status, data = await self._request(method, path, body)
        if status != httpx2.codes.OK:
            raise _refuse(status, path)
        if data is None:
            raise TransitError("Transit did not answer with JSON as documented")
        return data

    async def _request(
        self, method: str, path: str, body: dict[str, Any] | None
    ) -> tuple[int, dict[str, Any] | None]:
        """The status of an answer, and its `data` where it has one. Raises TransitError."""
        address = self._address
        try:
            headers = {"X-Vault-Token": read_secret(address.token_file).decode("ascii").strip()}
        except (SecretFileError, UnicodeDecodeError) as error:
            raise TransitError(f"the token for Transit cannot be read: {error}") from None
        headers |= {"X-Vault-Namespace": address.namespace} if address.namespace else {}
        url = f"{address.url.rstrip('/')}/v1/{address.mount}/{path}"
        try:
            answer = await self._connect().request(method, url, json=body, headers=headers)
        except (httpx2.HTTPError, OSError) as error:
            raise TransitError(f"Transit does not answer: {type(error).__name__}") from None
        try:
            data = json.loads(answer.content)["data"]
        except (ValueError, KeyError, TypeError):
            data = None
        return answer.status_code, data if isinstance(data, dict) else None


def _refuse(status: int, path: str) -> TransitError:
    return TransitError(f"Transit answered {status} to {path.partition('/')[0]}")


def _bind(whose: KeyOwner) -> str:
    """What is authenticated with a key: its parts, each after its length, so that no two are alike."""
    return _encode(b"".join(len(part).to_bytes(4, "big") + part for part in whose.list_parts()))


def _read_key(item: Any) -> PersonKey | None:
    text = item.get("plaintext") if isinstance(item, dict) else None
    try:
        opened = b64decode(text, validate=True) if isinstance(text, str) else b""
    except ValueError:
        return None
    key = PersonKey(opened[:-PERSON_BYTES], opened[-PERSON_BYTES:])
    return key if len(key.secret) == SECRET_BYTES else None


def _read_version(ciphertext: str) -> int:
    return int(ciphertext.split(":")[1][1:])


def _encode(data: bytes) -> str:
    return b64encode(data).decode()
