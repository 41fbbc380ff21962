"""Hostile receivers: what webhooks and Slack's API answer to `sluice notify` and to gateways.

The attacker runs a receiver, or has taken over the host of Slack's API, and has set a proxy in the
environment: he wants the bot's token, what is told to others, a request to a server inside, or a notifier
that hangs or ends. The parts that ask are the real ones, and so are the servers.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pydantic import ValidationError

from load.attacks.attempt import Attempt
from load.attacks.two_servers import FLOODS, MOST_TAKEN, PATIENCE_S, body_of, count, open_servers, time_for
from sluice.adapters.slack_calls import MOST_BYTES, SlackCalls, SlackClient
from sluice.adapters.webhook import Webhook
from sluice.notify.backlog import CommittedEvent
from sluice.notify.notifier import LONGEST_WAIT_S, TryLaterError
from sluice.settings.notifications import WebhookSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from load.attacks.attempt import Extent
    from load.attacks.two_servers import ServersScene

SECRET, TOKEN = "of-the-webhook-and-of-nobody-else", "xoxb-of-the-attack"
MOVED = (301, 302, 303, 307, 308)
BAD, JSON = b" 502 Bad Gateway", b"content-type: application/json\r\n"
DEEP, NO_CHARSET = b"[" * 200_000, b"content-type: text/html; charset=no\r\n"
BODIES: Sequence[tuple[str, bytes]] = (
    ("a 502 page that is no UTF-8", body_of(b"caf\xe9").replace(b" 200 OK", BAD)),
    (
        "a 502 of no charset",
        body_of(b"a", NO_CHARSET).replace(b" 200 OK", BAD),
    ),
    ("a 502 that is a list", body_of(b"[1]", JSON).replace(b" 200 OK", BAD)),
    ("a 200 that is no UTF-8", body_of(b"caf\xe9", JSON)),
    ("a 200 that is a list", body_of(b"[1]", JSON)),
    ("a 200 with a number of 5000 digits", body_of(b'{"ok": %s}' % (b"9" * 5000), JSON)),
    ("a 200 of 200 000 lists", body_of(DEEP, JSON)),
)
WAITS = (b"\xb2", b"9" * 400, b"-1", b"nan")


def run(extent: Extent) -> Iterator[Attempt]:
    """Every answer; both forms are the same."""
    del extent
    yield from asyncio.run(_attack())


async def _attack() -> list[Attempt]:
    async with open_servers() as scene:
        urls = _webhook_urls(scene.port)
        return [*map(_try_setting, urls), *await _webhooks(scene), *await _slack(scene), *count(scene)]


def _webhook_urls(port: int) -> Sequence[str]:
    return (
        *("http://169.254.169.254/", "http://10.0.0.5/", "file:///etc/passwd", "http://[::ffff:10.0.0.5]/"),
        *(
            "http://localhost.example.com/",
            "http://2130706433/",
            "https://user:pass@example.com/",
            "https:///",
        ),
        *("http://127.0.0.1@example.com/", f"http://example.com\\@127.0.0.1:{port}/", "http://a@127.0.0.1/"),
        f"http://127.0.0.1:{port}/",
    )


def _try_setting(url: str) -> Attempt:
    """A webhook sends what waits for a person: in clear text to this machine alone."""
    honest = url.startswith("http://127.0.0.1:")
    try:
        WebhookSettings.model_validate({"name": "a", "url": url, "secret": SECRET})
    except ValidationError:
        return Attempt(f"a webhook to {url}", not honest, "refused", harmless=honest)
    return Attempt(f"a webhook to {url}", honest, "taken", harmless=honest)


def _redirect(status: int, port: int) -> bytes:
    return b"HTTP/1.1 %d Moved\r\ncontent-length: 0\r\nlocation: http://127.0.0.2:%d/\r\n\r\n" % (
        status,
        port,
    )


def _away(wait: bytes) -> bytes:
    return b"HTTP/1.1 429 Later\r\ncontent-length: 0\r\nretry-after: %s\r\n\r\n" % wait


async def _webhooks(scene: ServersScene) -> list[Attempt]:
    """Each answer is a delivery or a try for later, soon, and nothing else."""
    answers: list[tuple[str, bytes, bytes, float]] = [
        *((f"{code} to the server inside", _redirect(code, scene.port), b"", 0.0) for code in MOVED),
        *((f"Retry-After: {wait[:9]!r}", _away(wait), b"", 0.0) for wait in WAITS),
        ("a redirect to what is no URI", _redirect(302, scene.port).replace(b"127.0.0.2", b"["), b"", 0.0),
        ("a body that is no gzip", body_of(b"no", b"content-encoding: gzip\r\n"), b"", 0.0),
        ("no HTTP", b"\x00\xff" * 100 + b"\r\n\r\n", b"", 0.0),
        *FLOODS,
    ]  # fmt: skip
    attempts = [await _try_delivery(scene, *answer) for answer in answers]
    with _set_proxy(f"http://127.0.0.2:{scene.port}"):
        attempts.append(await _try_delivery(scene, "a proxy in the environment", body_of(b"")))
    cookie = body_of(b"", b"set-cookie: a=b; path=/\r\n")
    await _try_delivery(scene, "a cookie", cookie)
    honest = await _try_delivery(scene, "an honest receiver", cookie)
    sent = "".join(scene.outside.heads[-2:])
    bare = SECRET not in sent and "cookie" not in sent.lower() and "webhook-signature" in sent
    attempt = Attempt("what a webhook says beside its record", bare, "no secret, no cookie" if bare else sent)
    delivered = honest.answer.startswith("delivered")
    return [*attempts, attempt, Attempt(honest.tried, delivered, honest.answer, harmless=True)]


async def _try_delivery(
    scene: ServersScene, tried: str, first: bytes, again: bytes = b"", pause_s: float = 0.0
) -> Attempt:
    scene.outside.will(first, again, pause_s)
    endpoint = f"http://127.0.0.1:{scene.port}/hook", SECRET.encode()
    hook, asked, wait_s = (
        Webhook("a", endpoint, None, time_for(again), time.time),
        len(scene.inside.heads),
        0.0,
    )
    record = CommittedEvent(("gate.escalations", 0), 1, 1, {"escalation_id": "e"})
    try:
        async with asyncio.timeout(PATIENCE_S):
            await hook.deliver("e", [record])
        ending = "delivered"
    except TryLaterError as error:
        ending, wait_s = str(error), error.after_s or 0.0
    finally:
        await hook.close()
    inside, taken = len(scene.inside.heads) - asked, scene.outside.sent
    held = not inside and taken < MOST_TAKEN and 0 <= wait_s <= LONGEST_WAIT_S
    measured = f"{ending}, waits {wait_s:.0f} s, {taken} bytes, inside {inside}"
    return Attempt(f"a webhook's receiver: {tried}", held, measured)


@contextmanager
def _set_proxy(url: str) -> Iterator[None]:
    """With this proxy in the environment."""
    names = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    before = {name: os.environ.get(name) for name in names}
    os.environ |= dict.fromkeys(names, url)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


async def _slack(scene: ServersScene) -> list[Attempt]:
    """The bot's token goes to the API's host and nowhere else."""
    honest_answer = body_of(b'{"ok": true}', JSON)
    moved = [(f"{code} to the server inside", _redirect(code, scene.port)) for code in MOVED]
    with _set_proxy(f"http://127.0.0.2:{scene.port}"):
        attempts = [await _try_call(scene, tried, first) for tried, first in moved]
        honest = await _try_call(scene, "a proxy in the environment, and an honest answer", honest_answer)
    has_token = TOKEN in scene.outside.heads[-1]
    passed = honest.held and has_token and "ok" in honest.answer
    wait = await _try_call(scene, "a wait that is no number", _away(b"\xb2"))
    whole = [(tried, first, b"", 0.0) for tried, first in BODIES]
    bodies = [await _try_call(scene, *body) for body in (*whole, *FLOODS, *map(_make_failure, FLOODS))]
    return [*attempts, Attempt(honest.tried, passed, honest.answer, harmless=True), wait, *bodies]


def _make_failure(flood: tuple[str, bytes, bytes, float]) -> tuple[str, bytes, bytes, float]:
    """The same with the status of an error."""
    tried, first, again, pause_s = flood
    return f"502 and {tried}", first.replace(b" 200 OK", BAD, 1), again, pause_s


async def _try_call(
    scene: ServersScene, tried: str, first: bytes, again: bytes = b"", pause_s: float = 0.0
) -> Attempt:
    """Each answer is Slack's or a try for later, within the time of a call, and takes bounded room."""
    scene.outside.will(first, again, pause_s)
    asked = len(scene.inside.heads)
    url = f"http://127.0.0.1:{scene.port}/api/"
    client = SlackClient(TOKEN, base_url=url, timeout=math.ceil(time_for(again)), retry_handlers=[])
    try:
        async with asyncio.timeout(PATIENCE_S):
            ending, is_slacks = str(await SlackCalls(client).call(client.auth_test, "C1")), True
    except TryLaterError as error:
        ending, is_slacks = str(error), False
    except Exception as error:  # noqa: BLE001 - whatever it is, it would end the delivery
        ending, is_slacks = f"raises {type(error).__name__}", True
    inside, taken = len(scene.inside.heads) - asked, scene.outside.sent
    held = not inside and taken < MOST_TAKEN + MOST_BYTES and (not is_slacks or ending == "{'ok': True}")
    return Attempt(f"Slack's API: {tried}", held, f"{ending[:200]}, {taken} bytes, inside {inside}")
