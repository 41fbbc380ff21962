"""Settings that hold keys: public ones as texts, private ones by their files or as hidden texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from sluice.settings.base import SettingGroup
from sluice.settings.notifications import SafeUrl  # noqa: TC001 - pydantic reads the annotations

PEM_BEGIN = "-----BEGIN"
PathSegment = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")]


def _check_public_key(text: str) -> str:
    description = "is no public key: 44 characters of base64, as `sluice keys public PEM` prints them"
    if not re.fullmatch(r"[A-Za-z0-9+/]{43}=", text):
        raise ValueError(f"{text!r} {description}")
    return text


PublicKey = Annotated[str, AfterValidator(_check_public_key)]
"""The 32 raw bytes of an Ed25519 key, base64."""


def read_key(secret: SecretStr) -> bytes:
    """The PEM text that a setting has, or that lies in the file that it names. Raises OSError."""
    text = secret.get_secret_value()
    return text.encode() if PEM_BEGIN in text else Path(text).expanduser().read_bytes()


class VerdictSettings(SettingGroup):
    """The key with which workers sign what they write, as PEM text or as the path of its file, and the public
    keys that readers believe. Without the one nothing is signed, without the others nothing is checked."""

    signing_key: SecretStr | None = None
    public_keys: tuple[PublicKey, ...] = ()

    def read_pem(self) -> bytes | None:
        """The signing key; None: there is none. Raises OSError."""
        return None if self.signing_key is None else read_key(self.signing_key)


class ValuesSettings(SettingGroup):
    """The files of the keys with which values become fingerprints (sluice_topics/values.py): the master key
    of the workers, and for `sluice mcp` the key of its agent's tenant."""

    master_key_file: Path | None = None
    key_file: Path | None = None


class SealingSettings(SettingGroup):
    """The master keys that wrap the keys of persons: in a file (key_wrapping.py), or in Vault or OpenBao
    (transit_keys.py). Without one nothing is sealed, and nothing sealed is opened."""

    master_key_file: Path | None = None
    transit_url: SafeUrl | None = None
    transit_mount: PathSegment = "transit"
    transit_key: PathSegment = "sluice"
    transit_token_file: Path | None = None
    transit_ca_file: Path | None = None
    transit_namespace: Annotated[str, Field(max_length=256, pattern=r"^[A-Za-z0-9._/-]*$")] = ""
    transit_timeout_s: Annotated[float, Field(gt=0, le=60)] = 5.0

    @model_validator(mode="after")
    def _check_one(self) -> SealingSettings:
        if self.transit_url is not None and self.master_key_file is not None:
            raise ValueError("master_key_file and transit_url exclude each other")
        if self.transit_url is not None and self.transit_token_file is None:
            raise ValueError("transit_url needs a transit_token_file")
        return self

    @property
    def is_on(self) -> bool:
        """Whether personal data is sealed and opened here."""
        return self.master_key_file is not None or self.transit_url is not None


class RedisSettings(SettingGroup):
    """Of every Redis that the settings name: the file of keys with which entries are sealed (redis_seal.py),
    and the file with the password, for URLs that have none."""

    key_file: Path | None = None
    password_file: Path | None = None
