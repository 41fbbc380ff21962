"""The keys of persons, as the settings name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.client.subject_keys import SubjectKeys
from sluice.core.trust.in_force import PolicyError
from sluice.secrets.key_wrapping import FileKeyWrapper
from sluice.secrets.redis_seal import SealKeys, SealKeysError
from sluice.settings.reader import list_real_names
from sluice_topics.catalog import SUBJECT_KEYS

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.secrets.key_wrapping import KeyWrapper
    from sluice.settings.keys import SealingSettings
    from sluice.settings.reader import Settings


def build_key_wrapper(settings: Settings) -> KeyWrapper | None:
    """Whoever has the master key; None: the settings name none. Raises PolicyError."""
    sealing = settings.sealing
    if sealing.transit_url is not None and sealing.transit_token_file is not None:
        return _build_transit(sealing, sealing.transit_url, sealing.transit_token_file)
    path = sealing.master_key_file
    if path is None:
        return None
    try:
        return FileKeyWrapper(SealKeys(path.expanduser()))
    except SealKeysError as error:
        raise PolicyError(f"sealing.master_key_file: {error}") from error


def _build_transit(sealing: SealingSettings, url: str, token_file: Path) -> KeyWrapper:
    from sluice.adapters.transit_keys import (  # noqa: PLC0415 - only where it is configured
        TransitAddress,
        TransitKeyWrapper,
    )

    ca_file = sealing.transit_ca_file
    return TransitKeyWrapper(
        TransitAddress(
            url,
            sealing.transit_mount,
            sealing.transit_key,
            token_file.expanduser(),
            sealing.transit_timeout_s,
            sealing.transit_namespace,
            None if ca_file is None else ca_file.expanduser(),
        )
    )


def build_subject_keys(settings: Settings) -> SubjectKeys | None:
    """The keys, not followed yet; None: nothing is sealed here. Raises PolicyError."""
    wrapper = build_key_wrapper(settings)
    if wrapper is None:
        return None
    return SubjectKeys(settings.kafka.connection, list_real_names(settings)[SUBJECT_KEYS], wrapper)
