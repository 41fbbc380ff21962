"""The gate of a framework's tests. They run by `make frameworks`, each file in an environment of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.frameworks.gate import RemoteGate, open_gate

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteGate]:
    """One broker and worker for the tests of a framework; another one's would repeat the same calls."""
    with open_gate(tmp_path_factory.mktemp("gate")) as opened:
        yield opened
