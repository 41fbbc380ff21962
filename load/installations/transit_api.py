"""The API of the Transit secrets engine on a loopback server, as far as Sluice uses it: with real AES-256-GCM
and HMACs, versions, batches with failures in them, and the faults of a real one.

Vault: "Transit secrets engine (API)", as of 2026.
"""

from __future__ import annotations

import hmac
import json
import os
from base64 import b64decode, b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from load.installations.loopback_http import HttpAnswer, HttpCall, serve_http

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN, KEY = "hvs.of-the-tests", "sluice"
_NONCE_BYTES = 12
INTERNAL = "the storage does not answer"
"""What an item says that an internal error took. A batch with one is a 500, else one with an error a 400; the
request may ask for another status where some items succeed."""


@dataclass
class TransitApi:
    """`asked`: the verb and the number of items of each request; `faults`: statuses with which the next
    requests are answered, and `item_faults`: of the next items, whether an internal error takes each.
    `oldest`: min_decryption_version; `oldest_encrypting`: min_encryption_version, 0: not set."""

    keys: list[bytes] = field(default_factory=lambda: [os.urandom(32)])
    oldest: int = 1
    oldest_encrypting: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)
    faults: list[int] = field(default_factory=list)
    item_faults: list[bool] = field(default_factory=list)
    url: str = ""

    def rotate(self) -> None:
        """A new version, which encrypts from now on."""
        self.keys.append(os.urandom(32))

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and JSON."""
        verb, _, rest = path.partition("/")
        if rest.partition("/")[0] != KEY:
            return 400, {"errors": ["encryption key not found"]}
        self.asked.append((verb, len(body.get("batch_input", ()))))
        if verb == "keys":
            about = {"type": "aes256-gcm96", "latest_version": len(self.keys)}
            least = {
                "min_decryption_version": self.oldest,
                "min_encryption_version": self.oldest_encrypting,
            }
            return 200, {"data": about | least}
        if verb == "hmac":
            return self._name(body)
        results = [self._answer_item(verb, item) for item in body["batch_input"]]
        failures = [result["error"] for result in results if "error" in result]
        status = 200
        if failures:
            status = 500 if INTERNAL in failures else 400
            if len(failures) < len(results):
                status = body.get("partial_failure_response_code", status)
        return status, {"data": {"batch_results": results}}

    def _answer_item(self, verb: str, item: dict[str, str]) -> dict[str, Any]:
        if self.item_faults and self.item_faults.pop(0):
            return {"error": INTERNAL}
        answered: dict[str, Any] = getattr(self, f"_{verb}")(item)
        return answered

    def _name(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """HMACs, by one version for all items."""
        last = len(self.keys)
        version = body.get("key_version") or last
        if version != last and 0 < self.oldest_encrypting > version:
            return 400, {"errors": ["cannot generate HMAC: version is too old (disallowed by policy)"]}
        if not self.oldest <= version <= last:
            return 400, {"errors": ["no such key version"]}
        names = [
            {"hmac": f"vault:v{version}:{b64encode(self._digest(version, item['input'])).decode()}"}
            for item in body.get("batch_input", (body,))
        ]
        return 200, {"data": {"batch_results": names} if "batch_input" in body else names[0]}

    def _digest(self, version: int, text: str) -> bytes:
        return hmac.digest(b"hmac" + self.keys[version - 1], b64decode(text), "sha256")

    def _encrypt(self, item: dict[str, str]) -> dict[str, Any]:
        nonce, version = os.urandom(_NONCE_BYTES), len(self.keys)
        text = AESGCM(self.keys[-1]).encrypt(
            nonce, b64decode(item["plaintext"]), b64decode(item["associated_data"])
        )
        return {
            "ciphertext": f"vault:v{version}:{b64encode(nonce + text).decode()}",
            "key_version": version,
        }

    def _decrypt(self, item: dict[str, str]) -> dict[str, Any]:
        _, version, text = item["ciphertext"].split(":")
        number, raw = int(version[1:]), b64decode(text)
        if not self.oldest <= number <= len(self.keys):
            return {"error": "ciphertext or signature version is disallowed by policy (too old)"}
        try:
            plain = AESGCM(self.keys[number - 1]).decrypt(
                raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], b64decode(item["associated_data"])
            )
        except (InvalidTag, ValueError):
            return {"error": "cipher: message authentication failed"}
        return {"plaintext": b64encode(plain).decode()}


@contextmanager
def serve_transit() -> Iterator[TransitApi]:
    """A running server."""
    api = TransitApi()

    def answer(call: HttpCall) -> HttpAnswer:
        if api.faults:
            status, fields = api.faults.pop(0), {"errors": ["a fault"]}
        elif call.headers["X-Vault-Token"] != TOKEN:
            status, fields = 403, {"errors": ["permission denied"]}
        else:
            path = call.path.removeprefix("/v1/transit/")
            status, fields = api.answer(path, json.loads(call.body) if call.body else {})
        return HttpAnswer(status, json.dumps(fields).encode(), {"Content-Type": "application/json"})

    with serve_http(answer) as api.url:
        yield api
