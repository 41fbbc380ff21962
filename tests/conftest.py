"""What every test may ask for, and which process takes which tests."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import is_hypothesis_test, settings
from xdist.scheduler import LoadScopeScheduling

from load.installations.redis_server import RedisServer
from sluice.adapters.stored_compilations import StoredCompilations
from sluice.detection.kept import keep_in

if TYPE_CHECKING:
    from collections.abc import Iterator


collect_ignore = ["frameworks"]
"""Their packages do not fit into one environment: `make frameworks` runs them."""
KEPT = Path(__file__).resolve().parents[1] / "build" / "kept"

# A test that needs a broker starts one, and fails with the three ways if it cannot. A browser and a Redis may
# be missing where it is not CI: then the tests that need them are skipped, and say what to install.
os.environ.pop("SLUICE_CONFIG", None)  # a developer's own settings must not decide what the tests see
for _name in ("COLUMNS", "LINES"):  # processes that share the tests are told 80 columns, one alone is not
    os.environ.pop(_name, None)
keep_in(lambda: StoredCompilations(KEPT))

# How long an example takes says how busy the machine is. In CI the profile goes on from hypothesis's own,
# which tries the same examples each time. SLUICE_NIGHTLY=1 tries ten times as many, and others each time.
NIGHTLY = bool(os.environ.get("SLUICE_NIGHTLY"))
TIMES = 10 if NIGHTLY else 1
settings.register_profile("sluice", settings(), deadline=None)
settings.register_profile(
    "nightly", settings(), deadline=None, derandomize=False, max_examples=TIMES * settings().max_examples
)
settings.load_profile("nightly" if NIGHTLY else "sluice")


@pytest.fixture(scope="session")
def real_redis() -> type[RedisServer]:
    """Starts a Redis of one's own. In CI a missing program is a failure."""
    missing = "no redis-server: apt-get install redis-server"
    if shutil.which("redis-server") is None:
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return RedisServer


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=KEPT.parents[1], check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def pytest_collection(session: pytest.Session) -> None:
    """All modules and tests stay until the end: the garbage collector need not go through them."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Nor later, when it collects what the tests leave."""
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """What a property says of its own number of examples is multiplied too, and a test's time."""
    if not NIGHTLY:
        return
    limit = float(config.getini("timeout"))
    for item in items:
        item.add_marker(pytest.mark.timeout(TIMES * limit))
    places = {id(place): (place, name) for place, name in _explicit_settings(items)}
    for place, name in places.values():
        own = getattr(place, name)
        setattr(place, name, settings(own, max_examples=TIMES * own.max_examples, derandomize=False))


def _explicit_settings(items: list[Any]) -> Iterator[tuple[Any, str]]:
    for item in items:
        machine, test = getattr(item, "cls", None), getattr(item, "obj", None)
        if hasattr(machine, "settings"):
            yield machine, "settings"
        elif is_hypothesis_test(test) and hasattr(test, "_hypothesis_internal_use_settings"):
            yield test, "_hypothesis_internal_use_settings"


# `make test` runs in three processes: two of them take the tests that need a broker, which mostly wait, each
# with a broker of its own; the third takes the others, and all help with what is left.

WITH_BROKER = "tests/kafka/"
BROKERS = 2
ALONE = ("test_attacks.py", "test_demo.py", "test_faults.py")
"""Files whose tests share nothing but the broker: each may run in another process."""
TOGETHER = ("tests/kafka/gateway",)
"""Folders whose files share a worker."""
FAULTS = "tests/kafka/test_faults.py::test_nothing_is_lost_doubled_or_wrong_after"
SECONDS = {
    f"{FAULTS}[channels]": 99,
    f"{FAULTS}[poison]": 78,
    f"{FAULTS}[models]": 60,
    f"{FAULTS}_outages": 60,
    **{f"{FAULTS}[{run}]": 40 for run in ("kill_two", "zombies", "reload", "malformed")},
    **{f"{FAULTS}[{run}]": 30 for run in ("scaling", "approvals")},
    "tests/kafka/test_attacks.py::test_nothing_gets_through[idle_partition]": 129,
    **{
        f"tests/kafka/test_attacks.py::test_nothing_gets_through[{attack}]": 20
        for attack in ("hostile_mcp", "lost_topics", "raced_answers", "forged_answers")
    },
    "tests/kafka/test_demo.py::test_a_run_answers_everything_and_leaves_nothing": 62,
    "tests/kafka/test_demo.py::test_a_kept_demo_runs_on_until_it_is_stopped": 40,
    "tests/kafka/test_memory_takeover.py": 100,
    "tests/kafka/gateway": 90,
    "tests/kafka/test_agents_that_sign.py": 90,
    "tests/kafka/test_pages.py": 100,
    "tests/kafka/test_other_languages.py": 90,  # a cold cache of Go
    "tests/kafka/test_documents.py": 90,
    "tests/kafka/test_mcp.py": 80,
    "tests/kafka/test_init.py": 60,
    "tests/kafka/test_wheel.py": 60,
    "tests/kafka/test_pages_queue.py": 55,
    "tests/kafka/test_gateway_schema.py": 45,
    **dict.fromkeys(
        (
            *(
                "tests/kafka/test_policy_loss.py",
                "tests/kafka/test_retrievals.py",
                "tests/kafka/test_worker.py",
            ),
            *(
                "tests/kafka/test_stopping.py",
                "tests/kafka/test_policy_reload.py",
            ),
        ),
        40,
    ),
    **dict.fromkeys(
        (
            *("tests/kafka/test_approval_routing.py", "tests/kafka/test_gateway_keys.py"),
            *("tests/kafka/test_gateway_outage.py", "tests/kafka/test_idle_partition.py"),
            *("tests/kafka/test_init_again.py", "tests/kafka/test_notifications.py"),
            *("tests/kafka/test_outage_lines.py", "tests/kafka/test_rerun.py"),
        ),
        30,
    ),
    **dict.fromkeys(
        (
            *("tests/kafka/test_broker.py", "tests/kafka/test_client.py"),
            *("tests/kafka/test_judging.py", "tests/kafka/test_mcp_faults.py"),
            *("tests/kafka/test_memory_lookups.py", "tests/kafka/test_provenance.py"),
            *("tests/kafka/test_quarantine.py", "tests/kafka/test_slack_interactions.py"),
        ),
        20,
    ),
    "tests/unit/load/test_attacks.py": 50,
    "tests/unit/detection/content/test_prefilter.py": 25,
    "tests/model/test_sentence_encoder.py": 25,
    "tests/adapters/test_stored_compilations.py": 20,
    "tests/model/test_known_actions.py": 20,
    "tests/unit/test_image.py": 20,
    "tests/unit/demo/test_proposed_tiers.py": 13,
    "tests/unit/load/test_policy_findings.py": 12,
    "tests/browser/test_quality_report.py": 10,
    "tests/unit/load/test_frozen.py": 9,
    "tests/unit/test_site.py": 8,
    "tests/unit/stream/test_stage_by_stage.py": 9,
    "tests/unit/core/rerun/test_rerun_in_force.py": 8,
    "tests/unit/load/test_session_recount.py": 7,
}
"""What takes long, as measured on two cores: it begins first, so that no process is left alone with it."""
SECONDS_WITH_BROKER = 12
"""What another file takes that needs a broker."""


def _seconds(scope: str) -> int:
    return SECONDS.get(scope, SECONDS_WITH_BROKER if scope.startswith(WITH_BROKER) else 1)


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """A file's tests stay together, with their fixtures, but for those that are `ALONE`; some folders' do."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        folder = file.rpartition("/")[0]
        return nodeid if file.endswith(ALONE) else folder if folder in TOGETHER else file

    def _assign_work_unit(self, node: Any) -> None:
        """The longest of the node's own kind, or of the other kind where its own is done."""
        broker = self.nodes.index(node) < BROKERS
        ours = [scope for scope in self.workqueue if scope.startswith(WITH_BROKER) == broker]
        longest = max(ours or self.workqueue, key=_seconds)
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        """No further ahead than the next test: what is handed out does not go to a process that is free."""
        if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
            super()._reschedule(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Without xdist nobody asks."""
    return Lanes(config, log)
