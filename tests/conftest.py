"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from app.adapters.kept_compilations import KeptCompilations
from app.core.content.kept import keep_in

KEPT = Path(__file__).resolve().parents[1] / "build" / "kept"

# Nothing here skips: a test that needs a broker starts one, and fails with the three ways if it cannot.
os.environ.pop("SLUICE_CONFIG", None)  # a developer's own settings must not decide what the tests see
# How long an example takes says how busy the machine is. In CI the profile goes on from hypothesis's own.
settings.register_profile("sluice", settings(), deadline=None)
settings.load_profile("sluice")
keep_in(lambda: KeptCompilations(KEPT))
BROKER, FAULTS = "tests/kafka/", "test_faults.py"


class OneProcessForTheBroker(LoadScopeScheduling):  # type: ignore[misc]
    """A process takes all tests that share the broker, or those of a file with its fixtures."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return BROKER if file.startswith(BROKER) else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The fault runs come last: by then the other process is done, and the machine is theirs."""
    items.sort(key=lambda item: item.path.name == FAULTS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """`make test` runs in two processes; what needs the broker mostly waits. Without xdist nobody asks."""
    return OneProcessForTheBroker(config, log)
