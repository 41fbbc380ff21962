"""What the keys of a request say: method, address, name of an operation, kind of thing, trial.

Sources: the parameters of fetch, axios, requests, httpx and curl wrappers; JSON-RPC 2.0; the Model Context
Protocol's tools/call; the AWS, GitHub, Stripe and Kubernetes clients; headers that override a method
(X-HTTP-Method-Override of Google Data APIs, X-HTTP-Method of OData, X-Method-Override of IBM).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from app.core.commands.languages import REMEMBERED_KEYS
from app.core.foundation.words import vocabulary, words_of

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
