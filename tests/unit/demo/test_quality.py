"""The demo's quality bundle: the one that ships, with one class in flag-only for longer than its window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.core.cases.quality_cases import run_quality_cases
from sluice.core.foundation.clock import read_milliseconds
from sluice.core.quality_bundle.quality_bundle import load_quality_bundle
from sluice.core.retrieval.alarms import list_overdue

if TYPE_CHECKING:
    from sluice_demo.material import Material, RunOptions


def test_it_loads_and_passes_its_own_cases(material: Material) -> None:
    quality = load_quality_bundle(material.quality)
    assert quality.file.cases
    assert run_quality_cases(quality) == ()


def test_it_differs_from_the_shipped_one_in_one_class_alone(material: Material, wish: RunOptions) -> None:
    made, shipped = load_quality_bundle(material.quality), load_quality_bundle(wish.quality.read_bytes())
    flag_only = material.config.readings.rollout.flag_only
    modes = {name: made.rollout_of(name) for name in made.file.rollout}
    assert modes == dict.fromkeys(shipped.file.rollout, "enforce") | {flag_only: "flag_only"}
    apart = {"rollout", "cases"}
    assert made.file.model_dump(exclude=apart) == shipped.file.model_dump(exclude=apart)


def test_one_alarm_is_due_from_the_start(material: Material, wish: RunOptions) -> None:
    (due,) = list_overdue(load_quality_bundle(material.quality), read_milliseconds(wish.now()))
    assert (due.content_class, due.ordinal) == (material.config.readings.rollout.flag_only, 1)
