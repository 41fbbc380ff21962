"""Sealing for whoever publishes inputs: which fields the signed bundles mark as personal, and persons' keys.

A field is sealed if the agent's bundle marks it, or the one that the input names. The keys are those of the
agent's tenant.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError

from sluice.adapters.kafka.kafka_consumers import KafkaControlReader
from sluice.bootstrap.sealing import build_subject_keys
from sluice.client.answers import ClientError
from sluice.client.subject_keys import KeyUnavailable
from sluice.core.registry.registry_entries import UNREGISTERED
from sluice.core.trust.in_force import PolicyError
from sluice.gateway.registry_view import RegistryView
from sluice.settings.reader import list_real_names
from sluice_topics.catalog import BUNDLES, REGISTRY
from sluice_topics.sealing import (
    ERASED,
    Erased,
    SealError,
    counts_for,
    find_tokens,
    find_unsealed,
    get_key_ids,
    is_sealed,
    list_subjects,
    open_document,
    seal_document,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from sluice.client.subject_keys import SubjectKeys
    from sluice.settings.reader import Settings
    from sluice_topics.json_text import Step
    from sluice_topics.sealing import InputKind, PersonalField, SubjectKey

_AGAIN = "Call again with the same id"


@dataclass(eq=False)
class FollowedSealing:
    """What is personal now, and the keys. `view` reads registry and bundles, and `follows` it here: else
    somebody else does. `default_bundle`: the setting policy.default_bundle."""

    view: RegistryView
    keys: SubjectKeys
    default_bundle: str
    follows: bool = True
    _following: asyncio.Task[None] | None = field(init=False, default=None)

    async def start(self) -> None:
        """Read policy and keys, and follow them. Raises KafkaError; then no connection is left."""
        try:
            await self.keys.start()
            if self.follows:
                await self.view.look()
                self._following = asyncio.create_task(self.view.follow())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Give up the connections."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
            self._following = None
        if self.follows:
            await self.view.close()
        await self.keys.close()

    async def seal(
        self,
        kind: InputKind,
        agent_id: str,
        document: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """An input of this agent with its personal values sealed. Raises ClientError."""
        marked = self._list_marked(agent_id, document)
        naming: tuple[Mapping[str, Any], ...] = () if before is None else (before,)
        subjects = list_subjects(document, kind, marked, naming) if marked else set()
        if before is not None and any(subject.kind == "session" for subject in subjects):
            naming = tuple([await self.open(kind, agent_id, each) for each in (document, before)])
            subjects = list_subjects(document, kind, marked, naming)  # who may be sealed where they are named
        if not subjects:
            return dict(document)
        tenant = self._find_tenant(agent_id)
        try:
            erased = self.view.registry.erasures
            chosen = {subject: await self.keys.choose(tenant, subject, erased) for subject in subjects}
        except (KafkaError, OSError, KeyUnavailable) as error:
            raise ClientError(f"personal data cannot be sealed: {error}", _AGAIN) from error
        return seal_document(document, kind, marked, chosen.__getitem__, naming)

    def find_unsealed(
        self, kind: InputKind, agent_id: str, document: Mapping[str, Any]
    ) -> tuple[Step, ...] | None:
        """The place of a value of an input of this agent that must be sealed, and is not. Raises
        ClientError."""
        marked = self._list_marked(agent_id, document)
        return find_unsealed(document, kind, marked) if marked else None

    async def open(self, kind: InputKind, agent_id: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document with all that is sealed in it opened, for the tenant of this agent. Raises
        ClientError."""
        tokens = [token for _, token in find_tokens(document) if is_sealed(token)]
        if not tokens:
            return dict(document)
        try:
            await self.keys.fetch({key_id for token in tokens for key_id in get_key_ids(token)})
            keys = _KeysOfTenant(self.keys, self._find_tenant(agent_id), self.view.registry.erasures)
            opened: dict[str, Any] = open_document(document, kind, keys)[0]
        except (KafkaError, OSError, KeyUnavailable, SealError) as error:
            raise ClientError(
                f"sealed data cannot be opened: {error}", "Nothing helps if it is erased"
            ) from error
        return opened

    def _find_tenant(self, agent_id: str) -> str:
        agent = self.view.registry.agents.get(agent_id)
        return UNREGISTERED if agent is None else agent.tenant

    def _list_marked(self, agent_id: str, document: Mapping[str, Any]) -> tuple[PersonalField, ...]:
        return _list_marked(self.view, self.default_bundle, agent_id, document)


def _list_marked(
    view: RegistryView, default_bundle: str, agent_id: str, document: Mapping[str, Any]
) -> tuple[PersonalField, ...]:
    if not view.is_fresh:
        raise ClientError("the policy was not read lately, so what is personal is not known", _AGAIN)
    agent, bundles = view.registry.agents.get(agent_id), view.bundles
    registered = None if agent is None else agent.policy_bundle_id
    names = (registered or default_bundle, document.get("policy_bundle_id"))
    judging = [bundles[name] for name in names if isinstance(name, str) and name in bundles]
    if not judging and default_bundle in bundles:
        judging = [bundles[default_bundle]]
    return tuple(dict.fromkeys(marked for bundle in judging for marked in bundle.personal))


@dataclass(frozen=True, slots=True)
class _KeysOfTenant:
    """The keys with which a tenant's data is sealed: no other one's are found. `erased`: tenants and ids of
    keys that are to be destroyed, which open nothing any more."""

    keys: SubjectKeys
    tenant: str
    erased: Container[tuple[str, str]]

    def find(self, key_id: str) -> SubjectKey | Erased | None:
        """The tenant's key of this id."""
        if (self.tenant, key_id) in self.erased:
            return ERASED
        key = self.keys.find(key_id)
        return key if key is not None and counts_for(key, self.tenant) else None


def follow_sealing(settings: Settings) -> Callable[[], FollowedSealing] | None:
    """What `ClientOptions.sealing` takes: each client follows policy and keys by connections of its own.
    None: the settings name no master key. Raises PolicyError."""
    if build_subject_keys(settings) is None:
        return None

    def make() -> FollowedSealing:
        return build_sealing(settings, build_policy_view(settings), follows=True)

    return make


async def look_for_unsealed(
    settings: Settings, kind: InputKind, agent_id: str, document: Mapping[str, Any]
) -> tuple[Step, ...] | None:
    """`find_unsealed` by the policy of now, for whoever has no master key. Raises ClientError, CoreError and
    KafkaError."""
    view = build_policy_view(settings)
    try:
        await view.look()
        marked = _list_marked(view, settings.policy.default_bundle, agent_id, document)
    finally:
        await view.close()
    return find_unsealed(document, kind, marked)


def build_policy_view(settings: Settings) -> RegistryView:
    """A view of registry and bundles, not read yet. Raises CoreError for a root key that is none."""
    names, policy = list_real_names(settings), settings.policy
    reader = KafkaControlReader(
        settings.kafka.connection, {names[base]: base for base in (REGISTRY, BUNDLES)}
    )
    return RegistryView(
        reader, policy.read_roots(), policy.refresh_s, policy.max_lag_s, settings.build_audience()
    )


def build_sealing(settings: Settings, view: RegistryView, *, follows: bool) -> FollowedSealing:
    """Sealing by a view of registry and bundles. Raises PolicyError where the master key cannot be used."""
    keys = build_subject_keys(settings)
    if keys is None:
        raise PolicyError("the settings name no master key: sealing.master_key_file or sealing.transit_url")
    return FollowedSealing(view, keys, settings.policy.default_bundle, follows)
