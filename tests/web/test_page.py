"""The page in a real browser, against the mock server."""
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


def test_answers_with_markdown_code_tables_formulas_and_reasoning(open_page):
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


def test_conversation_goes_on_with_what_was_said(open_page):
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


def test_stop_keeps_what_was_written(open_page):
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
    page.click(f"{ANSWER} [aria-label='Write another answer']")
    page.wait_for_selector(f"{ANSWER} .branches:has-text('2 / 2')")
    page.click(f"{ANSWER} [aria-label='Version before']")
    page.wait_for_selector(f"{ANSWER} .branches:has-text('1 / 2')")
    assert page.is_disabled(f"{ANSWER} [aria-label='Version before']")


def test_edit_makes_a_branch_with_its_own_answers(open_page):
    page = open_page()
    ask(page, "echo first")
    ask(page, "echo more")
    page.hover(".message.user >> nth=0")
    page.click(".message.user >> nth=0 >> [aria-label='Edit and ask again']")
    page.fill(".edit-area", "echo second")
    page.press(".edit-area", "Enter")
    page.wait_for_selector(f"{DONE}")
    assert texts(page, ".message .prose") == ["echo second", "second"]
    assert last_request(page)["messages"] == [{"role": "user", "content": "echo second"}]
    page.hover(".message.user >> nth=0")
    page.click(".message.user [aria-label='Version before']")
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


def test_continue_goes_on_with_the_same_answer(open_page):
    page = open_page()
    ask(page, "echo begun")
    page.click(f"{ANSWER} [aria-label='Go on writing']")
    page.wait_for_selector(f"{ANSWER}:has-text('begun And so it goes on.')")
    request = last_request(page)
    assert request["messages"][-1] == {"role": "assistant", "content": "begun"}
    assert request["continue_final_message"] is True and request["add_generation_prompt"] is False


def test_tool_calls_are_shown(open_page):
    page = open_page()
    ask(page, "use a tool")
    assert page.inner_text(f"{ANSWER} .tool-call summary") == "Calls get_weather"
    assert json.loads(page.inner_text(f"{ANSWER} .tool-call pre")) == {"city": "Paris", "days": 3}
    assert "Waits for the tool" in page.inner_text(f"{ANSWER} .figures")


# Errors.


def test_refusal_is_shown_and_can_be_tried_again(open_page):
    page = open_page()
    ask(page, "refuse me")
    page.problems.expect("429")
    assert "The queue is full" in page.inner_text(".problem") and "in 5 s" in page.inner_text(".problem")
    page.click(".problem button")
    page.wait_for_selector(".message.last:not(.growing) .problem")
    page.problems.expect("429")
    assert len(page.server.requests) == 2
    assert len(page.query_selector_all(".message")) == 2


@pytest.mark.parametrize("word, message", [("error", "The model's context is full"), ("cut", "The connection ended before the answer did")])
def test_failure_in_the_middle_keeps_the_text(open_page, word, message):
    page = open_page()
    ask(page, f"mixed {word}")
    assert message in page.inner_text(".problem")
    assert page.inner_text(f"{ANSWER} .prose").strip() != ""


def test_what_follows_a_failed_question_goes_with_it(open_page):
    page = open_page()
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
    page.click("dialog .danger")
    wait_until(page, "document.querySelectorAll('.conversation').length === 1")
    assert page.is_visible(".empty")


def test_an_answer_goes_on_while_another_conversation_is_read(open_page):
    page = open_page()
    ask(page, "slow mixed", wait=False)
    page.wait_for_selector(f"{ANSWER} .prose:has-text('العربية')")
    page.keyboard.press("Control+Shift+O")
    ask(page, "echo beside")
    assert texts(page, ".message .prose") == ["echo beside", "beside"]
    page.click(".conversation:has-text('slow mixed') a")
    assert page.get_attribute(".send", "aria-label") == "Stop"
    page.click(".send")
    page.wait_for_selector(f"{ANSWER} .figures:has-text('Stopped')")


def test_a_conversation_that_is_deleted_while_it_grows_stays_away(open_page):
    page = open_page()
    ask(page, "slow mixed", wait=False)
    page.wait_for_selector(f"{ANSWER} .prose:has-text('العربية')")
    page.click(".conversation.current button")
    page.click("[role=menuitem]:has-text('Delete')")
    page.click("dialog .danger")
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
    assert texts(other, ".message .prose") == ["echo exported", "exported"]
    other.click(".conversation.current button")
    with other.expect_download() as download:
        other.click("[role=menuitem]:has-text('Markdown')")
    download.value.save_as(tmp_path / "one.md")
    text = (tmp_path / "one.md").read_text()
    assert text.startswith("# echo exported\n") and "\n## You\n\necho exported\n" in text
    bad = tmp_path / "bad.json"
    bad.write_text('{"format": "weft-conversations", "conversations": [{"messages": {"a": {"role": "system"}}}]}')
    other.set_input_files(".sidebar input[type=file]", bad)
    other.wait_for_selector(".toast:has-text('was not imported')")


# What goes with a message.


def test_files_are_added_as_text_and_pictures_refused(open_page, tmp_path):
    page = open_page()
    (tmp_path / "notes.txt").write_text("threads ``` and looms\n")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    (tmp_path / "binary.dat").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "huge.txt").write_text("x" * 600_000)
    page.set_input_files(".composer input[type=file]", [tmp_path / name for name in ("notes.txt", "picture.png", "binary.dat", "huge.txt")])
    page.wait_for_selector(".composer .chip:has-text('notes.txt')")
    note = page.inner_text(".toast")
    assert "pictures" in note and "binary.dat is no text" in note and "huge.txt has 586 KB" in note
    ask(page, "echo look")
    content = last_request(page)["messages"][0]["content"]
    assert content == "File: notes.txt\n````\nthreads ``` and looms\n````\n\necho look"
    assert texts(page, ".message.user .chip") == ["notes.txt"]


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
    assert page.evaluate("document.activeElement.innerText") == "Export as Markdown"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.getAttribute('aria-haspopup')") == "menu"
    page.keyboard.press("Control+Shift+O")
    assert page.is_visible(".empty") and page.evaluate("document.activeElement.id") == "message"


def test_dark_light_and_system(open_page):
    page = open_page(color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.click("[aria-label='Colours: As the system']")
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


def test_right_to_left_texts_have_their_direction(open_page):
    page = open_page()
    ask(page, "mixed")
    directions = page.eval_on_selector_all(f"{ANSWER} .prose > p", "nodes => nodes.map((node) => getComputedStyle(node).direction)")
    assert directions == ["rtl", "ltr", "rtl", "ltr"]


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


def test_screen_readers_are_told_of_beginning_and_end_only(open_page):
    page = open_page()
    page.evaluate("""() => { window.said = []; new MutationObserver(() => said.push(document.getElementById('status').textContent))
                     .observe(document.getElementById('status'), {childList: true, characterData: true, subtree: true}); }""")
    ask(page, "code")
    wait_until(page, "said.length >= 2")
    assert page.evaluate("said") == ["The answer begins", "The answer is complete"]
    assert page.get_attribute(".thread", "aria-live") == "off"


# Large.


def test_long_conversations_open_and_stay_whole(open_page):
    """100,000 tokens: everything is drawn in the end, and the newest message first."""
    page = open_page()
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


def test_long_answers_stream_to_the_same_page(open_page):
    page = open_page()
    ask(page, "long 400")
    assert len(page.query_selector_all(f"{ANSWER} ol > li")) == 400


# The live page.


def test_live_page(open_page):
    page = open_page(fragment="#live")
    page.wait_for_selector(".connection.good")
    page.wait_for_selector(".cells")
    assert re.fullmatch(r"8,192 cells in pages of 64\. [\d,]+ hold tokens, [\d,]+ of them for several texts at once\.", page.inner_text(".cache .panel-head .note"))
    colours = page.evaluate("""() => { const c = document.querySelector('.cells'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
                               const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; }""")
    assert colours > 6
    assert len(page.query_selector_all(".streams tbody tr")) >= 1
    assert texts(page, ".latency tbody th") == ["First token", "Between tokens", "In the queue", "A step"]
    assert page.get_attribute(".back", "href") == "#"
    page.hover(".cells", position={"x": 5, "y": 5})
    assert page.inner_text(".cells-frame .tip").startswith("Cell 0 shared by sequences")
    page.click(".cache button:has-text('Table')")
    page.wait_for_selector(".cache tbody tr")
    assert page.is_hidden(".cells")
    wait_until(page, "document.querySelector('.tile-value').textContent !== '0'")


def test_live_page_says_when_it_is_cut_off_and_comes_back(open_page, serve):
    page = open_page(fragment="#live")
    page.wait_for_selector(".connection.good")
    page.context.set_offline(True)
    page.evaluate("location.hash = ''")
    page.evaluate("location.hash = 'live'")
    page.wait_for_selector(".connection:has-text('Connection lost')")
    page.context.set_offline(False)
    page.wait_for_selector(".connection.good", timeout=15000)
    page.problems.expect("ERR_INTERNET_DISCONNECTED")


@pytest.mark.parametrize("n_pages", [1, 40, 3000, 16384])
def test_caches_of_every_size_are_drawn(open_page, serve, n_pages):
    page = open_page(serve(n_pages=max(n_pages, 8)), fragment="#live")
    page.wait_for_selector(".connection.good")
    box = page.wait_for_selector(".cells").bounding_box()
    assert 5 < box["height"] <= 421 and box["width"] > 300
