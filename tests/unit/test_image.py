"""The Dockerfile: its build stage is run as commands in a folder, below which the paths of the image lie.

Of its run stage, which needs a container, the text is held. Not run: the base images and who may read what.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sluice.settings.reader import load_settings

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / "build" / "uv"
"""`make` puts uv there; the image's own environment for it is made of the same lock."""
TOOLS = ("pip", "pip3", "uv", "hatchling", "gcc", "cc", "easy_install")


@dataclass
class Stage:
    """From one FROM to the next: the image, its name if it has one, and the instructions in their order."""

    image: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def list_texts(self, word: str) -> list[str]:
        return [text for instruction, text in self.steps if instruction == word]

    def get_environment(self) -> dict[str, str]:
        pairs = [shlex.split(text) for text in self.list_texts("ENV")]
        return dict(one.split("=", 1) for words in pairs for one in words)


def read_stages(text: str) -> list[Stage]:
    lines = re.sub(r"\\\n\s*", "", re.sub(r"(?m)^\s*#.*\n", "", text)).splitlines()
    stages: list[Stage] = []
    for line in filter(None, lines):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            stages.append(Stage(image, name))
        else:
            stages[-1].steps.append((word, rest))
    return stages


STAGES = read_stages((ROOT / "Dockerfile").read_text())
BUILD, RUN = STAGES


def test_both_stages_stand_on_one_exact_image() -> None:
    assert BUILD.image == RUN.image, "an environment is bound to the interpreter that it was made with"
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", RUN.image)


def test_what_runs_is_no_root_and_finds_nothing_that_installs() -> None:
    words = [word for word, _ in RUN.steps]
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert RUN.list_texts("USER") == ["10001:10001"]
    (made,) = RUN.list_texts("RUN")
    assert "pip uninstall" in made
    assert not re.search(r"apt-get|pip install|uv |curl|wget", made)
    assert RUN.list_texts("COPY") == ["--from=build /opt/sluice /opt/sluice"]


def test_no_file_is_added_from_elsewhere_and_no_secret_is_in_a_layer() -> None:
    for stage in STAGES:
        assert {word for word, _ in stage.steps} <= {
            *("RUN", "COPY", "ENV", "WORKDIR", "USER", "HEALTHCHECK", "ENTRYPOINT", "CMD")
        }
        assert not [name for name in stage.get_environment() if re.search("KEY|TOKEN|SECRET|PASSWORD", name)]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the build stage ran: its /src and /opt."""
    root = tmp_path_factory.mktemp("image")
    (root / "src").mkdir()
    here = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    own = here | BUILD.get_environment()
    own |= {
        "UV_COMPILE_BYTECODE": "0",
        "UV_LINK_MODE": "hardlink",
        "PATH": f"{_make_shim(root)}:{os.environ['PATH']}",
    }
    for word, text in BUILD.steps:
        if word == "COPY":
            *sources, target = text.split()
            for one in sources:
                _copy(ROOT / one, root / "src" / (target if target != "./" else one))
        elif word == "RUN":
            command = re.sub(r"(?<=[\s=])/(opt|src)\b", rf"{root}/\1", " " + text)
            done = subprocess.run(
                ["sh", "-ec", command], cwd=root / "src", env=own, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stderr}"
    return root


def _make_shim(root: Path) -> Path:
    """`python` of the base image: the interpreter below this environment."""
    (root / "bin").mkdir()
    (root / "bin" / "python").symlink_to(
        Path(sys.base_exec_prefix) / "bin" / f"python3.{sys.version_info[1]}"
    )
    return root / "bin"


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def test_the_build_stage_makes_an_environment_that_runs_every_verb_of_the_image(image: Path) -> None:
    environment = image / "opt" / "sluice"
    assert (environment / "bin" / "sluice").is_file()
    for words in (["--version"], ["worker", "--help"], ["gateway", "--help"], ["notify", "--help"]):
        done = subprocess.run(
            [environment / "bin" / "sluice", *words], cwd="/", env={"PATH": os.defpath, "HOME": "/nowhere"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    missing = subprocess.run(
        [environment / "bin" / "python", "-c", "import uvicorn, slack_sdk, redis, argon2, opentelemetry.sdk"],
        check=False,
    )
    assert missing.returncode == 0


def test_the_environment_has_no_installer_and_nothing_editable(image: Path) -> None:
    environment = image / "opt" / "sluice"
    assert not [one for one in TOOLS if (environment / "bin" / one).exists()]
    packages = {one.name for one in environment.glob("lib/python3*/site-packages/*")}
    assert not packages & {"pip", "setuptools", "uv", "hatchling", "testcontainers"}
    assert not [one for one in packages if one.startswith("__editable__") or one == "_sluice.pth"]


def test_the_build_needs_no_file_that_the_context_leaves_out() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {one for text in BUILD.list_texts("COPY") for one in text.split()[:-1]}
    assert copied <= kept


def test_the_health_check_asks_where_each_process_listens() -> None:
    own = {name: value for name, value in RUN.get_environment().items() if name.startswith("SLUICE_")}
    load_settings(environment=own)
    addresses = {value for name, value in own.items() if name.endswith("__METRICS_ADDRESS")}
    assert len(addresses) == 1
    (check,) = RUN.list_texts("HEALTHCHECK")
    assert f"http://{addresses.pop()}/readyz" in check
