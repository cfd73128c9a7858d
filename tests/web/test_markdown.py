"""The page's Markdown and formulas. Markdown is compared with markdown-it. Sources that are streamed piece by piece
must give the same nodes as whole ones."""
import random
from html.parser import HTMLParser

import pytest

markdown_it = pytest.importorskip("markdown_it")

# Converts DOM to the trees of Tree: `[name, attributes, children]`, adjacent strings joined.
TO_TREE = """(node) => {
  const tree = (node) => {
    if (node.nodeType === 3) return node.data;
    const children = (parent) => [...parent.childNodes].map(tree);
    let name = node.localName, given = {};
    if (node.matches('figure.code')) {
      const language = node.querySelector('.code-language').textContent;
      return ['pre', {}, [['code', {}, [node.querySelector('code').textContent]]]];
    }
    if (node.matches('.table-scroll')) return tree(node.firstChild);
    if (/^h[1-6]$/.test(name)) name = 'h' + node.dataset.level;
    if (name === 'a') given.href = node.getAttribute('href');
    if (name === 'ol' && node.start !== 1) given.start = String(node.start);
    const align = /align-(\\w+)/.exec(node.className)?.[1];
    if (align) given.align = align;
    return [name, given, children(node)];
  };
  return [...node.childNodes].map(tree);
}"""


class Tree(HTMLParser):
    def __init__(self, html: str):
        super().__init__()
        self.stack = [[]]
        self.feed(html)

    def handle_starttag(self, name, attributes):
        name = {"s": "del"}.get(name, name)
        given = {}
        for key, value in attributes:
            if key == "style":
                given["align"] = value.removeprefix("text-align:")
            elif key in ("href", "start"):
                given[key] = value
        node = [name, given, []]
        self.stack[-1].append(node)
        if name not in ("br", "hr"):
            self.stack.append(node[2])

    def handle_endtag(self, name):
        if name not in ("br", "hr"):
            self.stack.pop()

    def handle_data(self, data):
        self.stack[-1].append(data)


def plain(nodes: list, in_code: bool = False) -> list:
    """Joins strings and drops insignificant parts: white space around blocks, the last line end of a block of code."""
    joined: list = []
    for node in nodes:
        if isinstance(node, str) and joined and isinstance(joined[-1], str):
            joined[-1] += node
        else:
            joined.append(node)
    result = []
    for i, node in enumerate(joined):
        if isinstance(node, str):
            if in_code:
                node = node.rstrip("\n")
            else:
                beside_block = [at for at in (i - 1, i + 1) if 0 <= at < len(joined) and joined[at][0] in BLOCKS]
                if i - 1 in beside_block or i == 0:
                    node = node.lstrip()
                if i + 1 in beside_block or i == len(joined) - 1:
                    node = node.rstrip()
            if node:
                result.append(node)
        else:
            name, given, children = node
            result.append([name, given, plain(children, in_code or name == "pre")])
    return result


BLOCKS = {"p", "ul", "ol", "li", "pre", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "br"}


def truth(text: str) -> list:
    reader = markdown_it.MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return plain(Tree(reader.render(text)).stack[0])


@pytest.fixture(scope="module")
def render(browser):
    """render(text) -> tree, as the page draws it."""
    from mock_server import Server
    import threading
    server = Server(0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = browser.new_page()
    page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
    page.evaluate("async () => { window.md = await import('/ui/markdown/render.js'); window.formula = await import('/ui/math/formula.js'); }")
    call = "(text) => { const box = document.createElement('div'); box.append(md.render_markdown(text)); return (" + TO_TREE + ")(box); }"

    def render(text):
        return plain(page.evaluate(call, text))

    render.page = page
    yield render
    page.close()
    server.shutdown()


CASES = [
    "plain", "two\nlines", "hard  \nbreak", "hard\\\nbreak", "# One\n## Two ##\n###### Six\n####### seven", "Title\n=====\n\nSub\n---", "#no heading", "# ", "# a # b #",
    "***\n---\n___\n- - -", "*em* **strong** ***both*** _em_ __strong__", "a*b*c a_b_c __init__ 2 * 3 * 4", "**bold *and em* bold**", "*em **and strong***",
    "**not closed", "*a **b* c**", "~~gone~~ ~~~", "`code` ``a ` b`` ` x ` `**no**`", "`open", "\\*no em\\* \\` \\[ \\\\ \\a", "[text](https://a.b/c)",
    "[a *b* `c`](https://a.b \"title\")", "[a](<https://a.b/c d>)", "[a](https://a.b/c_(d))", "[not a link]", "[x] (y)", "[a [b](https://c.d) e](/f)", "<https://a.b/c?d=e&f>",
    "> quote\n> more\nlazy\n\nafter", "> a\n> > b\n> c", "> - a\n> - b\n>\n> ```\n> code\n> ```", "- a\n- b\n  - c\n    - d\n- e", "* a\n+ b\n- c", "1. a\n2. b\n3. c", "3) a\n4) b", "7. seven",
    "- a\n\n- b\n- c", "- a\n\n  b\n- c", "- a\n  lazy\nlazier\n- b", "1. a\n\n   ```py\n   x = 1\n\n   y = 2\n   ```\n2. b", "- ```\n  a\n  ```\n- b", "-\n- a\n-", "text\n- list\n\ntext\n1. list", "text\n2. no list",
    "- a\n\n\n\n- b\n\n\nend", "10. ten\n11. eleven\n\n    more", "- # heading\n- > quote", "```\ncode\n  more\n\nend\n```\nafter", "```py\nopen", "~~~\n```\n~~~", "````\n```\n````", "   ```\n   a\n  b\n   ```", "    indented\n\n    more\n\ntext\n    no code",
    "\ttab code", "a | b\n--|--\n1 | 2", "| a | b |\n|:-:|--:|\n| 1 | `x\\|y` |\n| only one |\n| too | many | cells |\n\nafter", "| a |\n|---|\nno table row", "| a | b |\n|---|\n| 1 | 2 |", "a | b", "| a\n| -\n| b",
    "text\n| a | b |\n|---|---|\n| 1 | 2 |\n> quote", "&amp; &lt; &copy; &#65; &#x42; &nosuch;", "ünïcödé *日本語* **文字**。", "**bold**text **“quoted”** *(paren)*", "a\n\n\n\nb", "line with trailing spaces   \n\nnext", "**a** **b**\n**c**", "_a_b_ *a*b*",
    "***a** b*", "**a*", "*a**", "[](https://a.b)", "[a](https://a.b)[b](https://c.d)", "-not a list", "1.not", "- [link](https://a.b)\n- **bold**: text", "1. **a**\n   - b\n   - c\n\n2. **d**\n   - e", "\\# not\n\\- a list", "+ a\n\n+ b",
]


@pytest.mark.parametrize("text", CASES)
def test_reads_as_markdown_it_does(render, text):
    assert render(text) == truth(text)


WORDS = ["word", "*em*", "**strong**", "`code`", "[link](https://a.b)", "_x_", "snake_case_name", "~~del~~", "a*b", "2 * 3", "**", "`", "\\*", "(x)", "“y”", "日本", "end.", "***", "__", "!"]


def paragraph(rng, n_lines=3):
    return "\n".join("w" + " ".join(rng.choices(WORDS, k=rng.randint(1, 6))) for _ in range(rng.randint(1, n_lines)))


def document(rng, depth=0) -> str:
    parts = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.randint(0, 7 if depth < 3 else 3)
        if kind <= 1:
            parts.append(paragraph(rng))
        elif kind == 2:
            parts.append("```py\n" + "\n".join(rng.choices(["x = 1", "", "  y", "# c"], k=rng.randint(0, 4))) + "\n```")
        elif kind == 3:
            parts.append("#" * rng.randint(1, 6) + " " + paragraph(rng, 1))
        elif kind == 4:
            parts.append("\n".join("> " + line for line in document(rng, depth + 1).split("\n")))
        elif kind <= 6:
            ordered = rng.random() < 0.5
            items = []
            for n in range(rng.randint(1, 3)):
                mark = f"{n + 1}. " if ordered else "- "
                inside = document(rng, depth + 1) if rng.random() < 0.4 else paragraph(rng, 2)
                items.append(mark + inside.replace("\n", "\n" + " " * len(mark)))
            parts.append(rng.choice(["\n", "\n\n"]).join(items))
        else:
            cells = lambda: "| " + " | ".join(rng.choice(["a", "`c`", "*e*", "1"]) for _ in range(2)) + " |"
            parts.append("\n".join([cells(), rng.choice(["|---|---|", "|:--|--:|"]), *(cells() for _ in range(rng.randint(0, 3)))]))
    return "\n\n".join(parts)


def test_random_documents_read_as_markdown_it_does(render):
    differ = []
    for seed in range(250):
        text = document(random.Random(seed))
        if render(text) != truth(text):
            differ.append((seed, text))
    assert differ == []


STREAMED = """([text, sizes]) => {
  const whole = document.createElement('div'), box = document.createElement('div');
  whole.append(md.render_markdown(text));
  const stream = new md.MarkdownStream(box);
  let at = 0, i = 0;
  while (at < text.length) {
    const n = sizes[i++ % sizes.length];
    stream.source += text.slice(at, at + n);
    at += n;
    stream.draw(true);
  }
  stream.finish();
  return [box.innerHTML === whole.innerHTML, box.innerHTML, whole.innerHTML];
}"""


def test_streamed_markdown_equals_the_whole(render):
    import answers
    for seed in range(80):
        rng = random.Random(seed)
        text = [answers.SHOWCASE, answers.MATH, answers.MIXED, answers.LOOSE_ENDS][seed] if seed < 4 else document(rng)
        equal, pieces, whole = render.page.evaluate(STREAMED, [text, [rng.randint(1, 9) for _ in range(20)]])
        assert equal, f"seed {seed}\n{text}\n--- in pieces\n{pieces}\n--- at once\n{whole}"


@pytest.mark.parametrize("unit", ["*", "_", "[", "](", "`", "``a", "> ", "- ", "  - a\n", "<", "$", "$$", "\\(", "~", "|", "a|", "#", "**a ", "*a_ ", "[a](", "![", "&", "http://", "\\[\n", "1. ", "```\n", "\t", " ", "-|", "<b>", "{", "<https://"])
def test_hostile_sources_end(render, unit):
    text = unit * (60_000 // len(unit))
    assert isinstance(render.page.evaluate("(text) => { const box = document.createElement('div'); box.append(md.render_markdown(text)); return box.textContent.length; }", text), int)


FORMULA = "([text, display]) => { const node = formula.formula_node(text, display); return [node.className, node.querySelector('semantics > mrow')?.textContent ?? '', node.querySelectorAll('.unknown').length, [...node.querySelectorAll('*')].map((n) => n.localName).join(' ')]; }"

FORMULAS = [
    (r"\frac{a}{b}", "ab", "mfrac"), (r"\sqrt[3]{x}", "x3", "mroot"), (r"x_i^2", "xi2", "msubsup"), (r"\sum_{i=1}^n i", "∑i=1ni", "munderover"), (r"\int_0^1", "∫01", "msubsup"),
    (r"\lim_{x \to 0} \frac{\sin x}{x}", "limx→0sinxx", "munder"), (r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}", "(abcd)", "mtable"), (r"\left( \frac{1}{2} \right]", "(12]", "mfrac"),
    (r"\mathbb{R}^n \to \mathcal{L}", "ℝn→ℒ", "msup"), (r"\hat{x} + \vec{v}", "x^+v→", "mover"), (r"\text{if } x > 0", "if\u00a0x>0", "mtext"), (r"f'(x) = f''", "f′(x)=f′′", "msup"), (r"\binom{n}{k}", "(nk)", "mfrac"),
    (r"\overbrace{a+b}^{n}", "a+b⏞n", "mover"), (r"\alpha\beta\Gamma", "αβΓ", "mi"), (r"a \not= b", "a=\u0338b", "mo"), (r"\begin{cases} 1 & x \\ 0 & y \end{cases}", "{1x0y", "mtable"), (r"a &= b \\ c &= d", "a=bc=d", "mtable"),
    (r"3.14 + 1{,}000", "3.14+1,000", "mn"), (r"\{ x \mid x \in A \}", "{x∣x∈A}", "mo"), (r"\operatorname{rank}(A)", "rank(A)", "mi"), (r"\boldsymbol{\theta} \mathbf{x}", "𝜽𝐱", "mi"), (r"\xrightarrow[a]{b}", "→ab", "munderover"), (r"50\% \$ \# \_", "50%$#_", "mi"),
]


@pytest.mark.parametrize("text, letters, name", FORMULAS)
def test_formulas(render, text, letters, name):
    kind, shown, n_unknown, names = render.page.evaluate(FORMULA, [text, True])
    assert (kind, shown, n_unknown) == ("formula", letters, 0)
    assert name in names.split()


@pytest.mark.parametrize("text", [r"\frac{a}{b", r"}", r"\left( x", r"\begin{matrix} a", r"\end{matrix}", r"\right)", r"x^", r"\sqrt", "{" * 500, r"\frac" * 500, "x^{" * 300 + "}" * 300, "x" * 20000, r"\begin{nosuch} x \end{nosuch}"])
def test_invalid_formulas_are_shown_as_source(render, text):
    kind = render.page.evaluate(FORMULA, [text, True])[0]
    assert kind == "formula-source"


def test_unknown_commands_are_shown_by_name(render):
    kind, shown, n_unknown, _ = render.page.evaluate(FORMULA, [r"a \nosuchthing b", False])
    assert (kind, shown, n_unknown) == ("formula-inline", r"a\nosuchthingb", 1)


@pytest.mark.parametrize("text, n", [("costs $5 or $10", 0), ("$x$ and $y$", 2), ("$ x $", 0), ("a $$x$$ b", 1), (r"\(x\) \[y\]", 2), ("`$x$`", 0), (r"\$x\$", 0), ("US$ and A$", 0), ("```\n$x$\n```", 0), ("$$\nx\n$$", 1), ("$$x$$", 1)])
def test_formulas_are_recognised(render, text, n):
    assert render.page.evaluate("(text) => { const box = document.createElement('div'); box.append(md.render_markdown(text)); return box.querySelectorAll('math').length; }", text) == n
