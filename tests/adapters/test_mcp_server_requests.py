"""What an MCP server asks of the agent's client goes through the gate, in each version on each side."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from mcp import ClientSession, MCPError
from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    ImageContent,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

from sluice.adapters.mcp import server_requests
from sluice.adapters.mcp.proxy_file import Parking, ProxyOptions, ServerRequest, read_proxy_file
from tests.adapters.mcp_in_memory import NEW, OLD, Upstream, behind_proxy
from tests.adapters.scripted_gate import ScriptedGate
from tests.documents.blocks import blocks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ELICIT, SAMPLE = "notes.elicitation/create", "notes.sampling/createMessage"
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
EVERY = frozenset(ServerRequest)
versions = pytest.mark.parametrize(("client", "server"), [(a, b) for a in (NEW, OLD) for b in (NEW, OLD)])


def elicit(message: str = "Who?") -> ElicitRequest:
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=SCHEMA))


def visit() -> ElicitRequest:
    return ElicitRequest(
        params=ElicitRequestURLParams(message="Log in", url="https://login.example", elicitation_id="1")
    )


def sample(text: str = "Write", **more: Any) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    fields: dict[str, Any] = {"messages": [message], "max_tokens": 5, **more}
    return CreateMessageRequest(params=CreateMessageRequestParams(**fields))


def show(answer: Any) -> dict[str, Any]:
    return dict(answer.model_dump(mode="json", by_alias=True, exclude_none=True))


class AskingUpstream(Upstream):
    """Its tool asks `requests` of the client, one after another, and returns the answers as JSON."""

    def __init__(self, *requests: Any) -> None:
        super().__init__()
        self.requests = requests
        self.began = asyncio.Event()

    async def call_tool(self, ctx: Any, params: Any) -> Any:
        await super().call_tool(ctx, params)
        self.began.set()
        if ctx.protocol_version == NEW:
            return self._answer_in_rounds(params)
        answers = []
        for one in self.requests:
            kind = ElicitResult if isinstance(one, ElicitRequest) else CreateMessageResult
            try:
                answers.append(show(await ctx.session.send_request(one, kind)))
            except MCPError as error:
                answers.append({"error": error.error.message})
        return self._say(answers)

    def _answer_in_rounds(self, params: Any) -> Any:
        answers = json.loads(params.request_state or "[]")
        answers += [show(one) for one in (params.input_responses or {}).values()]
        if len(answers) == len(self.requests):
            return self._say(answers)
        asked = {str(len(answers)): self.requests[len(answers)]}
        return InputRequiredResult(input_requests=asked, request_state=json.dumps(answers))

    def _say(self, answers: list[Any]) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=json.dumps(answers))])


class User:
    """What the agent's client answers; it remembers what it was asked."""

    def __init__(self, *, supports: frozenset[ServerRequest] = EVERY) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, Any] = {"name": "ada"}
        self.is_slow = False
        self.callbacks: dict[str, Any] = {}
        if ServerRequest.ELICITATION in supports:
            self.callbacks["elicitation_callback"] = self._fill_in
        if ServerRequest.SAMPLING in supports:
            self.callbacks["sampling_callback"] = self._write

    async def _fill_in(self, _: Any, params: Any) -> ElicitResult:
        self.asked.append(show(params))
        if self.is_slow:
            await asyncio.sleep(60)
        return ElicitResult(action="accept", content=self.answers)

    async def _write(self, _: Any, params: Any) -> CreateMessageResult:
        self.asked.append(show(params))
        return CreateMessageResult(
            role="assistant", content=TextContent(type="text", text="written"), model="m"
        )


def allow(*kinds: ServerRequest, **more: Any) -> ProxyOptions:
    return ProxyOptions("notes", "session", {}, server_requests=frozenset(kinds or EVERY), **more)


async def wait_until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110 - it is a list that grows
            await asyncio.sleep(0.01)


def read(result: Any) -> Any:
    return json.loads(result.content[0].text)


@versions
async def test_what_the_gate_allows_reaches_the_client_as_it_was_judged_and_its_answer_the_server(
    client: str, server: str, tmp_path: Path
) -> None:
    upstream, gate, user = AskingUpstream(elicit(), sample()), ScriptedGate(), User()
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
    ) as agent:
        filled, written = read(await agent.call_tool("read", {"n": 1}))
    assert (filled["action"], filled["content"]) == ("accept", {"name": "ada"})
    assert written["content"]["text"] == "written"
    assert [name for name, _ in gate.asked] == ["notes.read", ELICIT, SAMPLE]
    assert [parameters for _, parameters in gate.asked[1:]] == user.asked
    assert gate.asked[1][1] == {"mode": "form", "message": "Who?", "requestedSchema": SCHEMA}
    call, *asked = [(action_id, error) for action_id, error, _ in gate.finished[::-1]]
    assert asked == [(f"{call[0]}-request-2", None), (f"{call[0]}-request-1", None)]
    assert gate.finished[0][2]["content"] == {"name": "ada"}
    assert {name for name, _ in upstream.calls} == {"read"}


@versions
@pytest.mark.parametrize("said", ["denied", "needs_human", "away"])
async def test_what_the_gate_does_not_allow_is_refused_without_a_reason_and_asks_nobody(
    client: str, server: str, said: str, tmp_path: Path
) -> None:
    gate, user = ScriptedGate(), User()
    gate.verdicts = {ELICIT: said, SAMPLE: said}
    for request in (elicit(), sample()):
        upstream = AskingUpstream(request)
        async with behind_proxy(
            gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
        ) as agent:
            if server == NEW and isinstance(request, CreateMessageRequest):
                with pytest.raises(MCPError, match="refused"):
                    await agent.call_tool("read", {})
                continue
            (answer,) = read(await agent.call_tool("read", {}))
        if isinstance(request, ElicitRequest):
            assert answer["action"] == ("decline" if said == "denied" else "cancel")
        else:
            assert answer == {"error": "the server's request to the client was refused"}
        assert said not in str(answer)
    assert user.asked == []
    assert [name for name, _ in gate.asked] == ["notes.read", ELICIT, "notes.read", SAMPLE]


@versions
async def test_what_the_operator_does_not_name_is_not_declared_to_the_server_and_not_passed_on(
    client: str, server: str, tmp_path: Path
) -> None:
    gate, user = ScriptedGate(), User()
    for options in (allow(ServerRequest.SAMPLING), ProxyOptions("notes", "session", {})):
        upstream = AskingUpstream(elicit())
        async with behind_proxy(
            gate, upstream.serve(server), tmp_path, client, options, **user.callbacks
        ) as agent:
            if server == NEW:
                with pytest.raises(MCPError):
                    await agent.call_tool("read", {})
            else:
                assert "error" in read(await agent.call_tool("read", {}))[0]
        assert upstream.declared.elicitation is None
        assert (upstream.declared.sampling is None) == (not options.server_requests)
    assert user.asked == []
    assert {name for name, _ in gate.asked} == {"notes.read"}


@versions
@pytest.mark.parametrize(
    ("request_", "supports"),
    [
        (elicit(), frozenset({ServerRequest.SAMPLING})),
        (sample(), frozenset({ServerRequest.ELICITATION})),
        (elicit("x" * server_requests.MOST_REQUEST_BYTES), EVERY),
        (sample(include_context="allServers"), EVERY),
        (sample(tools=[], tool_choice={"mode": "auto"}), EVERY),
        (
            sample(
                messages=[
                    SamplingMessage(
                        role="user", content=ImageContent(type="image", data="AA==", mime_type="image/png")
                    )
                ]
            ),
            EVERY,
        ),
    ],
    ids=["no elicitation", "no sampling", "too long", "context", "tools", "image"],
)
async def test_what_the_client_does_not_support_or_the_gate_cannot_read_is_not_passed_on(
    client: str, server: str, request_: Any, supports: frozenset[ServerRequest], tmp_path: Path
) -> None:
    gate, user, upstream = ScriptedGate(), User(supports=supports), AskingUpstream(request_)
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
    ) as agent:
        try:
            answered = read(await agent.call_tool("read", {}))
            assert "error" in answered[0] or answered[0]["action"] == "cancel"
        except MCPError as error:
            assert "refused" in error.error.message  # noqa: PT017 - only some end so
    assert user.asked == []
    assert [name for name, _ in gate.asked] == ["notes.read"]


@versions
async def test_requests_are_bounded_in_number(client: str, server: str, tmp_path: Path) -> None:
    many = [elicit(str(number)) for number in range(server_requests.MOST_REQUESTS)]
    gate, user = ScriptedGate(), User()
    upstream = AskingUpstream(*many, *([elicit("one more")] if server == OLD else []))
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
    ) as agent:
        answers = read(await agent.call_tool("read", {}))
    assert len(user.asked) == server_requests.MOST_REQUESTS
    if server == OLD:
        assert answers[-1] == {"action": "cancel"}


@versions
async def test_a_client_that_does_not_answer_in_time_leaves_a_cancelled_request(
    client: str, server: str, tmp_path: Path
) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    user.is_slow = True
    options = allow(answer_s=0.2)
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, options, **user.callbacks
    ) as agent:
        calling = asyncio.ensure_future(agent.call_tool("read", {}))
        await wait_until(lambda: len(gate.finished) == 2)
        if client == OLD:
            assert read(await calling)[0]["action"] == "cancel"
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    assert [error for _, error, _ in gate.finished] == ["RequestRefusedError", None]


@versions
async def test_a_long_answer_is_not_passed_on(client: str, server: str, tmp_path: Path) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    user.answers = {"name": "x" * server_requests.MOST_ANSWER_BYTES}
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
    ) as agent:
        assert read(await agent.call_tool("read", {}))[0] == {"action": "cancel"}


@versions
async def test_a_call_given_up_while_its_client_is_asked_leaves_two_outcomes(
    client: str, server: str, tmp_path: Path
) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    user.is_slow = True
    async with behind_proxy(
        gate, upstream.serve(server), tmp_path, client, allow(), **user.callbacks
    ) as agent:
        calling = asyncio.ensure_future(agent.call_tool("read", {}))
        await wait_until(lambda: bool(user.asked))
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    await wait_until(lambda: len(gate.finished) == 2)
    assert [error for _, error, _ in gate.finished] == ["CancelledError"] * 2


@pytest.mark.parametrize("server", [NEW, OLD])
async def test_a_held_call_takes_answers_for_itself_alone_and_once(server: str, tmp_path: Path) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    options = allow(parking=Parking(bytes(32), "agent", 60.0))
    answer = {"request-1": ElicitResult(action="accept", content={"name": "ada"})}
    async with behind_proxy(gate, upstream.serve(server), tmp_path, NEW, options, **user.callbacks) as agent:

        async def call(arguments: dict[str, Any], state: str | None, answers: Any = None) -> Any:
            return await agent.session.call_tool(
                "read", arguments, request_state=state, input_responses=answers, allow_input_required=True
            )

        asked = await call({}, None)
        assert isinstance(asked, InputRequiredResult)
        assert list(asked.input_requests) == ["request-1"]
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await call({"n": 1}, asked.request_state, answer)
        done = await call({}, asked.request_state, answer)
        assert read(done)[0]["content"] == {"name": "ada"}
        again = await call({}, asked.request_state, answer)
        assert again.is_error
        assert "has ended" in again.content[0].text
    assert [name for name, _ in gate.asked] == ["notes.read", ELICIT]


async def test_without_a_key_a_state_counts_for_its_own_call_too(tmp_path: Path) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, NEW, allow(), **user.callbacks) as agent:
        asked = await agent.session.call_tool("read", {}, allow_input_required=True)
        for arguments, state in (({"n": 1}, asked.request_state), ({}, "call:made-up")):
            refused = await agent.session.call_tool("read", arguments, request_state=state)
            assert "has ended" in refused.content[0].text
        left_out = await agent.session.call_tool("read", {}, request_state=asked.request_state)
        assert read(left_out)[0] == {"action": "cancel"}


async def test_clients_that_do_not_come_back_are_bounded_in_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_requests, "MOST_HELD", 1)
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(elicit())
    async with behind_proxy(gate, upstream.serve(NEW), tmp_path, NEW, allow(), **user.callbacks) as agent:
        asked = await agent.session.call_tool("read", {}, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        refused = await agent.session.call_tool("read", {}, allow_input_required=True)
    assert read(refused)[0] == {"action": "cancel"}


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_an_address_to_visit_is_judged_and_passed_on_where_the_client_supports_it(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream(visit())
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, client, allow(), **user.callbacks) as agent:
        await agent.call_tool("read", {})
        build = ClientSession._build_capabilities  # noqa: SLF001 - the SDK's client always declares both

        def support_forms_alone(session: Any, version: str) -> Any:
            declared = build(session, version)
            declared.elicitation.url = None
            return declared

        monkeypatch.setattr(ClientSession, "_build_capabilities", support_forms_alone)
    assert [parameters["url"] for _, parameters in gate.asked[1:]] == ["https://login.example"]
    assert [one["url"] for one in user.asked] == ["https://login.example"]
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, client, allow(), **user.callbacks) as agent:
        assert read(await agent.call_tool("read", {}))[0] == {"action": "cancel"}
    assert len(user.asked) == 1


def test_a_tool_with_the_name_of_a_request_is_held_back() -> None:
    assert allow().is_ambiguous("elicitation/create")
    assert not ProxyOptions("notes", "session", {}).is_ambiguous("elicitation/create")


@pytest.mark.parametrize("client", [NEW, OLD])
async def test_an_elicitation_by_an_error_does_not_pass(client: str, tmp_path: Path) -> None:
    class Failing(Upstream):
        async def call_tool(self, ctx: Any, params: Any) -> Any:
            await super().call_tool(ctx, params)
            raise MCPError(-32042, "visit", {"elicitations": [show(visit().params)]})

    async with behind_proxy(ScriptedGate(), Failing().serve(OLD), tmp_path, client, allow()) as agent:
        result = await agent.call_tool("read", {})
    assert result.is_error
    assert "login.example" not in str(result)


async def test_a_server_that_asks_while_no_call_runs_is_refused(tmp_path: Path) -> None:
    gate, user, upstream = ScriptedGate(), User(), AskingUpstream()
    async with behind_proxy(gate, upstream.serve(OLD), tmp_path, OLD, allow(), **user.callbacks) as agent:
        await agent.list_tools()
        answer = await upstream.session.send_request(elicit(), ElicitResult)
    assert answer.action == "cancel"
    assert (gate.asked, user.asked) == ([], [])


def test_the_file_of_the_guide_names_what_it_says(tmp_path: Path) -> None:
    (text,) = [one.text for one in blocks("docs/mcp-server-requests.md") if "server_requests" in one.text]
    (tmp_path / "mcp.toml").write_text(text)
    file = read_proxy_file(tmp_path / "mcp.toml")
    assert (file.server_requests, file.answer_s) == ([ServerRequest.ELICITATION], 300)
