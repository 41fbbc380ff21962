"""The policy that past decisions rest on: every bundle (of policy, of quality) and registry entry in the
control topics, by hash.

Nobody's signature is judged here. A decision names the hash of each thing that it used, so what has that hash
is what it used; whether it should have been trusted was decided then, and is no part of a rerun.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.actions.stages import load_bundle
from app.core.foundation.canonical import canonical
from app.core.quality_bundle.quality_bundle import load_quality_bundle
from app.core.registry.registry_entries import EntryFile
from app.core.trust.dsse import read_envelope
from app.core.trust.refused import Reason
from app.core.trust.signed_entries import BUNDLE, QUALITY_BUNDLE, Statement, statement
from topics.unreadable import Unreadable

if TYPE_CHECKING:
    from app.core.policy.bundles import Bundle
    from app.core.quality_bundle.quality_bundle import QualityBundle


class PolicyEvidence:
    """Filled with control records; gives back what their payloads say."""

    def __init__(self) -> None:
        self._bundles: dict[str, dict[str, Statement]] = {BUNDLE: {}, QUALITY_BUNDLE: {}}
        self._compiled: dict[str, Bundle] = {}
        self._quality: dict[str, QualityBundle] = {}
        self._entries: dict[str, dict[str, Statement]] = {}

    def add(self, topic: str, value: bytes | None) -> None:
        """Take a control record; `topic` is the base name. What is no envelope says nothing."""
        envelope = Unreadable("empty", "$", "no value") if value is None else read_envelope(value)
        if isinstance(envelope, Unreadable):
            return
        said = statement(topic, envelope)
        if isinstance(said, Reason):
            return
        if said.kind in self._bundles:
            self._bundles[said.kind][said.hash] = said
        else:
            self._entries.setdefault(said.key, {})[said.hash] = said

    def bundle(self, bundle_hash: str) -> Bundle | None:
        """The bundle of this hash, compiled. Raises BundleError when it can no longer be."""
        if bundle_hash not in self._compiled:
            said = self._bundles[BUNDLE].get(bundle_hash)
            if said is None:
                return None
            self._compiled[bundle_hash] = load_bundle(canonical(said.document))
        return self._compiled[bundle_hash]

    def quality_bundle(self, bundle_hash: str) -> QualityBundle | None:
        """The quality bundle of this hash. Raises BundleError when it can no longer be loaded."""
        if bundle_hash not in self._quality:
            said = self._bundles[QUALITY_BUNDLE].get(bundle_hash)
            if said is None:
                return None
            self._quality[bundle_hash] = load_quality_bundle(canonical(said.document))
        return self._quality[bundle_hash]

    def entry(self, key: str, entry_hash: str) -> EntryFile | None:
        """The entry "kind/id@revision" of this hash; where only another content bears the name, that one."""
        known = self._entries.get(key, {})
        said = known.get(entry_hash) or next(iter(known.values()), None)
        return None if said is None else EntryFile.model_validate(said.document)
