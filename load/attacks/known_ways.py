"""Attacks that are tests already: ways past a gate that adversaries went who had read its docs and source.

Each way is a test of its own in a file `test_…_attacked.py`, beside the tests of the gate, whose scenes it
needs. Here each is an attempt; it got through if the test fails. A test that is marked `control` is an honest
input.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from load.attacks.attempt import Attempt

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from load.attacks.attempt import Extent

ROOT = Path(__file__).parents[2]
SHORT_STEP = 5
"""The short form tries every fifth."""


class _Listener:
    """A plugin of pytest that notes what each test came to."""

    def __init__(self, extent: Extent) -> None:
        self._step = SHORT_STEP if extent == "short" else 1
        self.attempts: dict[str, Attempt] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Choose what is tried: of the short form all controls too."""
        ways = [item for item in items if not _is_control(item)]
        items[:] = [*ways[:: self._step], *filter(_is_control, items)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note a test that ran, and one that could not."""
        report = yield
        if report.when == "call" or report.failed:
            message = report.longreprtext.splitlines()[-1] if report.failed else "held"
            name = item.name.removeprefix("test_").replace("_", " ")
            self.attempts[item.nodeid] = Attempt(name, report.passed, message, _is_control(item))
        return report


def _is_control(item: pytest.Item) -> bool:
    return item.get_closest_marker("control") is not None


def run_tests(path: Path, extent: Extent) -> Iterator[Attempt]:
    """Run the tests of a file; each is an attempt. Raises RuntimeError where pytest cannot run them."""
    listener = _Listener(extent)
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    with redirect_stdout(StringIO()) as output:
        status = pytest.main([*options, "--rootdir", str(ROOT), str(path)], plugins=[listener])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or not listener.attempts:
        raise RuntimeError(f"the tests of {path} did not run: {output.getvalue()[-2000:]}")
    yield from listener.attempts.values()
