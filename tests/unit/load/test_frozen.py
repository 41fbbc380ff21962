"""Mend 23: what is frozen comes out the same again, and a record that came out otherwise is counted."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from load import frozen
from load.bench.fixtures.pure import Pipeline
from sluice.settings.reader import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

INPUTS = 40


def test_frozen_inputs_lead_to_the_same_records_and_a_changed_one_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "frozen.gz"
    frozen.freeze(file, INPUTS)
    assert frozen.compare(file) == 0

    changed = gzip.decompress(file.read_bytes()).replace(
        b'\\"outcome\\":\\"ALLOW\\"', b'\\"outcome\\":\\"BLOCK\\"', 1
    )
    file.write_bytes(gzip.compress(changed, 1))
    capsys.readouterr()

    assert frozen.compare(file) == 1
    assert f"{INPUTS - 1} of {INPUTS} inputs have the same records" in capsys.readouterr().out


def test_the_pipeline_decides_a_chunk_as_it_decides_its_inputs_one_by_one() -> None:
    actions = next(frozen.draw(2 * INPUTS))
    limits = Settings().build_limits()
    together, alone = (Pipeline(actions.point(limits)) for _ in range(2))
    chunk = actions.input_records
    assert together.take(chunk) == [record for one in chunk for record in alone.take([one])]
