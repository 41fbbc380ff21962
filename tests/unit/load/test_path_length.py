"""The page about the packages says how many files one input enters at most, and no input enters more."""

from __future__ import annotations

from load.bench.fixtures import bench_policy
from load.bench.gates.path_length import PathLength, path_lengths
from sluice.offline.architecture import PATHS


def test_no_input_s_way_is_longer_than_the_page_says() -> None:
    lengths = path_lengths(bench_policy.point())
    assert lengths.keys() == PATHS.keys()
    for kind, most in PATHS.items():
        for name, length, bound in zip(PathLength._fields, lengths[kind], most, strict=True):
            assert length <= bound, f"{kind}: {name}"
