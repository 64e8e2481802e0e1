"""The providers' own clients take every answer for one of their provider's, and every error for the right one."""

from __future__ import annotations

import anthropic
import openai
import pytest

from longtask.modelserver.server import KEY

TURNS = {
    "turns": [
        {"reasoning": "hm", "text": "I run it", "calls": [{"shell": "make test"}], "usage": {"tokens_in": 70}},
        {"output": {"answer": 42}},
    ]
}
PARAMS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
ASK: list = [{"role": "user", "content": "do it"}]
ANTHROPIC: dict = {
    "model": "m",
    "max_tokens": 100,
    "messages": ASK,
    "tools": [{"name": "Bash", "input_schema": PARAMS}],
}
RESPONSES: dict = {"model": "m", "input": ASK, "tools": [{"type": "function", "name": "shell", "parameters": PARAMS}]}
CHAT: dict = {
    "model": "m",
    "messages": ASK,
    "tools": [{"type": "function", "function": {"name": "shell", "parameters": PARAMS}}],
}


@pytest.fixture
def claude():
    """A client of Anthropic for a script that is being played."""
    made: list = []

    def client(one, retries=0):
        made.append(anthropic.Anthropic(base_url=one.url, api_key=KEY, max_retries=retries, timeout=20))
        return made[-1]

    yield client
    for one in made:
        one.close()


@pytest.fixture
def gpt():
    """A client of OpenAI."""
    made: list = []

    def client(one, retries=0):
        made.append(openai.OpenAI(base_url=f"{one.url}/v1", api_key=KEY, max_retries=retries, timeout=20))
        return made[-1]

    yield client
    for one in made:
        one.close()


def test_messages(play, claude):
    client = claude(play(TURNS))
    whole = client.messages.create(**ANTHROPIC)
    with client.messages.stream(**ANTHROPIC) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[-1].input == {"command": "make test"}
        assert (message.stop_reason, message.usage.input_tokens) == ("tool_use", 70)
    assert client.messages.count_tokens(model="m", messages=ASK).input_tokens > 0
    assert [model.id for model in client.models.list()] == ["scripted"]


def test_responses(play, gpt):
    client = gpt(play(TURNS))
    whole = client.responses.create(**RESPONSES)
    with client.responses.stream(**RESPONSES) as stream:
        streamed = stream.get_final_response()
    for response in (whole, streamed):
        assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
        assert response.output[-1].arguments == '{"command": "make test"}'
        assert (response.output_text, response.usage.input_tokens) == ("I run it", 70)
    on = client.responses.create(model="m", input="go on", previous_response_id=whole.id)
    assert on.output_text == '{"answer": 42}'
    assert [model.id for model in client.models.list()] == ["scripted"]


def test_chat_completions(play, gpt):
    client = gpt(play(TURNS))
    whole = client.chat.completions.create(**CHAT)
    with client.chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as stream:
        streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        choice = completion.choices[0]
        assert (choice.message.content, choice.finish_reason) == ("I run it", "tool_calls")
        assert choice.message.tool_calls[0].function.arguments == '{"command": "make test"}'
        assert completion.usage.prompt_tokens == 70


ERRORS = [
    (400, anthropic.BadRequestError, openai.BadRequestError),
    (401, anthropic.AuthenticationError, openai.AuthenticationError),
    (429, anthropic.RateLimitError, openai.RateLimitError),
    (500, anthropic.InternalServerError, openai.InternalServerError),
    (529, anthropic.APIStatusError, openai.InternalServerError),
]


@pytest.mark.parametrize(("status", "of_anthropic", "of_openai"), ERRORS)
def test_an_error_is_the_clients_own(play, claude, gpt, status, of_anthropic, of_openai):
    one = play({"turns": [{"text": "hi", "faults": {"status": status, "message": "so it is", "times": "always"}}]})
    with pytest.raises(of_anthropic, match="so it is"):
        claude(one).messages.create(**ANTHROPIC)
    with pytest.raises(of_openai, match="so it is"):
        gpt(one).responses.create(**RESPONSES)
    with pytest.raises(of_openai, match="so it is"):
        gpt(one).chat.completions.create(**CHAT)


def test_a_client_that_tries_again_gets_the_turn(play, claude, gpt):
    fault = {"status": 429, "retry_after": "1ms", "times": 2}
    one = play({"turns": [{"text": "hi", "faults": fault}]})
    assert claude(one, retries=2).messages.create(**ANTHROPIC).content[0].text == "hi"
    other = play({"turns": [{"text": "hi", "faults": fault}]})
    assert gpt(other, retries=2).responses.create(**RESPONSES).output_text == "hi"
    assert [len(playing.requests()) for playing in (one, other)] == [3, 3]


def test_an_error_in_the_stream_reaches_the_client(play, claude, gpt):
    one = play({"turns": [{"text": "hi", "faults": {"status": 529, "after": 2, "message": "so it is", "times": 9}}]})
    with pytest.raises(anthropic.APIStatusError, match="so it is"):
        list(claude(one).messages.create(**ANTHROPIC, stream=True))
    with pytest.raises(openai.APIError, match="so it is"):
        list(gpt(one).chat.completions.create(**CHAT, stream=True))
    last = list(gpt(one).responses.create(**RESPONSES, stream=True))[-1]
    assert (last.type, last.response.error.message) == ("response.failed", "so it is")


def test_the_clients_read_their_settings_from_the_environment(play, server, monkeypatch):
    one = play({"turns": [{"text": "hi"}]})
    for name, value in server.environment(one.name).items():
        monkeypatch.setenv(name, value)
    with anthropic.Anthropic() as client:
        assert client.messages.create(**ANTHROPIC).content[0].text == "hi"
    with openai.OpenAI() as client:
        assert client.responses.create(**RESPONSES).output_text == "hi"
