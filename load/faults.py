"""`python -m load.faults`: the fault runs against a real broker; figures in build/faults.json.

Each run starts its own workers on topics of its own, hurts them (or the broker), reads everything back
with read_committed and recounts it. Exit status 1 when a figure misses its goal or a run could not be
carried through.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import shutil
import signal
import tempfile
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from aiokafka.errors import KafkaError

from load import ROOT
from load.archive_kills import archive
from load.bad_inputs import malformed, poison
from load.broker_failures import brokers
from load.changing_policy import reload
from load.channels import channels
from load.head_signers import settle
from load.installations.fleet import RunFailed
from load.installations.installation import FULL, SHORT, RunScale
from load.interruptions import approvals, kill_one, kill_two, outages, scaling, zombies
from load.model_outages import models
from load.packages.mixed_run import audit
from load.recomputation import figures
from load.scene import DRIVER, Bed
from load.soak import soak
from load.upgrades import upgrade
from sluice.adapters.kafka.kafka_read import KafkaUnreachable
from sluice.broker import locate
from sluice.broker.handle import BrokerError, find_free_ports
from sluice.broker.local import Layout, launch
from sluice.broker.secured import BrokerSecurity, draw_passwords
from sluice_topics.access import ROLES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from load.recomputation.figures import RunFigure
    from sluice.broker.local import LocalBroker

_ALL = (
    kill_one,
    kill_two,
    zombies,
    outages,
    brokers,
    scaling,
    upgrade,
    reload,
    malformed,
    poison,
    approvals,
    channels,
    models,
    archive,
    audit,
    soak,
)
ATTENDED = {run.__name__ for run in (kill_one, kill_two, outages, brokers, zombies, scaling)}
"""Runs of one traffic from beginning to end: these take `--attended`."""
LONG = {soak.__name__}
"""Runs that nobody wants beside the others: they run where they are named."""
RUNS: dict[str, Callable[[Bed, RunScale], Awaitable[list[RunFigure]]]] = {run.__name__: run for run in _ALL}
FAILURES = (RunFailed, TimeoutError, KafkaError, KafkaUnreachable, BrokerError, OSError)


async def carry_out(name: str, bed: Bed, scale: RunScale) -> list[RunFigure]:
    """One run within its deadline, with its figures named after it."""
    began = time.monotonic()
    deadline_s = scale.deadline_s + (2 * scale.soak_s if name in LONG else 0)
    try:
        async with asyncio.timeout(deadline_s):
            run_figures = await RUNS[name](bed, scale)
            run_figures += await settle(bed.attended)
    finally:
        if bed.attended:
            bed.attended.clear()  # those of a run that failed are not the next one's
    took = figures.require_at_most("seconds", round(time.monotonic() - began, 1), deadline_s, "s")
    return figures.add_prefix(name, [*run_figures, took])


def main() -> None:
    """Run the chosen runs one after another on one broker of their own."""
    options = _arguments()
    names = ("events", "rate", "soak_s", "soak_rate")
    chosen = {name: value for name in names if (value := getattr(options, name)) is not None}
    scale = replace(SHORT if options.short else FULL, **chosen)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that workers and broker are ended then too
    folder = Path(tempfile.mkdtemp(prefix="sluice-faults-"))
    print(f"logs and data (kept when a goal is missed): {folder}", flush=True)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # an outage is no news here
    layout = Layout(folder / "kafka", folder / "kafka" / "data", locate.JARS)
    broker = _start_secured(layout) if options.secured else locate.start_broker(layout)
    salt = f"{time.time_ns() // 1_000_000 % 10**9:09d}"
    bed = Bed(broker, folder, options.seed, salt, attended=[] if options.attended else None)
    run_figures: list[RunFigure] = []
    try:
        for name in options.runs or [name for name in RUNS if name not in LONG]:
            run_figures += _report_run(name, bed, scale)
            figures.write(options.out, run_figures)
    finally:
        broker.close()
    if not all(figure.holds for figure in run_figures):
        raise SystemExit(1)
    shutil.rmtree(folder)


def _start_secured(layout: Layout) -> LocalBroker:
    """One where everyone must log in, and may do only what an ACL allows."""
    *_, tls_port = find_free_ports(3)  # `launch` takes the two before
    passwords = draw_passwords(DRIVER, *ROLES)
    return launch(layout, security=BrokerSecurity(layout.work / "tls", tls_port, passwords))


def _report_run(name: str, bed: Bed, scale: RunScale) -> list[RunFigure]:
    print(f"{name} …", flush=True)
    try:
        run_figures = asyncio.run(carry_out(name, bed, scale))
    except FAILURES:
        traceback.print_exc()
        run_figures = [figures.none(f"{name}.not_carried_through", 1, "runs")]
        bed.broker.start()
    print(figures.table(run_figures), flush=True)
    return run_figures


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m load.faults", description=__doc__)
    parser.add_argument("runs", nargs="*", choices=[[], *RUNS], help="which (default: all but soak)")
    parser.add_argument("--short", action="store_true", help="the sizes that the tests use")
    parser.add_argument("--events", type=int, help="inputs a run, at least")
    parser.add_argument("--rate", type=float, help="inputs a second, for a machine that is slower or busy")
    parser.add_argument("--soak-s", type=float, help="seconds that a soak lasts (half an hour)")
    parser.add_argument("--soak-rate", type=float, help="its inputs a second")
    parser.add_argument("--secured", action="store_true", help="with TLS, logins and the least rights")
    parser.add_argument("--attended", action="store_true", help="heads are signed, persons erased meanwhile")
    parser.add_argument("--seed", type=int, default=1, help="another seed, another run")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "faults.json")
    options = parser.parse_args()
    if options.attended and not ATTENDED.issuperset(options.runs or RUNS):
        parser.error(f"--attended is for {', '.join(sorted(ATTENDED))}")
    return options


if __name__ == "__main__":
    main()
