"""Pictures as OpenAI's and Anthropic's clients send them: the same conversation by three APIs is the same prompt."""
import base64
import json
import struct
import urllib.parse
import zlib
from pathlib import Path

import anthropic
import ollama
import openai
import pytest

from test_wire import post

DATA = Path(__file__).parent.parent / "data"
PICTURE = base64.b64encode((DATA / "vision/pictures/photo.png").read_bytes()).decode()
OTHER = base64.b64encode((DATA / "vision/pictures/turned.jpg").read_bytes()).decode()
URL = f"data:image/png;base64,{PICTURE}"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
N_ROWS = 9  # Of an image.


@pytest.fixture(scope="module")
def url(start_server, tmp_path_factory):
    template = tmp_path_factory.mktemp("pictures") / "template.jinja"
    template.write_text(TEMPLATE)
    return start_server("-m", str(DATA / "golden/gemma3/model.gguf"), "-c", "1024", "-np", "2", "--chat-template-file",
                        str(template), "--mmproj", str(DATA / "vision/gemma3/mmproj.gguf")).url


@pytest.fixture(scope="module")
def open_ai(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def anthropics(url):
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=60)


def by_responses(client, picture=None, **fields):
    content = [{"type": "input_text", "text": "Look: "}, picture or {"type": "input_image", "image_url": URL, "detail": "auto"},
               {"type": "input_text", "text": " what?"}]
    return client.responses.create(model="any", input=[{"role": "user", "content": content}], max_output_tokens=16,
                                   temperature=0, **fields)


def message(source):
    return [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image", "source": source},
                                         {"type": "text", "text": " what?"}]}]


SOURCE = {"type": "base64", "media_type": "image/png", "data": PICTURE}


def by_messages(client, source=None):
    return client.messages.create(model="any", messages=message(source or SOURCE), max_tokens=16,
                                  extra_body={"temperature": 0})


def test_ollamas_images_come_before_the_prompt(url, open_ai):
    chat = open_ai.chat.completions.create(model="any", max_tokens=16, temperature=0, messages=[
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "What is it?"}]}])
    client = ollama.Client(url)
    options = {"temperature": 0, "num_predict": 16}
    mine = client.chat(model="any", options=options, messages=[{"role": "user", "content": "What is it?", "images": [PICTURE]}])
    assert mine.message.content == chat.choices[0].message.content and mine.prompt_eval_count == chat.usage.prompt_tokens
    parts = [{"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": "What is it?"}]
    _, body = post(urllib.parse.urlparse(url).netloc.split(":"), "/api/chat", {
        "messages": [{"role": "user", "content": parts}], "options": options, "stream": False})
    assert json.loads(body)["message"]["content"] == mine.message.content
    made = client.generate(model="any", prompt="What is it?", images=[PICTURE], options=options)
    assert made.response == mine.message.content and made.context is None
    after = client.generate(model="any", prompt="Hello", options=options)
    more = client.generate(model="any", prompt="What is it?", images=[PICTURE], context=after.context, options=options)
    assert more.prompt_eval_count > made.prompt_eval_count + after.prompt_eval_count
    assert "vision" in client.show("any").capabilities


def test_all_apis_read_the_same(open_ai, anthropics):
    chat = open_ai.chat.completions.create(model="any", max_tokens=16, temperature=0, messages=[
        {"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": URL}},
                                     {"type": "text", "text": " what?"}]}])
    n_prompt = chat.usage.prompt_tokens
    assert n_prompt > N_ROWS
    response = by_responses(open_ai)
    assert response.usage.input_tokens == n_prompt
    assert response.output_text == chat.choices[0].message.content
    for source in (SOURCE, {"type": "url", "url": URL}):
        answer = by_messages(anthropics, source)
        assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == n_prompt
        assert answer.content[0].text == response.output_text
    assert anthropics.messages.count_tokens(model="any", messages=message(SOURCE)).input_tokens == n_prompt


def n_prompt(answer):
    return answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_a_tool_result_may_be_an_image(anthropics):
    def ask(*blocks):
        return anthropics.messages.create(model="any", max_tokens=8, extra_body={"temperature": 0}, messages=[
            {"role": "user", "content": "Draw."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "draw", "input": {}}]},
            {"role": "user", "content": list(blocks)}])

    def result(*content):
        return {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "done"}, *content]}
    seen = {"type": "image", "source": SOURCE}
    other = {"type": "image", "source": {**SOURCE, "media_type": "image/jpeg", "data": OTHER}}
    assert n_prompt(ask(result(seen))) > n_prompt(ask(result())) + N_ROWS
    # Tool results come before the user's message, in any order of blocks.
    first, second, swapped = ask(result(seen), other), ask(other, result(seen)), ask(result(other), seen)
    assert first.content[0].text == second.content[0].text
    assert first.content[0].text != swapped.content[0].text


BROKEN = PICTURE[:-400]


@pytest.mark.parametrize("sources, what", [
    ([{**SOURCE, "data": BROKEN}], "cannot be read"), ([{**SOURCE, "data": "****"}], "base64"),
    ([{"type": "url", "url": "https://example.com/cat.png"}], "data:"), ([{"type": "file", "file_id": "f"}], "base64, url"),
    ([SOURCE, {**SOURCE, "data": BROKEN}, SOURCE], "cannot be read")])
def test_a_broken_image_in_a_tool_result_is_left_out(anthropics, sources, what):
    """An agent sends it again with each turn. The images around it are kept."""
    def ask(*blocks):
        return anthropics.messages.with_raw_response.create(
            model="any", max_tokens=4, extra_body={"temperature": 0}, messages=[
                {"role": "user", "content": "Look."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "look", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": list(blocks)}]}])

    images = [{"type": "image", "source": source} for source in sources]
    bad = len(sources) // 2
    answer = ask(*images)
    warnings = answer.headers["X-Weft-Warnings"]
    assert f"messages[2].content[0].content[{bad}].source" in warnings and what in warnings
    assert answer.headers["X-Weft-Ignored"].startswith("messages.content.content.source")
    note = {"type": "text", "text": "[image that cannot be read]"}
    assert n_prompt(answer.parse()) == n_prompt(ask(*images[:bad], note, *images[bad + 1:]).parse())


def test_a_broken_image_in_a_tool_result_of_openais_apis(open_ai):
    url = f"data:image/png;base64,{BROKEN}"
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    chat = open_ai.chat.completions.with_raw_response.create(model="any", max_tokens=4, messages=[
        {"role": "user", "content": "Look."}, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "image_url", "image_url": {"url": url}}]}])
    assert "messages[2].content[0]" in chat.headers["X-Weft-Warnings"]
    response = open_ai.responses.with_raw_response.create(model="any", max_output_tokens=4, input=[
        {"role": "user", "content": "Look."}, {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [
            {"type": "input_image", "image_url": url}, {"type": "input_image", "file_id": "f"}]}])
    for at in ("input[2].output[0].image_url", "input[2].output[1].file_id"):
        assert at in response.headers["X-Weft-Warnings"]
    with pytest.raises(openai.BadRequestError, match="cannot be read"):
        open_ai.responses.create(model="any", input=[{"role": "user", "content": [{"type": "input_image", "image_url": url}]}])


def test_nothing_is_fetched(open_ai, anthropics):
    with pytest.raises(openai.BadRequestError) as caught:
        by_responses(open_ai, {"type": "input_image", "image_url": "https://example.com/cat.png"})
    assert "data:" in str(caught.value)
    with pytest.raises(openai.BadRequestError) as caught:
        by_responses(open_ai, {"type": "input_image", "file_id": "file-1"})
    assert "image_url" in str(caught.value)
    for source, what in (({"type": "url", "url": "https://example.com/cat.png"}, "data:"),
                         ({**SOURCE, "data": "****"}, "base64"), ({**SOURCE, "data": PICTURE[:-400]}, "cannot be read")):
        with pytest.raises(anthropic.BadRequestError) as caught:
            by_messages(anthropics, source)
        assert what in str(caught.value)


def png(width, height):
    """A grey one, which is much smaller as a file."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * height), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def test_small_files_that_are_large_images_are_refused_together(open_ai):
    largest = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png(8192, 8192)).decode()}}
    with pytest.raises(openai.BadRequestError, match=r"content\[4\].*268435456 pixels"):
        open_ai.with_options(timeout=600).chat.completions.create(
            model="any", max_tokens=1, messages=[{"role": "user", "content": [largest] * 5}])


PROMPT = {"prompt_string": "user: Look: <__media__> what?\nassistant:", "multimodal_data": [PICTURE]}


@pytest.mark.parametrize("path", ["/completion", "/completions", "/v1/completions"])
def test_prompts_with_images_as_llama_cpps_server_takes_them(url, open_ai, path):
    """The same prompt as a chat's, alone and among others."""
    parts = [{"type": "text", "text": "Look: "}, {"type": "image_url", "image_url": {"url": URL}}, {"type": "text", "text": " what?"}]
    chat = open_ai.chat.completions.create(model="any", messages=[{"role": "user", "content": parts}], max_tokens=8, temperature=0)
    address = urllib.parse.urlsplit(url)
    where = (address.hostname, address.port)

    def complete(prompt):
        answer, body = post(where, path, {"prompt": prompt, "max_tokens": 8, "temperature": 0, "cache_prompt": False})
        assert answer.status == 200, body
        found = json.loads(body)
        if isinstance(found, list) or "choices" not in found:
            return [one["content"] for one in (found if isinstance(found, list) else [found])]
        if not isinstance(prompt, list):
            assert found["usage"]["prompt_tokens"] == chat.usage.prompt_tokens
        return [one["text"] for one in found["choices"]]

    expected = chat.choices[0].message.content
    assert complete(PROMPT) == [expected]
    answer, _ = post(where, path, {"prompt": PROMPT, "max_tokens": 1, "truncate_prompt_tokens": 5})
    assert answer.headers["X-Weft-Ignored"] == "truncate_prompt_tokens"
    other = {**PROMPT, "multimodal_data": [OTHER]}
    many = complete([PROMPT, "user: Look", other, PROMPT])
    assert [many[0], many[3]] == [expected] * 2 and many[2] == complete(other)[0]


@pytest.mark.parametrize("prompt, says", [
    ({**PROMPT, "multimodal_data": [PICTURE, PICTURE]}, "1 markers <__media__>, but 'prompt.multimodal_data' has 2 files"),
    ({**PROMPT, "multimodal_data": []}, None),
    ({**PROMPT, "prompt_string": "none"}, "0 markers"),
    ({**PROMPT, "multimodal_data": ["****"]}, "not valid base64"),
    ({**PROMPT, "multimodal_data": [PICTURE[:-400]]}, "cannot be read"),
    ({**PROMPT, "multimodal_data": [5]}, "must be a base64 string"),
    ({**PROMPT, "multimodal_data": "abc"}, "must be an array"),
    ({"prompt_string": [1, 2], "multimodal_data": [PICTURE]}, "needs a 'prompt_string'"),
])
def test_wrong_prompts_with_images(url, prompt, says):
    address = urllib.parse.urlsplit(url)
    answer, body = post((address.hostname, address.port), "/completion", {"prompt": prompt, "max_tokens": 2})
    assert answer.status == (200 if says is None else 400), body
    assert says is None or says in json.loads(body)["error"]["message"]


def test_models_without_vision_name_the_way_out(start_server):
    server = start_server("-m", str(DATA / "golden/llama/model.gguf"), "-c", "512")
    answer, body = post(server.address, "/completion", {"prompt": PROMPT, "max_tokens": 2})
    assert answer.status == 400 and b"--mmproj" in body
    answer, body = post(server.address, "/v1/score", {"input": [PROMPT, PROMPT]})
    assert answer.status == 400
