"""The network: requests that carry data away, sockets; clients of clouds, clusters and databases.

Methods of clients of clouds are named like the commands of their command lines. Sources: AWS SDK for Python,
"Low-level clients"; Kubernetes Python client, CoreV1Api; Docker SDK for Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sluice.detection.commands.python.python_values import UNKNOWN, PythonValue, entry, flags, merged, word
from sluice.detection.commands.shell import Command

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.detection.commands.python.libraries.called import Called

_CARRIED = ("data", "json", "files", "content", "body", "fields", "params")
_MOST_DATA = 300


def requested(call: Called) -> PythonValue:
    """`requests.post(url, data=...)`: `curl` with what it carries, files by their path."""
    return _sent(call, call.method.upper(), call.arg(0, "url"), [call.arg(1), *_carried(call)])


def requested_by(call: Called) -> PythonValue:
    """`requests.request("POST", url, ...)`."""
    return _sent(call, (call.arg(0, "method").text or "GET").upper(), call.arg(1, "url"), _carried(call))


def opened_url(call: Called) -> PythonValue:
    """`urllib.request.urlopen(request, data)`."""
    target, data = call.arg(0, "url"), call.arg(1, "data")
    method = target.mode or ("POST" if data != UNKNOWN else "GET")
    return _sent(call, method, target, [data, target])


def request(call: Called) -> PythonValue:
    """`urllib.request.Request(url, data)`: sent later."""
    url, data = call.arg(0, "url"), call.arg(1, "data")
    method = call.arg(5, "method").text or ("POST" if data != UNKNOWN else "GET")
    return PythonValue(url.text, "urllib.request.Request()", feeds=merged([data]), mode=method)


def _carried(call: Called) -> list[PythonValue]:
    return [call.keywords[name] for name in _CARRIED if name in call.keywords]


def _sent(call: Called, method: str, url: PythonValue, carried: list[PythonValue]) -> PythonValue:
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
    return PythonValue(None, "requests.Response()", feeds=(command._replace(args=(word(url),), fed_by=()),))


def _text_of(carried: list[PythonValue], url: PythonValue) -> PythonValue:
    return next((one for one in carried if one.text is not None and one is not url), UNKNOWN)


def new_socket(_: Called) -> PythonValue:
    """`socket.socket()`: what comes from it comes from the network."""
    return PythonValue(None, "socket.socket()", feeds=(Command("nc"),))


def connected(call: Called) -> PythonValue:
    """`socket.create_connection(address)`, `asyncio.open_connection(host, port)`."""
    items = call.arg(0, "address").items or tuple(call.args[:2])
    command = call.runs("nc", *(word(one) for one in items))
    return PythonValue(None, "socket.socket()", feeds=(command,))


def connect(call: Called) -> PythonValue:
    """`socket.connect(address)`."""
    if _is_socket(call.base):
        call.runs("nc", *(word(one) for one in call.arg(0).items or (call.arg(0),)))
    return call.result()


def send(call: Called) -> PythonValue:
    """`socket.sendall(data)`: to the network goes what it holds."""
    if _is_socket(call.base):
        feeds = tuple(feed for feed in call.arg(0).feeds if feed.program != "nc")
        address = call.arg(len(call.args) - 1).items or () if call.method == "sendto" else ()
        call.runs("nc", *(word(one) for one in address), fed_by=feeds)
    return UNKNOWN


def _is_socket(value: PythonValue) -> bool:
    return any(feed.program == "nc" for feed in value.feeds)


def copied(call: Called) -> PythonValue:
    """`sftp.put(localpath, remotepath)`."""
    if len(call.args) > 1 and call.args[0].text is not None and call.args[1].text is not None:
        call.runs("scp", call.args[0].text, f"remote:{call.args[1].text}")
    return call.result()


def uploaded(call: Called) -> PythonValue:
    """`s3.upload_file(path, bucket, key)` and its like."""
    if call.args and call.args[0].text is not None:
        call.runs(
            "aws", "s3", "cp", call.args[0].text, f"s3://{'/'.join(flags(one) for one in call.args[1:3])}"
        )
    return call.result()


_AWS = "boto3.client()"
_KUBERNETES = re.compile(r"kubernetes\.client\.\w+\(\)\.(\w+)")
_CONTAINER = "docker.from_env().containers.run"
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def cloud_handler(name: str) -> Callable[[Called], PythonValue] | None:
    """The function that evaluates the call; None if the call is not known."""
    if name.startswith("boto3."):
        return _cloud_client if name == "boto3.client" else _aws if name.startswith(_AWS) else None
    if name.startswith("kubernetes."):
        return _kubernetes if _KUBERNETES.fullmatch(name) else None
    return _container if name == _CONTAINER else None


def _cloud_client(call: Called) -> PythonValue:
    return PythonValue(call.arg(0, "service_name").text, _AWS)


def _aws(call: Called) -> PythonValue:
    if call.base.name != _AWS or call.base.text is None:
        return call.result()
    words = [call.base.text, call.method.replace("_", "-")]
    for name, value in call.keywords.items():
        words.append("--" + _HUMPS.sub("-", name).lower())
        words += [flags(one) for one in value.items] if value.items and not value.keys else [flags(value)]
    return call.result(call.runs("aws", *words, fed_by=merged(call.given())))


def _kubernetes(call: Called) -> PythonValue:
    match = _KUBERNETES.fullmatch(call.name)
    verb, _, thing = (match[1] if match else "").partition("_")
    everything = ("--all",) if thing.startswith("collection_") else ()
    thing = thing.removeprefix("collection_").removeprefix("namespaced_").replace("_", "")
    names = [word(one) for one in call.args[:1]]
    return call.result(call.runs("kubectl", verb, thing, *names, *everything))


def _container(call: Called) -> PythonValue:
    words = ["--privileged"] if call.keywords.get("privileged", PythonValue()).name == "bool" else []
    volumes = call.keywords.get("volumes", PythonValue())
    for key in volumes.keys:
        words += ["-v", f"{key}:{flags(entry(entry(volumes, key), 'bind'))}"]
    return call.result(call.runs("docker", "run", *words, *(word(one) for one in call.args[:1])))


_TAKING_STATEMENTS = (
    *(
        "execute",
        "executemany",
        "executescript",
        "exec_driver_sql",
        "raw",
        "sql",
        "read_sql",
        "read_sql_query",
        "query",
    ),
    *("fetch", "fetchrow", "fetchval", "command", "run", "cypher", "execute_query", "query_df", "raw_sql"),
)


def statement(call: Called) -> PythonValue:
    """A method that takes a statement: what begins one is read as SQL."""
    text = call.arg(0, "sql", "query", "statement", "operation").text
    if text is not None:
        call.walker.found.sql(text, "python")
    return call.result()


def deleted(call: Called) -> PythonValue:
    """Django's `Model.objects.all().delete()`: a table without a condition."""
    if call.base.name.endswith(".objects.all()"):
        call.walker.found.sql(f"DELETE FROM {word(UNKNOWN)}", "python")  # noqa: S608 - a statement that is judged, never run
    return call.result()


FUNCTIONS: dict[str, Callable[[Called], PythonValue]] = {
    **{f"requests.{one}": requested for one in ("post", "put", "patch", "get")},
    **{f"requests.{one}": requested_by for one in ("request", "stream")},
    "urllib.request.urlopen": opened_url,
    "urllib.request.Request": request,
    "socket.socket": new_socket,
    "socket.create_connection": connected,
    "asyncio.open_connection": connected,
}
METHODS: dict[str, Callable[[Called], PythonValue]] = {
    "connect": connect,
    "connect_ex": connect,
    "send": send,
    "sendall": send,
    "sendto": send,
    "put": copied,
    "upload_file": uploaded,
    **dict.fromkeys(_TAKING_STATEMENTS, statement),
    "delete": deleted,
}
