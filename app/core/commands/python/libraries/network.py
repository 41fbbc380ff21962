"""The network: requests that carry data away, sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.core.commands.python.values import UNKNOWN, Value, flags, merged, word
from app.core.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called

_CARRIED = ("data", "json", "files", "content", "body", "fields", "params")
_MOST_DATA = 300


def requested(call: Called) -> Value:
    """`requests.post(url, data=...)`: `curl` with what it carries, files by their path."""
    return _sent(call, call.method.upper(), call.arg(0, "url"), [call.arg(1), *_carried(call)])


def requested_by(call: Called) -> Value:
    """`requests.request("POST", url, ...)`."""
    return _sent(call, (call.arg(0, "method").text or "GET").upper(), call.arg(1, "url"), _carried(call))


def opened_url(call: Called) -> Value:
    """`urllib.request.urlopen(request, data)`."""
    target, data = call.arg(0, "url"), call.arg(1, "data")
    method = target.mode or ("POST" if data != UNKNOWN else "GET")
    return _sent(call, method, target, [data, target])


def request(call: Called) -> Value:
    """`urllib.request.Request(url, data)`: sent later."""
    url, data = call.arg(0, "url"), call.arg(1, "data")
    method = call.arg(5, "method").text or ("POST" if data != UNKNOWN else "GET")
    return Value(url.text, "urllib.request.Request()", feeds=merged([data]), mode=method)


def _carried(call: Called) -> list[Value]:
    return [call.keywords[name] for name in _CARRIED if name in call.keywords]


def _sent(call: Called, method: str, url: Value, carried: list[Value]) -> Value:
    args = [] if method == "GET" else ["-X", method]
    feeds = merged(carried)
    for feed in feeds:
        if feed.program == "cat":
            args += ["-d", f"@{feed.args[-1]}"]
    args += (
        ["-d" if one is not url else "", one.text[:_MOST_DATA]]
        if (one := _text_of(carried, url)).text
        else []
    )
    command = call.runs("curl", *args, word(url), fed_by=feeds)
    return Value(None, "requests.Response()", feeds=(command._replace(args=(word(url),), fed_by=()),))


def _text_of(carried: list[Value], url: Value) -> Value:
    return next((one for one in carried if one.text is not None and one is not url), UNKNOWN)


def new_socket(_: Called) -> Value:
    """`socket.socket()`: what comes from it comes from the network."""
    return Value(None, "socket.socket()", feeds=(Command("nc"),))


def connected(call: Called) -> Value:
    """`socket.create_connection(address)`, `asyncio.open_connection(host, port)`."""
    items = call.arg(0, "address").items or tuple(call.args[:2])
    command = call.runs("nc", *(word(one) for one in items))
    return Value(None, "socket.socket()", feeds=(command,))


def connect(call: Called) -> Value:
    """`socket.connect(address)`."""
    if _is_socket(call.base):
        call.runs("nc", *(word(one) for one in call.arg(0).items or (call.arg(0),)))
    return call.result()


def send(call: Called) -> Value:
    """`socket.sendall(data)`: to the network goes what it holds."""
    if _is_socket(call.base):
        feeds = tuple(feed for feed in call.arg(0).feeds if feed.program != "nc")
        address = call.arg(len(call.args) - 1).items or () if call.method == "sendto" else ()
        call.runs("nc", *(word(one) for one in address), fed_by=feeds)
    return UNKNOWN


def _is_socket(value: Value) -> bool:
    return any(feed.program == "nc" for feed in value.feeds)


def copied(call: Called) -> Value:
    """`sftp.put(localpath, remotepath)`."""
    if len(call.args) > 1 and call.args[0].text is not None and call.args[1].text is not None:
        call.runs("scp", call.args[0].text, f"remote:{call.args[1].text}")
    return call.result()


def uploaded(call: Called) -> Value:
    """`s3.upload_file(path, bucket, key)` and its like."""
    if call.args and call.args[0].text is not None:
        call.runs(
            "aws", "s3", "cp", call.args[0].text, f"s3://{'/'.join(flags(one) for one in call.args[1:3])}"
        )
    return call.result()


FUNCTIONS: dict[str, Callable[[Called], Value]] = {
    **{f"requests.{one}": requested for one in ("post", "put", "patch", "get")},
    **{f"requests.{one}": requested_by for one in ("request", "stream")},
    "urllib.request.urlopen": opened_url,
    "urllib.request.Request": request,
    "socket.socket": new_socket,
    "socket.create_connection": connected,
    "asyncio.open_connection": connected,
}
METHODS: dict[str, Callable[[Called], Value]] = {
    "connect": connect,
    "connect_ex": connect,
    "send": send,
    "sendall": send,
    "sendto": send,
    "put": copied,
    "upload_file": uploaded,
}
