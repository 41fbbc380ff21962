"""The demo's material as it ships, and the story that its retrievals tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from load import ROOT
from sluice.broker.locate import HOME as BROKER_HOME
from sluice_demo.material import RunOptions, prepare
from tests.unit.demo.deciding import Deciding

if TYPE_CHECKING:
    from sluice_demo.material import Material

BUNDLE = ROOT / "config" / "bundles" / "default.json"
QUALITY = ROOT / "config" / "quality" / "default.json"


@pytest.fixture(scope="session")
def wish(tmp_path_factory: pytest.TempPathFactory) -> RunOptions:
    """A run that would keep its files apart."""
    home, config = tmp_path_factory.mktemp("demo"), ROOT / "config" / "demo"
    return RunOptions("demo-test", home, BROKER_HOME, config, BUNDLE, QUALITY, {}, keep=False, now=_noon)


@pytest.fixture(scope="session")
def material(wish: RunOptions) -> Material:
    """What a run publishes."""
    return prepare(wish)


@pytest.fixture(scope="session")
def decided(wish: RunOptions, material: Material) -> Deciding:
    """Every retrieval decided on. Shared: what a test adds to it, later tests see."""
    deciding = Deciding(wish, material)
    deciding.take(material.retrievals)
    return deciding


def _noon() -> str:
    return "2026-01-01T12:00:00.000Z"
