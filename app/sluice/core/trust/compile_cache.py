"""A cache of everything read, checked and compiled, for the next reduction: a reload costs only what is new.

Each result is kept under the digest of the bytes from which it was computed, so a kept result is always
correct.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.core.actions.stages import load_bundle
from sluice.core.cases.case_failure import count_cases
from sluice.core.cases.quality_cases import run_quality_cases
from sluice.core.foundation.canonical import canonical
from sluice.core.foundation.errors import BundleError, RegistryError, UnknownStageError, run_guarded
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.registry.loading import FACT, build_registry, merge_registries
from sluice.core.registry.registry_entries import EntryFile
from sluice.core.trust.dsse import find_valid_keys
from sluice.core.trust.refused import Reason
from sluice.core.trust.signed_entries import open_record, read_statement
from sluice_topics.audience import UNNAMED, Audience
from sluice_topics.relaxations import find_relaxations, list_sentences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sluice.core.cases.case_failure import CaseFailure
    from sluice.core.foundation.input_record import InputRecord
    from sluice.core.policy.bundles import Bundle
    from sluice.core.quality_bundle.quality_bundle import QualityBundle
    from sluice.core.registry.keys import PublicKey
    from sluice.core.registry.registry import Registry
    from sluice.core.trust.dsse import Envelope
    from sluice.core.trust.refused import Code
    from sluice.core.trust.signed_entries import Statement

    AnyBundle = Bundle | QualityBundle

_ONE_ENTRY = "$.entries[0]"
Checked = TypeVar("Checked")


class CompileCache:
    """The cache. Give the same one to every reduction of an installation."""

    def __init__(
        self, run_cases: Callable[[Bundle], Sequence[CaseFailure]], audience: Audience = UNNAMED
    ) -> None:
        """`run_cases` returns the cases of a bundle that fail; empty is good. It raises
        UnknownStageError for a bundle that names a missing stage. `audience`: the installation."""
        self.audience = audience
        self._run_cases = run_cases
        self._envelopes: dict[tuple[str, str], Envelope | Reason] = {}
        self._signed: dict[tuple[str, str, str], bool] = {}
        self._statements: dict[tuple[str, str], Statement | Reason] = {}
        self._bundles: dict[str, Bundle | Reason] = {}
        self._quality: dict[str, QualityBundle | Reason] = {}
        self._relaxations: dict[tuple[str, str], tuple[str, ...]] = {}
        self._entries: dict[str, Registry | Reason] = {}
        self._registry: tuple[tuple[str, ...], Registry] | None = None

    def read_envelope(self, input_record: InputRecord) -> Envelope | Reason:
        """The record's envelope, or why it cannot count."""
        at = (input_record.topic, input_record.digest if input_record.value is not None else "")
        if at not in self._envelopes:
            self._envelopes[at] = open_record(input_record)
        return self._envelopes[at]

    def find_signers(
        self, input_record: InputRecord, envelope: Envelope, keys: Mapping[str, PublicKey]
    ) -> frozenset[str]:
        """The ids of the known keys that signed, among those that the signatures name."""
        named = {signature.keyid for signature in envelope.signatures} & keys.keys()
        at = {keyid: (input_record.topic, input_record.digest, keyid) for keyid in named}
        unseen = [keys[keyid] for keyid in named if at[keyid] not in self._signed]
        if unseen:
            signed = find_valid_keys(envelope, unseen)
            self._signed.update({at[key.keyid]: key.keyid in signed for key in unseen})
        return frozenset(keyid for keyid in named if self._signed[at[keyid]])

    def read_statement(self, input_record: InputRecord, envelope: Envelope) -> Statement | Reason:
        """The payload's statement; only for an envelope with a valid signature."""
        at = (input_record.topic, input_record.digest)
        if at not in self._statements:
            self._statements[at] = read_statement(input_record.topic, envelope)
        return self._statements[at]

    def load_bundle(self, statement: Statement) -> Bundle | Reason:
        """The compiled bundle, if it validates and passes its own cases."""
        if statement.hash not in self._bundles:
            self._bundles[statement.hash] = _run_check(
                "invalid_bundle", partial(self._check_bundle, statement)
            )
        return self._bundles[statement.hash]

    def load_quality_bundle(self, statement: Statement) -> QualityBundle | Reason:
        """The loaded quality bundle, if it validates and passes its own cases."""
        if statement.hash not in self._quality:
            self._quality[statement.hash] = _run_check(
                "invalid_bundle", partial(_check_quality_bundle, statement)
            )
        return self._quality[statement.hash]

    def find_relaxations(self, before: AnyBundle, after: AnyBundle) -> tuple[str, ...]:
        """Where the second is less strict than the first, in sentences; if they cannot be compared, it is."""
        pair = (before.hash, after.hash)
        if pair not in self._relaxations:
            self._relaxations[pair] = run_guarded(
                lambda: list_sentences(find_relaxations(before.file, after.file)),
                lambda fault: (f"comparing them failed: {fault}",),
            )
        return self._relaxations[pair]

    def check_entry(self, statement: Statement) -> Registry | Reason:
        """A registry of this one entry, if it validates."""
        if statement.hash not in self._entries:
            self._entries[statement.hash] = _run_check("invalid_entry", partial(_check_entry, statement))
        return self._entries[statement.hash]

    def merge_registry(self, accepted: Mapping[str, dict[str, Any]]) -> Registry:
        """The registry of accepted entries by hash; the same object for the same entries as last time."""
        hashes = tuple(accepted)
        if self._registry is None or self._registry[0] != hashes:
            parts = [self._entries[entry_hash] for entry_hash in _select_in_force(accepted)]
            read = (part for part in parts if not isinstance(part, Reason))
            self._registry = (hashes, merge_registries(read, self.audience))
        return self._registry[1]

    def _check_bundle(self, statement: Statement) -> Bundle | Reason:
        try:
            bundle = load_bundle(canonical(statement.document), statement.hash)
            failures = self._run_cases(bundle)
        except (BundleError, UnknownStageError) as error:
            path, message = _split_path(str(error))
            return Reason("invalid_bundle", path, message)
        bundle.inspector.prepare()
        return _describe_failures(failures, len(bundle.cases)) or bundle


def _check_quality_bundle(statement: Statement) -> QualityBundle | Reason:
    try:
        bundle = load_quality_bundle(canonical(statement.document))
    except BundleError as error:
        path, message = _split_path(str(error))
        return Reason("invalid_bundle", path, message)
    return _describe_failures(run_quality_cases(bundle), len(bundle.file.cases)) or bundle


def _describe_failures(failures: Sequence[CaseFailure], cases: int) -> Reason | None:
    if not failures:
        return None
    description = f"{count_cases(failures)} of its {cases} cases fail, first: {failures[0]}"
    return Reason("cases_failed", "$.cases", description)


def _select_in_force(accepted: Mapping[str, dict[str, Any]]) -> Iterable[str]:
    """Hashes of the entries that count: every revision of a fact, the newest revision of the others."""
    newest: dict[tuple[Any, ...], tuple[int, str]] = {}
    for entry_hash, entry in accepted.items():
        name = (entry["kind"], entry["id"], entry["revision"] if entry["kind"] == FACT else None)
        if name not in newest or entry["revision"] > newest[name][0]:
            newest[name] = (entry["revision"], entry_hash)
    return (entry_hash for _, entry_hash in newest.values())


def _run_check(code: Code, check: Callable[[], Checked | Reason]) -> Checked | Reason:
    """The check's answer; if the check raises, the record is refused.

    A signature shows who wrote a record, not that it is harmless. A record that stopped the reduction would
    stop every worker at every start.
    """
    return run_guarded(check, lambda fault: Reason(code, "$", f"checking it failed: {fault}"))


def _check_entry(statement: Statement) -> Registry | Reason:
    try:
        return build_registry([EntryFile.model_validate(statement.document)])
    except RegistryError as error:
        path, message = _split_path(str(error))
        return Reason("invalid_entry", path.replace(_ONE_ENTRY, "$", 1), message)


def _split_path(description: str) -> tuple[str, str]:
    """Path and sentence of an error of the core; an error without a path concerns the whole document."""
    path, _, message = description.partition(": ")
    return (path, message) if path.startswith("$") else ("$", description)
