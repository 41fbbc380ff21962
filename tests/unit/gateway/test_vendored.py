"""The scripts that the pages take from others are exactly those of the named release."""

from __future__ import annotations

from hashlib import sha256

from load import ROOT

STATIC = ROOT / "app" / "sluice" / "gateway" / "pages" / "static"
VERSION = "4.0.1"
"""Of the npm package htmx.org; docs/gateway.md says how to take another one."""

OWN = {"keys.js"}
"""Scripts of this tree."""


def test_each_vendored_file_has_the_hash_that_is_written_beside_it() -> None:
    lines = (STATIC / "vendored.sha256").read_text(encoding="ascii").splitlines()
    stated = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert stated == {name: sha256((STATIC / name).read_bytes()).hexdigest() for name in stated}
    scripts = {path.name for path in STATIC.glob("*.js")}
    assert (scripts - OWN) | {"htmx.LICENSE"} == stated.keys()


def test_the_vendored_htmx_says_its_version() -> None:
    assert f'version="{VERSION}"' in (STATIC / "htmx.min.js").read_text(encoding="utf-8")
