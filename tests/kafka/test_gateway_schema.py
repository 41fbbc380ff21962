"""The gateway held against its own OpenAPI document: Schemathesis sends what it allows, and other things."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig, SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from load.installations import neutral_policy
from sluice_demo.throwaway_trust import publish_policy
from tests.kafka.gateway_process import Gateway, entries, run_gateway
from tests.kafka.installation import make_small_installation, run_worker
from tests.unit.gateway.test_response_headers import CANONICAL, RETIRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from load.installations.installation import TestInstallation
    from load.installations.worker_process import WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "25"))
"""For each operation and each way of making cases."""
OUTCOMES = "/v1/outcomes"
OPERATIONS = [
    ("POST", "/v1/evaluate"),
    ("POST", "/v1/memory/evaluate"),
    ("POST", "/v1/retrievals/evaluate"),
    ("POST", "/v1/mandates"),
    ("POST", OUTCOMES),
    ("POST", "/v1/hooks/{dialect}"),
    ("GET", "/v1/verdicts/{verdict_id}"),
    ("POST", "/v1/verdicts/{verdict_id}/rerun"),
    ("GET", "/v1/verdicts/{verdict_id}/proof"),
    ("GET", "/v1/escalations"),
    ("GET", "/v1/escalations/{subject_id}"),
    ("POST", "/v1/escalations/{subject_id}/decision"),
    ("GET", "/v1/quarantine"),
    ("GET", "/v1/quarantine/stats"),
    ("GET", "/v1/quarantine/{subject_id}"),
    ("POST", "/v1/quarantine/{subject_id}/review"),
    ("GET", "/v1/integrity-checkpoints/{checkpoint_id}"),
    ("GET", "/v1/sessions/{session_id}"),
    ("GET", "/v1/agents/{agent_id}/advisories"),
    ("GET", "/v1/agents/{agent_id}/freezes"),
    ("GET", "/v1/quality/report"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
]


@pytest.fixture(scope="module")
def installation(
    kafka: str, module_prefix: str, tmp_path_factory: pytest.TempPathFactory
) -> TestInstallation:
    made = make_small_installation(kafka, tmp_path_factory.mktemp("schema"), module_prefix.rstrip("."))
    asyncio.run(publish_policy(kafka, made.prefix, made.trust.sign_entries(entries())))
    return made


@pytest.fixture(scope="module")
def worker(installation: TestInstallation) -> Iterator[WorkerProcess]:
    yield from run_worker(installation)


@pytest.fixture(scope="module")
def gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    with run_gateway(installation, wait_s=20, longest_wait_s=20) as started:
        yield started


@pytest.fixture(scope="module")
def brief_gateway(installation: TestInstallation, worker: WorkerProcess) -> Iterator[Gateway]:
    """For outcomes: those of an action that never comes are pending once the whole wait is over."""
    with run_gateway(installation, "brief", wait_s=1, longest_wait_s=20) as started:
        yield started


def schema_of(gateway: Gateway, mode: GenerationMode) -> Any:
    document = httpx2.get(f"{gateway.url}/openapi.json").json()
    config = SchemathesisConfig()
    config.projects.default.generation = GenerationConfig(modes=[mode])
    made = schemathesis.openapi.from_dict(document, config=config)
    made.config.update(base_url=gateway.url)
    return made


def test_every_operation_of_the_document_is_tried(gateway: Gateway) -> None:
    document = httpx2.get(f"{gateway.url}/openapi.json").json()
    found = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert found == set(OPERATIONS)


TRIED = [
    (method, path, mode)
    for method, path in OPERATIONS
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    if path.startswith("/v1/") or mode is GenerationMode.POSITIVE  # the others take no input
]


@pytest.mark.parametrize(("method", "path", "mode"), TRIED)
def test_no_case_breaks_the_document_or_the_gateway(
    request: pytest.FixtureRequest, method: str, path: str, mode: GenerationMode
) -> None:
    gateway = request.getfixturevalue("brief_gateway" if path == OUTCOMES else "gateway")
    operation = schema_of(gateway, mode)[path][method]
    key = gateway.key(agents=[neutral_policy.AGENT])

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        response = case.call(headers={"X-Mnemom-Api-Key": key}, timeout=60)
        case.validate_response(response, checks=CHECKS)
        _check_headers({name.lower(): said for name, said in response.headers.items()})

    run()


def _check_headers(headers: dict[str, list[str]]) -> None:
    """Seed 002's set: each header once, in printable ASCII, and none of the retired names."""
    ours = {name: said for name, said in headers.items() if name.startswith("x-")}
    assert {"x-mnemom-request-id", "x-mnemom-verdict", "x-mnemom-version"} <= ours.keys() <= CANONICAL
    assert not ours.keys() & {name.lower() for name in RETIRED}
    assert headers["cache-control"] == ["no-store"]
    for said in ours.values():
        assert len(said) == 1
        assert said[0].isascii()
        assert said[0].isprintable()
