"""The page about the packages says how many files one input enters, and that still holds to a tenth."""

from __future__ import annotations

import pytest

from load.bench.gates.path_length import path_lengths
from load.bench.given import bench_policy
from sluice.offline.architecture import PATHS


def test_the_page_s_figures_of_one_input_s_way_hold_to_a_tenth() -> None:
    lengths = path_lengths(bench_policy.point())
    assert lengths.keys() == PATHS.keys()
    for kind, (files, switches) in PATHS.items():
        assert lengths[kind].files == pytest.approx(files, rel=0.1), kind
        assert lengths[kind].switches == pytest.approx(switches, rel=0.1), kind
