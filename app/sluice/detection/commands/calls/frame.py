"""What one request says, as it is gathered from the parameters of a call, and what their keys say of it.

A key stands for method, address, name of an operation, kind of thing, or trial. Sources: the parameters of
fetch, axios, requests, httpx and curl wrappers; JSON-RPC 2.0; the Model Context Protocol's tools/call; the
AWS, GitHub, Stripe and Kubernetes clients; headers that override a method (X-HTTP-Method-Override of Google
Data APIs, X-HTTP-Method of OData, X-Method-Override of IBM).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sluice.detection.commands.calls.http import METHODS
from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.text.name_words import vocabulary, words_of

if TYPE_CHECKING:
    from sluice.detection.commands.calls.graphql import Field
    from sluice.detection.commands.leaves import Trail

Role = Literal[
    "method",
    "operation",
    "target",
    "kind",
    "override",
    "name",
    "trial",
    "all",
    "filter",
    "carried",
    "command",
    "",
]
_ROLES: dict[str, Role] = {
    **dict.fromkeys(
        vocabulary(
            "method verb httpmethod httpverb requestmethod restmethod apimethod requesttype",
            "httprequestmethod methodoverride httpaction requestverb",
        ),
        "method",
    ),
    **dict.fromkeys(
        vocabulary(
            "operation operationname operationid operationtype op opname action actionname actiontype",
            "actionid function functionname fn func funcname call apicall procedure procedurename rpc",
            "rpcmethod sdkmethod methodname mutation mutationname api apiname apiaction apimethodname",
            "apioperation event eventname task taskname tooloperation",
            "soapaction xamztarget",
        ),
        "operation",
    ),
    **dict.fromkeys(
        vocabulary(
            "url uri endpoint path route href requesturl requesturi requestpath apipath apiurl",
            "apiendpoint fullurl resourcepath pathname urlpath uripath endpointurl endpointpath link",
            "request requestline targeturl webhookurl",
        ),
        "target",
    ),
    **dict.fromkeys(
        vocabulary(
            "resource resourcetype type kind entity entitytype object objecttype model service",
            "servicename client module class classname targettype itemtype collectiontype sdk library",
            "provider controller group resourcekind",
        ),
        "kind",
    ),
    **dict.fromkeys(
        vocabulary(
            "xhttpmethodoverride xmethodoverride xhttpmethod httpmethodoverride xhttpmethodoveride",
        ),
        "override",
    ),
    **dict.fromkeys(vocabulary("name tool toolname"), "name"),
    **dict.fromkeys(
        vocabulary(
            "dryrun validateonly whatif preview simulate simulation noop checkonly planonly testonly",
            "isdryrun",
        ),
        "trial",
    ),
    **dict.fromkeys(vocabulary("all deleteall removeall everything allitems matchall"), "all"),
    **dict.fromkeys(vocabulary("filter filters where criteria conditions selector"), "filter"),
    **dict.fromkeys(
        vocabulary(
            "params parameters query queryparams queryparameters querystring body data json payload form",
            "formdata headers variables search requestbody jsonbody content",
        ),
        "carried",
    ),
    **dict.fromkeys(vocabulary("command cmd commandname"), "command"),
}


@lru_cache(maxsize=REMEMBERED_KEYS)
def role_of(key: str) -> Role:
    """What a key says of a request."""
    return _ROLES.get("".join(words_of(key)), "")


class Said(NamedTuple):
    """A name of an operation; `carried`: it stands in what the request carries, where it may be a filter."""

    name: str
    trail: Trail
    carried: bool


@dataclass(slots=True)
class RequestFrame:
    """What one request says. Each text comes with the trail of the value that said it."""

    above: RequestFrame | None = None
    methods: list[tuple[str, Trail]] = field(default_factory=list)
    overrides: list[tuple[str, Trail]] = field(default_factory=list)
    bare_methods: list[tuple[str, Trail]] = field(default_factory=list)
    """Methods under keys that say nothing of them; they count beside an address, where there is no other."""
    targets: list[tuple[str, Trail]] = field(default_factory=list)
    carried_targets: list[tuple[str, Trail]] = field(default_factory=list)
    """Addresses in what the request carries; they count where it has no other."""
    operations: list[Said] = field(default_factory=list)
    acts: list[Said] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    fields: list[tuple[Field, Trail]] = field(default_factory=list)
    addresses: list[tuple[str, Trail]] = field(default_factory=list)
    """Texts that look like an address, under whatever key; they count where no key speaks of one."""
    own: dict[str, Any] = field(default_factory=dict)
    trial: bool = False
    carried_trial: bool = False
    """Whether what the request carries says that it only tries: what stands beside it no server sees."""
    everything: bool = False

    def all_targets(self) -> list[tuple[str, Trail]]:
        """Its own addresses, else those around it."""
        own = self.targets or self.carried_targets or self.addresses
        return own or (self.above.all_targets() if self.above else [])

    def send_by(self, method: str, trail: Trail) -> None:
        """Note a method, once."""
        if all(method != name for name, _ in self.methods):
            self.methods.append((method, trail))

    def override(self, method: str, trail: Trail) -> None:
        """Note a method that a header or a field puts in place of another, once."""
        if method in METHODS and all(method != other for other, _ in self.overrides):
            self.overrides.append((method, trail))

    def tries(self) -> bool:
        """Whether it says that it only tries, or what is around it does."""
        return self.trial or (self.above is not None and self.above.tries())

    def try_only(self, role: str, within: str) -> None:
        """Note a parameter that asks to only try, where its role is that."""
        self.trial |= role == "trial"
        self.carried_trial |= role == "trial" and within != ""

    def all_kinds(self) -> list[str]:
        """The kinds of thing that it and what is around it name."""
        return self.kinds + (self.above.all_kinds() if self.above else [])
