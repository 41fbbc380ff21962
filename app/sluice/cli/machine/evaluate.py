"""`sluice evaluate FILE...`: how much harm the gates catch, how much that is harmless, and how retrieved
items come out."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from sluice.adapters.pattern_files import read_calibrations, read_libraries
from sluice.bootstrap.model_ports import make_encoder
from sluice.cli.machine.evaluate_hosted import HostedTrial, NoPrice, read_prices
from sluice.cli.machine.evaluate_report import ActionReport, ItemReport, WriteReport
from sluice.cli.output import WRONG, print_json, require_settings, stop
from sluice.core.actions.action_kinds import ACTION
from sluice.core.actions.action_similarity import ActionSimilarity
from sluice.core.actions.inbound import Inbound
from sluice.core.actions.stages import list_shipped_stages
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.foundation.errors import BundleError, CoreError
from sluice.core.memory.memory_kinds import WRITE
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.retrieval.retrieval_kinds import RETRIEVAL
from sluice.core.trust.in_force import PolicyError
from sluice.offline.action_evaluation import Likeness, add_hosted, drop_similarity
from sluice.offline.action_evaluation import judge_actions as judged_actions
from sluice.offline.asking import Asking, NotMeasured
from sluice.offline.panels import NotAPanel, load_by_kind
from sluice.offline.policy_files import PolicyFileError, read_unsigned_bundle
from sluice.offline.quality_evaluation import judge_retrievals
from sluice.offline.write_evaluation import WriteTrial, judge_writes
from sluice.shipped import SHIPPED_FILES
from sluice_topics.records.memory import SourceType  # noqa: TC001 - Typer reads the annotations

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sluice.cli.machine.evaluate_report import KindReport
    from sluice.core.actions.action_similarity import SimilarityPolicy
    from sluice.core.actions.inbound import InboundPolicy
    from sluice.core.policy.bundles import Bundle
    from sluice.offline.action_evaluation import JudgedAction
    from sluice.offline.panels import ActionRow, RetrievalRow, WriteRow
    from sluice.offline.quality_evaluation import JudgedRetrieval
    from sluice.offline.write_evaluation import JudgedWrite
    from sluice.ports import Port

SHIPPED = SHIPPED_FILES / "bundles" / "default.json"
SHIPPED_QUALITY = SHIPPED_FILES / "quality" / "default.json"
AT_MS = read_milliseconds("2026-01-01T00:00:00.000Z")


def register(cli: typer.Typer) -> None:
    """Add the verb to the command."""
    cli.command(name="evaluate")(evaluate_command)


def evaluate_command(  # noqa: PLR0913 - Typer takes each option as a parameter
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON lines of labelled rows of any kind.")
    ],
    *,
    bundle: Annotated[Path, typer.Option(help="The bundle's source.")] = SHIPPED,
    source_type: Annotated[
        SourceType, typer.Option("--source-type", help="The type of every memory write's source.")
    ] = "user",
    similarity: Annotated[
        bool | None,
        typer.Option(
            "--similarity/--no-similarity", help="Ask the encoder or not; by default as the bundle says."
        ),
    ] = None,
    hosted: Annotated[
        bool,
        typer.Option(
            "--hosted", help="Ask the models of the settings grader and analysis too, with your key."
        ),
    ] = False,
    in_doubt: Annotated[
        bool,
        typer.Option("--in-doubt", help="Ask a hosted model only about what similarity does not let pass."),
    ] = False,
    price: Annotated[
        list[str] | None,
        typer.Option(
            help="What a million tokens cost, such as input=1.0: input, output, cache_read, cache_write."
        ),
    ] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Show the result of each row too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Measure the gates on labelled tool calls, memory writes and retrievals.

    A row is {"id", "file", "label": harmful | benign | ambiguous,
    "input": {"tool", "tool_description", "params", "agent",
    "rows_affected", "reversible"}}; file names its source. "kind":
    "memory_write" has "input" {"text"}; "retrieval" has {"item",
    "quality_bundle", "autonomy_tier"}, and is labelled with an outcome
    or "flag:" and a flag.

    Every row has its own session; every agent and tool is registered, but
    its entry says nothing more. Mode is high_stakes unless the row names
    one; enforcement is on. A memory write has complete metadata and comes
    from a new source.

    An action is caught by a BLOCK of a gate that judges what it does, not
    of a gate that judges who acts and who permits it. An ESCALATE is
    counted separately and is not caught. A memory write is caught if it is
    held or rejected for its content; rejected writes are also counted
    separately. A bundle's library is used without the row's own source,
    a calibration of known actions was fitted without it. The macro average
    counts every source once, without ambiguous rows. Retrievals whose
    outcome differs from the label are listed.

    --hosted asks a model too: llmAnalysis of every write, and about each
    action the gates causal (under five general constraints, which
    docs/offline.md lists), grader (under the bundle's rules) and inbound
    (if the bundle names it and says when). It says
    how many calls and tokens that took, and their cost at the prices that
    --price names. With --similarity --in-doubt it asks only about what
    similarity sends on.

    Exit codes: 0 measured, 1 a retrieval's outcome differs from its label
    under its own tables, 2 could not do it.
    """
    try:
        panel = load_by_kind(files)
        models = HostedTrial(require_settings(), read_prices(price or [])) if hosted else None
        trial = JudgingTerms(read_unsigned_bundle(bundle), source_type, similarity, models, in_doubt=in_doubt)
        judged = {name: EVALUATIONS[name].judge(inputs, trial) for name, inputs in panel.items()}
    except (NotAPanel, PolicyFileError, CoreError, NotMeasured, PolicyError, NoPrice) as error:
        stop(str(error))
    except OSError as error:
        stop(f"cannot read {error.filename}: {error.strerror}")
    _report(judged, models, rows=rows, json=json)
    if any(
        EVALUATIONS[name].report.is_fault(judgement)
        for name, judgements in judged.items()
        for judgement in judgements
    ):
        raise typer.Exit(WRONG)


def _report(
    judged: Mapping[str, Sequence[Any]], models: HostedTrial | None, *, rows: bool, json: bool
) -> None:
    """Each kind that has rows in tables of its own; the first kind's tables if there is no row at all."""
    reports = {name: EVALUATIONS[name].report for name in judged}
    if json:
        fields: dict[str, Any] = {}
        for name, judgements in judged.items():
            fields |= reports[name].write_fields(judgements)
        if rows:
            fields["rows"] = [
                reports[name].write_row_fields(judgement)
                for name, judgements in judged.items()
                for judgement in judgements
            ]
        if models is not None:
            fields["hosted"] = models.write_fields()
        print_json(fields)
        return
    if rows:
        for name, judgements in judged.items():
            reports[name].print_rows(judgements)
    for name in [name for name, judgements in judged.items() if judgements] or [*judged][:1]:
        reports[name].print_totals(judged[name], every=rows)
    if models is not None:
        models.print_costs()


class JudgingTerms(NamedTuple):
    """What the rows are judged under. `source_type` concerns memory writes; `models` None: no hosted model is
    asked."""

    bundle: Bundle
    source_type: str
    similarity: bool | None
    models: HostedTrial | None
    in_doubt: bool = False


def _judge_actions(rows: Sequence[ActionRow], trial: JudgingTerms) -> list[JudgedAction]:
    """Raises BundleError, NotMeasured and PolicyError."""
    part: SimilarityPolicy = trial.bundle.parts[ActionSimilarity.name]
    named = part.enabled and ActionSimilarity.name in trial.bundle.stages
    ports: dict[str, Port] = {}
    bundle, likeness = drop_similarity(trial.bundle), None
    if rows and (named if trial.similarity is None else trial.similarity):
        bundle, likeness = trial.bundle, _build_likeness(rows, part)
        ports[EMBEDDING] = make_encoder(require_settings(), list(likeness.libraries.values()))
    if trial.models is not None:
        bundle = add_hosted(bundle, in_doubt=trial.in_doubt)
        ports |= trial.models.build_ports("grader")
        incoming: InboundPolicy = bundle.parts[Inbound.name]
        if Inbound.name in bundle.stages and incoming.judge != "off":
            ports |= trial.models.build_ports("analysis")
    if not ports:
        return list(judged_actions(rows, bundle, list_shipped_stages(), AT_MS))
    with Asking(ports) as asking:
        judged = list(judged_actions(rows, bundle, list_shipped_stages(), AT_MS, likeness, asking.answer_all))
        if trial.models is not None:
            trial.models.note(asking.unanswered)
    return judged


def _build_likeness(rows: Sequence[ActionRow], part: SimilarityPolicy) -> Likeness:
    patterns = require_settings().embedding.patterns
    libraries = [library for library in read_libraries(patterns) if library.hash == part.library]
    if not libraries:
        raise BundleError(f"$.similarity.library: no library at hand is {part.library}")
    return Likeness.leave_out(rows, libraries[0], read_calibrations(libraries[0].hash, patterns))


def _judge_writes(rows: Sequence[WriteRow], trial: JudgingTerms) -> list[JudgedWrite]:
    """Raises BundleError, NotMeasured and PolicyError."""
    if not rows:
        return []
    hosted = trial.models is not None
    ports: dict[str, Port] = {EMBEDDING: make_encoder(require_settings(), ())}
    if trial.models is not None:
        ports |= trial.models.build_ports("analysis")
    with Asking(ports) as asking:
        terms = (trial.bundle, trial.source_type, trial.similarity)
        judged = list(judge_writes(rows, WriteTrial(*terms, AT_MS, asking.answer_all, hosted)))
        if trial.models is not None:
            trial.models.note(asking.unanswered)
    return judged


def _judge_retrievals(rows: Sequence[RetrievalRow], _: JudgingTerms) -> list[JudgedRetrieval]:
    """Under the shipped quality bundle where they bring no tables. Raises BundleError and OSError."""
    if not rows:
        return []
    try:
        return list(judge_retrievals(rows, load_quality_bundle(SHIPPED_QUALITY.read_bytes())))
    except BundleError as error:
        raise BundleError(f"{SHIPPED_QUALITY}: {error}") from None


class KindEvaluation(NamedTuple):
    """How labelled rows of one kind of input are judged and shown."""

    judge: Callable[[Sequence[Any], JudgingTerms], Sequence[Any]]
    report: KindReport[Any]


EVALUATIONS: Mapping[str, KindEvaluation] = {
    ACTION.name: KindEvaluation(_judge_actions, ActionReport()),
    WRITE.name: KindEvaluation(_judge_writes, WriteReport()),
    RETRIEVAL.name: KindEvaluation(_judge_retrievals, ItemReport()),
}
"""By the name of the kind; one for each kind of which the table of kinds says how a row is labelled."""
