"""Transcriptions as OpenAI's client and the wire see them, with files and forms of public reports."""
import concurrent.futures
import http.client
import io
import json
import math
import struct
import uuid
import wave
from pathlib import Path

import openai
import pytest

from test_wire import get, post

DATA = Path(__file__).resolve().parents[1] / "data"
SOUND = DATA / "speech" / "sound.wav"


@pytest.fixture(scope="module")
def whisper(start_server):
    return start_server("-m", DATA / "speech" / "model")


@pytest.fixture(scope="module")
def client(whisper):
    return openai.OpenAI(base_url=whisper.url + "/v1", api_key="none", max_retries=0)


def wav(seconds, rate=16000, channels=1, width=2, loudness=0.2):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        scale = 2 ** (8 * width - 1) - 1
        for i in range(int(seconds * rate)):
            t = i / rate * 2 * math.pi
            value = int(scale * loudness * (math.sin(300 * t) * math.sin(0.7 * t) + math.sin(1100 * t)) / 2)
            out.writeframesraw(value.to_bytes(width, "little", signed=True) * channels)
    return file.getvalue()


def send(server, parts, path="/v1/audio/transcriptions", quote='"'):
    """A form as other programs write it: its parts are (name, content) or (name, content, filename)."""
    boundary = uuid.uuid4().hex
    body = b""
    for name, content, *filename in parts:
        body += f"--{boundary}\r\nContent-Disposition: form-data; name={quote}{name}{quote}".encode()
        body += f'; filename="{filename[0]}"\r\nContent-Type: audio/wav'.encode() if filename else b""
        body += b"\r\n\r\n" + (content if isinstance(content, bytes) else content.encode()) + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    connection = http.client.HTTPConnection(*server.address, timeout=120)
    connection.request("POST", path, body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    answer = connection.getresponse()
    return answer, answer.read()


def error_of(server, parts, **options):
    answer, body = send(server, parts, **options)
    assert answer.status == 400, body
    return json.loads(body)["error"]


def test_formats(client):
    create = client.audio.transcriptions.create
    plain = create(model="model", file=SOUND, language="de", temperature=0)
    assert plain.text and plain.usage.type == "duration" and plain.usage.seconds == 11
    assert create(model="model", file=SOUND, language="de", response_format="text") == plain.text + "\n"
    srt = create(model="model", file=SOUND, language="de", response_format="srt")
    assert srt.startswith("1\n00:00:") and " --> " in srt
    assert create(model="model", file=SOUND, language="de", response_format="vtt").startswith("WEBVTT\n\n00:00:")
    verbose = create(model="model", file=SOUND, language="german", response_format="verbose_json")
    assert verbose.text == plain.text and verbose.language == "german" and verbose.words is None
    assert abs(float(verbose.duration) - 10.002) < 0.01
    assert [segment.id for segment in verbose.segments] == list(range(len(verbose.segments)))
    assert all(0 <= s.start <= s.end <= 10.01 and s.tokens for s in verbose.segments)


def test_times_of_words(client):
    both = client.audio.transcriptions.create(model="model", file=SOUND, language="de", response_format="verbose_json",
                                              timestamp_granularities=["word", "segment"])
    assert both.words and both.segments
    assert all(word.start <= word.end <= 10.01 for word in both.words)
    only = client.audio.transcriptions.create(model="model", file=SOUND, language="de", response_format="verbose_json",
                                              timestamp_granularities=["word"])
    assert only.words and only.segments is None


def test_streams(client):
    whole = client.audio.transcriptions.create(model="model", file=SOUND, language="de")
    events = list(client.audio.transcriptions.create(model="model", file=SOUND, language="de", stream=True))
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    assert events[-1].type == "transcript.text.done" and events[-1].text == whole.text
    assert "".join(event.delta for event in events[:-1]).strip() == whole.text


def test_translations(client):
    assert client.audio.translations.create(model="model", file=SOUND, prompt="Names: Weft.").text is not None
    verbose = client.audio.translations.create(model="whisper-1", file=SOUND, response_format="verbose_json")
    assert verbose.language in ("english", "chinese", "german", "spanish")


def test_language_is_detected(client):
    expected = json.loads((DATA / "speech" / "expected.json").read_text())["language"]
    verbose = client.audio.transcriptions.create(model="model", file=SOUND, response_format="verbose_json")
    assert {"es": "spanish", "en": "english", "de": "german", "zh": "chinese"}[expected] == verbose.language


@pytest.mark.parametrize("language", ["en", "english", "English", "en-US", "de_DE", "auto", ""])
def test_languages_by_code_and_name(whisper, language):
    answer, body = send(whisper, [("file", wav(0.5), "a.wav"), ("model", "model"), ("language", language)])
    assert answer.status == 200, body


@pytest.mark.parametrize("name, content", [
    ("8khz.wav", wav(1, rate=8000)), ("stereo.wav", wav(1, rate=44100, channels=2)), ("24bit.wav", wav(1, width=3)),
    ("32bit.wav", wav(1, rate=48000, width=4)), ("short.wav", wav(0.05)), ("empty.wav", wav(0.0002)), ("silence.wav", wav(1, loudness=0)),
    ("tone.mp3", (DATA / "audio" / "tone.mp3").read_bytes()), ("tone.flac", (DATA / "audio" / "tone.flac").read_bytes()),
    ("tone.ogg", (DATA / "audio" / "tone.ogg").read_bytes()), ("no_ending", wav(0.5)), ("a \\\"quoted\\\" name;.wav", wav(0.5)),
])
def test_files(whisper, name, content):
    answer, body = send(whisper, [("file", content, name), ("model", "model"), ("language", "en")])
    assert answer.status == 200, body
    if name in ("short.wav", "empty.wav", "silence.wav"):
        assert json.loads(body)["text"] == ""


@pytest.mark.parametrize("quote", ['"', ""])
def test_names_of_parts_with_and_without_quotes(whisper, quote):
    answer, body = send(whisper, [("model", "model"), ("file", wav(0.5), "a.wav")], quote=quote)
    assert answer.status == 200, body


def test_errors_name_the_field(whisper):
    sound = ("file", wav(0.5), "a.wav")
    assert error_of(whisper, [("model", "model")])["param"] == "file"
    assert error_of(whisper, [("file", b"", "a.wav")])["param"] == "file"
    assert error_of(whisper, [("file", b"RIFF____WAVEfmt ", "a.wav")])["param"] == "file"
    assert error_of(whisper, [("file", wav(0.5)[:30], "a.wav")])["param"] == "file"
    assert error_of(whisper, [("file", b"not audio" * 50, "a.mp3")])["param"] == "file"
    assert error_of(whisper, [sound, sound])["param"] == "file"
    assert error_of(whisper, [sound, ("language", "klingon")])["param"] == "language"
    assert error_of(whisper, [sound, ("response_format", "yaml")])["param"] == "response_format"
    assert error_of(whisper, [sound, ("temperature", "hot")])["param"] == "temperature"
    assert error_of(whisper, [sound, ("temperature", "7")])["param"] == "temperature"
    assert error_of(whisper, [sound, ("timestamp_granularities[]", "letter")])["param"] == "timestamp_granularities"
    assert "form" in error_of(whisper, [("prompt", "x" * 100000), sound])["message"]
    answer, body = post(whisper.address, "/v1/audio/transcriptions", {"model": "model"})
    assert answer.status == 400 and "multipart/form-data" in json.loads(body)["error"]["message"]


def test_long_prompts_are_cut(whisper):
    answer, body = send(whisper, [("file", wav(1), "a.wav"), ("prompt", "Names and terms. " * 3000), ("language", "en")])
    assert answer.status == 200, body


def test_other_endpoints_are_refused(whisper):
    for path, fields in [("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}), ("/v1/completions", {"prompt": "x"}),
                         ("/v1/embeddings", {"input": "x"}), ("/tokenize", {"content": "x"}), ("/api/chat", {"messages": []})]:
        answer, body = post(whisper.address, path, {"model": "model", **fields})
        assert answer.status == 400 and b"transcribes audio" in body, body
    for path in ("/v1/models", "/health", "/metrics", "/api/tags", "/api/ps"):
        assert get(whisper.address, path)[0].status == 200, path
    listed = json.loads(get(whisper.address, "/v1/models")[1])
    assert listed["models"][0]["capabilities"] == ["transcription"]
    # Not 503, after which a client would wait for a model that never comes.
    answer, body = get(whisper.address, "/props")
    assert answer.status == 400 and b"transcribe" in body, body
    answer, body = post(whisper.address, "/api/show", {"model": "model"})
    assert answer.status == 200 and json.loads(body)["capabilities"] == ["transcription"], body


def test_beside_a_language_model(start_server):
    both = start_server("-m", DATA / "golden" / "llama" / "model.gguf", "-m", DATA / "speech" / "model")
    sound = ("file", wav(0.5), "a.wav")
    answer, body = send(both, [sound, ("model", "model")])
    assert answer.status == 400 and b"no Whisper model" in body, body
    answer, body = send(both, [sound, ("model", "model-2")])
    assert answer.status == 200, body
    answer, body = post(both.address, "/v1/completions", {"model": "model", "prompt": "x", "max_tokens": 2})
    assert answer.status == 200, body
    assert get(both.address, "/props")[0].status == 200
    assert both.stop() == 0, both.text()


def test_many_clients(client):
    text = client.audio.transcriptions.create(model="model", file=SOUND, language="de").text
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        create = client.audio.transcriptions.create
        answers = list(threads.map(lambda _: create(model="model", file=SOUND, language="de").text, range(16)))
    assert answers == [text] * 16


def test_clients_that_leave_do_not_stop_others(whisper, client):
    boundary = "x"
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'.encode() + SOUND.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    for _ in range(4):
        connection = http.client.HTTPConnection(*whisper.address, timeout=30)
        connection.request("POST", "/v1/audio/transcriptions", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
        connection.close()
    assert client.audio.transcriptions.create(model="model", file=SOUND, language="de").text


@pytest.fixture(scope="module")
def two(start_server):
    """A chat model first, then a Whisper model."""
    return start_server("-m", DATA / "golden/llama/model.gguf", "-m", DATA / "speech" / "model", "-c", "512")


@pytest.mark.parametrize("name", [None, "", "whisper-1", "gpt-4o-transcribe", "model-2"])
def test_audio_goes_to_the_whisper_model_of_several_models(two, name):
    """Open WebUI and other clients send fixed names, as to OpenAI's server."""
    parts = [("file", wav(0.5), "a.wav")] + ([] if name is None else [("model", name)])
    answer, body = send(two, parts)
    assert answer.status == 200 and "text" in json.loads(body), body
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    assert post(two.address, "/v1/chat/completions", chat)[0].status == 200


def test_chats_go_to_the_chat_model_after_a_whisper_model(start_server):
    server = start_server("-m", DATA / "speech" / "model", "-m", DATA / "golden/llama/model.gguf", "-c", "512")
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    assert post(server.address, "/v1/chat/completions", chat)[0].status == 200
    answer, body = send(server, [("file", wav(0.5), "a.wav")])
    assert answer.status == 200, body


def test_metrics_count_transcriptions(start_server):
    server = start_server("-m", DATA / "speech" / "model")
    assert send(server, [("file", wav(0.5), "a.wav"), ("language", "en")])[0].status == 200
    assert send(server, [("file", b"no audio", "a.wav")])[0].status == 400
    lines = get(server.address, "/metrics")[1].decode().splitlines()
    found = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("weft:transcription")}
    assert [found[f'weft:transcriptions_total{{model_name="model",reason="{reason}"}}'] for reason in ("completed", "cancelled", "error")] == [1, 0, 1]
    assert found['weft:transcription_audio_seconds_total{model_name="model"}'] == 0.5
    assert found['weft:transcription_seconds_total{model_name="model"}'] > 0
