"""What every test may ask for."""

from __future__ import annotations

import os

import pytest

# Nothing here skips: a test that needs a broker starts one, and fails with the three ways if it cannot.
os.environ.pop("SLUICE_CONFIG", None)  # a developer's own settings must not decide what the tests see


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What one of two processes takes at a time: all that shares the broker, or a file with its fixtures."""
    for item in items:
        group = "kafka" if item.get_closest_marker("kafka") else item.path.as_posix()
        item.add_marker(pytest.mark.xdist_group(group))
