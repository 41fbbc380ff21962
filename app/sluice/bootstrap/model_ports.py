"""The ports that ask a model, as the settings name it: the hosted ones of memory analysis and of the gates
that judge actions, and the sentence encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sluice.adapters.encoder_model import ModelRefused, read_checked
from sluice.adapters.models.cached_answers import CachedAnswers, SharedAnswers
from sluice.adapters.models.guarded_model import GuardedModel, GuardedPort, LoadLimits
from sluice.adapters.models.model_api import ModelApiSettings
from sluice.adapters.models.prompted_port import BatchedPort, PromptedPort
from sluice.adapters.pattern_files import read_libraries
from sluice.adapters.sentence_encoder import ClosestTexts, EncoderSettings, SentenceEncoder
from sluice.core.actions import causal, grading, inbound
from sluice.core.actions.action_similarity import ActionSimilarity
from sluice.core.actions.closest import PORT as CLOSEST
from sluice.core.actions.policies import Policies
from sluice.core.foundation import content_judge as judge
from sluice.core.memory import analysis
from sluice.core.policy.similarity_settings import EMBEDDING
from sluice.core.trust.in_force import PolicyError
from sluice.ports import AnalysisOff
from sluice.secrets.redis_seal import Seal, SealKeysError, add_password, load_seal_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sluice.adapters.encoder_child import AnyLibrary
    from sluice.adapters.models.cached_answers import AnswerStore
    from sluice.adapters.models.prompted_port import HostedModel
    from sluice.core.actions.closest import NamedTexts
    from sluice.core.actions.policies import PolicyIndex
    from sluice.core.foundation.prompts import Prompt
    from sluice.core.policy.pattern_library import ActionLibrary
    from sluice.core.policy.policy import Policy
    from sluice.core.policy.similarity_settings import SimilarityLibrary
    from sluice.ports import Port
    from sluice.settings.models import GraderSettings, HostedModelSettings
    from sluice.settings.reader import Settings

PROMPTS: dict[str, Prompt[Any]] = {
    causal.EXTRACTION_PORT: causal.EXTRACT,
    causal.PORT: causal.JUDGE,
    causal.PORT_IN_CONTEXT: causal.JUDGE_IN_CONTEXT,
    grading.PORT: grading.GRADE,
    grading.PORT_IN_CONTEXT: grading.GRADE_IN_CONTEXT,
}
"""What the gates that judge actions ask, by port."""


def build_analysis_ports(settings: Settings) -> dict[str, Port]:
    """The ports of the model that judges content: `llmAnalysis`, and the judge of what comes in, which is not
    there without a key. A memory write waits for its turn: load leaves none unanswered. Raises
    PolicyError."""
    model = build_hosted_model(settings.analysis, "analysis", None)
    if model is None:
        return {analysis.PORT: AnalysisOff("no API key is set")}
    port = GuardedPort(analysis.PROMPT, model, waits_in_queue=True)
    return {
        analysis.PORT: port,
        **_build_judges(
            settings, GuardedPort(judge.PROMPT, model), GuardedPort(inbound.JUDGE_IN_CONTEXT, model)
        ),
    }


def _build_judges(settings: Settings, port: PromptedPort, in_context: PromptedPort) -> dict[str, Port]:
    """The judges' ports by name; they share answers, so that a question is asked once, alone or with others.
    `in_context`: about actions with a task or origins."""
    cached = CachedAnswers(port, settings.analysis.max_kept)
    return {
        judge.PORT: cached,
        judge.TOGETHER: BatchedPort(cached),
        inbound.PORT_IN_CONTEXT: CachedAnswers(in_context, settings.analysis.max_kept),
    }


def build_grader_ports(settings: Settings) -> dict[str, Port]:
    """The ports of the gates that judge actions; none without a key. They share the model, and where answers
    are kept. Raises PolicyError."""
    options = settings.grader
    model = build_hosted_model(options, "grader", options.max_waiting)
    if model is None:
        return {}
    store = _build_store(options, settings)
    return {
        name: CachedAnswers(GuardedPort(prompt, model), settings.grader.max_kept, store)
        for name, prompt in PROMPTS.items()
    }


NEVER = 10**9


def build_trial_model(
    settings: Settings, group: Literal["analysis", "grader"]
) -> tuple[GuardedModel, dict[str, Port]]:
    """The model of a group and its ports, to be asked about each of many rows: any number waits, and none is
    left out because others failed. Raises PolicyError, also without a key."""
    options: HostedModelSettings = getattr(settings, group)
    model = build_hosted_model(options.model_copy(update={"failures_to_open": NEVER}), group, None)
    if model is None:
        raise PolicyError(f"{group}.api_key: no key is set")
    if group == "analysis":
        port = PromptedPort(analysis.PROMPT, model)
        judges = (PromptedPort(prompt, model) for prompt in (judge.PROMPT, inbound.JUDGE_IN_CONTEXT))
        return model, {analysis.PORT: port, **_build_judges(settings, *judges)}
    ports = {
        name: CachedAnswers(PromptedPort(prompt, model), settings.grader.max_kept)
        for name, prompt in PROMPTS.items()
    }
    return model, {**ports}


def build_hosted_model(options: HostedModelSettings, group: str, waiting: int | None) -> GuardedModel | None:
    """The model of a group of settings; None without a key. `waiting`: how many questions may wait, None any
    number. Raises PolicyError."""
    if options.api_key is None:
        return None
    effort = None if options.effort == "none" else options.effort
    limits = LoadLimits(options.max_connections, waiting, options.failures_to_open, options.open_s)
    try:
        return GuardedModel(_build_model(options, options.fill(ModelApiSettings, effort=effort)), limits)
    except ValueError as wrong:
        raise PolicyError(f"{group}.api_key: {wrong}") from wrong


def _build_model(options: HostedModelSettings, settings: ModelApiSettings) -> HostedModel:
    """Each provider's client takes a second to import, so only the one that is used is."""
    assert options.api_key is not None  # noqa: S101 - the caller looked
    if options.provider == "openai":
        from sluice.adapters.models.openai_model import OpenAiModel  # noqa: PLC0415

        return OpenAiModel(options.api_key, settings)
    from sluice.adapters.models.anthropic_model import AnthropicModel  # noqa: PLC0415

    return AnthropicModel(options.api_key, settings)


def _build_store(options: GraderSettings, settings: Settings) -> AnswerStore | None:
    if options.redis_url is None or options.api_key is None:
        return None
    try:
        keys = load_seal_keys(settings.redis.key_file)
        url = add_password(options.redis_url.get_secret_value(), settings.redis.password_file)
        seal = Seal(keys, "model answer")
        return SharedAnswers(url, settings.kafka.topic_prefix, seal, options.kept_s)
    except ImportError:
        raise PolicyError("grader.redis_url: it needs the package redis: pip install redis") from None
    except (ValueError, SealKeysError) as wrong:
        raise PolicyError(f"grader.redis_url: {wrong}") from None


def build_encoder_ports(settings: Settings, policy: Policy | None) -> dict[str, Port]:
    """The ports of the sentence encoder, which learns the libraries of `policy` before its first question;
    none where it is off. Raises PolicyError."""
    if settings.embedding.encoder == "off":
        return {}
    try:
        read_checked()
    except ModelRefused as refused:
        raise PolicyError(f"embedding.encoder: {refused}") from refused
    encoder = _build_encoder(settings, policy)
    return {EMBEDDING: encoder, CLOSEST: ClosestTexts(encoder)}


def _build_encoder(settings: Settings, policy: Policy | None) -> SentenceEncoder:
    patterns = read_libraries(settings.embedding.patterns)
    first: list[AnyLibrary] = []
    if policy is not None:
        named = _list_pattern_digests(policy)
        first = [
            *_list_libraries(policy),
            *(pattern for pattern in patterns if pattern.hash in named),
            *_list_policy_texts(policy),
        ]
    return make_encoder(settings, patterns, first)


def make_encoder(
    settings: Settings, patterns: Sequence[ActionLibrary], first: Sequence[AnyLibrary] = ()
) -> SentenceEncoder:
    """The encoder, which knows these libraries of known actions and learns `first` before a question."""
    stored = settings.cache.folder
    folder = str(Path(stored).expanduser() / "vectors") if stored else ""
    bounds = EncoderSettings(threads=settings.embedding.threads)
    return SentenceEncoder(bounds, libraries=first, patterns=patterns, cache_folder=folder)


def _list_libraries(policy: Policy) -> list[SimilarityLibrary]:
    wanted = [bundle.memory.similarity for bundle in policy.bundles.values()]
    return [group.library for group in wanted if group is not None and group.enabled]


def _list_policy_texts(policy: Policy) -> list[NamedTexts]:
    """The policies of bundles among which the closest to an action are looked up."""
    asking = [bundle for bundle in policy.bundles.values() if Policies.name in bundle.stages]
    shelves: list[PolicyIndex] = [bundle.parts[Policies.name] for bundle in asking]
    return [shelf.library for shelf in shelves if len(shelf.library.ids) > shelf.part.closest]


def _list_pattern_digests(policy: Policy) -> set[str]:
    """Of the libraries that the bundles compare actions with."""
    asking = [bundle for bundle in policy.bundles.values() if ActionSimilarity.name in bundle.stages]
    parts = [bundle.parts[ActionSimilarity.name] for bundle in asking]
    return {part.library for part in parts if part.enabled and part.library is not None}
