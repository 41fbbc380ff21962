"""Mend 14: what a content library came to is kept by hash, and what was kept changes no finding."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from sluice.adapters.stored_compilations import MOST_FILES, StoredCompilations
from sluice.detection.kept import keep_in
from sluice.detection.library_model import LibraryError
from sluice.detection.text_inspection import ContentInspector
from tests.conftest import KEPT
from tests.unit.detection.content import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIBRARY, RESULT = b"a library", b"what it came to"
TABLES = ("override_attacks.txt", "breadth_attacks.txt", "honest_by_language.txt")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which this process keeps compilations, until the test ends."""
    kept = tmp_path / "kept"
    keep_in(lambda: StoredCompilations(kept))
    yield kept
    keep_in(lambda: StoredCompilations(KEPT))


def test_a_kept_library_finds_what_a_fresh_one_finds(folder: Path) -> None:
    sets = shipped.sets()
    fresh = ContentInspector(sets)
    assert len(list(folder.glob("*.json"))) == 1
    kept = ContentInspector(sets)
    assert not fresh.was_kept
    assert kept.was_kept
    texts = [row.text for table in TABLES for row in shipped.rows(table)]
    assert len(texts) > 100
    assert [kept.inspect(one) for one in texts] == [fresh.inspect(one) for one in texts]
    assert any(kept.inspect(one).findings for one in texts)


def test_a_library_that_does_not_compile_is_refused_each_time(folder: Path) -> None:
    wrong = shipped.sets().model_copy(deep=True)
    wrong.findings[0].any[0] = "(unclosed"
    for _ in range(2):
        with pytest.raises(LibraryError, match="does not compile"):
            ContentInspector(wrong)
    assert not list(folder.glob("*.json"))


def test_a_result_is_given_back_for_its_own_source_alone(tmp_path: Path) -> None:
    kept = StoredCompilations(tmp_path / "kept")
    assert kept.get(LIBRARY) is None
    kept.put(LIBRARY, RESULT)
    assert kept.get(LIBRARY) == RESULT
    assert kept.get(b"another") is None


def test_a_damaged_file_gives_nothing(tmp_path: Path) -> None:
    kept = StoredCompilations(tmp_path / "kept")
    kept.put(LIBRARY, RESULT)
    (file,) = (tmp_path / "kept").glob("*.json")
    file.write_bytes(file.read_bytes().replace(b"came", b"CAME"))
    assert kept.get(LIBRARY) is None


@pytest.mark.parametrize("place", ["folder", "file"])
def test_what_other_users_may_write_to_is_not_read(tmp_path: Path, place: str) -> None:
    kept = StoredCompilations(tmp_path / "kept")
    kept.put(LIBRARY, RESULT)
    (file,) = (tmp_path / "kept").glob("*.json")
    (file if place == "file" else file.parent).chmod(0o777)
    assert kept.get(LIBRARY) is None


def test_the_folder_and_its_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    StoredCompilations(tmp_path / "kept").put(LIBRARY, RESULT)
    (file,) = (tmp_path / "kept").glob("*.json")
    assert [oct(one.stat().st_mode & 0o777) for one in (file.parent, file)] == ["0o700", "0o600"]


def test_the_oldest_of_too_many_are_dropped(tmp_path: Path) -> None:
    kept = StoredCompilations(tmp_path / "kept")
    for number in range(MOST_FILES + 3):
        kept.put(b"%d" % number, RESULT)
        for file in (tmp_path / "kept").glob("*.json"):
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 1))
    assert len(list((tmp_path / "kept").iterdir())) == MOST_FILES
    assert kept.get(b"0") is None
    assert kept.get(b"%d" % (MOST_FILES + 2)) == RESULT


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = StoredCompilations(tmp_path / "file" / "kept")
    kept.put(LIBRARY, RESULT)
    assert kept.get(LIBRARY) is None
