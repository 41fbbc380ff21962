"""People who answer on the review pages, as a browser does: they log in, open a page, and send its form."""

from __future__ import annotations

import asyncio
import html
import itertools
import re
from collections import defaultdict
from typing import TYPE_CHECKING

import httpx2

from load import PLAIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from load.inputs.answer_channels import PersonAnswer, Told

ROOT = "/review"
_TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')
_SAID = re.compile(r'<p class="notice (good|bad)">(.*?)</p>', re.DOTALL)
_MARKUP = re.compile(r"<[^>]+>")
"""Where a long word may break, among others."""
_BY_WORKER = re.compile(r"Refused: \w+: ")
OK, SEE_OTHER = 200, 303
WAIT_S = 30.0


class PageForms:
    """One browser for each person and gateway. A gateway that was killed knows no log-in: then they log in
    again."""

    name = "pages"

    def __init__(self, urls: Sequence[str], passwords: Mapping[str, str]) -> None:
        """`passwords`: of each person."""
        self._urls = itertools.cycle(urls)
        self._passwords = passwords
        self._browsers: dict[tuple[str, str], httpx2.AsyncClient] = {}
        self._busy: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def give(self, answer: PersonAnswer) -> Told:
        """Open the page, send the form, and read what the next page says."""
        async with self._busy[answer.person]:
            url = next(self._urls)
            browser = self._browsers.setdefault(
                (answer.person, url), httpx2.AsyncClient(base_url=url, timeout=WAIT_S, verify=PLAIN)
            )
            try:
                return await self._give(browser, answer)
            except httpx2.TransportError:
                return "again"

    async def close(self) -> None:
        """Give up the connections."""
        for browser in self._browsers.values():
            await browser.aclose()

    async def _give(self, browser: httpx2.AsyncClient, answer: PersonAnswer) -> Told:
        path = f"{ROOT}/escalations/{answer.opened['escalation_id']}"
        page = await browser.get(path)
        if page.headers.get("location", "").startswith(f"{ROOT}/login"):
            await self._log_in(browser, answer.person)
            page = await browser.get(path)
        if page.status_code == SEE_OTHER:  # to the decision on what has ended
            return "moved"
        token = _TOKEN.search(page.text)
        if page.status_code != OK or token is None:
            return "again"
        fields = {"decision": answer.decision, "justification": answer.why, "csrf_token": token[1]}
        sent = await browser.post(path, data=fields)
        if sent.status_code != SEE_OTHER:
            return "again"
        match = _SAID.search((await browser.get(sent.headers["location"])).text)
        return "again" if match is None else _read_notice(match[1] == "good", match[2])

    async def _log_in(self, browser: httpx2.AsyncClient, person: str) -> None:
        token = _TOKEN.search((await browser.get(f"{ROOT}/login")).text)
        fields = {
            "name": person,
            "password": self._passwords[person],
            "csrf_token": token[1] if token else "",
        }
        await browser.post(f"{ROOT}/login", data=fields)


def _read_notice(is_good: bool, shown: str) -> Told:
    """What a page's notice means. Some refusals are the page's own: then nothing was sent."""
    text = html.unescape(_MARKUP.sub("", shown))
    if is_good:
        return "counts"
    if _BY_WORKER.match(text):
        return "refused"
    if text.startswith("Refused: "):
        return "barred"
    return "closed" if text.startswith("It has ended already") else "again"
