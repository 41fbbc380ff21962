"""docs/adding-a-gate.md is true: its code is the tree's, its paths are there, its bundle decides."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from sluice.core.actions import sequence, stage, stages
from sluice.core.foundation import requests
from tests.documents.blocks import ROOT, blocks
from tests.unit.core.actions.sequence_scene import TOOLS
from tests.unit.core.scene import Session, bundle, point

if TYPE_CHECKING:
    from tests.documents.blocks import Block

NAME = "docs/adding-a-gate.md"
GUIDE = (ROOT / NAME).read_text(encoding="utf-8")
PROSE = re.sub(r"^ *```.*?^ *```$", "", GUIDE, flags=re.DOTALL | re.MULTILINE)
CODE = [one for one in blocks(NAME) if one.kind == "python"]
SPOKEN_OF = (stage, sequence, stage, stages, requests)


@pytest.mark.parametrize("block", CODE, ids=lambda one: one.name)
def test_the_code_is_the_files_own(block: Block) -> None:
    """Its parts stand in the file as they are, in their order; "..." leaves lines out."""
    head, _, text = block.text.partition("\n")
    source = (ROOT / head.removeprefix("# ")).read_text(encoding="utf-8")
    at = 0
    for part in re.split(r"^\.\.\.\n", text, flags=re.MULTILINE):
        found = source.find(part, at)
        assert found >= 0, part
        at = found + len(part)


def test_every_path_is_there() -> None:
    named = re.findall(r"`((?:app|config|docs|tests)/[\w./-]*)`", PROSE)
    assert len(named) > 10
    assert [one for one in named if not (ROOT / one).exists()] == []
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", PROSE)
    assert [one for one in links if not (ROOT / "docs" / one).exists()] == []


def test_every_name_is_one_of_the_code() -> None:
    names = set(re.findall(r"`([A-Z]\w+|[a-z]+_[a-z_]+)`", PROSE))
    assert {"Gate", "RememberingGate", "StageResult", "PASSED", "judges_content"} <= names
    known = {name for module in SPOKEN_OF for name in vars(module)} | set(vars(stage.Gate))
    known |= {"controls", "tier_auth", *vars(stage.RememberingGate)}
    assert names - known == set()


def test_the_bundle_text_is_taken_and_freezes() -> None:
    (written,) = [json.loads(one.text) for one in blocks(NAME) if one.kind == "json"]
    denying = {"id": "d", "type": "forbidden", "reason": "no", "condition": "action.tool == 'denied'"}
    session = Session(point(*TOOLS, policy=bundle(patterns={}, rules=[denying], **written)))
    for place in range(5):
        session.verdict(action_id=f"a-{place}", toolName="denied")
    assert session.verdict(action_id="last")["blockReason"] == "frozen_by_denials: 5 within 60000 ms"
