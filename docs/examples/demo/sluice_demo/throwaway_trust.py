"""Keys for one run, thrown away with it, and a policy signed with them: a demo's, a fault run's, a test's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sluice.adapters.kafka.kafka_publish import publish_control
from sluice.client.kafka_writing import Outgoing
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.strict import json_object
from sluice.core.registry.keys import SigningKey
from sluice.core.registry.registry_entries import SignedKind
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import PAYLOAD_TYPES, QUALITY_BUNDLE_TYPE
from sluice_topics.access import CONTROL_WRITER
from sluice_topics.audience import Audience
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sluice.client.kafka_connection import KafkaCluster

OWNER = "owner"
REVIEWER = "reviewer"
_DECIDES = "approver"
"""The role that an override takes, and an approval below the highest tier."""
FEED, AGENT, GATEWAY, POINT = "feed", "agent", "gateway", "point"
ControlRecord = tuple[str, bytes, bytes]
"""Topic (base name), key and value of a control record."""


class ThrowawayTrust:
    """The keys of a root, of an owner who may publish everything, of a reviewer, of a feed of items, of an
    agent that signs, of a gateway that signs for people who log in to it, and of an enforcement point.

    They are in memory alone, unless `write` puts them into files.
    """

    def __init__(self) -> None:
        self._private = {
            name: Ed25519PrivateKey.generate()
            for name in ("root", OWNER, REVIEWER, FEED, AGENT, GATEWAY, POINT)
        }
        self.root = SigningKey(self._private["root"])
        self.owner = SigningKey(self._private[OWNER])
        self.reviewer = SigningKey(self._private[REVIEWER])
        self.feed = SigningKey(self._private[FEED])
        self.agent = SigningKey(self._private[AGENT])
        self.gateway = SigningKey(self._private[GATEWAY])
        self.point = SigningKey(self._private[POINT])

    @property
    def root_key(self) -> str:
        """The public root key that the settings name, base64."""
        return self.root.public.text

    @property
    def installation(self) -> str:
        """The id of the run's installation, as the settings name it."""
        return f"run-{self.root.keyid[:16]}"

    def make_audience(self, topic_prefix: str) -> Audience:
        """Return the audience for which everything of the run's installation is signed."""
        return Audience(self.installation, topic_prefix)

    def write(self, folder: Path) -> None:
        """Private keys as PKCS#8 PEM, readable by the user alone, for commands that sign."""
        for name in self._private:
            path = folder / f"{name}.pem"
            path.touch(mode=0o600, exist_ok=False)
            path.write_bytes(self.write_pem(name))

    def write_pem(self, name: str) -> bytes:
        """A private key as PKCS#8 PEM."""
        return self._private[name].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def make_approver(self) -> ControlRecord:
        """The owner's own entry, signed by the root key."""
        return self._make_approver(OWNER, self.owner, list(get_args(SignedKind)), [_DECIDES, "vp"])

    def make_reviewer(self) -> ControlRecord:
        """The entry of a reviewer of quarantined memories who may also sign overrides of items' quality, and,
        as the second approver that they need, policy bundles, agents that go to another one, a delegate's
        entry, an accepted loss and the thaw of a tenant."""
        signs = ["bundle", "agent", "quality_override", "delegate", "policy_loss", "freeze"]
        return self._make_approver(REVIEWER, self.reviewer, signs, [REVIEWER, _DECIDES])

    def sign_entries(
        self, entries: Sequence[dict[str, Any]], change: str | None = None, *, alone: bool = False
    ) -> list[ControlRecord]:
        """Registry entries, signed by the owner, and where they name an agent's policy bundle by the reviewer
        too, unless the owner signs `alone`. With a change's id they take effect together."""
        whole = {"id": change, "entries": {_name_entry(entry): digest(entry) for entry in entries}}
        shared = {} if change is None else {"change": whole}
        signed = []
        for entry in entries:
            second = not alone and entry["spec"].get("policy_bundle_id") is not None
            signers = [self.owner, self.reviewer] if second else [self.owner]
            signed.append(self._sign_entry({**entry, **shared}, *signers))
        return signed

    def make_delegate(self, tenants: Sequence[str], name: str = GATEWAY, **changed: Any) -> ControlRecord:
        """The entry by which the gateway signs for all people of these tenants, signed by owner and reviewer;
        `changed` are fields of its spec."""
        spec = {
            "tenants": [*tenants],
            "keys": [{"public_key": self.gateway.public.text}],
            "agents": False,
            "roles": [REVIEWER, _DECIDES, "vp"],
            **changed,
        }
        entry = {"kind": "delegate", "id": name, "revision": 1, "spec": spec}
        return self._sign_entry(entry, self.owner, self.reviewer)

    def sign_overrides(self, entries: Sequence[dict[str, Any]]) -> list[ControlRecord]:
        """Overrides of quality, signed by the reviewer who answers for them."""
        return [self._sign_entry(entry, self.reviewer) for entry in entries]

    def sign_bundle(self, document: bytes, *, alone: bool = False) -> ControlRecord:
        """A whole policy bundle document, signed by owner and reviewer, or by the owner `alone`."""
        return self._sign_bundle(PAYLOAD_TYPES[BUNDLES], document, *(() if alone else (self.reviewer,)))

    def sign_quality_bundle(self, document: bytes) -> ControlRecord:
        """A whole quality bundle document, signed by the owner."""
        return self._sign_bundle(QUALITY_BUNDLE_TYPE, document)

    def make_policy(self, bundle: bytes, registry: bytes) -> list[ControlRecord]:
        """Make the records that a new installation needs: the owner, the reviewer, a registry file's entries,
        one bundle."""
        entries = json_object(registry)["entries"]
        return [
            self.make_approver(),
            self.make_reviewer(),
            *self.sign_entries(entries),
            self.sign_bundle(bundle),
        ]

    def _make_approver(self, name: str, key: SigningKey, signs: list[str], roles: list[str]) -> ControlRecord:
        spec = {"public_key": key.public.text, "signs": signs, "roles": roles}
        return self._sign_entry({"kind": "approver", "id": name, "revision": 1, "spec": spec}, self.root)

    def _sign_bundle(self, payload_type: str, document: bytes, *more: SigningKey) -> ControlRecord:
        frame = json_object(document)
        envelope = sign(payload_type, document, [self.owner, *more])
        return BUNDLES, f"{frame['id']}@{frame['revision']}".encode(), envelope.encode()

    def _sign_entry(self, entry: dict[str, Any], *signers: SigningKey) -> ControlRecord:
        envelope = sign(PAYLOAD_TYPES[REGISTRY], orjson.dumps(entry), signers)
        return REGISTRY, _name_entry(entry).encode(), envelope.encode()


def _name_entry(entry: dict[str, Any]) -> str:
    return f"{entry['kind']}/{entry['id']}@{entry['revision']}"


async def publish_policy(cluster: KafkaCluster, prefix: str, records: Sequence[ControlRecord]) -> None:
    """Write control records as they are, unchecked, in one transaction: the worker checks them.

    Raises KafkaUnreachable and UnknownTopics.
    """
    names = {f"{prefix}{base}": base for base in (REGISTRY, BUNDLES)}
    chosen = [(topic, Outgoing(key, value, ())) for topic, key, value in records]
    await publish_control(cluster, names, f"{prefix}{CONTROL_WRITER}", lambda _: chosen)
