"""The page in a real browser, against the mock server."""
import base64
import json
import re
import time

import pytest

ANSWER = ".message.assistant.last"
DONE = f"{ANSWER}:not(.growing) .actions"


def ask(page, text, wait=True):
    page.fill("#message", text)
    page.press("#message", "Enter")
    if wait:
        page.wait_for_selector(f"{DONE}, {ANSWER} .problem")


def texts(page, selector):
    return [node.inner_text().strip() for node in page.query_selector_all(selector)]


def wait_until(page, expression):
    """As wait_for_function, which the page's policy forbids once it has to wait."""
    deadline = time.time() + 15
    while not page.evaluate(expression):
        assert time.time() < deadline, f"never true: {expression}"
        time.sleep(0.05)


def last_request(page):
    return page.server.requests[-1]


# Chat.


def test_responses_with_markdown_code_tables_formulas_and_reasoning(open_page):
    page = open_page()
    ask(page, "Write a breadth-first search")
    assert texts(page, f"{ANSWER} .prose h3") == ["The code", "How it compares"]
    assert page.inner_text(f"{ANSWER} .code-language") == "Python"
    assert page.inner_text(f"{ANSWER} .code code").startswith("from collections import deque\n\ndef shortest_path(")
    assert "def" in texts(page, f"{ANSWER} .hl-keyword")
    assert len(page.query_selector_all(f"{ANSWER} tbody tr")) == 3
    assert len(page.query_selector_all(f"{ANSWER} math")) == 12
    assert page.query_selector_all(f"{ANSWER} .formula-source, {ANSWER} mtext.unknown") == []
    assert [box.is_checked() for box in page.query_selector_all(f"{ANSWER} li.task input")] == [True, False]
    assert not page.is_visible(f"{ANSWER} .reasoning-body")
    assert re.fullmatch(r"Thought for \d+\.\d s", page.inner_text(f"{ANSWER} .reasoning summary"))
    page.click(f"{ANSWER} .reasoning summary")
    assert "predecessor of each vertex" in page.inner_text(f"{ANSWER} .reasoning-body")
    assert re.search(r"\d+ tokens · \d+(\.\d)? tokens/s", page.inner_text(f"{ANSWER} .figures"))
    request = last_request(page)
    assert request["messages"] == [{"role": "user", "content": "Write a breadth-first search"}]
    assert request["stream"] is True and request["stream_options"] == {"include_usage": True}
    assert not {"temperature", "top_p", "max_tokens"} & set(request)


def test_conversation_continues_with_its_history(open_page):
    page = open_page()
    ask(page, "echo one")
    ask(page, "echo two")
    assert [(m["role"], m["content"]) for m in last_request(page)["messages"]] == [("user", "echo one"), ("assistant", "one"), ("user", "echo two")]


def test_code_is_copied(open_page):
    page = open_page()
    ask(page, "code")
    page.click(f"{ANSWER} .copy-code")
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("from collections import deque\n")


def test_stop_keeps_the_partial_response(open_page):
    page = open_page()
    ask(page, "slow please", wait=False)
    page.wait_for_selector(f"{ANSWER} .reasoning")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")
    deadline = time.time() + 5
    while not last_request(page).get("_gone") and time.time() < deadline:
        time.sleep(0.05)
    assert last_request(page).get("_gone"), "the server was not left"
    assert page.get_attribute(".send", "aria-label") == "Send"


def test_regenerate_makes_a_branch(open_page):
    page = open_page()
    ask(page, "echo x")
    page.click(f"{ANSWER} [aria-label='Regenerate']")
    page.wait_for_selector(f"{ANSWER} .branches:has-text('2 / 2')")
    page.click(f"{ANSWER} [aria-label='Previous version']")
    page.wait_for_selector(f"{ANSWER} .branches:has-text('1 / 2')")
    assert page.is_disabled(f"{ANSWER} [aria-label='Previous version']")


def test_edit_makes_a_branch_with_its_own_responses(open_page):
    page = open_page()
    ask(page, "echo first")
    ask(page, "echo more")
    page.hover(".message.user >> nth=0")
    page.click(".message.user >> nth=0 >> [aria-label='Edit and send again']")
    page.fill(".edit-area", "echo second")
    page.press(".edit-area", "Enter")
    page.wait_for_selector(f"{DONE}")
    assert texts(page, ".message .prose") == ["echo second", "second"]
    assert last_request(page)["messages"] == [{"role": "user", "content": "echo second"}]
    page.hover(".message.user >> nth=0")
    page.click(".message.user [aria-label='Previous version']")
    assert texts(page, ".message .prose") == ["echo first", "first", "echo more", "more"]
    page.click(".message.user >> nth=0 >> [aria-label='Next version']")
    assert texts(page, ".message .prose") == ["echo second", "second"]


def test_edit_can_be_given_up(open_page):
    page = open_page()
    ask(page, "echo first")
    page.press("#message", "ArrowUp")
    page.fill(".edit-area", "other")
    page.press(".edit-area", "Escape")
    assert texts(page, ".message .prose") == ["echo first", "first"]
    assert len(page.server.requests) == 1


def test_continue_extends_the_same_response(open_page):
    page = open_page()
    ask(page, "echo begun")
    page.click(f"{ANSWER} [aria-label='Continue']")
    page.wait_for_selector(f"{ANSWER}:has-text('begun And so it goes on.')")
    request = last_request(page)
    assert request["messages"][-1] == {"role": "assistant", "content": "begun"}
    assert request["continue_final_message"] is True and request["add_generation_prompt"] is False


def test_tool_calls_are_shown(open_page):
    page = open_page()
    ask(page, "use a tool")
    assert page.inner_text(f"{ANSWER} .tool-call summary") == "Calls get_weather"
    assert json.loads(page.inner_text(f"{ANSWER} .tool-call pre")) == {"city": "Paris", "days": 3}
    assert "Waiting for the tool" in page.inner_text(f"{ANSWER} .figures")


# Errors.


def test_refusal_is_retried_after_the_seconds_the_server_names(open_page, serve):
    page = open_page(serve(refusals=1, retry_after="1"))
    ask(page, "refuse echo ok", wait=False)
    page.wait_for_selector(".problem.waiting:has-text('The queue is full'):has-text('Trying again in 1 s')")
    page.wait_for_selector(DONE)
    page.problems.expect("429")
    assert texts(page, f"{ANSWER} .prose") == ["ok"]
    assert page.query_selector(f"{ANSWER} .problem") is None


@pytest.mark.parametrize("retry_after", ["3600", "Fri, 01 Jan 2100 00:00:00 GMT"])
def test_waiting_for_a_retry_can_be_cancelled(open_page, serve, retry_after):
    page = open_page(serve(retry_after=retry_after))
    ask(page, "refuse me", wait=False)
    page.wait_for_selector(".problem.waiting:has-text('Trying again in')")
    page.click(".problem button:has-text('Cancel')")
    page.wait_for_selector(".problem.error:has-text('The queue is full')")
    page.problems.expect("429")
    assert page.get_attribute(".send", "aria-label") == "Send"
    page.click(".problem button:has-text('Try again')")
    page.wait_for_selector(".problem.waiting")
    page.problems.expect("429")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")
    assert len(page.server.requests) == 2
    assert len(page.query_selector_all(".message")) == 2


def test_refusal_without_a_time_is_shown_and_not_retried(open_page, serve):
    page = open_page(serve(retry_after="soon"))
    ask(page, "refuse me")
    page.problems.expect("429")
    assert page.query_selector(".problem.waiting") is None
    assert len(page.server.requests) == 1


@pytest.mark.parametrize("fragment", ["", "#live"])
def test_forbidden_shows_the_servers_message_and_asks_for_no_key(open_page, serve, fragment):
    server = serve()
    server.forbidden = "the page's origin 'http://x' may not use this server <img src=x onerror=alert(1)>"
    page = open_page(server, wait=False, fragment=fragment)
    page.wait_for_selector(f"{'.connection' if fragment else '.banner'}:has-text('may not use this server <img')")
    page.problems.expect("403")
    assert page.query_selector("dialog") is None


@pytest.mark.parametrize("word, message", [("error", "The model's context is full"), ("cut", "The connection was lost before the response was complete")])
def test_failure_in_the_middle_keeps_the_text(open_page, word, message):
    page = open_page()
    ask(page, f"mixed {word}")
    assert message in page.inner_text(".problem")
    assert page.inner_text(f"{ANSWER} .prose").strip() != ""


def test_a_failed_question_is_sent_with_the_next_one(open_page, serve):
    page = open_page(serve(retry_after=""))
    ask(page, "refuse me")
    page.problems.expect("429")
    ask(page, "and after")
    page.problems.expect("429")
    assert last_request(page)["messages"] == [{"role": "user", "content": "refuse me\n\nand after"}]


def test_server_that_is_gone(open_page):
    page = open_page()
    page.route("**/v1/chat/completions", lambda route: route.abort("connectionrefused"))
    ask(page, "hello")
    page.problems.expect("ERR_CONNECTION_REFUSED")
    assert "cannot be reached" in page.inner_text(".problem")


def test_asks_for_the_key(open_page, serve):
    page = open_page(serve(key="secret"), wait=False)
    page.fill("dialog input[type=password]", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog :text('did not accept')")
    page.fill("dialog input[type=password]", "secret")
    page.keyboard.press("Enter")
    page.wait_for_selector(".model-slot *")
    page.problems.expect("401")
    ask(page, "echo in")
    assert texts(page, ".message.assistant .prose") == ["in"]
    assert page.evaluate("[sessionStorage.getItem('weft.key'), localStorage.getItem('weft.key')]") == ["secret", None]


def test_waits_while_the_model_loads(open_page, serve):
    page = open_page(serve(loading=3600.0), wait=False)
    page.wait_for_selector(".banner progress[value]")
    page.fill("#message", "hello")
    assert page.is_disabled(".send")
    page.server.problem = "disk on fire"
    page.wait_for_selector(".banner:has-text('disk on fire')")
    assert page.query_selector(".banner progress") is None
    page.server.loading, page.server.problem = 0, ""
    page.wait_for_selector(".model-slot *")
    assert page.is_hidden(".banner")
    assert page.is_enabled(".send")
    page.problems.expect("503")


# Responses that were interrupted.


def begin_slowly(page, text="slow mixed"):
    ask(page, text, wait=False)
    page.wait_for_selector(f"{ANSWER} .prose:has-text('العربية')")


def test_response_survives_a_reload_and_is_continued(open_page):
    page = open_page()
    begin_slowly(page)
    page.reload()
    page.wait_for_selector(".problem.unfinished:has-text('interrupted')")
    text = page.inner_text(f"{ANSWER} .prose")
    assert "العربية" in text
    page.click(".problem button:has-text('Continue')")
    page.wait_for_selector(f"{DONE} >> nth=0")
    assert "And so it goes on." in page.inner_text(f"{ANSWER} .prose")
    assert page.query_selector(".problem") is None
    request = last_request(page)
    assert request["messages"][-1]["role"] == "assistant" and request["continue_final_message"] is True
    page.reload()
    page.wait_for_selector(f"{ANSWER} .prose:has-text('And so it goes on.')")
    assert page.query_selector(".problem") is None


def test_response_survives_a_closed_tab(open_page):
    page = open_page()
    begin_slowly(page)
    context = page.context
    page.close(run_before_unload=False)
    other = context.new_page()
    other.goto(page.server.url)
    other.click(".conversation a")
    other.wait_for_selector(".problem.unfinished")
    assert "العربية" in other.inner_text(f"{ANSWER} .prose")


def test_response_is_stored_from_its_first_token(open_page):
    """A crash sends no event, so the page must not wait for one."""
    page = open_page()
    begin_slowly(page)
    stored = """new Promise((resolve) => { const opening = indexedDB.open('weft'); opening.onsuccess = () => {
      const all = opening.result.transaction('bodies').objectStore('bodies').getAll();
      all.onsuccess = () => { opening.result.close(); resolve(all.result.flatMap((c) => Object.values(c.messages)).some((m) => m.unfinished && m.content)); }; }; })"""
    wait_until(page, stored)
    assert page.query_selector(f"{ANSWER}.growing") is not None


def test_interrupted_response_without_a_token_is_tried_again_in_its_place(open_page, serve):
    page = open_page(serve(retry_after="3600", refusals=1))
    ask(page, "refuse echo again", wait=False)
    page.wait_for_selector(".problem.waiting")
    page.problems.expect("429")
    page.reload()
    page.wait_for_selector(".problem.unfinished")
    assert page.query_selector(".problem button:has-text('Continue')") is None
    page.click(".problem button:has-text('Try again')")
    page.wait_for_selector(DONE)
    assert texts(page, ".message .prose") == ["refuse echo again", "again"]
    assert page.query_selector(".branches") is None


def test_another_tab_follows_a_response(open_page):
    page = open_page()
    begin_slowly(page)
    other = page.context.new_page()
    other.goto(page.url)
    other.wait_for_selector(".problem.waiting:has-text('Another tab is generating')")
    page.bring_to_front()
    page.click(".send")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")
    other.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")
    assert other.query_selector(".problem") is None


def test_lost_connection_offers_to_continue(open_page):
    page = open_page()
    ask(page, "mixed cut")
    page.click(".problem button:has-text('Continue')")
    page.wait_for_selector(f"{ANSWER}:has-text('And so it goes on.')")
    assert page.query_selector(".problem") is None


# The context.


def ring(page):
    return page.get_attribute(".context", "aria-label")


def test_ring_counts_stopped_responses(open_page):
    page = open_page()
    ask(page, "echo " + "words " * 400)
    assert ring(page).startswith("The conversation takes 1,")
    begin_slowly(page)
    page.click(".send")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")
    # The server counts both turns; an estimate would say "about".
    wait_until(page, "/takes 1,2[0-9][0-9] of 8,192/.test(document.querySelector('.context').getAttribute('aria-label'))")
    assert "tokens" in page.inner_text(f"{ANSWER} .figures")


def test_ring_warns_before_the_context_is_full(open_page, serve):
    page = open_page(serve(n_ctx=400))
    ask(page, "echo " + "word " * 140)
    assert page.is_visible(".context-warning") and "% full" in page.inner_text(".context-warning")
    page.fill("#message", "more words " * 80)
    wait_until(page, "document.querySelector('.context-warning').textContent.startsWith('With this message')")


def test_full_context_offers_to_drop_the_oldest_turns(open_page, serve):
    page = open_page(serve(n_ctx=400))
    page.click("[aria-label^=Parameters]")
    page.fill("[aria-label='System prompt']", "Be brief.")
    page.keyboard.press("Escape")
    for i in range(3):
        ask(page, f"echo {i} " + "word " * 40)
    ask(page, "echo " + "last " * 100)
    page.problems.expect("400")
    assert "maximum context length is 400 tokens" in page.inner_text(".problem")
    assert page.query_selector(".problem button:has-text('Try again')") is None
    page.click(".problem button:has-text('Drop the oldest turns')")
    page.wait_for_selector(".problem", state="detached")
    page.wait_for_selector(DONE)
    roles = [(m["role"], m["content"][:6]) for m in last_request(page)["messages"]]
    assert roles[0] == ("system", "Be bri") and roles[1][0] == "user" and roles[-1] == ("user", "echo l")
    assert len(page.query_selector_all(".message")) == 8, "messages remain stored and shown"
    assert "leave out" in page.inner_text(".context-start")
    page.reload()
    page.wait_for_selector(".context-start")
    ask(page, "echo next")
    assert last_request(page)["messages"][1]["content"] != "echo 0 " + "word " * 40
    page.problems[:] = [text for text in page.problems if "400" not in text]
    page.click(".context-start button")
    page.wait_for_selector(".context-start", state="detached")


def test_single_turn_that_does_not_fit_says_what_to_do(open_page, serve):
    page = open_page(serve(n_ctx=100))
    ask(page, "word " * 200)
    page.click(".problem button:has-text('Drop the oldest turns')")
    page.wait_for_selector(".problem:has-text('Only this turn is left')")
    page.problems.expect("400")
    assert len(page.server.requests) == 1


def test_response_that_fills_the_context_is_continued_with_fewer_turns(open_page, serve):
    page = open_page(serve(n_ctx=200))
    ask(page, "echo " + "word " * 40)
    ask(page, "long 100")
    page.reload()
    page.click(".problem:has-text('context is full') button:has-text('Drop the oldest turns')")
    page.wait_for_selector(f"{ANSWER}:has-text('And so it goes on.'), .problem")
    assert last_request(page)["messages"][0]["content"] == "long 100"


# Conversations.


def test_conversations_are_kept_searched_renamed_and_deleted(open_page):
    page = open_page()
    for text in ["echo apples and pears", "echo looms and threads"]:
        page.keyboard.press("Control+Shift+O")
        ask(page, text)
    page.wait_for_selector(".conversation >> nth=1")
    page.reload()
    page.wait_for_selector(".conversation >> nth=1")
    assert texts(page, ".message .prose") == ["echo looms and threads", "looms and threads"]
    page.keyboard.press("Control+k")
    page.keyboard.type("pears")
    wait_until(page, "document.querySelectorAll('.conversation').length === 1")
    page.click(".conversation a")
    page.wait_for_selector(".message .prose:has-text('apples and pears') >> nth=1")
    assert texts(page, ".message .prose") == ["echo apples and pears", "apples and pears"]
    page.fill(".search-field", "")
    page.wait_for_selector(".conversation >> nth=1")
    page.hover(".conversation.current")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Rename')")
    page.fill(".rename", "Fruit")
    page.keyboard.press("Enter")
    page.wait_for_selector(".conversation.current:has-text('Fruit')")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Delete')")
    wait_until(page, "document.querySelectorAll('.conversation').length === 1")
    assert page.is_visible(".empty")


def test_a_response_continues_while_another_conversation_is_shown(open_page):
    page = open_page()
    ask(page, "endless mixed", wait=False)
    page.wait_for_selector(f"{ANSWER} .prose:has-text('العربية')")
    page.keyboard.press("Control+Shift+O")
    ask(page, "echo beside")
    assert texts(page, ".message .prose") == ["echo beside", "beside"]
    page.click(".conversation:has-text('endless mixed') a")
    assert page.get_attribute(".send", "aria-label") == "Stop"
    page.click(".send")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")


def test_a_conversation_that_is_deleted_while_it_grows_stays_away(open_page):
    page = open_page()
    ask(page, "endless mixed", wait=False)
    page.wait_for_selector(f"{ANSWER} .prose:has-text('العربية')")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Delete')")
    page.wait_for_selector(".empty")
    deadline = time.time() + 10
    while not last_request(page).get("_gone") and time.time() < deadline:
        time.sleep(0.05)
    assert last_request(page).get("_gone"), "the server was not left"
    page.reload()
    page.wait_for_selector(".conversations .note")


def test_export_and_import(open_page, tmp_path):
    page = open_page()
    ask(page, "echo exported")
    page.click("[aria-label='Import and export']")
    with page.expect_download() as download:
        page.click("[role=menuitem]:has-text('Export all')")
    path = tmp_path / "all.json"
    download.value.save_as(path)
    file = json.loads(path.read_text())
    assert file["format"] == "weft-conversations" and len(file["conversations"]) == 1
    other = open_page(page.server)
    other.set_input_files(".sidebar input[type=file]", path)
    other.click(".conversation a")
    other.wait_for_selector(".message .prose >> nth=1")
    assert texts(other, ".message .prose") == ["echo exported", "exported"]
    other.click(".conversation.current button")
    with other.expect_download() as download:
        other.click("[role=menuitem]:has-text('Export as Markdown')")
    download.value.save_as(tmp_path / "one.md")
    text = (tmp_path / "one.md").read_text()
    assert text.startswith("# echo exported\n") and "\n## You\n\necho exported\n" in text
    bad = tmp_path / "bad.json"
    bad.write_text('{"format": "weft-conversations", "conversations": [{"messages": {"a": {"role": "system"}}}]}')
    other.set_input_files(".sidebar input[type=file]", bad)
    other.wait_for_selector(".toast:has-text('was not imported')")


def test_deleting_a_conversation_can_be_undone(open_page, tmp_path):
    page = open_page()
    ask(page, "echo kept")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Delete')")
    page.wait_for_selector(".conversation", state="detached")
    page.click(".toast button:has-text('Undo')")
    page.wait_for_selector(".conversation:has-text('echo kept')")
    assert texts(page, ".message .prose") == ["echo kept", "kept"]


def test_messages_are_deleted_and_come_back(open_page):
    page = open_page()
    for text in ("echo one", "echo two", "echo three"):
        ask(page, text)
    page.hover(".message.user >> nth=1")
    page.click(".message.user >> nth=1 >> [aria-label^='Delete the message']")
    assert texts(page, ".message .prose") == ["echo one", "one", "echo three", "three"]
    page.reload()
    page.wait_for_selector(".message.last .prose:has-text('three')")
    ask(page, "echo four")
    assert [m["content"] for m in last_request(page)["messages"]] == ["echo one", "one", "echo three", "three", "echo four"]
    page.hover(".message.user >> nth=0")
    page.click(".message.user >> nth=0 >> [aria-label^='Delete the message']")
    page.click(".toast button:has-text('Undo')")
    assert texts(page, ".message .prose") == ["echo one", "one", "echo three", "three", "echo four", "four"]


def test_media_go_with_their_message_and_come_back(open_page, serve):
    page = open_page(serve(**MEDIA))
    n_stored = """new Promise((resolve) => { const opening = indexedDB.open('weft.media'); opening.onsuccess = () => {
      const count = opening.result.transaction('urls').objectStore('urls').count(); count.onsuccess = () => { opening.result.close(); resolve(count.result); }; }; })"""
    attach(page, ("dot.png", "image/png", PNG))
    page.wait_for_selector(".composer .chip")
    ask(page, "echo seen")
    wait_until(page, f"{n_stored}.then((n) => n === 1)")
    page.hover(".message.user")
    page.click("[aria-label^='Delete the message']")
    wait_until(page, f"{n_stored}.then((n) => n === 0)")
    page.click(".toast button:has-text('Undo')")
    page.wait_for_selector(".media img")
    wait_until(page, f"{n_stored}.then((n) => n === 1)")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Delete')")
    wait_until(page, f"{n_stored}.then((n) => n === 0)")
    page.click(".toast button:has-text('Undo')")
    page.wait_for_selector(".media img")


def test_deleting_a_version_shows_the_other_one_with_its_successors(open_page):
    page = open_page()
    ask(page, "echo x")
    page.click(f"{ANSWER} [aria-label='Regenerate']")
    page.wait_for_selector(f"{ANSWER} .branches:has-text('2 / 2')")
    ask(page, "echo y")
    page.hover(".message.assistant >> nth=0")
    page.click(".message.assistant >> nth=0 >> [aria-label='Delete the response']")
    assert texts(page, ".message .prose") == ["echo x", "x", "echo y", "y"]
    assert page.query_selector(".branches") is None


def test_title_is_in_the_header(open_page):
    page = open_page()
    assert texts(page, "h1") == ["What are you working on?"] or page.is_visible(".empty h1")
    ask(page, "echo <img src=x onerror=alert(1)>")
    assert page.inner_text(".topbar h1") == "echo <img src=x onerror=alert(1)>"
    assert len([node for node in page.query_selector_all("h1") if node.is_visible()]) == 1


def test_share_menu_exports_the_conversation(open_page):
    page = open_page()
    ask(page, "echo shared")
    page.click("[aria-label='Share or export']")
    page.click("[role=menuitem]:has-text('Copy as Markdown')")
    page.wait_for_selector(".toast")
    assert page.evaluate("navigator.clipboard.readText()").startswith("# echo shared\n")


def test_import_restores_settings_and_drops_invalid_ones(open_page, tmp_path):
    page = open_page()
    image = "data:image/png;base64,iVBORw0KGgo="
    settings = {"temperature": 0.4, "top_p": 7, "seed": 5, "stop": ["END", 3], "reasoning_effort": "low", "schema": "{}", "onclick": "alert(1)"}
    conversation = {"title": "<img src=x onerror=alert(1)>", "system": "Be brief.", "settings": settings, "chosen": {"root": "a", "a": "b", "__proto__": "a"}, "messages": {
        "a": {"role": "user", "content": "<script>alert(1)</script>", "parent": None, "files": [
            {"name": "<svg onload=alert(1)>.png", "kind": "image", "format": "png", "url": image}, {"name": "notes\"onerror=alert(1).txt", "text": "x"}]},
        "b": {"role": "assistant", "content": "![x](javascript:alert(1)) <b onclick=alert(1)>b</b>", "parent": "a", "unfinished": True}}}
    path = tmp_path / "all.json"
    path.write_text(json.dumps({"format": "weft-conversations", "version": 1, "conversations": [conversation]}))
    page.set_input_files(".sidebar input[type=file]", path)
    page.click(".conversation a")
    page.wait_for_selector(".message .media img")
    assert page.inner_text(".badge") == "6"
    assert page.query_selector_all(".thread script, .thread svg[onload], .thread [onerror], .thread [onclick]") == []
    assert page.get_attribute(".media img", "src") == image
    page.click(".problem button:has-text('Try again')")
    page.wait_for_selector(DONE)
    request = last_request(page)
    assert (request["temperature"], request["seed"], request["stop"], request["reasoning_effort"]) == (0.4, 5, ["END"], "low")
    assert "top_p" not in request and "onclick" not in request
    assert request["messages"][1]["content"][0] == {"type": "image_url", "image_url": {"url": image}}
    for url in ("javascript:alert(1)", "data:text/html;base64,PGI+", "data:image/svg+xml;base64,PHN2Zz4=", "https://example.com/x.png", "data:image/png;base64,AA\" onerror=\"x"):
        conversation["messages"]["a"]["files"][0]["url"] = url
        path.write_text(json.dumps({"format": "weft-conversations", "version": 1, "conversations": [conversation]}))
        page.set_input_files(".sidebar input[type=file]", path)
        page.wait_for_selector(".toast:has-text('neither an image nor audio')")
        page.click(".toast [aria-label=Dismiss]")
    assert len(page.query_selector_all(".conversation")) == 1


# What goes with a message.


PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
WAV = b"RIFF" + (44).to_bytes(4, "little") + b"WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0\x10\0data\x08\0\0\0" + bytes(8)
MEDIA = {"modalities": {"vision": True, "audio": True}}


def attach(page, *files):
    page.set_input_files(".composer input[type=file]", [{"name": name, "mimeType": kind, "buffer": data} for name, kind, data in files])


def test_files_are_attached_as_text_and_others_refused(open_page, tmp_path):
    page = open_page()
    wait_until(page, "document.querySelector('.composer [title=\"Attach files (text)\"]')")
    (tmp_path / "notes.txt").write_text("threads ``` and looms\n")
    (tmp_path / "picture.png").write_bytes(PNG)
    (tmp_path / "binary.dat").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "huge.txt").write_text("x" * 600_000)
    page.set_input_files(".composer input[type=file]", [tmp_path / name for name in ("notes.txt", "picture.png", "binary.dat", "huge.txt")])
    page.wait_for_selector(".composer .chip:has-text('notes.txt')")
    note = page.inner_text(".toast")
    assert "picture.png: this model cannot read images" in note and "--mmproj" in note and "binary.dat is not a text file" in note and "huge.txt has 586 KB" in note
    ask(page, "echo look")
    content = last_request(page)["messages"][0]["content"]
    assert content == "File: notes.txt\n````\nthreads ``` and looms\n````\n\necho look"
    assert texts(page, ".message.user .chip") == ["notes.txt"]


def test_file_of_half_a_megabyte_of_backticks_is_sent(open_page):
    page = open_page(server=None)
    page.server.n_ctx = 10**6
    attach(page, ("ticks.md", "text/markdown", b"` " * 256_000))
    page.wait_for_selector(".composer .chip")
    ask(page, "echo fine")
    assert texts(page, f"{ANSWER} .prose") == ["fine"]
    assert last_request(page)["messages"][0]["content"].startswith("File: ticks.md\n```\n` ` ")


def test_images_and_audio_are_attached_sent_and_kept(open_page, serve):
    page = open_page(serve(**MEDIA))
    attach(page, ("<b>dot</b>.png", "image/png", PNG), ("tone.wav", "audio/wav", WAV), ("vector.svg", "image/svg+xml", b"<svg onload='alert(1)'/>"))
    page.wait_for_selector(".composer .chip >> nth=2")
    assert page.query_selector(".composer .chip b") is None
    assert page.get_attribute(".composer .chip img", "src").startswith("data:image/png;base64,")
    ask(page, "echo seen")
    parts = last_request(page)["messages"][0]["content"]
    assert [part["type"] for part in parts] == ["image_url", "input_audio", "text"]
    assert base64.b64decode(parts[0]["image_url"]["url"].split(",")[1]) == PNG
    assert parts[1]["input_audio"] == {"data": base64.b64encode(WAV).decode(), "format": "wav"}
    assert parts[2]["text"].startswith("File: vector.svg")
    page.reload()
    page.wait_for_selector(".message.user .media img")
    assert page.evaluate("document.querySelector('.media img').naturalWidth") == 1
    ask(page, "echo again")
    assert last_request(page)["messages"][0]["content"] == parts


def test_images_are_pasted_dropped_and_removed(open_page, serve):
    page = open_page(serve(**MEDIA))
    make = """const data = new DataTransfer();
      data.items.add(new File([Uint8Array.from(atob(png), (c) => c.charCodeAt(0))], 'image.png', {type: 'image/png'}));"""
    png = base64.b64encode(PNG).decode()
    page.evaluate(f"(png) => {{ {make} document.querySelector('#message').dispatchEvent(new ClipboardEvent('paste', {{clipboardData: data, bubbles: true, cancelable: true}})); }}", png)
    page.wait_for_selector(".composer .chip img")
    page.evaluate(f"(png) => {{ {make} document.querySelector('.chat').dispatchEvent(new DragEvent('drop', {{dataTransfer: data, bubbles: true, cancelable: true}})); }}", png)
    page.wait_for_selector(".composer .chip >> nth=1")
    page.click(".composer .chip >> nth=1 >> [aria-label^=Remove]")
    assert len(page.query_selector_all(".composer .chip")) == 1
    # Office programs add an image to copied cells.
    page.evaluate(f"(png) => {{ {make} data.setData('text/plain', 'cells'); document.querySelector('#message').dispatchEvent(new ClipboardEvent('paste', {{clipboardData: data, bubbles: true, cancelable: true}})); }}", png)
    page.click(".composer .chip >> [aria-label^=Remove]")
    assert page.query_selector(".composer .chip") is None


def test_images_go_when_the_model_takes_none(open_page, serve):
    server = serve(**MEDIA)
    page = open_page(server)
    attach(page, ("dot.png", "image/png", PNG), ("notes.txt", "text/plain", b"x"))
    page.wait_for_selector(".composer .chip >> nth=1")
    server.modalities = {"vision": False, "audio": False}
    page.select_option(".model-picker", "qwen3-4b-q4_k_m")
    page.wait_for_selector(".toast:has-text('dot.png: this model cannot read images')")
    assert texts(page, ".composer .chip bdi") == ["notes.txt"]


def test_images_are_converted_and_scaled_for_the_server(open_page, serve):
    page = open_page(serve(**MEDIA))
    sizes = page.evaluate("""async () => {
      const {read_media} = await import('/ui/chat/media.js');
      const canvas = document.createElement('canvas');
      canvas.width = 4000; canvas.height = 1000;
      canvas.getContext('2d').fillRect(0, 0, 4000, 1000);
      const made = [];
      for (const type of ['image/webp', 'image/jpeg', 'image/png']) {
        const blob = await new Promise((resolve) => canvas.toBlob(resolve, type));
        const {format, url} = await read_media(new File([blob], 'x', {type}), 'image');
        const image = await createImageBitmap(await (async () => { const bytes = atob(url.split(',')[1]); return new Blob([Uint8Array.from(bytes, (c) => c.charCodeAt(0))]); })());
        made.push([type, format, image.width, image.height]);
      }
      return made;
    }""")
    assert sizes == [["image/webp", "png", 2048, 512], ["image/jpeg", "jpeg", 2048, 512], ["image/png", "png", 2048, 512]]


def test_full_storage_is_reported_and_the_image_is_sent(open_page, serve):
    page = open_page(serve(**MEDIA))
    page.evaluate("""() => { const put = IDBObjectStore.prototype.put;
      IDBObjectStore.prototype.put = function (value) { if (value.url) throw new DOMException('full', 'QuotaExceededError'); return put.call(this, value); }; }""")
    attach(page, ("dot.png", "image/png", PNG))
    page.wait_for_selector(".composer .chip")
    ask(page, "echo seen")
    page.wait_for_selector(".toast:has-text('no room for these images')")
    assert last_request(page)["messages"][0]["content"][0]["type"] == "image_url"


@pytest.mark.parametrize("name, kind, message", [
    ("labelled.jpg", "image/jpeg", "is not an image that this browser can read; convert it to PNG or JPEG"),
    ("clip.mp4", "video/mp4", "is a video"), ("photo.heic", "", "is not an image that this browser can read; convert it"),
    ("broken.png", "image/png", "is not an image that this browser can read"), ("voice.m4a", "audio/mp4", "is not audio that this browser can read")])
def test_media_that_cannot_be_read_say_what_to_do(open_page, serve, name, kind, message):
    page = open_page(serve(**MEDIA))
    attach(page, (name, kind, b"not what it says"))
    page.wait_for_selector(f".toast:has-text('{name} {message}')")
    assert page.query_selector(".composer .chip") is None


def test_image_that_is_no_longer_stored_is_named(open_page, serve):
    page = open_page(serve(**MEDIA))
    attach(page, ("dot.png", "image/png", PNG))
    page.wait_for_selector(".composer .chip")
    ask(page, "echo seen")
    page.evaluate("""new Promise((resolve) => { const opening = indexedDB.open('weft.media');
      opening.onsuccess = () => { const done = opening.result.transaction('urls', 'readwrite').objectStore('urls').clear(); done.onsuccess = () => { opening.result.close(); resolve(); }; }; })""")
    page.reload()
    page.wait_for_selector(".message.user :text('dot.png is no longer stored')")
    ask(page, "echo next")
    assert "dot.png is no longer" in page.inner_text(".problem")


def test_parameters_system_prompt_and_schema_are_sent(open_page):
    page = open_page()
    page.click("[aria-label^=Parameters]")
    assert page.get_attribute("#p-temperature", "placeholder") == "0.8"
    page.fill("[aria-label='System prompt']", "Be brief.")
    page.fill("#p-temperature", "0.3")
    page.fill("#p-max_tokens", "77")
    page.fill("#p-stop", "END\nSTOP")
    page.select_option("#p-effort", "low")
    page.fill("#p-schema", "{nonsense")
    assert "no JSON" in page.inner_text("#p-schema-hint")
    page.fill("#p-schema", '{"type": "object"}')
    page.keyboard.press("Escape")
    assert page.inner_text(".badge") == "6"
    ask(page, "anything")
    request = last_request(page)
    assert request["messages"][0] == {"role": "system", "content": "Be brief."}
    assert (request["temperature"], request["max_tokens"], request["stop"], request["reasoning_effort"]) == (0.3, 77, ["END", "STOP"], "low")
    assert request["response_format"] == {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": {"type": "object"}}}


def test_parameter_out_of_bounds_is_not_taken(open_page):
    page = open_page()
    page.click("[aria-label^=Parameters]")
    page.fill("#p-top_p", "7")
    page.press("#p-top_p", "Tab")
    page.keyboard.press("Escape")
    ask(page, "echo x")
    assert "top_p" not in last_request(page)


def test_model_is_chosen_and_remembered(open_page):
    page = open_page()
    page.select_option(".model-picker", "qwen3-4b-q4_k_m")
    ask(page, "echo x")
    assert last_request(page)["model"] == "qwen3-4b-q4_k_m"
    page.reload()
    page.wait_for_selector(".model-picker")
    assert page.input_value(".model-picker") == "qwen3-4b-q4_k_m"


# Safety.


def test_text_never_becomes_markup(open_page):
    page = open_page()
    ask(page, "mixed")
    assert page.query_selector_all(f"{ANSWER} script, {ANSWER} img, {ANSWER} .prose [onerror]") == []
    assert "<script>alert(1)</script>" in page.inner_text(f"{ANSWER} .prose")
    links = page.eval_on_selector_all(f"{ANSWER} a", "nodes => nodes.map((node) => [node.getAttribute('href'), node.rel])")
    assert links == [["https://example.com/x.png", "noopener noreferrer nofollow"]]


def test_policy_forbids_making_markup_of_text(open_page):
    page = open_page()
    blocked = page.evaluate("() => { try { document.body.innerHTML = '<b>x</b>'; return false; } catch (error) { return error instanceof TypeError; } }")
    assert blocked
    page.problems.expect("TrustedHTML")


def test_nothing_comes_from_elsewhere(open_page, serve):
    server = serve()
    page = open_page(server)
    urls = page.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(urls) > 20 and all(url.startswith(server.url) for url in urls)


# People differ.


def test_keyboard_alone(open_page):
    page = open_page()
    page.keyboard.type("echo typed")
    page.keyboard.press("Enter")
    page.wait_for_selector(DONE)
    assert page.evaluate("document.activeElement.id") == "message"
    page.keyboard.press("Control+k")
    assert page.evaluate("document.activeElement.className") == "search-field"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.innerText") == "Copy as Markdown"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-haspopup')") == "menu"
    page.keyboard.press("Control+Shift+O")
    page.wait_for_selector(".empty")
    assert page.evaluate("document.activeElement.id") == "message"


def test_dark_light_and_system(open_page):
    page = open_page(color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.click("[aria-label='Colours: System']")
    light = page.evaluate(colour)
    assert light != dark
    page.reload()
    page.wait_for_selector(".model-slot *")
    assert page.evaluate(colour) == light
    page.click("[aria-label='Colours: Light']")
    assert page.evaluate(colour) == dark


def test_phone(open_page):
    page = open_page(viewport={"width": 390, "height": 780}, has_touch=True)
    assert page.evaluate("document.querySelector('.sidebar').inert")
    page.fill("#message", "code")
    page.press("#message", "Enter")  # Fingers have no Shift: Enter begins a line.
    assert page.input_value("#message") == "code\n"
    page.click(".send")
    page.wait_for_selector(DONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.querySelectorAll('.thread *')].filter((n) => n.getBoundingClientRect().right > 391 && !n.closest('pre, .table-scroll, .formula, math')).length") == 0
    page.click("[aria-label=Conversations].icon-button")
    page.click(".sidebar .new-chat")
    assert page.is_visible(".empty")
    wait_until(page, "document.querySelector('.sidebar').inert")


def test_right_to_left_messages_have_their_direction(open_page):
    page = open_page()
    ask(page, "mixed")
    directions = page.eval_on_selector_all(f"{ANSWER} .prose > p", "nodes => nodes.map((node) => getComputedStyle(node).direction)")
    assert directions == ["rtl", "ltr", "rtl", "ltr"]


def test_right_to_left_lists_quotes_and_tables_begin_at_the_right(open_page):
    page = open_page()
    ask(page, "wide")
    assert page.eval_on_selector_all(f"{ANSWER} li", "nodes => nodes.map((node) => node.dir)") == ["rtl", "rtl", "rtl", "rtl", "rtl", "ltr", "rtl"]
    assert page.eval_on_selector_all(f"{ANSWER} .table-scroll", "nodes => nodes.map((node) => node.dir)") == ["ltr", "rtl"]
    assert page.get_attribute(f"{ANSWER} blockquote", "dir") == "rtl"
    # The margin on the side where an item begins has room for its bullet or number.
    margins = page.eval_on_selector_all(f"{ANSWER} li:not(.task)", "nodes => nodes.map((node) => { const s = getComputedStyle(node); return parseFloat(node.dir === 'rtl' ? s.marginRight : s.marginLeft); })")
    assert all(margin > 20 for margin in margins)


@pytest.mark.parametrize("width", [390, 1280])
def test_wide_tables_scroll_in_their_frame_with_a_hint(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    ask(page, "wide")
    frame = f"{ANSWER} .table-scroll >> nth=0"
    wait_until(page, "document.querySelector('.message.last .table-scroll').style.getPropertyValue('--more-after') === '1'")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.eval_on_selector(frame, "node => { node.scrollLeft = 10000; }")
    wait_until(page, "document.querySelector('.message.last .table-scroll').style.getPropertyValue('--more-after') === '0'")
    assert page.eval_on_selector(frame, "node => node.style.getPropertyValue('--more-before')") == "1"


def test_code_wraps_on_demand(open_page):
    page = open_page(viewport={"width": 390, "height": 780})
    ask(page, "wide")
    overflows = f"document.querySelector('{ANSWER} .code pre').scrollWidth > document.querySelector('{ANSWER} .code pre').clientWidth"
    assert page.evaluate(overflows)
    page.click(f"{ANSWER} .wrap-code")
    assert not page.evaluate(overflows) and page.get_attribute(f"{ANSWER} .wrap-code", "aria-pressed") == "true"
    height = page.eval_on_selector(f"{ANSWER} .code pre", "node => parseFloat(getComputedStyle(node).lineHeight) / parseFloat(getComputedStyle(node).fontSize)")
    assert 1.3 < height < 1.55
    page.click(f"{ANSWER} .wrap-code")
    assert page.evaluate(overflows)


def test_toast_covers_nothing(open_page):
    page = open_page()
    ask(page, "code")
    attach(page, ("x.dat", "", b"\xff\x00"))
    page.wait_for_selector(".toast")
    box = page.query_selector(".toast").bounding_box()
    for selector in (".scroller", ".composer", ".sidebar"):
        other = page.query_selector(selector).bounding_box()
        assert other["y"] + other["height"] <= box["y"] + 1 or other["y"] >= box["y"] + box["height"] - 1 or other["x"] + other["width"] <= box["x"] + 1, selector


def test_fingers_have_room(open_page, serve):
    page = open_page(serve(**MEDIA), viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True)
    attach(page, ("dot.png", "image/png", PNG))
    page.wait_for_selector(".composer .chip")
    small = """[...document.querySelectorAll('button, select, input:not([hidden]):not([type=checkbox]), textarea, summary, .sidebar a')]
      .filter((n) => n.checkVisibility({visibilityProperty: true}) && !n.closest('.prose') && n.type !== 'file')
      .map((n) => [n.getBoundingClientRect(), n]).filter(([b]) => b.width > 0 && (b.width < 44 || b.height < 44)).map(([b, n]) => `${n.outerHTML.slice(0, 90)} ${b.width}x${b.height}`)"""
    assert page.evaluate(small) == []
    page.fill("#message", "code")
    page.click(".send")
    page.wait_for_selector(DONE)
    assert page.evaluate(small) == []
    page.click("[aria-label=Conversations].icon-button")
    page.wait_for_selector(".conversation .icon-button")
    assert page.evaluate(small) == []
    page.click(".scrim", position={"x": 360, "y": 400})
    page.click("[aria-label^=Parameters]")
    assert page.evaluate(small) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", ["empty", "conversation", "problem", "waiting", "dropped", "parameters", "live"])
def test_accessibility_rules_hold(open_page, serve, scheme, state):
    axe_playwright_python = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = open_page(serve(n_ctx=700, **MEDIA), color_scheme=scheme, bypass_csp=True, reduced_motion="reduce", fragment="#live" if state == "live" else "", wait=state != "live")
    if state in ("conversation", "parameters"):
        attach(page, ("dot.png", "image/png", PNG), ("tone.wav", "audio/wav", WAV))
        page.wait_for_selector(".composer .chip >> nth=1")
        ask(page, "wide")
        ask(page, "wide again")
    if state == "problem":
        begin_slowly(page)
        page.reload()
        page.wait_for_selector(".problem.unfinished")
    if state == "waiting":
        page.server.retry_after = "3600"
        ask(page, "refuse me", wait=False)
        page.wait_for_selector(".problem.waiting")
        page.problems.expect("429")
    if state == "dropped":  # With a toast, a warning of the context and the line where it begins.
        for i in range(3):
            ask(page, f"echo {i} " + "word " * 100)
        page.click(".problem button:has-text('Drop the oldest turns')")
        page.problems.clear()  # Whether the prompt or the response fills the context is of no matter here.
        page.wait_for_selector(".context-start")
        attach(page, ("x.dat", "", b"\xff\x00"))
        page.wait_for_selector(".toast")
    if state == "parameters":
        page.click("[aria-label^=Parameters]")
    if state == "live":
        page.wait_for_selector(".cells")
    found = axe_playwright_python.Axe().run(page).response["violations"]
    assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]]) for rule in found] == []


def test_every_control_has_a_name(open_page):
    page = open_page()
    ask(page, "code")
    for action in (None, "[aria-label^=Parameters]"):
        if action:
            page.click(action)
        nameless = page.eval_on_selector_all(
            "button, a[href], input:not([hidden]), select, textarea",
            "nodes => nodes.filter((n) => !n.hidden && !(n.getAttribute('aria-label') || n.innerText?.trim() || n.labels?.length)).map((n) => n.outerHTML.slice(0, 80))")
        assert nameless == []


def test_screen_readers_hear_beginning_and_end_only(open_page):
    page = open_page()
    page.evaluate("""() => { window.said = []; new MutationObserver(() => said.push(document.getElementById('status').textContent))
                     .observe(document.getElementById('status'), {childList: true, characterData: true, subtree: true}); }""")
    ask(page, "code")
    wait_until(page, "said.length >= 2")
    assert page.evaluate("said") == ["Generating a response", "The response is complete"]
    assert page.get_attribute(".thread", "aria-live") == "off"


# Large.


def test_long_conversations_open_and_stay_whole(open_page, serve):
    """100,000 tokens: everything is drawn in the end, and the newest message first."""
    page = open_page(serve(n_ctx=10**6))
    page.evaluate("""async () => {
      const {Store} = await import('/ui/chat/store.js');
      const {new_conversation, add_message} = await import('/ui/chat/conversation.js');
      const store = await Store.open();
      const conversation = new_conversation();
      let parent = null;
      for (let i = 0; i < 200; ++i) {
        parent = add_message(conversation, parent, i % 2 ? 'assistant' : 'user',
                             {content: `Message ${i}\\n\\n` + 'Some **bold** words and `code` with $x^2$ in them. '.repeat(40)}).id;
      }
      await store.save(conversation);
    }""")
    page.reload()
    page.wait_for_selector(".conversation")
    page.click(".conversation a")
    page.wait_for_selector(".message.last .prose:has-text('Message 199')")
    wait_until(page, "[...document.querySelectorAll('.message .prose')].every((node) => node.childNodes.length > 0)")
    assert len(page.query_selector_all(".message")) == 200
    ask(page, "echo still here")
    assert texts(page, f"{ANSWER} .prose") == ["still here"]


def test_long_responses_stream_to_the_same_page(open_page):
    page = open_page()
    ask(page, "long 400")
    assert len(page.query_selector_all(f"{ANSWER} ol > li")) == 400


# The live page.


def test_live_page(open_page):
    page = open_page(fragment="#live")
    page.wait_for_selector(".connection.good")
    page.wait_for_selector(".cells")
    assert re.fullmatch(r"[\d,]+ of 8,192 cells hold tokens; [\d,]+ are shared\. A page has 64 cells\.", page.inner_text(".cache .panel-head .note"))
    assert page.evaluate("document.querySelector('.cells').getAttribute('aria-label')").find(" of 8,192 cells ") > 0
    colours = page.evaluate("""() => { const c = document.querySelector('.cells'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                               const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; }""")
    assert colours > 6
    assert len(page.query_selector_all(".streams tbody tr")) >= 1
    assert texts(page, ".latency tbody th") == ["First token", "Between tokens", "Queue", "Step"]
    assert page.get_attribute(".back", "href") == "#"
    page.hover(".cells", position={"x": 2, "y": 2})
    assert page.inner_text(".cells-frame .tip").startswith("Cell 0 shared by sequences")
    page.click(".cache button:has-text('Table')")
    page.wait_for_selector(".cache tbody tr")
    assert page.is_hidden(".cells")
    wait_until(page, "document.querySelector('.tile-value').textContent !== '0'")


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_charts_have_the_colours_of_the_theme(open_page, motion):
    page = open_page(fragment="#live", color_scheme="dark", reduced_motion=motion)
    page.wait_for_selector(".cells")
    colours = page.evaluate("import('/ui/live/dyes.js').then(({theme_colours}) => theme_colours())")
    assert colours["dark"] is True and colours["warp"] == "rgb(134, 180, 224)"


def test_live_page_says_when_it_is_cut_off_and_comes_back(open_page, serve):
    page = open_page(fragment="#live")
    page.wait_for_selector(".connection.good")
    page.context.set_offline(True)
    page.evaluate("location.hash = ''")
    page.evaluate("location.hash = 'live'")
    page.wait_for_selector(".connection:has-text('Connection lost.')")
    page.context.set_offline(False)
    page.wait_for_selector(".connection.good", timeout=15000)
    page.problems.expect("ERR_INTERNET_DISCONNECTED")


@pytest.mark.parametrize("n_pages", [1, 40, 3000, 16384])
def test_caches_of_every_size_are_drawn(open_page, serve, n_pages):
    page = open_page(serve(n_pages=max(n_pages, 8)), fragment="#live")
    page.wait_for_selector(".connection.good")
    box = page.wait_for_selector(".cells").bounding_box()
    assert 5 < box["height"] <= 421 and box["width"] > 300
