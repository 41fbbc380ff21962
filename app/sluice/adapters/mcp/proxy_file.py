"""The options of `sluice mcp`, and the file of `--config` that gives some of them, TOML."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, Strict, ValidationError

from sluice.core.foundation.strict import Name, StrictModel, first_error

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEFAULT_APPROVAL_S = 50.0
"""Less than the minute after which, by default, the SDKs' clients give up a request."""
DEFAULT_ANSWER_S, LONGEST_ANSWER_S = 300.0, 3600.0
"""The time in which a client must answer what a server asks."""
LONGEST_PARKED_S = 6 * 24 * 3600.0
"""Shorter than a journal remembers an action."""


class Passed(StrEnum):
    """What is dropped of a judged result unless it is named."""

    PROGRESS = "progress"
    """Progress notifications; their messages are judged."""
    META = "meta"
    """`_meta`; it is judged."""
    BLOBS = "blobs"
    """The bytes of images, sounds and resources, which no gate reads, and icons."""


class ServerRequest(StrEnum):
    """What a server may ask of the agent's client, if it is named and the gate allows it."""

    ELICITATION = "elicitation"
    """That the user gives something: `elicitation/create`."""
    SAMPLING = "sampling"
    """That the agent's model writes something: `sampling/createMessage`."""


REQUEST_METHODS = {
    ServerRequest.ELICITATION: "elicitation/create",
    ServerRequest.SAMPLING: "sampling/createMessage",
}


class ProxyFileError(Exception):
    """The file cannot be used; the message names it and says why."""


class Listening(StrictModel):
    """How clients reach the proxy by HTTP. `address`: HOST:PORT. The token is in a file or in a variable of
    the environment. `hosts`, `origins`: values of these headers that count beside the loopback's."""

    address: Name | None = None
    token_file: str | None = None
    token_env: Name | None = None
    hosts: list[Name] = Field(default_factory=list)
    origins: list[Name] = Field(default_factory=list)


class ProxyFile(StrictModel):
    """The file's fields; an option of the command overrides the file.

    `tools`: names in the registry by the server's own names; a tool that is not listed is "SERVER.TOOL".
    `results`: fields of retrieved items (docs/quality.md) for `--results-as-retrievals`. `pass`: what is not
    dropped then. `env`: names of the environment's variables that the server gets. `reported_by` and
    `signing_key`: the enforcement point in whose name outcomes are signed. `values_key`: the file with the
    key of the agent's tenant, by which the values in results are reported as fingerprints. `task`: the file
    with the mandate under which all calls act. `parking_key`: the file with the key that seals the states of
    parked calls, made if it is not there; `parked_s`: how long such a call waits at most. `server_requests`:
    what the server may ask of the agent's client; `answer_s`: how long the client may take to answer.
    `follow_freezes`: follow the registry, and ask it right before each tool starts and while it runs.
    `listen`: serve by Streamable HTTP.
    """

    agent: Name | None = None
    session: Name | None = None
    server: Name | None = None
    tools: dict[str, Name] = Field(default_factory=dict)
    results: dict[str, Any] = Field(default_factory=dict)
    passed: list[Annotated[Passed, Strict(False)]] = Field(default_factory=list, alias="pass")
    env: list[Name] = Field(default_factory=list)
    deadline_s: float = Field(default=10.0, gt=0)
    approval_s: float | None = Field(default=None, gt=0)
    agent_key: str | None = None
    journal: str | None = None
    reported_by: Name | None = None
    signing_key: str | None = None
    values_key: str | None = None
    task: str | None = None
    parking_key: str | None = None
    parked_s: float = Field(default=24 * 3600.0, gt=0, le=LONGEST_PARKED_S)
    server_requests: list[Annotated[ServerRequest, Strict(False)]] = Field(default_factory=list)
    answer_s: float = Field(default=DEFAULT_ANSWER_S, gt=0, le=LONGEST_ANSWER_S)
    follow_freezes: bool = False
    listen: Listening = Field(default_factory=Listening)


def read_proxy_file(file: Path) -> ProxyFile:
    """Raises ProxyFileError."""
    try:
        return ProxyFile.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise ProxyFileError(f"cannot read {file}: {error.strerror}") from None
    except ValidationError as error:
        raise ProxyFileError(f"{file}: {first_error(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProxyFileError(f"{file}: not TOML: {error}") from None


@dataclass(frozen=True, slots=True)
class Parking:
    """How calls that wait for a person are parked: `key`, 32 bytes, seals their states; `longest_s`: how long
    they wait at most."""

    key: bytes
    agent_id: str
    longest_s: float


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """`server` is the server's name. `tools`: names in the registry by the server's own names; a tool that is
    not listed is "SERVER.TOOL" there. `results`: fields by wire names, such as `content_class`, with which
    what the server sends goes through the gate as retrieved items; None: it does not. `passed`: what is not
    dropped then. `approval_s`: how long a call waits for a person if one must agree first. `mandate`: signed,
    under which all calls act; None: they name none. `parking`: None: no call is parked. `server_requests`:
    what the server may ask of the agent's client, who has `answer_s` to answer.
    """

    server: str
    session_id: str
    tools: Mapping[str, str]
    results: Mapping[str, Any] | None = None
    passed: frozenset[Passed] = frozenset()
    approval_s: float = DEFAULT_APPROVAL_S
    mandate: Mapping[str, Any] | None = None
    parking: Parking | None = None
    server_requests: frozenset[ServerRequest] = frozenset()
    answer_s: float = DEFAULT_ANSWER_S

    def name_registered(self, tool: str) -> str:
        """The tool's name in the registry. A server's name has no dot, so it ends at the first one."""
        return self.tools.get(tool, f"{self.server}.{tool}")

    def name_request(self, method: str) -> str:
        """The name in the registry of what the server asks of the agent's client."""
        return f"{self.server}.{method}"

    def is_ambiguous(self, tool: str) -> bool:
        """Whether the file gives another tool the name that this one has by default, or a request of the
        server has it."""
        name = self.name_registered(tool)
        requests = {self.name_request(REQUEST_METHODS[kind]) for kind in self.server_requests}
        return name in requests or (tool not in self.tools and name in self.tools.values())
