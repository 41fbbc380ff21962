"""The OAuth token of a process for Kafka's OAUTHBEARER, renewed before it ends."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING

from aiokafka.abc import AbstractTokenProvider

from sluice.client.token_sources import TokenUnavailable, fetch_token, read_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.client.token_sources import Token, TokenCommand, TokenEndpoint

log = logging.getLogger(__name__)


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc]
    """The token of a process, for any number of clients on any event loops and threads."""

    def __init__(self, tokens: TokenCommand | TokenEndpoint, now_s: Callable[[], float] = time.time) -> None:
        """`now_s`: seconds since 1970."""
        super().__init__()
        self._tokens, self._now_s = tokens, now_s
        self._fetching = threading.Lock()
        self._token: Token | None = None

    async def token(self) -> str:
        """A token that is valid now. Raises TokenUnavailable."""
        token = self._token
        if token is not None and self._now_s() < token.renew_s:
            return token.text
        return await asyncio.to_thread(self._renew)

    def _renew(self) -> str:
        with self._fetching:
            had = self._token
            if had is not None and self._now_s() < had.renew_s:
                return had.text
            try:
                answer = fetch_token(self._tokens)
            except TokenUnavailable as away:
                if had is None or self._now_s() >= had.ends_s:
                    raise
                log.warning("the token was not renewed, and serves until it ends: %s", away.args[0])
                return had.text
            self._token = read_token(answer, self._now_s())
            return self._token.text
