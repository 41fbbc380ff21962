"""Which single calls a person is asked about, honest and harmful ones, under the settings that a bundle has.

    python -m load.ablation.asking [--why]

Judges the labelled calls of panel, pool and load/corpus, each once and in a session of its own, and prints by
source, action type and tier what is asked or blocked, and who asked: a gate that reads the call, or its tier
alone. Then the curve: a bundle may say of an action type that its tier asks nobody (`action_types`). Which
types do is chosen on all sources but one, and counted on that one. `--why` counts by source and cause the
honest calls that wait for their tier alone.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from load import ROOT
from sluice.cli.policy.registry_propose import WORDS
from sluice.core.actions.stages import list_shipped_stages, load_bundle
from sluice.core.registry.loading import build_registry, make_neutral_tool
from sluice.core.registry.registry_entries import EntryFile
from sluice.detection.call_inspection import read_effects
from sluice.detection.commands import effect_forms as forms
from sluice.detection.commands.call_effects import UNKNOWN
from sluice.detection.commands.languages import language_of
from sluice.detection.commands.leaves import Walk
from sluice.detection.commands.shell import read_shell
from sluice.offline.action_evaluation import judge_actions
from sluice.offline.bundle_source import read_whole_bundle
from sluice.offline.panels import load_panel
from sluice.offline.registry_drafts import ObservedCalls, load_tool_words, make_drafts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from sluice.core.policy.bundles import Bundle
    from sluice.offline.action_evaluation import JudgedAction
    from sluice.offline.panels import ActionRow

AT_MS = 1_790_000_000_000
SHARED = ROOT.parent / "shared" / "data"
FILES = (
    SHARED / "panel" / "actions.jsonl",
    SHARED / "pool" / "actions.jsonl",
    ROOT / "load" / "corpus" / "actions.jsonl",
    ROOT / "load" / "corpus" / "actions_kept_back.jsonl",
)
COMMANDS_FREE = "commands pass, code asks"
BUDGETS = (0.02, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5)
"""Shares of honest calls that may be asked about or blocked, for the curve."""
TABLES = (
    *(forms.CONTENT, forms.LOOKS, forms.SAYS, forms.CHANGES, forms.VERBS, forms.CLIS, forms.SQL_CLIENTS),
    *(forms.WRAPPERS, forms.SHELLS, forms.OF_KAFKA, {"find", "curl", "git", "aws", "rsync", "echo"}),
)
"""Programs of which some words are understood."""

CODE_ASKS = {
    "id": "code_asks",
    "type": "assertion",
    "escalates": True,
    "severity": "warn",
    "description": "A command is read word by word; of a program in Python and the like Gate 1 sees a part.",
    "reason": "nobody has read all that the program does",
    "condition": "!['code', 'script', 'source'].exists(key, key in action.parameters)",
}
"""A rule of a bundle in which commands pass unless a gate objects."""

End = Literal["passes", "waits", "asked", "blocked"]
"""`waits`: for its tier alone. `asked`: by a gate that reads the call."""


class Setting(NamedTuple):
    """A bundle, and the tools' entries: `neutral` ones say nothing, those by `names` are what `sluice
    registry propose` makes of the tools' names, those by `calls` also of what the ledger saw of them."""

    name: str
    bundle: Bundle
    entries: Literal["neutral", "names", "calls"] = "neutral"


class LabelledCall(NamedTuple):
    """A labelled call and what became of it."""

    source: str
    harmful: bool
    action_type: str
    tier: str | None
    end: End


class AskedShares(NamedTuple):
    """Of honest calls the share asked or blocked, of harmful ones that stopped or asked; None: there are no
    such calls."""

    honest: float | None
    harmful: float | None


def read_rows() -> list[ActionRow]:
    """Every row of FILES that is labelled harmful or benign, once."""
    rows = {(row.file, row.id): row for path in FILES for row in load_panel(path)}
    return [row for row in rows.values() if row.label != "ambiguous"]


def list_settings() -> list[Setting]:
    """What a bundle or the registry may say."""
    shipped = json.loads(read_whole_bundle(ROOT / "config" / "bundles" / "default.json"))
    effects = shipped["effect_tiers"]
    enforced = {name: shipped[name] | {"mode": "enforce"} for name in ("inbound", "outbound", "destinations")}
    higher = {
        name: kind | {"tier": {undone: tier.replace("T3", "T2") for undone, tier in kind["tier"].items()}}
        for name, kind in shipped["action_types"].items()
    }
    commands = higher["CODE_EXECUTION"]
    code_asks = {
        "action_types": shipped["action_types"] | {"CODE_EXECUTION": commands},
        "rules": [*shipped["rules"], CODE_ASKS],
    }
    others_pass = {"action_types": code_asks["action_types"] | {"OTHER": higher["OTHER"]}}
    bundles = {
        "as shipped": {},
        "no tier by effect": {"effect_tiers": {}},
        "by effect, reading alone": {"effect_tiers": effects | {"own": "T3"}},
        "by effect, working folder not own": {"effect_tiers": effects | {"working_folder": False}},
        "observed gates enforced": enforced,
        "asked from T4 on": {"action_types": higher},
        COMMANDS_FREE: code_asks,
        "… and tools of type OTHER pass": code_asks | others_pass,
    }
    made = {name: _make_bundle(shipped | change) for name, change in bundles.items()}
    return [
        *(Setting(name, bundle) for name, bundle in made.items()),
        Setting("entries drafted by names", made["as shipped"], "names"),
        Setting("… and no tier by effect", made["no tier by effect"], "names"),
        Setting("entries drafted by names and calls", made["as shipped"], "calls"),
        Setting("entries drafted by names, commands pass, code asks", made[COMMANDS_FREE], "names"),
    ]


def _make_bundle(fields: dict[str, Any]) -> Bundle:
    return load_bundle(json.dumps(fields | {"cases": []}).encode())


def judge(rows: Sequence[ActionRow], setting: Setting) -> list[LabelledCall]:
    """Every row under the setting, in their order."""
    entries = draft_entries(rows, setting)
    types = {entry.id: entry.spec.get("action_type") for entry in entries}
    judged = judge_actions(rows, setting.bundle, list_shipped_stages(), AT_MS, tools=entries)
    return [
        LabelledCall(
            action.row.file,
            action.row.label == "harmful",
            types.get(action.row.tool) or setting.bundle.classified(action.row.tool),
            action.tier,
            _find_end(action),
        )
        for action in judged
    ]


def _find_end(judged: JudgedAction) -> End:
    if judged.outcome == "ALLOW":
        return "passes"
    if judged.outcome == "ESCALATE":
        return "asked" if judged.apart else "waits"
    return "blocked"


def draft_entries(rows: Sequence[ActionRow], setting: Setting) -> list[EntryFile]:
    """The entries of the rows' tools, as far as one is drafted."""
    if setting.entries == "neutral":
        return []
    calls_by_tool = {row.tool: ObservedCalls() for row in rows}
    if setting.entries == "calls":
        for judged in judge_actions(rows, setting.bundle, list_shipped_stages(), AT_MS):
            calls_by_tool[judged.row.tool].calls += 1
            calls_by_tool[judged.row.tool].objected += judged.caught or judged.apart
    registry = build_registry(map(make_neutral_tool, calls_by_tool))
    drafts = make_drafts(setting.bundle, registry, load_tool_words(WORDS), calls_by_tool, {})
    return [EntryFile.model_validate(draft.entry) for draft in drafts]


def count_shares(calls: Iterable[LabelledCall], free: Collection[str] = ()) -> AskedShares:
    """`free`: action types whose tier asks nobody."""
    ends_by_harm = {False: list[bool](), True: list[bool]()}
    for call in calls:
        waits = call.end == "waits" and call.action_type not in free
        ends_by_harm[call.harmful].append(waits or call.end in ("asked", "blocked"))
    return AskedShares(*(sum(ends) / len(ends) if ends else None for ends in ends_by_harm.values()))


def average(shares: Iterable[AskedShares]) -> AskedShares:
    """Every source counts once."""
    columns = ([share for share in column if share is not None] for column in zip(*shares, strict=True))
    return AskedShares(*(sum(column) / len(column) if column else None for column in columns))


def sort_by(
    calls: Iterable[LabelledCall], key: Callable[[LabelledCall], str]
) -> dict[str, list[LabelledCall]]:
    """The calls by what `key` gives for them, in the order of its values."""
    groups = defaultdict[str, list[LabelledCall]](list)
    for call in calls:
        groups[key(call)].append(call)
    return dict(sorted(groups.items()))


class CurvePoint(NamedTuple):
    """What comes of the types chosen under one budget: on the sources that chose them and on the one left
    out, averaged over the sources, and on all left-out calls; `free`: how often a type was chosen."""

    budget: float
    chosen: AskedShares
    left_out: AskedShares
    pooled: AskedShares
    free: Counter[str]


def draw_curve(calls: Sequence[LabelledCall], budgets: Sequence[float] = BUDGETS) -> Iterator[CurvePoint]:
    """For each budget: the types whose tier asks nobody so that most harmful calls are stopped or asked on
    all sources but one, and honest ones within the budget; then what they do on that one."""
    sources = sort_by(calls, lambda call: call.source)
    types = sorted({call.action_type for call in calls if call.end == "waits"})
    choices = [frozenset(some) for size in range(len(types) + 1) for some in combinations(types, size)]
    table = {name: _tabulate(group, choices) for name, group in sources.items()}
    for budget in budgets:
        free, chosen, left_out = Counter[str](), list[AskedShares](), list[AskedShares]()
        ends = Counter[tuple[bool, bool]]()
        for name, group in sources.items():
            others = [shares for source, shares in table.items() if source != name]
            at, share = _choose([average(column) for column in zip(*others, strict=True)], budget)
            free.update(choices[at])
            chosen.append(share)
            left_out.append(table[name][at])
            for harmful in (False, True):
                share_held = table[name][at][harmful]
                number = sum(call.harmful is harmful for call in group)
                ends[harmful, True] += 0 if share_held is None else round(share_held * number)
                ends[harmful, False] += number
        pooled = AskedShares(*(ends[harmful, True] / ends[harmful, False] for harmful in (False, True)))
        yield CurvePoint(budget, average(chosen), average(left_out), pooled, free)


def _tabulate(calls: Sequence[LabelledCall], choices: Sequence[frozenset[str]]) -> list[AskedShares]:
    """The shares of one source under each choice; calls of one kind and end are counted together."""
    kinds = Counter((call.harmful, call.action_type, call.end) for call in calls)
    totals = Counter(call.harmful for call in calls)
    table = []
    for free in choices:
        stopped = Counter[bool]()
        for (harmful, action_type, end), number in kinds.items():
            if end in ("asked", "blocked") or (end == "waits" and action_type not in free):
                stopped[harmful] += number
        table.append(
            AskedShares(
                *(
                    stopped[is_harmful] / totals[is_harmful] if totals[is_harmful] else None
                    for is_harmful in (False, True)
                )
            )
        )
    return table


def _choose(shares: Sequence[AskedShares], budget: float) -> tuple[int, AskedShares]:
    """The first choice with the most harmful calls held among those within the budget; the one with the
    fewest honest ones where none is."""

    def rank(at: int) -> tuple[bool, float, float]:
        honest, harmful = (share or 0.0 for share in shares[at])
        within = honest <= budget
        return within, harmful if within else -honest, -honest

    best = max(range(len(shares)), key=rank)
    return best, shares[best]


def find_causes(rows: Sequence[ActionRow], calls: Sequence[LabelledCall], bundle: Bundle) -> Counter[str]:
    """Why honest calls wait for their tier alone, by general cause."""
    return Counter(
        _find_cause(row, call.action_type, bundle)
        for row, call in zip(rows, calls, strict=True)
        if call.end == "waits" and not call.harmful
    )


def _find_cause(row: ActionRow, action_type: str, bundle: Bundle) -> str:
    tiers = bundle.file.effect_tiers
    if action_type not in tiers.action_types:
        return f"the tier of {action_type} never follows from the effect"
    effects = read_effects(bundle.library, row.tool, (action_type,), row.parameters)
    if not effects:
        return "no command, statement or request in it"
    changes = sorted({f"{effect.kind} {effect.where}" for effect in effects if effect.kind != "reads"})
    if UNKNOWN not in effects:
        return f"understood, not its own: {', '.join(changes)}"
    return f"not understood: {_find_gap(row, action_type)}"


def _find_gap(row: ActionRow, action_type: str) -> str:
    leaves = [leaf for leaf in Walk(row.parameters, row.tool).leaves if leaf.whole]
    read = [(language_of(row.tool, action_type, leaf.key), leaf.text) for leaf in leaves]
    lines = [text for language, text in read if language == "shell"]
    if any(language == "code" for language, _ in read):
        return "code"
    if not lines:
        return "a structured call"
    if any(map(forms.NOT_PLAIN.search, lines)):
        return "a variable, an expansion or a loop"
    programs = {command.program for line in lines for command in read_shell(line).commands}
    has_table = all(any(program in table for table in TABLES) for program in programs)
    return "words that its program's table lacks" if has_table else "a program that no table has"


def _show(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _print_table(heading: Sequence[str], lines: Iterable[Sequence[object]]) -> None:
    print("\n| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
    for line in lines:
        print("| " + " | ".join(map(str, line)) + " |")


def _list_ends(calls: Sequence[LabelledCall], *, harmful: bool) -> list[object]:
    ends = Counter(call.end for call in calls if call.harmful is harmful)
    share = count_shares(calls)[harmful]
    return [ends.total(), *(ends[end] for end in ("blocked", "asked", "waits")), _show(share)]


def main() -> None:
    """Print the tables, or the causes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--why", action="store_true", help="why honest calls wait for their tier alone")
    options = parser.parse_args()
    rows, settings = read_rows(), list_settings()
    if options.why:
        print_causes(rows, settings[0])
        return
    judged = {setting.name: judge(rows, setting) for setting in settings}
    print_settings(judged)
    for calls, key in ((judged[settings[0].name], key) for key in ("source", "action_type", "tier")):
        groups = sort_by(calls, lambda call, key=key: str(getattr(call, key)))  # type: ignore[misc]
        heading = [part for label in ("honest", "harmful") for part in (label, *ENDS, "held")]
        _print_table(
            [f"as shipped, by {key.replace('_', ' ')}", *heading],
            (
                [name, *_list_ends(group, harmful=False), *_list_ends(group, harmful=True)]
                for name, group in groups.items()
            ),
        )
    for name in ("as shipped", "entries drafted by names", COMMANDS_FREE):
        print_curve(name, judged[name])


ENDS = ("blocked", "asked by a gate", "wait for their tier")


def print_causes(rows: Sequence[ActionRow], setting: Setting) -> None:
    """One line a cause, one column a source."""
    calls = judge(rows, setting)
    sources = list(sort_by(calls, lambda call: call.source))
    counts = {
        source: find_causes(
            [row for row in rows if row.file == source],
            [call for call in calls if call.source == source],
            setting.bundle,
        )
        for source in sources
    }
    total = sum(counts.values(), Counter[str]())
    waiting = [source for source in sources if counts[source]]
    _print_table(
        ["why honest calls wait", *waiting],
        ([cause, *(counts[source][cause] for source in waiting)] for cause, _ in total.most_common()),
    )


def print_settings(judged: dict[str, list[LabelledCall]]) -> None:
    """One line a setting: the shares, each source counting once, and of all calls together."""
    lines = []
    for name, calls in judged.items():
        macro = average(map(count_shares, sort_by(calls, lambda call: call.source).values()))
        lines.append([name, *map(_show, (*macro, *count_shares(calls)))])
    heading = ["honest held, by source", "harmful held, by source", "honest held, all", "harmful held, all"]
    _print_table(["setting", *heading], lines)


def print_curve(name: str, calls: Sequence[LabelledCall]) -> None:
    """One line a budget."""
    heading = ["honest", "harmful", "honest, left out", "harmful, left out", "all: honest", "all: harmful"]
    _print_table(
        [f"{name}: budget", *heading, "types whose tier asks nobody (of sources left out)"],
        (
            [
                _show(point.budget),
                *map(_show, (*point.chosen, *point.left_out, *point.pooled)),
                ", ".join(f"{kind} {number}" for kind, number in sorted(point.free.items())) or "none",
            ]
            for point in draw_curve(calls)
        ),
    )


if __name__ == "__main__":
    main()
