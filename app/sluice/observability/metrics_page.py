"""The reference page of the metrics, written from their definitions."""

from __future__ import annotations

from sluice.observability.metric_definitions import LABELS, METRICS

PATH = "reference/metrics.md"
_HEAD = """# Metrics

*Written by `sluice topics export` from app/sluice/observability/metric_definitions.py.*

[observability.md](../observability.md) says how to switch them on. The values of a label come from a closed
set: none is a tenant, a session, an agent, a tool or the id of a record. Prometheus adds `_bucket`, `_count`
and `_sum` to the name of a histogram. Each process also publishes what prometheus-client knows of Python and
of the process (`process_resident_memory_bytes`, `process_start_time_seconds`, …).

| metric | of | type | unit | labels | meaning |
|---|---|---|---|---|---|
"""


def write_metrics_page() -> dict[str, str]:
    """The page: its path below docs/ and its text."""
    rows = [
        f"| `{definition.name}` | {', '.join(definition.processes)} | {definition.kind} | {definition.unit} "
        f"| {', '.join(f'`{label}`' for label in definition.labels) or 'none'} | {definition.meaning} |"
        for definition in METRICS
    ]
    labels = [f"| `{label}` | {meaning} |" for label, meaning in sorted(LABELS.items())]
    text = (
        _HEAD + "\n".join(rows) + "\n\n## Labels\n\n| label | its values |\n|---|---|\n" + "\n".join(labels)
    )
    return {PATH: text + "\n"}
