"""The canned responses of the mock server, with everything that a page must be able to show."""

SHOWCASE = r"""Here is a **breadth-first search** that returns the shortest path, and what it costs.

## The code

```python
from collections import deque

def shortest_path(graph: dict[str, list[str]], start: str, goal: str) -> list[str] | None:
    \"\"\"Returns the vertices from start to goal, or None.\"\"\"
    came_from = {start: None}      # also the set of visited ones
    queue = deque([start])
    while queue:
        vertex = queue.popleft()
        if vertex == goal:
            path = [vertex]
            while (vertex := came_from[vertex]) is not None:
                path.append(vertex)
            return path[::-1]
        for neighbour in graph.get(vertex, []):
            if neighbour not in came_from:
                came_from[neighbour] = vertex
                queue.append(neighbour)
    return None
```

Each vertex enters the queue at most once, so with $V$ vertices and $E$ edges the time is $O(V + E)$:

$$
T(V, E) = \sum_{v \in V} \Bigl( c_1 + \sum_{(v, w) \in E} c_2 \Bigr) = c_1 \lvert V \rvert + c_2 \lvert E \rvert
$$

## How it compares

| Algorithm | Weights | Time | Memory |
|:--|:-:|--:|--:|
| Breadth-first search | none | $O(V + E)$ | $O(V)$ |
| Dijkstra | $\ge 0$ | $O(E + V \log V)$ | $O(V)$ |
| Bellman–Ford | any | $O(V E)$ | $O(V)$ |

Some things to keep in mind:

1. `came_from` does two jobs:
   - it marks what was visited,
   - and it remembers the way back.
2. A `deque` matters: `list.pop(0)` is *linear*.
3. For weighted graphs use ~~depth-first search~~ Dijkstra's algorithm.

- [x] Works on graphs with cycles
- [ ] Handles negative weights

> The shortest way is the one that was found first.

More on [Wikipedia](https://en.wikipedia.org/wiki/Breadth-first_search).
""".replace('\\"', '"')

REASONING = """The user wants a breadth-first search. I should keep the predecessor of each vertex, so that the path can be
rebuilt, and use a deque.

Let me check the complexity: every vertex is queued once and every edge is looked at once, so $O(V + E)$.
"""

MATH = r"""Start from $ax^2 + bx + c = 0$ with $a \neq 0$ and complete the square:

\[
\begin{aligned}
x^2 + \frac{b}{a}x &= -\frac{c}{a} \\
\left(x + \frac{b}{2a}\right)^2 &= \frac{b^2 - 4ac}{4a^2} \\
x &= \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
\end{aligned}
\]

More formulas: the Gaussian integral $\int_{-\infty}^{\infty} e^{-x^2}\,dx = \sqrt{\pi}$, a limit \(\lim_{n \to \infty} \left(1 + \tfrac{1}{n}\right)^n = e\), and

$$
\operatorname{softmax}(z)_i = \frac{e^{z_i}}{\sum_{j=1}^{K} e^{z_j}}, \qquad
\mathbf{R}(\theta) = \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}, \qquad
f(x) = \begin{cases} x & \text{if } x > 0 \\ 0 & \text{otherwise} \end{cases}
$$

$$
\boxed{\hat{f}(\xi) = \int_{\mathbb{R}} f(x)\, e^{-2\pi i x \xi}\, dx} \qquad \binom{n}{k} = \frac{n!}{k!(n-k)!}, \quad \overline{z_1 + z_2} = \bar z_1 + \bar z_2
$$

A book costs $5 and two cost $10, which is no formula.
"""

MIXED = """**العربية**: هذه فقرة تُكتب من اليمين إلى اليسار مع `code` داخلها.

**日本語**: 機を織るように、言葉を織る。 絵文字も: 🧵🪡

**עברית**: שלום עולם

English again, with <script>alert(1)</script> and <img src=x onerror=alert(1)> as text, a [bad link](javascript:alert(1)) and
![a picture](https://example.com/x.png).
"""

LOOSE_ENDS = "Here is some **bold text that is\n\n```cpp\nint main() {\n  return 0;"

WIDE = """A table with many columns:

| Quantity | First measurement | Second measurement | Third measurement | Fourth measurement | What it means for the design |
|:--|--:|--:|--:|--:|:--|
| Latency | 12.5 ms | 13.1 ms | 12.9 ms | 12.7 ms | The queue is short, and the first token comes with the first step of the batch. |
| Throughput | 1,024 tokens/s | 998 tokens/s | 1,011 tokens/s | 1,032 tokens/s | Within the noise of the machine. |

| الاسم | القيمة |
|--|--|
| السرعة | 12 |

1. البند الأول
2. البند الثاني
   - نقطة داخلية
10. 2024

- פריט ראשון
- An item in English
- [x] משימה

> اقتباس من كتاب

```python
result = some_function_with_a_long_name(argument_number_one="a long text", argument_number_two="another long text", argument_number_three=3)
print(result)
```
"""
