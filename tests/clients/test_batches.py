"""Files and batches, with OpenAI's own client."""
import collections
import datetime
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import openai
import pytest

from conftest import PROGRAM
from test_wire import get, post, wait_until

DATA = Path(__file__).resolve().parents[1] / "data"
FOLDER = Path(tempfile.mkdtemp())  # The models' names are those of their files.
MODEL, ENCODER = str(FOLDER / "llama.gguf"), str(FOLDER / "bert.gguf")
os.symlink(DATA / "golden/llama/model.gguf", MODEL)
os.symlink(DATA / "golden_encoders/bert/model.gguf", ENCODER)


def client_of(server, key="none"):
    return openai.OpenAI(base_url=server.url + "/v1", api_key=key, max_retries=0)


@pytest.fixture(scope="module")
def filed(start_server):
    return start_server("-m", MODEL, "-m", ENCODER, "--files", tempfile.mkdtemp())


@pytest.fixture(scope="module")
def client(filed):
    return client_of(filed)


def line(custom_id, body, url="/v1/chat/completions"):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": url, "body": body}) + "\n"


def chat(custom_id, text="Hello", **more):
    return line(custom_id, {"model": "llama", "messages": [{"role": "user", "content": text}], "temperature": 0,
                            "max_tokens": 4, **more})


def upload(client, text):
    return client.files.create(file=("requests.jsonl", text.encode()), purpose="batch")


def create(client, text, endpoint="/v1/chat/completions", **more):
    return client.batches.create(input_file_id=upload(client, text).id, endpoint=endpoint, completion_window="24h", **more)


def ended(client, batch):
    wait_until("the batch has not ended", lambda: client.batches.retrieve(batch.id).status in ("completed", "failed", "cancelled"))
    return client.batches.retrieve(batch.id)


def results(client, *files):
    """The results by custom_id; each has one."""
    lines = [json.loads(text) for file in files if file for text in client.files.content(file).text.splitlines()]
    counts = collections.Counter(result["custom_id"] for result in lines)
    assert not [name for name, n in counts.items() if n > 1]
    return {result["custom_id"]: result for result in lines}


def test_files_are_uploaded_listed_fetched_and_deleted(client):
    first = client.files.create(file=("../../etc/pass\u00e9.jsonl", b"abc\n"), purpose="batch")
    second = client.files.create(file=io.BytesIO(b""), purpose="user_data")
    assert first.object == "file" and first.bytes == 4 and first.purpose == "batch" and first.status == "processed"
    assert first.filename.endswith(".jsonl") and second.bytes == 0
    assert client.files.retrieve(first.id) == first
    assert client.files.content(first.id).read() == b"abc\n" and client.files.content(second.id).read() == b""
    assert [file.id for file in client.files.list(purpose="user_data")][0] == second.id
    assert [file.id for file in client.files.list(limit=1)][:2] == [second.id, first.id]  # All pages.
    assert [file.id for file in client.files.list(order="asc", after=first.id)] == [second.id]
    assert client.files.delete(first.id).deleted
    for call in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            call(first.id)
    client.files.delete(second.id)


def test_models_have_the_time_of_their_files(start_server):
    mine = start_server("-m", MODEL, "-m", ENCODER)
    for model in client_of(mine).models.list():
        assert model.created == int(os.stat(FOLDER / (model.id + ".gguf")).st_mtime)


def test_a_large_file_is_sent_as_it_was(client):
    content = os.urandom(1 << 20) * 40  # More than the body of any other request.
    file = client.files.create(file=("large.bin", content), purpose="user_data")
    assert file.bytes == len(content) and client.files.content(file.id).read() == content
    client.files.delete(file.id)


@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
def test_curl_can_upload(filed):
    done = subprocess.run(["curl", "-s", filed.url + "/v1/files", "-F", "purpose=batch", "-F", "file=@-;filename=a.jsonl"],
                          input=b"{}\n" * 500_000, stdout=subprocess.PIPE, check=True)
    assert json.loads(done.stdout)["bytes"] == 1_500_000
    head = subprocess.run(["curl", "-s", "-I", filed.url + f"/v1/files/{json.loads(done.stdout)['id']}/content"],
                          stdout=subprocess.PIPE, check=True)
    assert b"200 OK" in head.stdout


@pytest.mark.parametrize("endpoint, body", [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}),
    ("/v1/completions", {"prompt": "Hello", "max_tokens": 4}),
    ("/v1/responses", {"input": "Hello", "max_output_tokens": 4}),
    ("/v1/embeddings", {"input": ["Hello", "you"]}),
])
def test_results_are_those_of_requests(filed, client, endpoint, body):
    names = ["llama", "bert"] if endpoint == "/v1/embeddings" else ["llama"]
    for name in names:
        body = {**body, "model": name, **({} if "embed" in endpoint else {"temperature": 0})}
        batch = create(client, line("one", body, endpoint) + line("two", body, endpoint), endpoint, metadata={"night": "1"})
        assert batch.object == "batch" and batch.endpoint == endpoint and batch.metadata == {"night": "1"}
        assert batch.completion_window == "24h" and batch.request_counts.total in (0, 2)
        batch = ended(client, batch)
        assert batch.status == "completed" and batch.error_file_id is None
        assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (2, 2, 0)
        assert batch.created_at <= batch.in_progress_at <= batch.finalizing_at <= batch.completed_at
        output = results(client, batch.output_file_id)
        direct = json.loads(post(filed.address, endpoint, body)[1])
        for result in output.values():
            assert result["id"].startswith("batch_req_") and result["error"] is None
            assert result["response"]["status_code"] == 200 and result["response"]["request_id"].startswith("req_")
            got = result["response"]["body"]
            for field in ("choices", "data", "usage"):
                if field in direct and field != "usage":
                    assert got[field] == direct[field]
            if "output" in direct:
                assert [item["content"] for item in got["output"]] == [item["content"] for item in direct["output"]]
        file = client.files.retrieve(batch.output_file_id)
        assert file.purpose == "batch_output" and file.filename.endswith("_output.jsonl")


def test_failed_requests_are_in_the_error_file(client):
    batch = ended(client, create(client, chat("good") + chat("bad", temperature="hot") + chat("streamed", stream=True) +
                                 line("none", {"model": "nosuch", "messages": [{"role": "user", "content": "x"}]})))
    assert batch.status == "completed" and (batch.request_counts.completed, batch.request_counts.failed) == (1, 3)
    assert list(results(client, batch.output_file_id)) == ["good"]
    failed = results(client, batch.error_file_id)
    assert {name: result["response"]["status_code"] for name, result in failed.items()} == {"bad": 400, "streamed": 400, "none": 404}
    assert failed["bad"]["response"]["body"]["error"]["param"] == "temperature" and failed["bad"]["error"] is None


def test_a_bad_input_fails_with_line_numbers(client):
    batch = ended(client, create(client, chat("a") + "{broken\n" + chat("a") + line("b", {}, "/v1/embeddings")))
    assert batch.status == "failed" and batch.output_file_id is None and batch.failed_at
    assert [(error.line, error.code) for error in batch.errors.data] == [
        (2, "invalid_json_line"), (3, "duplicate_custom_id"), (4, "invalid_url")]
    assert all(error.message for error in batch.errors.data) and batch.errors.object == "list"


def test_wrong_batches_are_refused(client):
    file = upload(client, chat("a"))
    other = client.files.create(file=("a", b"b"), purpose="user_data")
    for changed, error in (({"endpoint": "/v1/rerank"}, openai.BadRequestError), ({"input_file_id": other.id}, openai.BadRequestError),
                           ({"input_file_id": "../" + file.id}, openai.NotFoundError),
                           ({"metadata": {str(i): "x" for i in range(17)}}, openai.BadRequestError),
                           ({"metadata": {"a": "x" * 513}}, openai.BadRequestError)):
        with pytest.raises(error):
            client.batches.create(**{"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h", **changed})
    for call in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            call("batch_none")


def test_wrong_uploads_are_refused(filed, client):
    with pytest.raises(openai.BadRequestError, match="purpose"):
        client.files.create(file=("a", b"b"), purpose="nothing")
    answer, body = post(filed.address, "/v1/files", {"purpose": "batch"})
    assert answer.status == 400 and b"multipart" in body
    form = "multipart/form-data; boundary=XX"
    file = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nabc\r\n'
    purpose = b'--XX\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    for wrong in (b"", file, file + purpose, file + b"--XX--", purpose + b"--XX--", file + file + purpose + b"--XX--",
                  purpose + b'--XX\r\nContent-Disposition: form-data; name="x"\r\n\r\n' + b"y" * 5000 + b"\r\n--XX--"):
        assert post(filed.address, "/v1/files", wrong, {"Content-Type": form})[0].status == 400, wrong
    before = len(list(client.files.list()))
    answer, body = post(filed.address, "/v1/files", file + purpose + b'--XX\r\nContent-Disposition: form-data; '
                        b'name="expires_after[seconds]"\r\n\r\n3600\r\n--XX--', {"Content-Type": form})
    assert answer.status == 200 and answer.headers["X-Weft-Ignored"] == "expires_after" and json.loads(body)["bytes"] == 3
    assert len(list(client.files.list())) == before + 1


@pytest.mark.parametrize("path", ["/v1/files/../../etc/passwd", "/v1/files/%2e%2e%2fbatch", "/v1/files/..%2f..%2fetc%2fpasswd/content",
                                  "/v1/files/.lock/content", "/v1/batches/..%2f.lock", "/v1/files//content"])
def test_paths_lead_nowhere(filed, path):
    assert get(filed.address, path)[0].status == 404


def test_batches_are_listed_in_pages(client):
    ids = [ended(client, create(client, chat("a"))).id for _ in range(3)]
    assert [batch.id for batch in client.batches.list(limit=2)][:3] == ids[::-1]
    page = client.batches.list(limit=1)
    assert page.has_more and page.data[0].id == ids[2]
    assert client.batches.list(limit=1, after=ids[2]).data[0].id == ids[1]


def test_a_batch_is_cancelled(client):
    batch = create(client, "".join(chat(str(i), ignore_eos=True, max_tokens=300) for i in range(2000)))
    wait_until("no request has ended", lambda: client.batches.retrieve(batch.id).request_counts.completed > 0)
    with pytest.raises(openai.ConflictError, match=batch.id):
        client.files.delete(batch.input_file_id)
    assert client.batches.cancel(batch.id).status in ("cancelling", "cancelled")
    batch = ended(client, batch)
    assert batch.status == "cancelled" and batch.cancelled_at and 0 < batch.request_counts.completed < 2000
    assert len(results(client, batch.output_file_id)) == batch.request_counts.completed
    with pytest.raises(openai.ConflictError):
        client.batches.cancel(ended(client, create(client, chat("a"))).id)
    client.files.delete(batch.input_file_id)


def test_other_requests_go_first(start_server):
    """While a chat generates, at most those requests of a batch end that had ended before and were not delivered."""
    folder = Path(tempfile.mkdtemp())
    mine = start_server("-m", MODEL, "--files", str(folder / "files"), "--access-log", str(folder / "log"), "-np", "16")
    client = client_of(mine)
    batch = create(client, "".join(chat(str(i), ignore_eos=True, max_tokens=20) for i in range(20_000)))
    n_before = 0
    for _ in range(4):
        wait_until("the batch makes no progress", lambda: client.batches.retrieve(batch.id).request_counts.completed > n_before)
        answer = client.chat.completions.create(model="llama", messages=[{"role": "user", "content": "Hi"}], temperature=0,
                                                max_tokens=200, extra_body={"ignore_eos": True})
        assert answer.usage.completion_tokens == 200
        n_before = client.batches.retrieve(batch.id).request_counts.completed
    client.batches.cancel(batch.id)
    assert ended(client, batch).status == "cancelled"
    assert mine.stop() == 0, mine.text()
    logged = [json.loads(line) for line in (folder / "log").read_text().splitlines()]
    logged = [entry for entry in logged if entry["path"] == "/v1/chat/completions" and entry["status"] == 200]
    ends = [time_of(entry) for entry in logged if not entry["peer"]]
    chats = [entry for entry in logged if entry["peer"]]
    assert len(chats) == 4 and ends
    for entry in chats:
        end = time_of(entry)
        begin = end - (entry["ms"] - entry["first_token_ms"]) / 1000
        assert sum(begin < other < end for other in ends) <= 16  # Without priorities: 10 times as many.


def time_of(entry):
    return datetime.datetime.fromisoformat(entry["time"].replace("Z", "+00:00")).timestamp()


def test_a_batch_continues_after_kill(start_server):
    folder = tempfile.mkdtemp()
    n = 400
    mine = start_server("-m", MODEL, "--files", folder)
    client = client_of(mine)
    batch = create(client, "".join(chat(str(i), f"Number {i}", ignore_eos=True, max_tokens=40) for i in range(n)))
    for share in (4, 2):
        wait_until("no request has ended", lambda: client.batches.retrieve(batch.id).request_counts.completed > n // share // 2)
        mine.process.send_signal(signal.SIGKILL)
        mine.process.wait()
        mine = start_server("-m", MODEL, "--files", folder)
        client = client_of(mine)
    batch = ended(client, batch)
    assert batch.status == "completed" and batch.request_counts.completed == batch.request_counts.total == n
    assert set(results(client, batch.output_file_id)) == {str(i) for i in range(n)}
    # An orderly end and damaged states.
    more = create(client, "".join(chat(str(i), ignore_eos=True, max_tokens=40) for i in range(n)))
    assert mine.stop() == 0, mine.text()
    (Path(folder) / f"{batch.id}.json").write_text("{")
    mine = start_server("-m", MODEL, "--files", folder)
    client = client_of(mine)
    assert "damaged" in mine.text() and batch.id in mine.text()
    assert ended(client, more).request_counts.completed == n
    with pytest.raises(openai.NotFoundError):
        client.batches.retrieve(batch.id)


def test_keys_do_not_see_each_others_files(start_server):
    mine = start_server("-m", MODEL, "--files", tempfile.mkdtemp(), "--api-key", "a", "--api-key", "b")
    a, b = (client_of(mine, key) for key in "ab")
    batch = ended(a, create(a, chat("x")))
    assert not list(b.files.list()) and not list(b.batches.list())
    for call in (lambda: b.files.content(batch.output_file_id), lambda: b.files.delete(batch.input_file_id),
                 lambda: b.batches.retrieve(batch.id), lambda: b.batches.cancel(batch.id),
                 lambda: b.batches.create(input_file_id=batch.input_file_id, endpoint="/v1/chat/completions", completion_window="24h")):
        with pytest.raises(openai.NotFoundError):
            call()
    assert len(results(a, batch.output_file_id)) == 1 and len(list(a.files.list())) == 2
    with pytest.raises(openai.AuthenticationError):
        client_of(mine, "c").files.create(file=("a", b"b"), purpose="batch")


def test_files_of_a_revoked_key_stay_hidden(start_server):
    folder = Path(tempfile.mkdtemp())
    (folder / "keys").write_text("a alice\nb bob\n")
    mine = start_server("-m", MODEL, "--files", str(folder / "files"), "--api-key-file", str(folder / "keys"))
    a, b = (client_of(mine, key) for key in "ab")
    file = upload(a, chat("x"))
    (folder / "keys").write_text("b bob\n")
    mine.process.send_signal(signal.SIGHUP)
    wait_until("the key is not revoked", lambda: get(mine.address, "/v1/models", {"Authorization": "Bearer a"})[0].status == 401)
    assert not list(b.files.list())
    with pytest.raises(openai.NotFoundError):
        b.files.delete(file.id)
    assert mine.stop() == 0, mine.text()
    mine = start_server("-m", MODEL, "--files", str(folder / "files"), "--api-key-file", str(folder / "keys"))
    assert not list(client_of(mine, "b").files.list())


def test_lines_of_reports_about_other_servers(client):
    """The inputs that made vLLM's, SGLang's and LiteLLM's batches hang, or end without an error."""
    hello = {"model": "/proj/models/llama", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}
    batch = ended(client, create(client, "\n" + line("path", hello) + "   \n" + line("stream", hello | {"stream": True})))
    lines = results(client, batch.output_file_id, batch.error_file_id)
    assert {name: result["response"]["status_code"] for name, result in lines.items()} == {"path": 200, "stream": 400}
    for text, code in (("notes\nwithout JSON\n", "invalid_json_line"), (chat("a") * 2, "duplicate_custom_id"),
                       (chat("a").replace('"method": "POST", ', ""), "missing_required_parameter")):
        batch = ended(client, create(client, text))
        assert batch.status == "failed" and batch.errors.data[0].code == code
    with_more = client.files.create(file=("r.jsonl", b"{}"), purpose="batch", extra_body={"target_model_names": "gpt-4o-batch"})
    assert with_more.status == "processed"


def test_a_batch_leaves_its_model_for_a_client(start_server):
    """vLLM, LocalAI and LiteLLM users ask for one GPU that serves chats and batches of several models."""
    mine = start_server("-m", MODEL, "-m", ENCODER, "--models-max", "1", "--files", tempfile.mkdtemp())
    client = client_of(mine)
    batch = create(client, "".join(chat(str(i), ignore_eos=True, max_tokens=300) for i in range(2000)))
    wait_until("no request has ended", lambda: client.batches.retrieve(batch.id).request_counts.completed > 0)
    assert client.embeddings.create(model="bert", input="Hello").data[0].embedding
    batch = client.batches.retrieve(batch.id)
    assert batch.status == "in_progress" and 0 < batch.request_counts.completed < 2000 and not batch.request_counts.failed
    client.batches.cancel(batch.id)
    assert ended(client, batch).status == "cancelled"


def test_a_batch_waits_while_the_disk_is_full(start_server):
    folder = tempfile.mkdtemp()
    mine = start_server("-m", MODEL, "--files", folder)
    resource.prlimit(mine.process.pid, resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    client = client_of(mine)
    with pytest.raises(openai.InternalServerError) as error:
        client.files.create(file=("a", b"a" * 300_000), purpose="batch")
    assert error.value.status_code == 507 and folder not in error.value.message
    batch = create(client, "".join(chat(str(i)) for i in range(300)))
    wait_until("the disk is not full", lambda: "cannot store this" in mine.text())
    resource.prlimit(mine.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    with pytest.raises(openai.InternalServerError) as error:  # Nothing is cancelled that a restart would continue.
        client.batches.cancel(batch.id)
    assert error.value.status_code == 507
    waiting = client.batches.retrieve(batch.id)
    assert waiting.status == "in_progress" and 50 < waiting.request_counts.completed < 300
    resource.prlimit(mine.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    batch = ended(client, batch)
    assert batch.status == "completed" and batch.request_counts.completed == 300
    assert len(results(client, batch.output_file_id)) == 300


def test_a_server_without_files_says_so(start_server):
    mine = start_server("-m", MODEL)
    client = client_of(mine)
    for call in (lambda: client.files.create(file=("a", b"b"), purpose="batch"), client.files.list, client.batches.list,
                 lambda: client.files.retrieve("file-a"), lambda: client.batches.retrieve("batch_a"),
                 lambda: client.batches.create(input_file_id="a", endpoint="/v1/completions", completion_window="24h")):
        with pytest.raises(openai.InternalServerError, match="--files") as error:
            call()
        assert error.value.status_code == 501
    second = subprocess.run([PROGRAM, "serve", "--port", "0", "-m", MODEL, "--files", MODEL], stderr=subprocess.PIPE, text=True)
    assert second.returncode != 0 and "--files" in second.stderr
