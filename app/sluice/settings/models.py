"""Settings of the models that the gate may ask: the encoder here, hosted ones over HTTP."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - pydantic reads the annotations
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from sluice.settings.base import Seconds, SettingGroup


class EmbeddingSettings(SettingGroup):
    """The sentence encoder, which supplements the rules. A bundle says whether it is used. `patterns`: the
    folder with libraries of known actions (`*.jsonl`); None: the one that ships."""

    encoder: Literal["off", "all-minilm-l6-v2"] = "off"
    threads: Annotated[int, Field(ge=1, le=64)] = 1
    patterns: Path | None = None


class HostedModelSettings(SettingGroup):
    """A model behind an HTTP API. It is off without a key; an empty one is for servers that want none."""

    provider: Literal["anthropic", "openai"] = "anthropic"
    model: Annotated[str, Field(max_length=128)] = "claude-haiku-5-5"
    base_url: Annotated[str, Field(pattern=r"^https?://[^@\s/?#]+(?:/[^@\s?#]*)?$")] = (
        "https://api.anthropic.com"
    )
    api_key: SecretStr | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=600_000)] = 20_000
    max_tokens: Annotated[int, Field(ge=256, le=64_000)] = 2048
    max_retries: Annotated[int, Field(ge=0, le=8)] = 1
    max_connections: Annotated[int, Field(ge=1, le=1024)] = 8
    effort: Literal["none", "low", "medium", "high"] = "none"
    failures_to_open: Annotated[int, Field(ge=1, le=1000)] = 5
    open_s: Seconds = 10.0

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.provider == "openai" and self.base_url == "https://api.anthropic.com":
            raise ValueError("base_url: name the server that speaks the chat completions API")
        return self


class AnalysisSettings(HostedModelSettings):
    """The model that judges content, and can only make an outcome stricter; a bundle says whether it is
    asked. Its answers on parameters and retrieved bodies are kept for as many different questions as
    `max_kept`."""

    max_kept: Annotated[int, Field(ge=0, le=1_000_000)] = 4096


class GraderSettings(HostedModelSettings):
    """The model that judges actions: the gates `causal` and `grader`; a bundle says whether they ask. Its
    answers are kept for as many different questions as `max_kept`, and in Redis for `kept_s`."""

    max_connections: Annotated[int, Field(ge=1, le=1024)] = 32
    max_waiting: Annotated[int, Field(ge=0, le=1_000_000)] = 256
    max_kept: Annotated[int, Field(ge=0, le=1_000_000)] = 4096
    redis_url: SecretStr | None = None
    kept_s: Annotated[int, Field(ge=1, le=2_592_000)] = 86_400
