"""`make bench`: every figure beside a peer of the same run, all rounds and medians, in build/bench.json."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import sysconfig
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from load import ROOT
from load.bench.gates import (
    action_pipeline,
    agent_signatures,
    gate1,
    known_actions,
    memory_gate,
    retrieval_gate,
    sealing,
)
from load.bench.measurement import TARGET, WORK, Extent, Measurement, markdown_tables, table
from load.bench.workers import (
    backtested,
    disk,
    judged,
    observed,
    processes,
    proofs,
    retrieval_latency,
    stream,
)
from sluice.broker.locate import find_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

CORE: dict[str, Callable[[Extent], list[Measurement]]] = {
    "pipeline": action_pipeline.figures,
    "gate1": gate1.figures,
    "rules": gate1.rules_figures,
    "memories": memory_gate.figures,
    "likeness": known_actions.figures,
    "retrievals": retrieval_gate.figures,
    "report": retrieval_gate.report_figures,
    "signing": agent_signatures.figures,
    "sealing": sealing.figures,
}
STREAM: dict[str, Callable[[stream.Bench], Coroutine[Any, Any, list[Measurement]]]] = {
    "throughput": stream.throughputs,
    "processes": processes.measure_processes,
    "replicated": processes.measure_replicated,
    "disk": disk.measure_disk,
    "proofs": proofs.costs,
    "heads": proofs.measure_heads,
    "observed": observed.measure_observed,
    "unlikened": stream.measure_unlikened,
    "latency": stream.latencies,
    "freezing": stream.measure_freezing,
    "judging": judged.measure_judging,
    "items": retrieval_latency.latencies,
    "stalled": retrieval_latency.measure_unhindered,
    "large": stream.large,
    "memory": stream.memories,
    "cost": stream.costs,
    "restart": stream.restarts,
    "backtest": backtested.measure_backtest,
    "signed": stream.measure_signed,
    "sealed": stream.measure_sealed,
    "client": stream.clients,
    "gateway": stream.gateways,
    "polled": stream.measure_polled,
}
DECIDED_BY = (
    *("pipeline", "gate1", "retrievals", "throughput", "processes", "disk", "heads", "latency", "freezing"),
    *("memory", "restart", "backtest", "sealed", "gateway"),
)
"""What capacity, guarantees and decisions rest on (docs/capacity.md, docs/guarantees.md, docs/decisions)."""
WIDE = 140
"""Columns where nobody watches."""
console = Console(stderr=True, width=None if sys.stderr.isatty() else WIDE)


def measure_parts(names: Sequence[str], extent: Extent) -> Iterator[tuple[str, list[Measurement]]]:
    """The named parts, one after the other; a broker only where one is needed."""
    for name in names:
        if name in CORE:
            yield name, CORE[name](extent)
    if STREAM.keys() & names:
        yield from measure_on_broker([name for name in names if name in STREAM], extent)


def measure_on_broker(names: Sequence[str], extent: Extent) -> Iterator[tuple[str, list[Measurement]]]:
    """The same of the parts that need one."""
    broker = find_broker(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"), WORK / "broker")
    console.print(f"broker: {broker.kind}")
    bench = stream.Bench(broker.bootstrap_servers, WORK, extent)
    try:
        with asyncio.Runner() as runner:
            for name in names:
                yield name, runner.run(STREAM[name](bench))
    finally:
        broker.close()


def interpreter_build() -> dict[str, Any]:
    """How the interpreter was built: with profile-guided optimisation it is a quarter to a third faster. A
    distribution's may not say so."""
    return {
        "configured": sysconfig.get_config_var("CONFIG_ARGS"),
        "compiler": platform.python_compiler(),
        "of_distribution": sys.base_prefix == "/usr",
    }


def main() -> None:
    """Options: the parts to run, how many rounds, and which share of the full counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join((*CORE, *STREAM))}")
    parser.add_argument("--all", action="store_true", help="every part, not only what something rests on")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--share", type=float, default=0.1, help="of the full counts; less shows less")
    parser.add_argument("--markdown", action="store_true", help=f"print the tables of {TARGET.name} and end")
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown_tables(json.loads(TARGET.read_bytes())["figures"]))
        return
    names = arguments.parts or ([*CORE, *STREAM] if arguments.all else DECIDED_BY)
    if unknown := set(names) - CORE.keys() - STREAM.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    figures = []
    for name, part in measure_parts(names, Extent(arguments.rounds, arguments.share)):
        console.print(f"[bold]{name}[/]", table(part))
        figures += [{"part": name, **asdict(measurement)} for measurement in part]
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), **interpreter_build()}
    extent = {"rounds": arguments.rounds, "share": arguments.share}
    result = {"machine": machine, "extent": extent, "figures": figures}
    TARGET.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(f"written to {TARGET.relative_to(ROOT)}")
    sys.exit(0 if all(figure["holds"] for figure in figures) else 1)


if __name__ == "__main__":
    main()
