"""The channels by which a person answers an escalation: a terminal, the API, Slack.

Each does what a person or a program would: it runs the command, sends the signed answer, presses the button
and sends the form. A gateway that is gone meanwhile is asked again, or another one is.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import httpx2

from load import PLAIN, ROOT
from load.installations.approvers import KEYS
from load.installations.slack_api import sign_request
from sluice.core.trust.signing import sign_review

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from load.installations.installation import TestInstallation
    from load.installations.slack_api import SlackApi
    from sluice_topics.audience import Audience

Told = Literal["counts", "refused", "closed", "barred", "moved", "again"]
"""What a person learns: it counted; a record says why not; it has ended already; the person's log-in may not
answer this; the place is that of a decision now; nothing yet."""
OK, REFUSED = 200, 422
WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class PersonAnswer:
    """One person's answer. `why` is its justification, by which it is found again on the broker."""

    opened: dict[str, Any]
    person: str
    decision: str
    why: str


class AnswerChannel(Protocol):
    """A way to answer."""

    name: str

    async def give(self, answer: PersonAnswer) -> Told:
        """Answer once."""


class Terminal:
    """`sluice escalations approve` and `deny`, in a process of its own."""

    name = "terminal"

    def __init__(self, installation: TestInstallation, keys: Path) -> None:
        """`keys`: the folder with each person's private key."""
        self._keys = keys
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "KAFKA_"))
        }
        self._environment = {**own, **installation.settings}
        self._typing = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def give(self, answer: PersonAnswer) -> Told:
        """One command, and its exit code."""
        who = ["--as", answer.person, "--key", str(self._keys / f"{answer.person}.pem")]
        words = ["escalations", answer.decision, answer.opened["escalation_id"], *who]
        code, output = await self._type([*words, "--justification", answer.why, "--yes", "--wait", "30"])
        if code == 1:
            return "closed" if "does not wait" in output else "refused"
        return "counts" if code == 0 else "again"

    async def close(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()

    async def _type(self, words: Sequence[str]) -> tuple[int, str]:
        async with self._typing:
            if self._process is None:
                pipe = asyncio.subprocess.PIPE
                self._process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "load.inputs.terminal"),
                    cwd=ROOT,
                    env=self._environment,
                    stdin=pipe,
                    stdout=pipe,
                )
            into, out = self._process.stdin, self._process.stdout
            if into is None or out is None:
                raise OSError("the terminal has no pipes")
            into.write(json.dumps(words).encode() + b"\n")
            reply = json.loads(await out.readline())
            return reply["code"], reply["said"]


class Gateways:
    """Any of several gateways: the next request goes to the next one. `cut_off`: requests without an answer,
    since the gateway was gone."""

    def __init__(self, urls: Sequence[str]) -> None:
        self._urls = itertools.cycle(urls)
        self._client = httpx2.AsyncClient(timeout=WAIT_S, verify=PLAIN)
        self.cut_off = 0

    async def post(self, path: str, **how: Any) -> httpx2.Response | None:
        """The answer of one of them; None: it is not there."""
        try:
            return await self._client.post(next(self._urls) + path, **how)
        except httpx2.TransportError:
            self.cut_off += 1
            return None

    async def close(self) -> None:
        """Give up the connections."""
        await self._client.aclose()


class Api:
    """A program that signs with the person's own key."""

    name = "api"

    def __init__(self, gateways: Gateways, key: str, audience: Audience) -> None:
        self._gateways = gateways
        self._key = key
        self._audience = audience

    async def give(self, answer: PersonAnswer) -> Told:
        """One request."""
        opened = answer.opened
        fields = {
            "subject_id": opened["escalation_id"],
            "session_id": opened["session_id"],
            "decision": answer.decision,
            "approver_id": answer.person,
            "digest": opened["action_digest"],
            "justification": answer.why,
        }
        review = sign_review(fields, KEYS[answer.person], self._audience).model_dump(
            mode="json", exclude_unset=True
        )
        path, headers = f"/v1/escalations/{opened['escalation_id']}/decision", {"X-Mnemom-Api-Key": self._key}
        response = await self._gateways.post(path, json=review, headers=headers)
        if response is None or response.status_code not in (OK, REFUSED):
            return "again"
        return "counts" if response.status_code == OK else "refused"


class SlackButtons:
    """A press, and the form that it opens."""

    name = "slack"
    _COUNTS = ("Approved", "Denied", "Counted")

    def __init__(self, gateways: Gateways, api: SlackApi) -> None:
        self._gateways = gateways
        self._api = api
        self._ids = itertools.count()

    async def give(self, answer: PersonAnswer) -> Told:
        """Press, fill in, send."""
        whispers = len(self._api.ephemeral)
        form = await self._form(answer)
        if form is None:
            texts = [
                message["text"]
                for message in self._api.ephemeral[whispers:]
                if message["user"] == answer.person
            ]
            return "closed" if any("does not wait any more" in text for text in texts) else "again"
        values = {"justification": {"justification": {"value": answer.why}}}
        response = await self._send(
            {"type": "view_submission", "view": {**form, "state": {"values": values}}}, answer
        )
        if response is None or response.status_code != OK:
            return "again"
        title = response.json()["view"]["title"]["text"]
        return "refused" if title == "It does not count" else "counts" if title in self._COUNTS else "again"

    async def _form(self, answer: PersonAnswer) -> dict[str, Any] | None:
        name, decision = answer.opened["escalation_id"], answer.decision
        action = {"action_id": f"sluice_decision_{decision}", "value": name}
        await self._send({"type": "block_actions", "channel": {"id": "C0DESK"}, "actions": [action]}, answer)
        for view in reversed(self._api.views):
            private = json.loads(view.get("private_metadata", "{}"))
            if (private.get("escalation_id"), private.get("decision")) == (name, decision):
                return dict(view)
        return None

    async def _send(self, payload: dict[str, Any], answer: PersonAnswer) -> httpx2.Response | None:
        who = {"user": {"id": answer.person}, "team": {"id": "T0LOAD"}, "trigger_id": "trigger"}
        body, headers = sign_request({**payload, **who, "action_ts": next(self._ids)})
        return await self._gateways.post("/v1/slack/interactions", content=body, headers=headers)
