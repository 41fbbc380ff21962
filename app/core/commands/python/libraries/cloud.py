"""Clients of clouds and clusters, whose methods are named like the commands of their command lines.

Sources: AWS SDK for Python, "Low-level clients"; Kubernetes Python client, CoreV1Api; Docker SDK for Python.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from app.core.commands.python.values import Value, entry, flags, merged, word

if TYPE_CHECKING:
    from collections.abc import Callable

    from app.core.commands.python.libraries.called import Called

_AWS = "boto3.client()"
_KUBERNETES = re.compile(r"kubernetes\.client\.\w+\(\)\.(\w+)")
_CONTAINER = "docker.from_env().containers.run"
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def handler(name: str) -> Callable[[Called], Value] | None:
    """Who knows the call, None where nobody here does."""
    if name.startswith("boto3."):
        return _client if name == "boto3.client" else _aws if name.startswith(_AWS) else None
    if name.startswith("kubernetes."):
        return _kubernetes if _KUBERNETES.fullmatch(name) else None
    return _container if name == _CONTAINER else None


def _client(call: Called) -> Value:
    return Value(call.arg(0, "service_name").text, _AWS)


def _aws(call: Called) -> Value:
    if call.base.name != _AWS or call.base.text is None:
        return call.result()
    words = [call.base.text, call.method.replace("_", "-")]
    for name, value in call.keywords.items():
        words.append("--" + _HUMPS.sub("-", name).lower())
        words += [flags(one) for one in value.items] if value.items and not value.keys else [flags(value)]
    return call.result(call.runs("aws", *words, fed_by=merged(call.given())))


def _kubernetes(call: Called) -> Value:
    match = _KUBERNETES.fullmatch(call.name)
    verb, _, thing = (match[1] if match else "").partition("_")
    everything = ("--all",) if thing.startswith("collection_") else ()
    thing = thing.removeprefix("collection_").removeprefix("namespaced_").replace("_", "")
    names = [word(one) for one in call.args[:1]]
    return call.result(call.runs("kubectl", verb, thing, *names, *everything))


def _container(call: Called) -> Value:
    words = ["--privileged"] if call.keywords.get("privileged", Value()).name == "bool" else []
    volumes = call.keywords.get("volumes", Value())
    for key in volumes.keys:
        words += ["-v", f"{key}:{flags(entry(entry(volumes, key), 'bind'))}"]
    return call.result(call.runs("docker", "run", *words, *(word(one) for one in call.args[:1])))
