"""`sluice gateway`: the gate over HTTP, until stopped."""

from __future__ import annotations

import logging
import signal
from typing import Any

import typer

from sluice.cli.machine.worker import stop_unless_topics_fit
from sluice.cli.output import EXIT_FAULT, listen, log_to_stderr, require_settings, stop
from sluice.settings.reader import describe_missing_trust

STOP_S = 20
"""How long requests that wait may take after the gateway was asked to stop."""
UVICORN: dict[str, Any] = {
    "ws": "none",
    "loop": "uvloop",
    "lifespan": "on",
    "timeout_graceful_shutdown": STOP_S,
    "proxy_headers": False,  # who connects counts, for single sign-on too
    "log_config": None,
    "access_log": False,
    "server_header": False,
}
MISSING = "install the extra `gateway` (in a checkout: make setup)"


def register(cli: typer.Typer) -> None:
    """Add the verb."""
    cli.command("gateway")(gateway)


def gateway() -> None:
    """Serve the gate over HTTP: POST /v1/evaluate and the rest of docs/gateway.md, until stopped.

    You may start any number of gateways. Each needs the same settings, and
    the file of API keys that `sluice keys api new` writes. Workers decide:
    a gateway publishes and waits for what they commit.

    Exit codes: 0 stopped, 2 a setting, a topic or the file of keys is
    wrong, 3 after a broker fault: start it again, nothing is lost.
    """
    settings = require_settings()
    log_to_stderr(settings)
    if problem := describe_missing_trust(settings):
        stop(problem)
    try:
        import uvicorn  # noqa: PLC0415 - an extra

        from sluice.gateway.http.http_protocol import GatewayProtocol  # noqa: PLC0415 - as above
    except ImportError:
        stop(MISSING)
    from sluice.bootstrap.observing import observe_gateway  # noqa: PLC0415 - only to serve
    from sluice.cli.machine.gateway_parts import build_gateway  # noqa: PLC0415 - only to serve

    failed: list[int] = []

    def fail() -> None:
        failed.append(EXIT_FAULT)
        signal.raise_signal(signal.SIGTERM)

    observed = observe_gateway(settings)
    application = build_gateway(settings, fail, observed)
    if observed is not None:
        listen(observed.listener, "gateway")
    stop_unless_topics_fit(settings)
    gateway_settings = settings.gateway
    own: dict[str, Any] = {
        "host": gateway_settings.host,
        "port": gateway_settings.port,
        "http": GatewayProtocol,
    }
    own["timeout_keep_alive"] = gateway_settings.request_timeout_s
    server = uvicorn.Server(uvicorn.Config(application, **UVICORN, **own))
    logging.getLogger("uvicorn.error").setLevel(logging.INFO)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # uvicorn takes them, stops, and raises them again
    server.run()
    if failed:
        raise typer.Exit(EXIT_FAULT)
    if not server.started:
        stop("the gateway could not start: the log says why", EXIT_FAULT)
