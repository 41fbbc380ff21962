"""Pictures of the pages for README: of a kept demo, as its log-in sees them.

    sluice demo --keep
    python -m load.screenshots http://127.0.0.1:PORT/review demo PASSWORD

Writes docs/images/escalations.png and docs/images/decision.png, in light colours.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDTH, HEIGHTS = 1240, {"escalations": 880, "decision": 1130}
LARGEST = 150_000
"""Bytes of a picture: README is loaded often."""


def main(root: str, name: str, password: str) -> None:
    """Take both. `root`: where the pages are."""
    FOLDER.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(color_scheme="light")
        page.goto(f"{root}/login")
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/escalations")
        _take(page, "escalations")
        page.locator("[data-key=open]").last.click()
        page.get_by_text("The decision's whole story").click()
        page.wait_for_url("**/decisions/*")
        _take(page, "decision")
        browser.close()


def _take(page: Page, name: str) -> None:
    path = FOLDER / f"{name}.png"
    page.set_viewport_size({"width": WIDTH, "height": HEIGHTS[name]})
    page.screenshot(path=path, animations="disabled")
    size = path.stat().st_size
    print(f"{path.relative_to(FOLDER.parents[1])}: {size} bytes")
    if size > LARGEST:
        sys.exit(f"larger than {LARGEST} bytes: make the window smaller")


if __name__ == "__main__":
    main(*sys.argv[1:])
