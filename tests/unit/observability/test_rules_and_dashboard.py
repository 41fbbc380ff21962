"""Every query of the alerts and of the dashboard asks for metrics and labels that there are, and every alert
has its part in the runbook."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from jsonschema import Draft202012Validator

from sluice.observability.metric_definitions import BY_NAME
from sluice.observability.metrics import list_sample_names
from sluice_topics.catalog import CATALOG

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "config" / "observability"
FOREIGN = {"process_start_time_seconds"}
"""Of prometheus-client itself."""
TARGET_LABELS = {"job", "instance"}
CLOSED = {
    "outcome": {"ALLOW", "BLOCK", "ESCALATE"},
    "stage": {"wait", "commit", "whole"},
    "result": {"passed", "failed", "delivered", "put_off", "fault"},
    "status": {"answered", "overrun", "deadline", "busy", "unavailable", "5.."},
    "topic": {topic.name for topic in CATALOG},
}
RULES_SCHEMA = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "interval": {"type": "string"},
                    "rules": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "for", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^Sluice[A-Z][A-Za-z]+$"},
                                "expr": {"type": "string"},
                                "for": {"type": "string", "pattern": "^[0-9]+[smh]$"},
                                "labels": {
                                    "type": "object",
                                    "required": ["severity"],
                                    "properties": {"severity": {"enum": ["critical", "warning"]}},
                                },
                                "annotations": {
                                    "type": "object",
                                    "required": ["summary", "runbook"],
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}


class Selector(NamedTuple):
    """A series that a query asks for, with the matchers of its labels."""

    name: str
    matchers: dict[str, str]


def parse_query(query: str) -> tuple[list[Selector], set[str]]:
    """The selectors of a PromQL expression, and the labels by which it groups."""
    grouped = re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", query)
    labels = {label.strip() for group in grouped for label in group.split(",") if label.strip()}
    rest = re.sub(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", query)
    rest = re.sub(r"\[[^\]]*\]", " ", rest)
    selectors = [
        Selector(name, dict(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', matchers)))
        for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}", rest)
    ]
    rest = re.sub(r"[a-zA-Z_:][\w:]*\s*\{[^}]*\}", " ", rest)
    rest = re.sub(r"\boffset\s+\w+", " ", rest)
    rest = re.sub(r"\b[0-9][\w.]*", " ", rest)
    words = re.findall(r"([a-zA-Z_:][\w:]*)(\s*\()?", rest)
    plain = [word for word, call in words if not call and word not in {"and", "or", "unless", "bool"}]
    return selectors + [Selector(word, {}) for word in plain], labels


def find_wrong(query: str) -> list[str]:
    """What a query asks for that there is not."""
    selectors, grouped = parse_query(query)
    wrong, allowed = [], set(TARGET_LABELS)
    for name, matchers in selectors:
        base = re.sub("_(bucket|count|sum)$", "", name)
        definition = BY_NAME.get(name) or BY_NAME.get(base)
        if name not in list_sample_names() | FOREIGN:
            wrong.append(f"no metric {name}")
            continue
        own = (
            TARGET_LABELS | set(definition.labels if definition else ()) | ({"le"} if name != base else set())
        )
        allowed |= own
        wrong += [f"{name} has no label {label}" for label in matchers.keys() - own]
        wrong += [
            f"{label} is never {value}"
            for label, value in matchers.items()
            if label in CLOSED and value not in CLOSED[label]
        ]
    return wrong + [f"no metric of the query has a label {label}" for label in grouped - allowed]


def load_rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((FOLDER / "sluice.rules.yml").read_text(encoding="utf-8"))
    Draft202012Validator(RULES_SCHEMA).validate(document)
    return [rule for group in document["groups"] for rule in group["rules"]]


def load_panels() -> list[dict[str, Any]]:
    panels: list[dict[str, Any]] = json.loads((FOLDER / "sluice.dashboard.json").read_text(encoding="utf-8"))[
        "panels"
    ]
    return panels


def list_queries() -> list[tuple[str, str]]:
    panels = [(panel["title"], one["expr"]) for panel in load_panels() for one in panel["targets"]]
    return [(rule["alert"], rule["expr"]) for rule in load_rules()] + panels


@pytest.mark.parametrize(("name", "query"), list_queries())
def test_a_query_asks_for_what_there_is(name: str, query: str) -> None:
    assert find_wrong(query) == [], name
    assert query.count("(") == query.count(")")
    assert parse_query(query)[0], "it asks for nothing"


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum(rate(sluice_verdict_total[5m]))", "no metric sluice_verdict_total"),
        ('sluice_verdicts_total{tenant="a"}', "sluice_verdicts_total has no label tenant"),
        ('sluice_verdicts_total{outcome="DENY"}', "outcome is never DENY"),
        ("sum by (tool) (sluice_verdicts_total)", "no metric of the query has a label tool"),
        ("sluice_gate_seconds > 1", "no metric sluice_gate_seconds"),
        ("sum by (le) (sluice_ready)", "no metric of the query has a label le"),
    ],
)
def test_a_query_for_what_there_is_not_is_found(query: str, wrong: str) -> None:
    assert wrong in find_wrong(query)


def test_every_alert_has_its_part_in_the_runbook_and_no_part_is_left() -> None:
    rules = load_rules()
    names = [rule["alert"] for rule in rules]
    assert len(names) == len(set(names))
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", text, flags=re.MULTILINE) == names
    for rule in rules:
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert shown <= parse_query(rule["expr"])[1] | {"instance"}, rule["alert"]


def test_every_metric_is_on_the_dashboard() -> None:
    asked = {selector.name for _, query in list_queries() for selector in parse_query(query)[0]}
    shown = {re.sub("_(bucket|count|sum)$", "", name) for name in asked} | asked
    assert BY_NAME.keys() <= shown


def test_the_dashboards_panels_do_not_overlap() -> None:
    panels = load_panels()
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert taken.isdisjoint(cells), panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_trials_of_the_rules_name_rules_and_series_that_there_are() -> None:
    document = yaml.safe_load((FOLDER / "sluice.test.yml").read_text(encoding="utf-8"))
    rules = {rule["alert"]: rule for rule in load_rules()}
    for trial in document["tests"]:
        for one in trial["input_series"]:
            assert find_wrong(one["series"]) == []
        for one in trial["alert_rule_test"]:
            rule = rules[one["alertname"]]
            for expected in one["exp_alerts"]:
                assert expected["exp_labels"]["severity"] == rule["labels"]["severity"]
                assert expected["exp_annotations"]["runbook"] == rule["annotations"]["runbook"]
