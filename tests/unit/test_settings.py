"""Every setting is documented once with its default, and a wrong one is named."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from sluice.bootstrap.parts import build_decision_settings
from sluice.cli.main import cli
from sluice.core.trust.in_force import PolicyError
from sluice.secrets.value_keys import write_value_key
from sluice.settings.reader import (
    DEFAULT_FILE,
    Settings,
    SettingsError,
    describe_missing_trust,
    load_settings,
)

if TYPE_CHECKING:
    from pathlib import Path

COMMENTED = {
    "kafka.ca_file",
    "kafka.certificate_file",
    "kafka.key_file",
    "kafka.key_password",
    "kafka.key_password_file",
    "kafka.sasl_mechanism",
    "kafka.username",
    "kafka.password",
    "kafka.password_file",
    "kafka.token_url",
    "kafka.token_ca_file",
    "kafka.client_id",
    "kafka.client_secret",
    "kafka.client_secret_file",
    "archive.endpoint_url",
    "archive.signing_key",
    "archive.noted_file",
    "heads.signing_key",
    "heads.copy_file",
    "heads.timestamp_url",
    "heads.timestamp_file",
    "heads.second_settings",
    "heads.webhook_url",
    "heads.webhook_secret",
    "embedding.patterns",
    "worker.ready_file",
    "worker.group_instance_id",
    "worker.max_memory_mib",
    "analysis.api_key",
    "grader.api_key",
    "grader.redis_url",
    "gateway.signing_key",
    "gateway.reviewers_key",
    "gateway.pages_url",
    "gateway.sso_header",
    "gateway.sso_proxy",
    "gateway.idempotency_file",
    "gateway.redis_url",
    "redis.key_file",
    "values.master_key_file",
    "sealing.master_key_file",
    "sealing.transit_url",
    "sealing.transit_token_file",
    "sealing.transit_ca_file",
    "values.key_file",
    "verdicts.signing_key",
    "redis.password_file",
    "slack.bot_token",
    "slack.signing_secret",
}


def test_the_default_file_names_every_setting_and_its_default() -> None:
    written = tomllib.loads(DEFAULT_FILE.read_text(encoding="utf-8"))
    stated = {f"{group}.{name}": value for group, names in written.items() for name, value in names.items()}
    coded = {
        f"{group}.{name}": field.default
        for group, model in Settings.model_fields.items()
        for name, field in type(model.default).model_fields.items()
    }
    assert stated.keys() == coded.keys() - COMMENTED
    for name, value in stated.items():
        default = coded[name]
        assert value == (list(default) if isinstance(default, tuple) else default), name


def test_settings_without_a_stated_default_are_shown_in_comments() -> None:
    text = DEFAULT_FILE.read_text(encoding="utf-8")
    for name in COMMENTED:
        assert f"# {name.partition('.')[2]} = " in text


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("SLUICE_KAFKA__PARTITIONS", "0", "kafka.partitions"),
        ("SLUICE_WORKER__SESSION_TIMEOUT_S", "1", "worker.session_timeout_s"),
        ("SLUICE_WORKER__LINGER_MIN_MS", "500", "linger_min_ms is above linger_max_ms"),
        ("SLUICE_WORKER__SESSION_TIMEOUT_S", "31", "session_timeout_s is above request_timeout_s"),
        ("SLUICE_SESSION__IDLE_TIMEOUT_S", "10", "idle_timeout_s must not be below action_window_s"),
        ("SLUICE_LOGGING__LEVEL", "DEBUG", "logging.level"),
        ("SLUICE_WORKER__LINGER", "5", "SLUICE_WORKER__LINGER: no such setting"),
    ],
)
def test_a_wrong_setting_stops_with_its_name(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, name: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError, match=name):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        ("SLUICE_POLICY__ROOT_KEYS", "abc", r"SLUICE_POLICY__ROOT_KEYS \(policy.root_keys\): must be JSON"),
        ("SLUICE_POLICY__ROOT_KEYS", '["abc"]', r"SLUICE_POLICY__ROOT_KEYS .*'abc' is no public key"),
        ("SLUICE_KAFKA__PARTITIONS", "eight", r"SLUICE_KAFKA__PARTITIONS \(kafka.partitions\): "),
        ("SLUICE_KAFKA__TOPIC_PREFX", "a.", "did you mean SLUICE_KAFKA__TOPIC_PREFIX"),
        ("SLUICE_KAFAK__TOPIC_PREFIX", "a.", "did you mean SLUICE_KAFKA__TOPIC_PREFIX"),
        ("SLUICE_KAFKA_TOPIC_PREFIX", "a.", "did you mean SLUICE_KAFKA__TOPIC_PREFIX"),
        ("SLUICE_CONFG", "a.toml", "did you mean SLUICE_CONFIG"),
        ("SLUICE_NOTHING__LIKE_IT", "1", "SLUICE_NOTHING__LIKE_IT: no such setting"),
        ("KAFKA_BOOTSTRAP_SERVERS", "", ""),
        ("SLUICE_SERVICE_PORT", "80", ""),
    ],
)
def test_a_wrong_or_misspelt_variable_is_named_and_what_was_meant(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, told: str
) -> None:
    """Mend 13. The last two are no settings of ours and no slips: Kubernetes sets the last for a service."""
    monkeypatch.setenv(variable, value)
    if not told:
        load_settings()
        return
    with pytest.raises(SettingsError, match=told):
        load_settings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[kafka]\ntopic_prefx = 'a.'\n", r"own.toml: \[kafka\] topic_prefx: .* did you mean topic_prefix"),
        ("[kafak]\ntopic_prefix = 'a.'\n", r"own.toml: \[kafak\]: .* did you mean kafka"),
        ("[kafka]\npartitions = 'x'\n", r"own.toml: \[kafka\] partitions \(kafka.partitions\): "),
        ("kafka = 3\n", "a group of settings is written"),
        ("[kafka\n", "own.toml: not TOML"),
    ],
)
def test_a_wrong_or_misspelt_key_of_a_file_is_named_with_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, told: str
) -> None:
    """Mend 13."""
    (tmp_path / "own.toml").write_text(text)
    monkeypatch.setenv("SLUICE_CONFIG", str(tmp_path / "own.toml"))
    with pytest.raises(SettingsError, match=told):
        load_settings()


def test_without_a_root_key_the_next_step_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Mend 12."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "`sluice init` makes keys" in str(describe_missing_trust(Settings()))
    (tmp_path / ".sluice").mkdir()
    (tmp_path / ".sluice" / "sluice.toml").touch()
    assert f"export SLUICE_CONFIG={tmp_path}/.sluice/sluice.toml" in str(describe_missing_trust(Settings()))


def test_a_named_file_overrides_single_lines_and_the_environment_overrides_both(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[kafka]\ntopic_prefix = "file."\npartitions = 3\n', encoding="utf-8")
    monkeypatch.setenv("SLUICE_CONFIG", str(own))
    monkeypatch.setenv("SLUICE_KAFKA__PARTITIONS", "5")
    kafka = load_settings().kafka
    assert (kafka.topic_prefix, kafka.partitions, kafka.replication_factor) == ("file.", 5, 1)


def test_a_config_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CONFIG", "/nowhere/own.toml")
    with pytest.raises(SettingsError, match=r"/nowhere/own\.toml"):
        load_settings()


def test_the_usual_name_of_the_brokers_is_understood_beside_other_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "usual:9092")
    monkeypatch.setenv("SLUICE_KAFKA__PARTITIONS", "3")
    kafka = load_settings().kafka
    assert (kafka.bootstrap_servers, kafka.partitions) == ("usual:9092", 3)
    monkeypatch.setenv("SLUICE_KAFKA__BOOTSTRAP_SERVERS", "own:9092")
    assert load_settings().kafka.bootstrap_servers == "own:9092"


def test_a_partition_s_bounds_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MEMORY__MAX_QUARANTINE_SIZE", "7")
    monkeypatch.setenv("SLUICE_APPROVALS__MAX_ESCALATIONS", "8")
    limits = load_settings().build_limits()
    assert (limits.max_quarantine, limits.max_escalations) == (7, 8)


HOOK = {"name": "pager", "url": "https://pager.example.com/", "secret": "of twenty-four characters"}


@pytest.mark.parametrize(
    ("group", "name", "value", "told"),
    [
        ("SLACK", "CHANNELS", [{"channel": "C1"}], "channels and a signing_secret need a bot_token"),
        ("SLACK", "CHANNELS", [{"channel": "#general"}], "slack.channels"),
        ("SLACK", "BASE_URL", "http://slack.example.com/api/", "must be an https URL"),
        ("NOTIFY", "WEBHOOKS", [{**HOOK, "url": "http://pager.example.com/"}], "must be an https URL"),
        ("NOTIFY", "WEBHOOKS", [{**HOOK, "url": "https://user@pager.example.com/"}], "must be an https URL"),
        ("NOTIFY", "WEBHOOKS", [{**HOOK, "secret": "short"}], "at least 24"),
        ("NOTIFY", "WEBHOOKS", [HOOK, HOOK], "two webhooks have one name"),
        ("NOTIFY", "FIRST_RETRY_S", 100, "first_retry_s is above longest_retry_s"),
    ],
)
def test_wrong_settings_of_notifications_are_refused_and_no_secret_is_shown(
    monkeypatch: pytest.MonkeyPatch, group: str, name: str, value: object, told: str
) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    monkeypatch.setenv(f"SLUICE_{group}__{name}", text)
    with pytest.raises(SettingsError, match=told) as refused:
        load_settings()
    assert HOOK["secret"] not in str(refused.value)


def test_what_is_no_json_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_NOTIFY__WEBHOOKS", json.dumps([HOOK])[:-1])
    with pytest.raises(SettingsError, match="must be JSON") as refused:
        load_settings()
    assert HOOK["secret"] not in str(refused.value)


def test_the_first_channel_that_matches_an_escalation_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        {"tenant": "acme", "group": "desk", "channel": "C1"},
        {"tenant": "acme", "channel": "C2"},
        {"group": "desk", "channel": "C3"},
    ]
    monkeypatch.setenv("SLUICE_SLACK__CHANNELS", json.dumps(lines))
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-of-the-test")
    settings = load_settings()
    asked = [("acme", "desk"), ("acme", "leads"), ("acme", None), ("other", "desk"), ("other", None)]
    assert [settings.slack.find_channel(*one) for one in asked] == ["C1", "C2", "C2", "C3", None]
    assert "xoxb-of-the-test" not in repr(settings)


def test_a_notifier_with_nothing_to_notify_says_what_to_set() -> None:
    found = CliRunner().invoke(cli, ["notify"])
    assert found.exit_code == 2
    assert "set slack.channels or notify.webhooks" in " ".join(found.output.split())


@pytest.mark.parametrize("own", [True, False])
def test_no_provider_is_sent_the_key_of_another(monkeypatch: pytest.MonkeyPatch, own: bool) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-open")
    monkeypatch.setenv("SLUICE_GRADER__PROVIDER", "openai")
    monkeypatch.setenv("SLUICE_GRADER__BASE_URL", "http://127.0.0.1:8000/v1")
    if own:
        monkeypatch.setenv("SLUICE_GRADER__API_KEY", "")
    found = load_settings()
    keys = [
        one.api_key.get_secret_value() for one in (found.analysis, found.grader) if one.api_key is not None
    ]
    assert keys == ["sk-ant", "" if own else "sk-open"]


def test_the_chat_completions_api_needs_the_address_of_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_ANALYSIS__PROVIDER", "openai")
    with pytest.raises(SettingsError, match="base_url: name the server"):
        load_settings()


def test_the_master_key_of_values_reaches_who_decides_and_a_wrong_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "values.key"
    named = Settings.model_validate({"values": {"master_key_file": file}})
    with pytest.raises(PolicyError, match=r"values\.master_key_file: cannot read"):
        build_decision_settings(named, {})
    write_value_key(file, bytes(range(32)))
    decision_settings = build_decision_settings(named, {})
    assert decision_settings.values_key == bytes(range(32))
    assert "values_key" not in repr(decision_settings)
    assert build_decision_settings(Settings(), {}).values_key is None
