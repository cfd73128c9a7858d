"""lm-evaluation-harness's model.

    import lm_eval, weft.plugins.lm_eval
    lm_eval.simple_evaluate(model="weft", model_args={"path": "model.gguf"}, tasks=["hellaswag"])
"""

from __future__ import annotations

from typing import Any, Optional, Union

import weft
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from weft.streams import Stream, in_turn

# Requests that wait at the engine: enough for it to fill its steps.
_AT_ONCE = 64
# The generation options of a task that this file reads. Other options go to weft.Model.stream.
_OWN = ("until", "max_gen_toks", "do_sample", "temperature")


@register_model("weft")
class WeftLM(TemplateLM):
    """`path`: of a model; other arguments as weft.Model has them. Requests are computed many at a time."""

    def __init__(self, path: Union[str, weft.Model], max_gen_toks: int = 256, batch_size: Any = None, device: Any = None,
                 max_batch_size: Any = None, **options: Any) -> None:
        super().__init__()
        self.model = path if isinstance(path, weft.Model) else weft.Model(path, **options)
        self._max_gen_toks = max_gen_toks
        most = options.get("n_ctx") or 8192
        self._max_length = min(self.model.info["n_ctx_train"] or most, most)

    @property
    def eot_token_id(self) -> int:
        token = self.model.eos if self.model.eos is not None else self.model.bos
        return token if token is not None else 0

    @property
    def prefix_token_id(self) -> int:
        return self.model.bos if self.model.bos is not None else self.eot_token_id

    def tok_encode(self, string: str, add_special_tokens: Optional[bool] = None, **_: Any) -> list[int]:
        return self.model.tokenize(string, add_special=bool(add_special_tokens))

    def _loglikelihood_tokens(self, requests: list[Any], disable_tqdm: bool = False, **_: Any) -> list[tuple[float, bool]]:
        """For each (description, context, continuation): the continuation's log-likelihood, and whether it is the
        greedy one."""

        def ask(request: Any) -> tuple[Stream, int]:
            _, context, continuation = request
            tokens = (context + continuation)[-self._max_length :]
            stream = self.model.stream(tokens, max_tokens=1, logprobs=1, prompt_logprobs=True, temperature=0)
            return stream, len(continuation)

        def read(asked: tuple[Stream, int]) -> tuple[float, bool]:
            stream, n = asked
            told = stream.read().prompt_logprobs[-n:]
            return sum(one.logprob for one in told), all(one.top[0][0] == one.token for one in told)

        return list(in_turn(requests, _AT_ONCE, ask, read))

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        totals = []
        for (text,) in (request.args for request in requests):
            windows = map(make_disjoint_window, get_rolling_token_windows(
                token_list=self.tok_encode(text), prefix_token=self.prefix_token_id, max_seq_len=self._max_length - 1,
                context_len=1))
            told = self._loglikelihood_tokens([(None, context, continuation) for context, continuation in windows])
            totals.append(sum(likelihood for likelihood, _ in told))
        return totals

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        def ask(request: Instance) -> Stream:
            prompt, arguments = request.args
            until = arguments.get("until") or []
            n = arguments.get("max_gen_toks", self._max_gen_toks)
            sampled = arguments.get("do_sample", False) or arguments.get("temperature", 0) > 0
            others = {name: value for name, value in arguments.items() if name not in _OWN}
            tokens = self.model.tokenize(prompt)[-(self._max_length - n) :]
            return self.model.stream(tokens, max_tokens=n, stop=[until] if isinstance(until, str) else until,
                                     temperature=arguments.get("temperature", 1.0) if sampled else 0, **others)

        return list(in_turn(requests, _AT_ONCE, ask, lambda stream: stream.read().text))
