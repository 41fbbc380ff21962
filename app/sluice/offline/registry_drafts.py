"""Drafts of registry entries for tools, for a person to look at and to sign.

They rest on what an MCP server says of its tools (the annotations of `tools/list`), on the words of their
names, and on what the ledger has seen of their calls. An annotation is a hint of a server that nobody has to
trust: where the name says that a tool changes something, "read-only" does not count. A description is not
read: whoever writes it could ask for a tier.

A tool whose entry names a tier is left alone: a person has decided about it.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sluice.core.foundation.strict import StrictModel
from sluice.core.registry.argument_roles import DEEPEST, MOST_PATHS, PARAMETER_PATH, Role
from sluice.core.reports.destination_questions import read_registered_tool
from sluice.text.name_words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from sluice.core.policy.bundles import Bundle
    from sluice.core.registry.registry import Registry
    from sluice.core.registry.registry_entries import Tool

UNREGISTERED = "unregistered_tool: "
_READS = ("DATABASE_READ", "FILE_READ")
_PROGRAM, _ELSEWHERE = "CODE_EXECUTION", "API_CALL"
_ADDS = frozenset({*_READS, _ELSEWHERE, "DATABASE_WRITE", "FILE_WRITE", "OTHER"})
"""Types of tools whose server's word that they destroy nothing is enough for a draft of T2."""
_PATH = re.compile(PARAMETER_PATH)
_OF_CONTENT = frozenset({"fast_reject", "rules"})


class ToolWords(StrictModel):
    """config/tool_words.toml."""

    reads: list[str]
    changes: list[str]
    least_calls: int
    roles: dict[Role, list[str]]
    formats: dict[str, Role]


def load_tool_words(path: Path) -> ToolWords:
    """The words in a file. Raises OSError, TOMLDecodeError and ValidationError."""
    return ToolWords.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))


@dataclass(slots=True)
class ObservedCalls:
    """The verdicts on one tool: how many, and how many of them were denied or escalated for content."""

    calls: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    objected: int = 0


class ObservedTools:
    """The tools of the ledger's verdicts, by name."""

    def __init__(self) -> None:
        self.tools: dict[str, ObservedCalls] = {}

    def take(self, verdict: Mapping[str, Any]) -> None:
        """One verdict by wire names; a duplicate is no call of its own."""
        name = _read_tool(verdict)
        if name is None or verdict.get("duplicate_of"):
            return
        calls = self.tools.setdefault(name, ObservedCalls())
        calls.calls += 1
        calls.verdicts[verdict["verdict"]] += 1
        calls.objected += any(
            not result["passed"] and result["gate"] in _OF_CONTENT for result in verdict["gateResults"]
        )


@dataclass(frozen=True, slots=True)
class ToolDraft:
    """An entry by its fields, and why it says what it says."""

    entry: dict[str, Any]
    why: str


def draft_roles(schema: Mapping[str, Any], words: ToolWords) -> dict[str, list[str]]:
    """The roles of a tool's arguments as far as its JSON schema says them: by the format of a text, else by
    the words of the parameter's name, the role that comes first in the file before the others. A description
    is not read. Empty where nothing speaks for a role."""
    roles: dict[str, list[str]] = {}
    for path, name, part in _list_parameters(schema, "$", 0):
        role = words.formats.get(str(part.get("format"))) or _find_role(words_of(name), words)
        if role is not None and len(roles.get(role, ())) < MOST_PATHS:
            roles.setdefault(role, []).append(path)
    return roles


def _find_role(named: Iterable[str], words: ToolWords) -> Role | None:
    fitting = (role for role, names in words.roles.items() if not set(names).isdisjoint(named))
    return next(fitting, None)


def _list_parameters(
    schema: Mapping[str, Any], path: str, depth: int
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The scalars below an object's schema: the path, the name by which it is called, and its own schema. The
    items of a list are called by the list's name."""
    properties = schema.get("properties")
    if depth >= DEEPEST or not isinstance(properties, dict):
        return
    for name, whole in properties.items():
        below, part = f"{path}.{name}", whole
        if not isinstance(part, dict):
            continue
        while isinstance(part.get("items"), dict):
            below, part = f"{below}[*]", part["items"]
        if "properties" in part:
            yield from _list_parameters(part, below, depth + 1)
        elif _PATH.fullmatch(below) is not None:
            yield below, name, part


def make_drafts(
    bundle: Bundle,
    registry: Registry,
    words: ToolWords,
    observed: Mapping[str, ObservedCalls],
    annotations: Mapping[str, Mapping[str, Any]],
    schemas: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ToolDraft]:
    """The drafts, by the tools' names, for those that are seen or listed and have no tier of their own.

    `annotations`: of `tools/list`, by the tool's name in the registry; empty for a tool without any.
    `schemas`: the JSON schemas of their parameters, from which roles follow. A registered tool for which
    nothing speaks gets none.
    """
    drafts = []
    for name in sorted({*observed, *annotations}):
        tool = registry.tools.get(name)
        if tool is None or tool.tier is None:
            facts = _ToolFacts(name, tool, observed.get(name, ObservedCalls()), annotations.get(name, {}))
            draft = _draft(facts, bundle, words)
            roles = draft_roles((schemas or {}).get(name, {}), words)
            if draft is not None and roles and (tool is None or tool.roles is None):
                draft.entry["spec"]["roles"] = roles
            drafts += [] if draft is None else [draft]
    return drafts


@dataclass(frozen=True, slots=True)
class _ToolFacts:
    name: str
    registered: Tool | None
    observed: ObservedCalls
    hints: Mapping[str, Any]

    def read_hint(self, name: str) -> bool | None:
        """True, False, or None where the server does not say it."""
        value = self.hints.get(name)
        return value if isinstance(value, bool) else None


def _draft(facts: _ToolFacts, bundle: Bundle, words: ToolWords) -> ToolDraft | None:
    """The first rule that says something counts; the stricter ones come first."""
    named = words_of(facts.name)
    changes = next((word for word in named if word in words.changes), None)
    reads = next((word for word in named if word in words.reads), None) if changes is None else None
    kind = (facts.registered and facts.registered.action_type) or bundle.classified(facts.name)
    read_only = facts.read_hint("readOnlyHint") is True
    if read_only and changes is not None:
        why = f"the server calls it read-only, and its name says {changes}: look at it"
        return _make_draft(facts, why, tier="T3")
    if facts.read_hint("destructiveHint") is True and not read_only:
        return _make_draft(facts, "the server says that it destroys", tier="T3", reversible=False)
    if read_only or reads is not None:
        why = "the server calls it read-only" if read_only else f"its name says {reads}"
        return _make_draft(facts, why, tier="T1", action_type=_read_type(facts, kind), reversible=True)
    return _draft_change(facts, kind, bundle, words)


def _draft_change(facts: _ToolFacts, kind: str, bundle: Bundle, words: ToolWords) -> ToolDraft | None:
    calls = facts.observed.calls
    if kind == _PROGRAM and calls >= words.least_calls:
        why = f"it runs programs, and Gate 1 reads each: it stopped {facts.observed.objected} of {calls}"
        return _make_draft(facts, why, tier="T2", action_type=kind)
    if facts.read_hint("destructiveHint") is False and kind in _ADDS:
        return _make_draft(facts, "the server says that it destroys nothing", tier="T2", action_type=kind)
    if facts.registered is None:
        policy = bundle.action_types[kind]
        return _make_draft(facts, "nothing speaks for less", tier=policy.tier.unknown, action_type=kind)
    return None


def _read_type(facts: _ToolFacts, kind: str) -> str:
    """A call of a service elsewhere stays one: its parameters leave the house."""
    if kind == _ELSEWHERE or facts.read_hint("openWorldHint") is True:
        return _ELSEWHERE
    return kind if kind in _READS else _READS[0]


def _make_draft(facts: _ToolFacts, why: str, **spec: Any) -> ToolDraft:
    tool = facts.registered
    revision = 1 if tool is None else int(tool.key.rpartition("@")[2]) + 1
    registered = {} if tool is None else {"action_type": tool.action_type, "reversible": tool.reversible}
    trusts = tool is not None and tool.trusts_row_claims
    whole = {"action_type": None, "reversible": None, **registered, **spec, "trusts_row_claims": trusts}
    if facts.read_hint("openWorldHint") is True or (tool is not None and tool.returns_untrusted):
        whole["returns_untrusted"] = True
    elif tool is not None and tool.returns_trusted:
        whole["returns_trusted"] = True
    if tool is not None and tool.roles is not None:
        whole["roles"] = tool.roles.roles.model_dump()
    calls = facts.observed.calls
    counted = ", ".join(f"{count} {verdict}" for verdict, count in sorted(facts.observed.verdicts.items()))
    suffix = f"; seen {calls}: {counted}" if calls else ""
    return ToolDraft(
        {"kind": "tool", "id": facts.name, "revision": revision, "spec": whole}, f"{why}{suffix}"
    )


def _read_tool(verdict: Mapping[str, Any]) -> str | None:
    return read_registered_tool(verdict) or next(
        (reason.removeprefix(UNREGISTERED) for reason in _list_reasons(verdict) if _is_unregistered(reason)),
        None,
    )


def _is_unregistered(reason: str) -> bool:
    return reason.startswith(UNREGISTERED)


def _list_reasons(verdict: Mapping[str, Any]) -> Iterable[str]:
    """All that gates had against it."""
    for result in verdict["gateResults"]:
        if not result["passed"]:
            yield result["failureReason"] or ""
            yield from (result["detail"] or {}).get("reasons") or ()
