"""`sluice grader prove`: what the model of the settings makes of the golden set, as an entry to sign."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from sluice.adapters.models.prompted_port import PromptedPort
from sluice.bootstrap.model_ports import PROMPTS, build_hosted_model
from sluice.cli.output import WRONG, clean, console, print_json, require_settings, stop
from sluice.cli.policy.control_topics import AsJson  # noqa: TC001 - Typer reads the annotations
from sluice.cli.tables import LINES, build_table
from sluice.core.foundation.clock import rfc3339
from sluice.core.registry.model_proofs import ProofPolicy
from sluice.offline.golden_set import (
    GOLDEN,
    GoldenSetError,
    build_proof_entry,
    load_golden_set,
    run_golden_set,
)
from sluice.text.plurals import count_noun

if TYPE_CHECKING:
    from sluice.offline.golden_set import GoldenRun, GoldenSet
    from sluice.settings.reader import Settings

cli = typer.Typer(no_args_is_help=True, add_completion=False)
SHOWN_CASES = 20


@cli.callback()
def grader() -> None:
    """Prove the model that judges actions.

    Use it before a hosted model judges for the first time, and again when
    its name or its prompt changes.
    """


@cli.command()
def prove(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The entry to sign: a new file.")],
    *,
    model: Annotated[str | None, typer.Option(help="Else the one of the settings (grader.model).")] = None,
    cases: Annotated[Path, typer.Option(dir_okay=False, help="The golden set, in JSON lines.")] = GOLDEN,
    most_p99_ms: Annotated[
        float, typer.Option(metavar="MS", help="What your bundle demands (grader.proof.most_p99_ms).")
    ] = ProofPolicy().most_p99_ms,
    revision: Annotated[int, typer.Option(min=1, help="Of the entry: above the one in force.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Run the golden set on the model, and write the proof that its answers need.

    Reports agreement, cases on which the model turns a refusal into a
    pass or a pass into a refusal, and the time of its answers. The proof
    is an entry of the registry: sign it with `sluice registry sign`,
    publish it with `sluice registry publish`. Without a proof in force no
    answer of a model counts, unless the bundle says so (grader.proof).

    Exit codes: 0 proved well enough by the defaults of a bundle, and fast
    enough; 1 not so; 2 could not do it.
    """
    if out.exists():
        stop(f"{clean(out)} exists")
    settings = require_settings()
    if model is not None:
        settings = settings.model_copy(update={"grader": settings.grader.model_copy(update={"model": model})})
    try:
        golden = load_golden_set(cases)
        run = asyncio.run(_run(golden, settings))
    except (GoldenSetError, OSError) as error:
        stop(str(error))
    entry = build_proof_entry(golden, run, revision, rfc3339(time.time_ns() // 1_000_000))
    out.write_bytes(orjson.dumps({"entries": [entry]}, option=orjson.OPT_INDENT_2) + b"\n")
    spec = entry["spec"]
    enough = spec["agreement"] >= ProofPolicy().least_agreement and spec["p99_ms"] <= most_p99_ms
    if as_json:
        disagrees = [golden_case.id for golden_case in golden.cases if not run.is_agreeing(golden_case)]
        print_json({**entry, "disagrees": disagrees})
    else:
        _print(golden, run, entry["spec"])
        message = "[green]good and fast enough[/]" if enough else "[red]not good or not fast enough[/]"
        console.print(f"{message}: {clean(out)}; next: sign and publish it", soft_wrap=True, highlight=False)
    if not enough:
        raise typer.Exit(WRONG)


async def _run(golden: GoldenSet, settings: Settings) -> GoldenRun:
    model = build_hosted_model(settings.grader, "grader", None)
    if model is None:
        raise GoldenSetError("no key is set: ANTHROPIC_API_KEY, or grader.api_key")
    try:  # without the kept answers of a worker
        return await run_golden_set(
            golden, {name: PromptedPort(prompt, model) for name, prompt in PROMPTS.items()}
        )
    finally:
        await model.close()


def _print(golden: GoldenSet, run: GoldenRun, spec: dict[str, object]) -> None:
    flipped = {flip.id for flip in run.list_flips(golden.cases)}
    console.print(
        f"{run.model}: {count_noun(len(golden.cases), 'case')}, agreement {spec['agreement']}, "
        f"{len(flipped)} turned round, p50 {spec['p50_ms']} ms, p99 {spec['p99_ms']} ms",
        soft_wrap=True,
        highlight=False,
    )
    wrong = [golden_case for golden_case in golden.cases if not run.is_agreeing(golden_case)]
    if not wrong:
        return
    rows = (
        (missed.id, missed.expect, run.outcomes[missed.id], "yes" if missed.id in flipped else "")
        for missed in wrong[:SHOWN_CASES]
    )
    console.print(build_table("case", "expected", "found", "turned round", rows=rows, box=LINES))
    if len(wrong) > SHOWN_CASES:
        console.print(f"and {len(wrong) - SHOWN_CASES} more")
