"""The settings' model is behind every port that asks one, and a wrong setting is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import SecretStr

from sluice.bootstrap.model_ports import PROMPTS, build_analysis_ports, build_grader_ports
from sluice.core.actions import grading, inbound
from sluice.core.foundation import content_judge as judge
from sluice.core.foundation.content_judge import show_texts
from sluice.core.foundation.requests import Request
from sluice.core.memory import analysis
from sluice.core.trust.in_force import PolicyError
from sluice.ports import AnalysisOff, Queued
from sluice.settings.models import AnalysisSettings, GraderSettings
from sluice.settings.reader import Settings
from sluice.stream.engine.evaluation import Ports
from tests.adapters.asking import ORDINARY
from tests.chat_api import refusal_of, reply_in_chat, reply_with_judgement
from tests.messages_api import Exchange, judge_with, make_failing, messages_api, reply_with_text

GRADE = '{"compliance": 0.9, "reasoning": "It is kind."}'
PAYLOAD = {"scope": {"tenant": "t", "bundle": "b", "rule": "r"}, "question": {"criterion": "Kind."}}


def settings(**given: Any) -> Settings:
    key = {"api_key": SecretStr(given.pop("key", "sk-a-key"))}
    return Settings(analysis=AnalysisSettings(**given, **key), grader=GraderSettings(**given, **key))


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
async def test_either_provider_answers_actions_and_memories(provider: str) -> None:
    local = provider == "openai"
    replies = (
        (reply_in_chat(GRADE), reply_with_judgement()) if local else (reply_with_text(GRADE), judge_with())
    )
    async with messages_api(*replies, refusal_of=refusal_of if local else None) as api:
        address = f"{api.base_url}/v1" if local else api.base_url
        named = settings(provider=provider, base_url=address, key="" if local else "sk-a-key")
        ports = Ports({**build_analysis_ports(named), **build_grader_ports(named)})
        graded = await ports.answer(Request(grading.PORT, PAYLOAD, 10_000))
        judged = await ports.answer(ORDINARY)
        await ports.close()
    assert (graded.status, judged.status) == ("answered", "answered")
    assert grading.GRADE.read(graded.payload)


async def test_bodies_are_asked_about_at_once_each_by_itself_and_the_same_one_once() -> None:
    prompts: list[Any] = []

    async def answer(exchange: Exchange) -> None:
        (text,) = json.loads(exchange.body["messages"][0]["content"])["texts"].values()
        prompts.append(text)
        said = {"trust": 0.9, "categories": [], "explanation": text, "text": 0}
        await (
            make_failing(529, "overloaded_error") if text == "down" else reply_with_text(json.dumps(said))
        )(exchange)

    questions = [show_texts("retrieved", [text], 256, None).question for text in ("a", "down", "b", "a")]
    scope = {"tenant": "t", "bundle": "b", "rule": "r"}
    payload = {"scope": scope, "questions": questions, "asker": ["t", "a"]}
    async with messages_api(answer) as api:
        ports = Ports({**build_analysis_ports(settings(base_url=api.base_url, max_retries=0))})
        told = await ports.answer(Request(judge.TOGETHER, payload, 10_000))
        await ports.close()
    assert isinstance(told.payload, dict)
    answers = told.payload["answers"]
    assert [one.get("explanation") for one in answers] == ["a", None, "b", "a"]
    assert answers[1].keys() == {"failed"}
    assert sorted(prompts) == ["a", "b", "down"]


def test_without_a_key_nothing_is_asked() -> None:
    (off,) = build_analysis_ports(Settings()).items()
    assert off[0] == analysis.PORT
    assert isinstance(off[1], AnalysisOff)
    assert build_grader_ports(Settings()) == {}


def test_a_memory_write_is_patient_and_an_action_is_not() -> None:
    ports = build_analysis_ports(settings())
    queued = {name: one.waits_in_queue for name, one in ports.items() if isinstance(one, Queued)}
    assert queued == {analysis.PORT: True, judge.PORT: False, inbound.PORT_IN_CONTEXT: False}
    asked = build_grader_ports(settings()).values()
    assert all(isinstance(one, Queued) and not one.waits_in_queue for one in asked)
    assert build_grader_ports(settings()).keys() == PROMPTS.keys()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"key": ""}, r"grader.api_key: the API key is empty"),
        ({"redis_url": SecretStr("no url")}, r"grader.redis_url: "),
        ({"redis_url": SecretStr("redis://x")}, r"grader.redis_url: .*redis.key_file names no file"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], told: str) -> None:
    key = {"api_key": SecretStr(given.pop("key", "sk-a-key"))}
    with pytest.raises(PolicyError, match=told):
        build_grader_ports(Settings(grader=GraderSettings(**given, **key)))
