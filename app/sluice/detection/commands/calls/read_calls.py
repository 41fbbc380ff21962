"""`read_calls`: from a tool's name and its parameters to the requests that they stand for."""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sluice.detection.commands.calls.call import Call, CallReading, Operation, only_reads, operations_of
from sluice.detection.commands.calls.frame import role_of
from sluice.detection.commands.calls.gather import Gatherer
from sluice.detection.commands.calls.http import METHODS, SAFE, Target, take_operation, target_of
from sluice.detection.commands.languages import REMEMBERED_KEYS
from sluice.detection.commands.program_lines import flags_of
from sluice.text.name_words import vocabulary, words_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sluice.detection.commands.calls.call import Scope, Trial
    from sluice.detection.commands.calls.frame import RequestFrame, Said
    from sluice.detection.commands.leaves import Trail

MOST_CALLS = 64
"""The most requests of one action that are judged; with more the reading is inconclusive."""
_REQUESTING = vocabulary(
    "http https rest api apis request requests axios fetch httpx webhook graphql gql rpc jsonrpc sdk",
    "client octokit curl endpoint call invoke urllib openapi bulk batch elasticsearch opensearch boto",
    "boto3 aws",
)
"""Words of a tool's name that say that its parameters are a request."""
_BY_HTTP = vocabulary(
    "http https rest api request requests axios fetch httpx webhook urllib curl url web get"
)
"""Of those, the ones by HTTP: what a GET of theirs carries is a filter."""
_BROWSING = vocabulary(
    "fetch browse browser web url webpage page site link download crawl scrape navigate visit open",
)
"""Of those, and of others, the ones whose requests only read where no method is named."""
_AWS_TOOLS = vocabulary("aws boto boto3 botocore")
_AWS_SERVICES = vocabulary(
    "acm apigateway athena autoscaling backup batch cloudformation cloudfront cloudtrail cloudwatch",
    "cognito codecommit config dax docdb dynamodb ebs ec2 ecr ecs efs eks elasticache elb elbv2 emr",
    "events firehose fsx glacier glue guardduty iam kafka kinesis kms lambda lightsail logs neptune",
    "opensearch organizations rds redshift route53 s3 s3api sagemaker secretsmanager securityhub ses sns",
    "sqs ssm stepfunctions sts wafv2 workspaces",
)
_NOT_FLAGS = frozenset(["operation", "kind", "method"])
_ARGUMENTS = ("parameters", "params", "kwargs", "arguments", "args", "input", "request", "payload")
_GOOGLE = ".googleapis.com"
_KUBERNETES = re.compile(r"/api/v1/(?:namespaces|nodes|persistentvolumes)(?:/|\Z)|/apis/[a-z0-9.-]+/v\d\w*/")
"""Addresses of a Kubernetes API server, which refuses a `dryRun` that it does not know (API concepts)."""


class ToolName(NamedTuple):
    """What a tool's name says: whether it makes requests, surely by HTTP, looks things up, visits pages, and
    a method."""

    requests: bool
    http: bool
    reads: bool
    visits: bool
    method: str
    aws: bool


def read_calls(
    tool_name: str, parameters: dict[str, Any], harmful: frozenset[str], requests: frozenset[str]
) -> CallReading:
    """All requests that the parameters stand for.

    `harmful`: the verbs that patterns ask for; `requests`: which of matchers.REQUESTS may stand in the texts.
    """
    gatherer = Gatherer(harmful, requests)
    gatherer.gather(parameters)
    tool = _tool(tool_name)
    calls: list[tuple[Call, Trail]] = []
    lines: list[tuple[str, str, Trail]] = []
    for frame in gatherer.frames:
        calls += _calls(frame, tool, harmful)
        lines += _aws_lines(frame, tool)
        if len(calls) > MOST_CALLS:
            return CallReading(tuple(calls), tuple(lines), f"more than {MOST_CALLS} requests in one action")
    left_out = gatherer.left_out if calls or tool.requests else None
    fields = tuple(gatherer.fields[:MOST_CALLS])
    return CallReading(tuple(calls), tuple(lines), gatherer.inconclusive or left_out, fields)


@lru_cache(maxsize=REMEMBERED_KEYS)
def _tool(name: str) -> ToolName:
    in_order = (name.lower(), *words_of(name))
    words = frozenset(in_order)
    requests = not words.isdisjoint(_REQUESTING)
    method = next((word for word in in_order if requests and word in METHODS and word not in SAFE), "")
    reads = only_reads(name) and not requests
    http = not words.isdisjoint(_BY_HTTP)
    return ToolName(
        requests, http, reads, not words.isdisjoint(_BROWSING), method, not words.isdisjoint(_AWS_TOOLS)
    )


def _calls(frame: RequestFrame, tool: ToolName, harmful: frozenset[str]) -> Iterator[tuple[Call, Trail]]:
    methods = [*frame.methods, *frame.overrides]
    targets = frame.all_targets() if methods or frame.bare_methods else frame.targets
    if not methods and targets:
        methods = list(frame.bare_methods)
    if frame.targets and not methods and frame.above is not None:
        methods = [*frame.above.methods, *frame.above.overrides]
    if not methods and targets:
        methods = [(kind.lower(), None) for kind in frame.kinds if kind.lower() in METHODS]
    if not methods and targets and tool.requests:
        methods = [("get" if tool.visits and not tool.method else tool.method, None)]
    if not tool.reads or any("://" in text for text, _ in targets):
        yield from _http(frame, methods, targets, harmful)
    if not tool.reads:
        safe = tool.http and targets and methods and all(method in SAFE for method, _ in methods)
        named = frame.operations + (frame.acts if methods or tool.requests or frame.operations else [])
        yield from _operations(
            [candidate for candidate in named if not (safe and candidate.carried)], frame, harmful
        )
    for field, trail in frame.fields:
        for operation in operations_of(field.name, harmful):
            scope: Scope = "all" if field.everything else operation.scope
            trial: Trial = "asked" if frame.carried_trial else ""
            for call in _call_each_kind("graphql", operation._replace(scope=scope), frame, trial):
                yield call, trail


def _http(
    frame: RequestFrame,
    methods: list[tuple[str, Trail]],
    targets: list[tuple[str, Trail]],
    harmful: frozenset[str],
) -> Iterator[tuple[Call, Trail]]:
    read = [target_of(text) for text, _ in targets]
    shown: set[str] = set()
    for method, trail in methods:
        if method in shown:
            continue
        shown.add(method)
        for target in read:
            operation = take_operation(method, target, harmful)
            for call in _call_each_kind("http", operation, frame, _trial(frame, target)):
                yield call._replace(method=method, host=target.host, path=target.path.lower()), trail
        if not read:
            operation = take_operation(method, target_of("/"), harmful)
            for call in _call_each_kind("operation", operation, frame, _judge_trial(frame)):
                yield call._replace(method=method), trail


def _operations(
    named: Iterable[Said], frame: RequestFrame, harmful: frozenset[str]
) -> Iterator[tuple[Call, Trail]]:
    for named_operation in named:
        for operation in operations_of(named_operation.name, harmful):
            for call in _call_each_kind("operation", operation, frame, _judge_trial(frame)):
                yield call, named_operation.trail


def _call_each_kind(protocol: str, operation: Operation, frame: RequestFrame, trial: Trial) -> Iterator[Call]:
    """The thing is the operation's own, else each that the request names as its kind: one may be a decoy."""
    kinds = [words for words in map(words_of, frame.all_kinds()) if words]
    words = (*operation.words, *(word for kind_words in kinds for word in kind_words))
    scope: Scope = "all" if frame.everything else operation.scope
    for thing in (
        [operation.thing] if operation.thing or not kinds else [kind_words[-1] for kind_words in kinds]
    ):
        yield Call(protocol, verb=operation.verb, thing=thing, words=words, scope=scope, trial=trial)


def _judge_trial(frame: RequestFrame) -> Trial:
    """Of an operation: EC2 knows the parameter (Amazon EC2 API reference, "Dry run"), another may not."""
    if not frame.tries():
        return ""
    return "sure" if _knows_trial(frame.all_kinds()) else "asked"


def _knows_trial(services: Iterable[str]) -> bool:
    return "ec2" in map(str.lower, services)


def _trial(frame: RequestFrame, target: Target) -> Trial:
    """A server that does not know the parameter carries the request out; of few it is known that they do."""
    named = {name.lower(): value.lower() for name, value in target.parameters}
    if _KUBERNETES.match(target.path) and named.get("dryrun") == "all":
        return "sure"
    if target.host.endswith(_GOOGLE) and named.get("validateonly", named.get("validate_only")) == "true":
        return "sure"
    return "asked" if frame.carried_trial else ""


def _aws_lines(frame: RequestFrame, tool: ToolName) -> Iterator[tuple[str, str, Trail]]:
    """`{"service": "s3", "operation": "DeleteBucket"}` as the command line that does the same.

    Source: AWS SDK for Python, "Low-level clients": its methods are named like the commands.
    """
    kinds = [kind.lower() for kind in frame.all_kinds()]
    for operation in frame.operations:
        *before, name = operation.name.partition("(")[0].replace(":", ".").split(".")
        services = [kind for kind in (*map(str.lower, before), *kinds) if kind in _AWS_SERVICES]
        words = [word for word in words_of(name) if word != "command"]
        parameters = next(
            (frame.own[key] for key in _ARGUMENTS if isinstance(frame.own.get(key), dict)), frame.own
        )
        for service in dict.fromkeys(services or (["service"] if tool.aws else [])):
            left = _NOT_FLAGS if _knows_trial([service]) else _NOT_FLAGS | {"trial"}
            flags = flags_of({key: value for key, value in parameters.items() if role_of(key) not in left})
            yield "aws", shlex.join(["aws", service, "-".join(words), *flags]), operation.trail
