"""The ports that ask a hosted model, as the settings name it: of memory analysis and of the gates that judge
actions."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal

from app.adapters.models.guarded_model import GuardedModel, LoadLimits, PatientPort
from app.adapters.models.kept_answers import KeptAnswers, SharedAnswers
from app.adapters.models.model_api import ModelApiSettings
from app.adapters.models.prompted_port import PromptedPort
from app.core.actions import causal, grading
from app.core.memory import analysis
from app.core.trust.in_force import PolicyError
from app.ports import AnalysisOff

if TYPE_CHECKING:
    from app.adapters.models.kept_answers import AnswerStore
    from app.adapters.models.prompted_port import HostedModel
    from app.core.foundation.prompts import Prompt
    from app.ports import Port
    from app.setting_groups import GraderSettings, HostedModelSettings
    from app.settings import Settings

PROMPTS: dict[str, Prompt[Any]] = {
    causal.EXTRACTION_PORT: causal.EXTRACT,
    causal.PORT: causal.JUDGE,
    grading.PORT: grading.GRADE,
}
"""What the gates that judge actions ask, by port."""


def analysis_port(settings: Settings) -> Port:
    """The port of `llmAnalysis`. A memory write waits for its turn: load leaves none unanswered. Raises
    PolicyError."""
    model = hosted_model(settings.analysis, "analysis", None)
    return AnalysisOff("no API key is set") if model is None else PatientPort(analysis.PROMPT, model)


def grader_ports(settings: Settings) -> dict[str, Port]:
    """The ports of the gates that judge actions; none without a key. They share the model, and where answers
    are kept. Raises PolicyError."""
    given = settings.grader
    model = hosted_model(given, "grader", given.max_waiting)
    if model is None:
        return {}
    store = _store(given, settings.kafka.topic_prefix)
    return {
        name: KeptAnswers(PromptedPort(prompt, model), settings.grader.max_kept, store)
        for name, prompt in PROMPTS.items()
    }


NEVER = 10**9


def trial_model(
    settings: Settings, group: Literal["analysis", "grader"]
) -> tuple[GuardedModel, dict[str, Port]]:
    """The model of a group and its ports, to be asked about each of many rows: any number waits, and none is
    left out because others failed. Raises PolicyError, also without a key."""
    given: HostedModelSettings = getattr(settings, group)
    model = hosted_model(given.model_copy(update={"failures_to_open": NEVER}), group, None)
    if model is None:
        raise PolicyError(f"{group}.api_key: no key is set")
    if group == "analysis":
        return model, {analysis.PORT: PromptedPort(analysis.PROMPT, model)}
    ports = {
        name: KeptAnswers(PromptedPort(prompt, model), settings.grader.max_kept)
        for name, prompt in PROMPTS.items()
    }
    return model, {**ports}


def hosted_model(given: HostedModelSettings, group: str, waiting: int | None) -> GuardedModel | None:
    """The model of a group of settings; None without a key. `waiting`: how many questions may wait, None any
    number. Raises PolicyError."""
    if given.api_key is None:
        return None
    effort = None if given.effort == "none" else given.effort
    named = given.model_dump(include={one.name for one in fields(ModelApiSettings)} - {"effort"})
    limits = LoadLimits(given.max_connections, waiting, given.failures_to_open, given.open_s)
    try:
        return GuardedModel(_model(given, ModelApiSettings(**named, effort=effort)), limits)
    except ValueError as wrong:
        raise PolicyError(f"{group}.api_key: {wrong}") from wrong


def _model(given: HostedModelSettings, settings: ModelApiSettings) -> HostedModel:
    """Each provider's client takes a second to import, so only the one that is used is."""
    assert given.api_key is not None  # noqa: S101 - the caller looked
    if given.provider == "openai":
        from app.adapters.models.openai_model import OpenAiModel  # noqa: PLC0415

        return OpenAiModel(given.api_key, settings)
    from app.adapters.models.anthropic_model import AnthropicModel  # noqa: PLC0415

    return AnthropicModel(given.api_key, settings)


def _store(given: GraderSettings, prefix: str) -> AnswerStore | None:
    if given.redis_url is None or given.api_key is None:
        return None
    secret = given.api_key.get_secret_value().encode()
    try:
        return SharedAnswers(given.redis_url.get_secret_value(), prefix, secret, given.kept_s)
    except ImportError:
        raise PolicyError("grader.redis_url: it needs the package redis: pip install redis") from None
    except ValueError as wrong:
        raise PolicyError(f"grader.redis_url: {wrong}") from None
