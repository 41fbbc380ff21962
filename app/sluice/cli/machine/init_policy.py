"""What `sluice init` publishes: approvers, a development machine's registry, the bundles that ship."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import orjson

from sluice.cli.output import WRONG, require_bytes, stop
from sluice.cli.policy.bundle_file import require_document
from sluice.core.foundation.canonical import digest
from sluice.core.foundation.errors import RegistryError
from sluice.core.foundation.strict import json_object
from sluice.core.policy.bundles import NO_MODEL_BEFORE
from sluice.core.registry.registry_entries import SignedKind
from sluice.core.trust.dsse import sign
from sluice.core.trust.signed_entries import BUNDLE, PAYLOAD_TYPES, QUALITY_BUNDLE, QUALITY_BUNDLE_TYPE
from sluice.core.trust.signing import check_entries, sign_entries
from sluice.shipped import SHIPPED_FILES
from sluice_topics.catalog import BUNDLES, REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sluice.core.registry.keys import SigningKey
    from sluice.core.registry.registry_entries import EntryFile
    from sluice.core.trust.reduction import ReducedPolicy
    from sluice.settings.reader import Settings

APPROVERS, REGISTRY_FILE = "approvers.json", "registry.json"
EXAMPLES = SHIPPED_FILES / "registry.json"
_BUNDLES = (
    (BUNDLE, SHIPPED_FILES / "bundles" / "default.json"),
    (BUNDLE, SHIPPED_FILES / "bundles" / "finance.recon.v0.json"),
    (QUALITY_BUNDLE, SHIPPED_FILES / "quality" / "default.json"),
)
_HOSTED_BUDGETS = SHIPPED_FILES / "bundles" / "budgets" / "hosted.json"
_CHECKPOINTS = ("inbound", "outbound")
KEYS = ("root", "owner", "reviewer", "vp")
_MAY: dict[str, dict[str, Any]] = {
    "owner": {"signs": list(get_args(SignedKind)), "roles": ["approver"]},
    "reviewer": {
        "signs": [
            "bundle",
            "quality_bundle",
            "agent",
            "org",
            "quality_override",
            "delegate",
            "policy_loss",
            "freeze",
        ],
        "roles": ["reviewer", "approver"],
    },
    "vp": {"signs": [], "roles": ["vp"]},
}
"""What each key may do; the root key signs these entries and nothing else. Two may sign what two must agree
on: bundles that relax or have a new id, an agent's way to a laxer bundle, a tenant's into shadow mode, a
gateway that signs for people, an accepted loss. Only the VP approves actions of tier T4."""


class FirstPolicy:
    """A development machine's policy: approvers, the entries of its registry, the bundles that ship."""

    def __init__(self, folder: Path, keys: Mapping[str, SigningKey], settings: Settings) -> None:
        """`settings`: of the models that they name, the bundle's gates observe."""
        self._keys = keys
        self._entries = [
            (signer, entry) for signer, file in _list_entry_files(folder) for entry in _require_entries(file)
        ]
        self._bundles = [(kind, json_object(require_document(path))) for kind, path in _BUNDLES]
        for kind, document in self._bundles:
            if kind == BUNDLE:
                observe_by_models(document, settings)
        self.count = len(self._entries) + len(self._bundles)
        self.differing: list[str] = []
        """What is in force under a name with other content, in sentences."""

    def sign_missing(self, reduced: ReducedPolicy) -> list[tuple[str, bytes]]:
        """Signed, what has no revision in force; entries of the owner as one change."""
        newest = {(entry.kind, entry.statement.id): entry for entry in reduced.entries.values()}
        entries = [(by, entry) for by, entry in self._entries if (entry.kind, entry.id) not in newest]
        bundles = [(kind, bundle) for kind, bundle in self._bundles if (kind, bundle["id"]) not in newest]
        hashes: dict[tuple[str, str], str] = {
            **{(entry.kind, entry.id): digest(entry.model_dump()) for _, entry in self._entries},
            **{(kind, bundle["id"]): digest(bundle) for kind, bundle in self._bundles},
        }
        self.differing = [
            f"{newest[name].key} is in force and differs from the file: raise the file's revision, sign and "
            "publish it"
            for name, expected in hashes.items()
            if name in newest and newest[name].hash != expected
        ]
        return [
            *((REGISTRY, value) for by in self._keys for value in self._sign(by, entries)),
            *((BUNDLES, self._sign_bundle(kind, document)) for kind, document in bundles),
        ]

    def _sign(self, by: str, entries: Sequence[tuple[str, EntryFile]]) -> list[bytes]:
        own = [entry for signer, entry in entries if signer == by]
        names = ("owner", "reviewer") if by == "owner" else (by,)
        return sign_entries(own, [self._keys[name] for name in names], separately=False)

    def _sign_bundle(self, kind: str, document: dict[str, Any]) -> bytes:
        """Publishing validates it; signing need not do so as well. One beside the first bundle needs two."""
        payload_type = QUALITY_BUNDLE_TYPE if kind == QUALITY_BUNDLE else PAYLOAD_TYPES[BUNDLES]
        signers = [self._keys[name] for name in ("owner", "reviewer")]
        return sign(payload_type, orjson.dumps(document), signers).encode()


def observe_by_models(bundle: dict[str, Any], settings: Settings) -> None:
    """Let the gates that ask a model ask it where the settings name one and the bundle has them observe:
    `similarity` the encoder, `causal` the model that judges actions, `inbound` the one that judges content.

    The hosted ones get the time that such a model needs. `inbound` then runs behind Gate 1, as every gate
    that asks a model has to, and `outbound` stays behind `inbound`.
    """
    hosted = json_object(_HOSTED_BUDGETS.read_bytes())["budgets"]
    asking = {
        "similarity": (settings.embedding.encoder != "off", {"enabled": True}),
        "causal": (settings.grader.api_key is not None, {"enabled": True, **hosted["causal"]}),
        "inbound": (settings.analysis.api_key is not None, {"judge": "in_doubt", **hosted["inbound"]}),
    }
    for gate, (is_named, asks) in asking.items():
        part = bundle.get(gate)
        if is_named and part is not None and part.get("mode") == "observe":
            part |= asks
            if gate == "inbound":
                bundle["stages"] = _move_inbound_last(bundle["stages"])


def _move_inbound_last(stages: list[str]) -> list[str]:
    late = [stage for stage in stages if stage in _CHECKPOINTS]
    rest = [stage for stage in stages if stage not in _CHECKPOINTS]
    behind = rest.index(NO_MODEL_BEFORE) + 1
    return [*rest[:behind], *late, *rest[behind:]]


def make_approvers(keys: Mapping[str, SigningKey]) -> list[dict[str, Any]]:
    """The entries of those who sign and review, for the root key to sign."""
    return [
        {
            "kind": "approver",
            "id": name,
            "revision": 1,
            "spec": {"public_key": keys[name].public.text, **may},
        }
        for name, may in _MAY.items()
    ]


def make_approver_files(
    folder: Path, keys: Mapping[str, SigningKey], made: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The entries of approvers, by the file that they belong into. In a folder of an earlier version,
    approvers that have their keys only now get a file of their own: what is there stays as it is."""
    entries = make_approvers(keys)
    if not (folder / APPROVERS).exists():
        return {APPROVERS: entries}
    return {_name_approver_file(entry["id"]): [entry] for entry in entries if entry["id"] in made}


def _name_approver_file(name: str) -> str:
    return f"approvers.{name}.json"


def write_json(entries: Sequence[dict[str, Any]]) -> bytes:
    """A registry file."""
    return orjson.dumps({"entries": entries}, option=orjson.OPT_INDENT_2) + b"\n"


def _list_entry_files(folder: Path) -> list[tuple[str, Path]]:
    """Those that are there, each with the name of the key that signs its entries. Another file beside them,
    a draft or a copy, makes nobody an approver."""
    added = [path for name in KEYS if (path := folder / _name_approver_file(name)).exists()]
    return [
        ("root", folder / APPROVERS),
        *(("root", key) for key in added),
        ("owner", folder / REGISTRY_FILE),
    ]


def _require_entries(path: Path) -> list[EntryFile]:
    try:
        return check_entries(require_bytes(path))
    except RegistryError as error:
        stop(f"{path}: {error}", WRONG)
