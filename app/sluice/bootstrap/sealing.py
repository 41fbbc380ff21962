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
    from sluice.secrets.key_wrapping import KeyWrapper
    from sluice.settings.reader import Settings


def build_key_wrapper(settings: Settings) -> KeyWrapper | None:
    """Whoever has the master key; None: the settings name none. Raises PolicyError."""
    path = settings.sealing.master_key_file
    if path is None:
        return None
    try:
        return FileKeyWrapper(SealKeys(path.expanduser()))
    except SealKeysError as error:
        raise PolicyError(f"sealing.master_key_file: {error}") from error


def build_subject_keys(settings: Settings) -> SubjectKeys | None:
    """The keys, not followed yet; None: nothing is sealed here. Raises PolicyError."""
    wrapper = build_key_wrapper(settings)
    if wrapper is None:
        return None
    return SubjectKeys(settings.kafka.connection, list_real_names(settings)[SUBJECT_KEYS], wrapper)
