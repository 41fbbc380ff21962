"""Mend 23: what is frozen comes out the same again, and a record that came out otherwise is counted."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from load import frozen

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
