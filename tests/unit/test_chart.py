"""The Helm chart: what `make chart` rendered of it is current, valid, confined, and starts what there is."""

from __future__ import annotations

import json
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml
from jsonschema import Draft7Validator

from sluice.cli.main import VERBS
from sluice.settings.reader import load_settings
from tests.unit.test_image import RUN as IMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

HELM = Path(__file__).resolve().parents[2] / "config" / "helm"
CHART = HELM / "sluice"
FULL = HELM / "full.values.yaml"
RENDERED = sorted((HELM / "rendered").glob("*.yaml"))
KUBERNETES = ("1.29", "1.34", "1.37")
"""The oldest that the chart takes, and later ones."""
SECRETS = "/run/sluice/secrets"
STAND_INS = {"SLUICE_NOTIFY__WEBHOOKS": "[]", "SLUICE_HEADS__WEBHOOK_SECRET": 24 * "s"}
"""What a key of a Secret stands for, where a word alone would not be a setting's value."""
Json = dict[str, Any]


def read_objects(path: Path) -> list[Json]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def list_pods(path: Path) -> Iterator[tuple[Json, Json]]:
    """Each object that makes pods, with the pod's spec."""
    for one in read_objects(path):
        if one["kind"] in ("StatefulSet", "Deployment", "Job"):
            yield one, one["spec"]["template"]["spec"]


def find_object(path: Path, kind: str, name: str) -> Json:
    (wanted,) = [one for one in read_objects(path) if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return wanted


@pytest.fixture(params=RENDERED, ids=lambda path: path.stem)
def rendered(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_what_is_rendered_is_of_this_chart() -> None:
    """Helm is not there in every run: the digests of the files that it read are."""
    noted = [line.split("  ") for line in (HELM / "rendered" / "SHA256SUMS").read_text().splitlines()]
    files = sorted(path for path in CHART.rglob("*") if path.is_file())
    assert {name for _, name in noted} == {str(one.relative_to(HELM)) for one in [*files, FULL]}
    changed = [name for digest, name in noted if sha256((HELM / name).read_bytes()).hexdigest() != digest]
    assert changed == [], "run `make chart`"
    assert [path.stem for path in RENDERED] == ["default", "full"]


def test_the_values_are_those_that_the_schema_takes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    validator = Draft7Validator(schema)
    for path in (CHART / "values.yaml", FULL):
        values = yaml.safe_load(path.read_text())
        assert list(validator.iter_errors(values)) == [], path.name
        assert not validator.is_valid(values | {"unknown": 1})
        assert not validator.is_valid(values | {"worker": values["worker"] | {"replica": 2}})


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_object(rendered: Path, version: str) -> None:
    least = yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"]
    assert least == f">={KUBERNETES[0]}.0-0"
    for one in read_objects(rendered):
        if one["kind"] != "PodMonitor":  # of the Prometheus operator
            kubernetes_validate.validate(one, version, strict=True)


def test_every_container_is_confined(rendered: Path) -> None:
    """The restricted profile of the pod security standards, and no token of the cluster's API."""
    for one, pod in list_pods(rendered):
        told = one["metadata"]["name"]
        assert pod["automountServiceAccountToken"] is False, told
        assert pod["securityContext"]["runAsNonRoot"] is True, told
        assert f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in (
            IMAGE.list_texts("USER")
        )
        assert pod["securityContext"]["fsGroup"] == (20001 if rendered.stem == "full" else 10001), told
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, told
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            confined = container["securityContext"]
            assert confined["readOnlyRootFilesystem"] is True, told
            assert confined["allowPrivilegeEscalation"] is False, told
            assert confined["capabilities"] == {"drop": ["ALL"]}, told
            assert container["resources"].keys() == {"requests", "limits"}, told
            assert "memory" in container["resources"]["limits"], told


def test_every_container_runs_a_verb_with_settings_that_it_takes(rendered: Path, tmp_path: Path) -> None:
    """Each role's file and variables are read as its process would read them."""
    run = 0
    for one, pod in list_pods(rendered):
        (container,) = pod["containers"]
        assert container["args"][0] in VERBS
        environment = {entry["name"]: find_value(entry) for entry in container["env"]}
        file = Path(environment.pop("SLUICE_CONFIG"))
        assert str(file.parent) in [mount["mountPath"] for mount in container["volumeMounts"]]
        (settings,) = [each["configMap"]["name"] for each in pod["volumes"] if "configMap" in each]
        written = tmp_path / f"{one['metadata']['name']}.toml"
        written.write_text(find_object(rendered, "ConfigMap", settings)["data"][file.name])
        loaded = load_settings(written, environment=environment)
        assert loaded.kafka.bootstrap_servers.startswith("kafka")
        run += 1
    assert run == (6 if rendered.stem == "full" else 3)


def find_value(entry: Json) -> str:
    """What a variable is in a running container."""
    if "valueFrom" in entry and "fieldRef" in entry["valueFrom"]:
        return "sluice-worker-0"
    return str(entry.get("value", STAND_INS.get(entry["name"], "a-secret")))


def test_a_worker_comes_back_under_its_name() -> None:
    """Static membership: the member has the pod's name, and in the example a session outlasts a restart."""
    for path in RENDERED:
        (worker,) = [pod for one, pod in list_pods(path) if one["metadata"]["name"] == "sluice-worker"]
        (named,) = [
            each
            for each in worker["containers"][0]["env"]
            if each["name"] == "SLUICE_WORKER__GROUP_INSTANCE_ID"
        ]
        assert named["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert yaml.safe_load(FULL.read_text())["worker"]["settings"]["worker"]["session_timeout_s"] > 30


def test_no_secret_is_in_what_is_rendered_and_each_role_has_its_own(rendered: Path) -> None:
    objects = read_objects(rendered)
    assert not [one for one in objects if one["kind"] == "Secret"]
    for one, pod in list_pods(rendered):
        own = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
        named = {
            entry["valueFrom"]["secretKeyRef"]["name"]
            for container in pod["containers"]
            for entry in container["env"]
            if "secretKeyRef" in entry.get("valueFrom", {})
        }
        assert named <= own, one["metadata"]["name"]
        assert len(own) == (rendered.stem == "full")
        assert not [
            mount
            for each in pod["containers"]
            for mount in each["volumeMounts"]
            if mount["name"] == "secrets"
        ]


def test_a_key_file_is_its_process_s_alone() -> None:
    """A mounted Secret is readable by a group, and such a key is refused: what is used is a copy."""
    for _, pod in list_pods(HELM / "rendered" / "full.yaml"):
        (copying,) = pod["initContainers"]
        assert copying["command"][2].startswith("umask 077; ")
        assert copying["command"][2].endswith(f" {SECRETS}/")
        run = next(one for one in pod["volumes"] if one["name"] == "run")
        assert run["emptyDir"]["medium"] == "Memory"


def test_selectors_find_the_pods_that_they_are_for(rendered: Path) -> None:
    labels = {
        one["metadata"]["name"]: one["spec"]["template"]["metadata"]["labels"]
        for one in read_objects(rendered)
        if one["kind"] in ("StatefulSet", "Deployment", "Job")
    }
    for one in read_objects(rendered):
        spec = one.get("spec", {})
        chosen = spec.get("podSelector") or spec.get("selector")
        if chosen is None or one["kind"] == "PodMonitor":  # which is for all of them
            continue
        wanted = chosen.get("matchLabels", chosen).items()
        name = one["metadata"]["name"]
        assert name not in labels or wanted <= labels[name].items(), name
        found = [each for each, own in labels.items() if wanted <= own.items()]
        is_of_none = found == [] and name in ("sluice-notifier", "sluice-archiver", "sluice-signer")
        assert found == [name] or is_of_none, (one["kind"], name, found)


def test_only_the_gateway_may_be_called_and_every_role_reaches_the_brokers(rendered: Path) -> None:
    policies = {
        one["metadata"]["name"]: one["spec"]
        for one in read_objects(rendered)
        if one["kind"] == "NetworkPolicy"
    }
    roles = ("topics", "worker", "gateway", "notifier", "archiver", "signer")
    assert policies.keys() == {f"sluice-{role}" for role in roles}
    is_full = rendered.stem == "full"
    for name, spec in policies.items():
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        ports = [port["port"] for rule in spec["ingress"] for port in rule["ports"]]
        called = ["http"] if name == "sluice-gateway" else []
        has_listener = name != "sluice-topics"
        assert ports == called + ["metrics"] * (is_full and has_listener), name
        assert all(rule["from"] for rule in spec["ingress"])
        dns = next(rule for rule in spec["egress"] if {"protocol": "UDP", "port": 53} in rule["ports"])
        assert {"namespaceSelector": {}} in dns["to"]
        assert ({"protocol": "UDP", "port": 5353} in dns["ports"]) is is_full
        assert ({"ipBlock": {"cidr": "169.254.20.10/32"}} in dns["to"]) is is_full
        web = {"protocol": "TCP", "port": 443}
        if name in ("sluice-topics", "sluice-worker", "sluice-archiver", "sluice-signer"):
            assert (web in [port for rule in spec["egress"] for port in rule["ports"]]) is is_full, name
        broker = {"protocol": "TCP", "port": 9093 if is_full else 9092}
        assert broker in [port for rule in spec["egress"] for port in rule["ports"]]


def test_each_process_is_probed_where_it_listens(rendered: Path) -> None:
    for one, pod in list_pods(rendered):
        (container,) = pod["containers"]
        if one["kind"] == "Job":  # which listens nowhere
            assert not container.keys() & {"ports", "livenessProbe"}
            continue
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        (address,) = [
            each["value"] for each in container["env"] if each["name"].endswith("__METRICS_ADDRESS")
        ]
        assert address == f"0.0.0.0:{ports['metrics']}"
        paths = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
        assert {probe["port"] for probe in paths.values()} == {"metrics"}
        assert {name: probe["path"] for name, probe in paths.items()} == {
            "startup": "/healthz",
            "liveness": "/healthz",
            "readiness": "/readyz",
        }


def test_the_archiver_is_one_with_its_own_key_and_a_volume() -> None:
    archiver = find_object(HELM / "rendered" / "full.yaml", "StatefulSet", "sluice-archiver")
    assert archiver["spec"]["replicas"] == 1
    (claim,) = archiver["spec"]["volumeClaimTemplates"]
    (container,) = archiver["spec"]["template"]["spec"]["containers"]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    settings = find_object(HELM / "rendered" / "full.yaml", "ConfigMap", "sluice")["data"]
    own = tomllib.loads(settings["archiver.toml"])["archive"]
    assert str(Path(own["noted_file"]).parent) == paths[claim["metadata"]["name"]]
    assert own["signing_key"].startswith(f"{SECRETS}/")
    assert "archive" not in tomllib.loads(settings["worker.toml"])
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} < {entry["name"] for entry in container["env"]}


def test_the_signer_is_one_with_a_key_that_no_other_pod_has() -> None:
    signer = find_object(HELM / "rendered" / "full.yaml", "StatefulSet", "sluice-signer")
    assert signer["spec"]["replicas"] == 1
    (claim,) = signer["spec"]["volumeClaimTemplates"]
    (container,) = signer["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["ledger", "sign-heads"]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    settings = find_object(HELM / "rendered" / "full.yaml", "ConfigMap", "sluice")["data"]
    own = tomllib.loads(settings["signer.toml"])["heads"]
    assert str(Path(own["copy_file"]).parent) == paths[claim["metadata"]["name"]]
    assert own["signing_key"].startswith(f"{SECRETS}/")
    assert [name for name, text in settings.items() if "heads" in tomllib.loads(text)] == ["signer.toml"]
    secrets = [
        each["secret"]["secretName"]
        for one, pod in list_pods(HELM / "rendered" / "full.yaml")
        for each in pod["volumes"]
        if "secret" in each and one is not signer
    ]
    assert secrets.count("sluice-signer") == 1


def test_the_ingress_leads_to_the_gateway_alone() -> None:
    path = HELM / "rendered" / "full.yaml"
    (ingress,) = [one for one in read_objects(path) if one["kind"] == "Ingress"]
    (rule,) = ingress["spec"]["rules"]
    (way,) = rule["http"]["paths"]
    service = find_object(path, "Service", way["backend"]["service"]["name"])
    assert service["spec"]["selector"]["app.kubernetes.io/component"] == "gateway"
    assert way["backend"]["service"]["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]
    assert ingress["spec"]["tls"][0]["hosts"] == [rule["host"]]
    assert not [one for one in read_objects(HELM / "rendered" / "default.yaml") if one["kind"] == "Ingress"]


def test_pods_run_as_the_account_of_the_chart_and_mount_no_token(rendered: Path) -> None:
    account = find_object(rendered, "ServiceAccount", "sluice")
    assert account["automountServiceAccountToken"] is False
    for one, pod in list_pods(rendered):
        # The job is a hook before the installation, when the account is not there yet.
        assert pod.get("serviceAccountName") == (None if one["kind"] == "Job" else "sluice")


def test_what_is_given_for_all_pods_is_in_each_of_them() -> None:
    values = yaml.safe_load(FULL.read_text())
    for one, pod in list_pods(HELM / "rendered" / "full.yaml"):
        for name in ("affinity", "nodeSelector", "tolerations", "priorityClassName"):
            assert pod[name] == values[name], (one["metadata"]["name"], name)
        assert pod["imagePullSecrets"] == values["image"]["pullSecrets"]
        for spread in pod.get("topologySpreadConstraints", []):
            assert spread.items() > values["topologySpreadConstraints"][0].items()
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert spread["labelSelector"]["matchLabels"].items() <= labels.items()
    worker = find_object(HELM / "rendered" / "full.yaml", "StatefulSet", "sluice-worker")
    (container,) = worker["spec"]["template"]["spec"]["containers"]
    assert values["worker"]["extraEnv"][0] in container["env"]


def test_the_topics_are_made_before_anything_starts_and_again_at_each_upgrade(rendered: Path) -> None:
    job = find_object(rendered, "Job", "sluice-topics")
    settings = find_object(rendered, "ConfigMap", "sluice-topics")
    weights = []
    for one in (settings, job):
        notes = one["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade"
        weights.append(int(notes["helm.sh/hook-weight"]))
    assert weights[0] < weights[1], "the job mounts the settings"
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["topics", "create"]
