"""A demo's result on the screen, for someone who sees Sluice for the first time, and as JSON.

What a `sluice` command reports of the ledger is shown as that command shows it.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.table import Column, Table
from rich.text import Text

from sluice.cli.ledger.ledger import build_report_parts
from sluice.cli.ledger.quarantine_counts import By, build_counted_parts
from sluice.cli.ledger.record_words import COLOURS
from sluice.cli.ledger.rerun import build_rerun_parts
from sluice.cli.output import clean, print_parts
from sluice.cli.quality.quality import build_report_parts as quality_parts
from sluice_demo.answers import choose_examples, list_settled, read_cause
from sluice_demo.invoice import AGENT as PAYER
from sluice_demo.refunds import CLERK, REFUND
from sluice_topics.catalog import DEAD_LETTERS, MEMORY_DECISIONS, VERDICTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import SimpleNamespace

    from rich.console import Console, RenderableType

    from sluice_demo.answers import DemoAnswers
    from sluice_demo.invoice import InvoicePayment
    from sluice_demo.judged_actions import DemoJudgement
    from sluice_demo.material import Material
    from sluice_demo.refunds import Refund
    from sluice_demo.run import Result

Cell = str | int | Text
_BAR, _BAR_WIDTH = "█", 30
_EXAMPLES = 3
_SETTLED_SHOWN = 6
_MOST_RERUNS = 10
_STORY = """An action id counts once: the same bytes again get the first answer, other bytes are denied. A
memory derived from an unknown one waits for a review, and a review counts once. An item is served (pass),
served with its flags (flag), served without its body (downgrade) or withheld (deny). A template that is
needed for a contract is denied; a person signs an override, and the agent asks again and is served."""


def build_table(
    title: str, *columns: Column | str, rows: Iterable[Iterable[Cell]], caption: str = ""
) -> Table:
    """A column given by its name keeps its whole text; numbers get their thousands apart."""
    made = Table(
        *(Column(column, no_wrap=True) if isinstance(column, str) else column for column in columns),
        title=title,
        title_justify="left",
        title_style="bold",
        caption=caption or None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        show_edge=False,
    )
    for row in rows:
        made.add_row(*map(_format_cell, row))
    return made


def _format_cell(value: Cell) -> str | Text:
    if isinstance(value, Text):
        return value
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else clean(value)


def make_number_column(header: str) -> Column:
    """A column of numbers."""
    return Column(header, justify="right", no_wrap=True)


def make_cut_column(header: str, width: int) -> Column:
    """A column of one line a cell, cut at `width`."""
    return Column(header, no_wrap=True, overflow="ellipsis", max_width=width)


def colour_word(of: str) -> Text:
    """Give the word of a decision its colour."""
    return Text(of, style=COLOURS.get(of, ""))


def build_counts_table(title: str, headings: tuple[Column | str, ...], counts: Counter[Any]) -> Table:
    """Build a table of how often each was decided and why, with a bar; a key's first text is the decision."""
    most = max(counts.values(), default=1)
    rows: list[list[Cell]] = []
    for (decided, *why), times in sorted(counts.items(), key=lambda item: (item[0][0], -item[1])):
        bar = Text(_BAR * max(1, times * _BAR_WIDTH // most), style=COLOURS.get(decided, ""))
        rows.append([colour_word(decided), *(each or "-" for each in why), times, bar])
    return build_table(title, *headings, make_number_column("count"), "", rows=rows)


def print_opening(console: Console, material: Material) -> None:
    """Print what is going to happen, and which part of it is real."""
    sources = [row.source for row in material.rows] + [row["source"] for row in material.writes]
    repositories = len({source.partition("@")[0] for source in sources})
    items = sum(len(retrieval.fields["items"]) for retrieval in material.retrievals)
    console.print(
        f"[bold]{len(material.rows)} real tool calls[/] of agents and [bold]{len(material.writes)} texts[/] "
        f"to be remembered, from {repositories} public\nrepositories, and in the same "
        f"{len(material.sessions)} sessions [bold]{len(material.retrievals)} readings[/] of {items} made-up "
        f"items.\n[yellow]Generated:[/] the items and the stores' reports, row estimates, session ids, "
        f"registry, outcomes, the\ntexts' metadata, the stories, reviews, unreadable records "
        f"(seed {material.config.recipe.seed}).\n",
        highlight=False,
        soft_wrap=True,
    )


def print_result(console: Console, result: Result) -> None:
    """Every table, and what the commands report of the ledger."""
    shown_last = (
        _build_guarded(result.refunds),
        _build_judged(result.judged),
        _build_payments(result.payments),
    )
    for part in (*_build_tables(result.answers, result.material.config.recipe), *shown_last):
        print_parts(("", part), console)
    examined = result.examined
    reports: tuple[tuple[str, Iterable[RenderableType]], ...] = (
        ("quarantine stats --recount", build_counted_parts(examined.memories, By.tenant)),
        ("quality report", quality_parts(examined.quality, ["class"])),
        ("ledger verify", build_report_parts(examined.report)),
        ("rerun --all", build_rerun_parts(examined.reruns, _MOST_RERUNS)),
    )
    for command, parts in reports:
        print_parts((f"\n[bold]`sluice {command}` says:[/]\n", *parts), console)


def _build_tables(answers: DemoAnswers, recipe: SimpleNamespace) -> Iterator[RenderableType]:
    causes = Counter(read_cause(answered.body)[:3] for answered in answers.iterate(VERDICTS))
    yield build_counts_table("Verdicts by gate and reason", ("verdict", "gate", "reason"), causes)
    yield _build_examples(answers)
    for session in recipe.growing:
        yield _build_growth(answers, session)
    yield _build_settled(answers)
    decided = Counter(
        (answered.body["action"], _describe_finding(answered.body))
        for answered in answers.iterate(MEMORY_DECISIONS)
    )
    yield build_counts_table(
        "Memory writes, in the same sessions", ("action", make_cut_column("reason", 60)), decided
    )
    yield _build_suspects(answers)
    items = [decision for read in answers.iterate_retrievals() for decision in read.decisions]
    outcomes = Counter(
        (
            decision["outcome"],
            ", ".join(decision["flags_set"] or decision["reason_codes"]),
            _describe_hidden(decision),
        )
        for decision in items
    )
    headings = ("outcome", Column("found", overflow="fold"), "enforced it would be")
    yield build_counts_table("Retrieved items, in the same sessions", headings, outcomes)
    yield _build_story(answers, recipe.story)
    yield _STORY
    letters = (
        (answered.planned.fields.get("what", "-"), answered.body)
        for answered in answers.iterate(DEAD_LETTERS)
    )
    yield build_table(
        "Dead letters: records that could not be read, between readable ones",
        *("what was sent", "code", make_cut_column("path", 24), make_cut_column("message", 35)),
        rows=((what, body["code"], body["path"], body["message"]) for what, body in letters),
    )
    endings = answers.endings
    ended = Counter(
        (
            escalation["tier"],
            escalation["required_role"],
            escalation["reason"].partition(":")[0],
            _describe_end(endings.get(escalation["escalation_id"])),
        )
        for escalation in answers.escalations
    )
    title = f"Escalations: {len(answers.escalations)}, and what became of each"
    yield build_counts_table(title, ("tier", "who may approve", "reason", "how it ended"), ended)


def _build_judged(judged: Sequence[DemoJudgement]) -> Table:
    """One line an action, and with what help the gates decided."""
    models = list(dict.fromkeys(name for judgement in judged for name in judgement.models))
    helped = f"models that answered: {clean(', '.join(models))}" if models else "no hosted model answered"
    if not all(judgement.answered for judgement in judged):
        helped += "; set ANTHROPIC_API_KEY and they do (some five short questions)"
    return build_table(
        "Gates that the shipped bundle lets observe, here in force, each with an action for it",
        *("gate", make_cut_column("proposed action", 34), "verdict"),
        Column("what the gate said", overflow="fold"),
        rows=(
            (
                judgement.gate,
                " ".join(judgement.proposed.split()),
                colour_word(judgement.verdict),
                judgement.said,
            )
            for judgement in judged
        ),
        caption=f"{helped}; the encoder ran on this machine; the worker kept answers itself, without a Redis",
    )


def _build_payments(payments: Sequence[InvoicePayment]) -> Table:
    """One line a payment, with the sentence that the person reads who is asked."""
    return build_table(
        f"Agent {PAYER} reads an invoice with another account in it, and pays",
        *("paid to", "account", "verdict", "where it comes from"),
        Column("what the person reads who is asked", overflow="fold"),
        rows=(
            (
                payment.to,
                payment.account,
                colour_word(payment.verdict),
                payment.origin.replace("_", " "),
                payment.reason or "nobody is asked",
            )
            for payment in payments
        ),
        caption="the client reported the values in the tools' results; a person denied the second payment",
    )


def _describe_end(end: dict[str, Any] | None) -> str:
    if end is None:
        return "waits"
    if "decision" not in end:
        return "expired"
    if end["decision"] == "deny":
        return "denied"
    return "approved" if end["outcome"] == "ALLOW" else "approved, blocked"


def _build_verdict_cells(body: dict[str, Any]) -> tuple[Cell, ...]:
    cause = read_cause(body)
    return colour_word(cause.verdict), cause.gate, cause.reason or "-"


def _build_examples(answers: DemoAnswers) -> Table:
    """Some verdicts of each kind, one a line."""
    columns = (
        make_cut_column("proposed action", 30),
        make_number_column("rows"),
        "verdict",
        "gate",
        make_cut_column("reason", 34),
    )
    rows = []
    for example in choose_examples(answers, _EXAMPLES):
        fields = example.planned.fields
        parameters = list(fields["parameters"].values())
        shown = parameters[0] if len(parameters) == 1 else json.dumps(fields["parameters"])
        proposed = " ".join(f"{fields['toolName']} {shown}".split())
        rows.append((proposed, fields["rows_affected"], *_build_verdict_cells(example.body)))
    return build_table("Some of them", *columns, rows=rows, caption="rows: generated estimates")


def _build_growth(answers: DemoAnswers, session: SimpleNamespace) -> Table:
    """One session step by step, until a limit bites."""
    columns = (
        make_cut_column("tool", 22),
        make_number_column("rows"),
        make_number_column("total"),
        "verdict",
        "gate",
        make_cut_column("reason", 34),
    )
    rows = (
        (
            answered.planned.fields["toolName"],
            answered.planned.fields["rows_affected"],
            int(answered.body["session"]["after"]["aggregateRowsAffected"]),
            *_build_verdict_cells(answered.body),
        )
        for answered in answers.iterate(VERDICTS)
        if answered.planned.session_id == session.session
    )
    title = f"Session {session.session}, step by step"
    return build_table(title, *columns, rows=rows, caption=session.note)


def _build_settled(answers: DemoAnswers) -> Table:
    """Some outcomes that replaced an estimate."""
    settled = list_settled(answers)
    fields = "action_id", "session_id", "reserved", "actual", "aggregateRowsAffected"
    return build_table(
        f"Outcomes: {len(settled)} reservations settled, for example",
        *(
            make_cut_column("action", 34),
            "session",
            make_number_column("reserved"),
            make_number_column("really"),
            make_number_column("total"),
        ),
        rows=([answered.body[name] for name in fields] for answered in settled[:_SETTLED_SHOWN]),
        caption="without an enforcement point's signature an outcome may raise a total, never lower it",
    )


def _describe_finding(decision: dict[str, Any]) -> str:
    """The reason of a decision on a memory; of a finding its kind."""
    reason: str = decision["reason"]
    kinds = (finding["kind"] for finding in decision["findings"] if reason.endswith(finding["id"]))
    return f"found: {next(kinds, reason)}" if reason.startswith("finding: ") else reason


def _build_suspects(answers: DemoAnswers) -> Table:
    """Some texts that were not allowed, with what was found in them."""
    rows: dict[str, list[tuple[Cell, ...]]] = {"quarantine": [], "reject": []}
    for answered in answers.iterate(MEMORY_DECISIONS):
        finding = next((each for each in answered.body["findings"] if not each["framed"]), None)
        chosen = rows.get(answered.body["action"])
        if finding and chosen is not None and len(chosen) < _EXAMPLES:
            content = " ".join(answered.planned.fields["content"].split())
            chosen.append((colour_word(answered.body["action"]), content, finding["id"], finding["form"]))
    columns = (
        "action",
        make_cut_column("content", 44),
        make_cut_column("found", 30),
        make_cut_column("in the form", 18),
    )
    return build_table("Some of them", *columns, rows=[*rows["quarantine"], *rows["reject"]])


def _describe_hidden(decision: dict[str, Any]) -> str:
    """The outcome that flag-only hides, if it is another one."""
    would_be: str | None = decision["would_have_been"]
    return "" if would_be in (None, decision["outcome"]) else str(would_be)


def _build_story(answers: DemoAnswers, story: SimpleNamespace) -> Table:
    """Every ledger record about the story's session, in the words of `sluice watch`."""
    rows = []
    for topic, line, body in sorted(answers.lines, key=lambda answered: answered.body["sequence"]):
        record, about = topic.removeprefix("gate."), body.get("write_id", line.subject).removeprefix("story-")
        decided = colour_word(line.word.removeprefix("quarantine_").removeprefix("retrieval_")) + line.again
        rows.append((body["sequence"], record, about, decided, line.reason or _describe_flags(body)))
    title = f"Session {story.session}, record by record, as `sluice watch` shows it"
    columns = (
        make_number_column("number"),
        make_cut_column("record", 14),
        make_cut_column("about", 18),
        make_cut_column("decided", 19),
    )
    return build_table(title, *columns, Column("why", overflow="fold"), rows=rows, caption=story.note)


def _describe_flags(body: dict[str, Any]) -> str:
    """Describe what an action said of the flags of the items that its session had read."""
    flags = body["session"]["flags"] if "verdict" in body else {}
    counts = (f"{len(flagged)} flags {name}" for name, flagged in flags.items() if flagged)
    return ", ".join(counts)


def _build_guarded(refunds: Sequence[Refund]) -> Table:
    """Build a table of the calls of a guarded tool and their results."""
    columns = (
        "proposed action",
        make_number_column("amount"),
        "a person's answer",
        make_number_column("the tool ran"),
    )
    rows = ((refund.action_id, refund.amount, refund.answer, refund.ran, refund.told) for refund in refunds)
    return build_table(
        f"Tool {REFUND}, guarded by the client of agent {CLERK}, which signs",
        *columns,
        Column("what the client told the agent", overflow="fold"),
        rows=rows,
        caption="forged: proposed in the agent's name without its key",
    )
