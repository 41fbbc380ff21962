"""The demo's material as it ships."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from app.broker.locate import HOME as BROKER_HOME
from app.demo.run import Wish, prepare
from app.settings import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from app.demo.run import Material

BUNDLE = ROOT / "config" / "bundles" / "default.json"


@pytest.fixture
def wish(tmp_path: Path) -> Wish:
    """A run that would keep its files apart."""
    return Wish(
        "demo-test", tmp_path, BROKER_HOME, ROOT / "config" / "demo", BUNDLE, {}, keep=False, now=_noon
    )


@pytest.fixture
def material(wish: Wish) -> Material:
    """What a run publishes."""
    return prepare(wish)


def _noon() -> str:
    return "2026-01-01T12:00:00.000Z"
