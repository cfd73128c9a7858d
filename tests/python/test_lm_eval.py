"""weft in lm-evaluation-harness. The package is large, so the usual tests exclude this: run.py --lm-eval."""
import pytest
from lm_eval.api.instance import Instance
from lm_eval.api.registry import get_model
from weft.plugins.lm_eval import WeftLM


def test_lm_eval(model):
    wrapped = WeftLM(model)
    assert get_model("weft") is WeftLM
    text = model.generate("hello", max_tokens=6, temperature=0)

    def ask(kind, *arguments):
        return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)

    greedy, other = wrapped.loglikelihood([ask("loglikelihood", "hello", " world"), ask("loglikelihood", "hello", " a")])
    tokens = model.tokenize("hello world", add_special=False)
    n = len(tokens) - len(model.tokenize("hello", add_special=False))
    told = model.generate(tokens, max_tokens=1, logprobs=0, prompt_logprobs=True).prompt_logprobs[-n:]
    assert greedy[0] == pytest.approx(sum(one.logprob for one in told), abs=1e-4) and other[0] < 0
    best = wrapped._loglikelihood_tokens([(None, model.tokenize("hello"), text.tokens)])
    assert best[0][1] is True
    (rolling,) = wrapped.loglikelihood_rolling([ask("loglikelihood_rolling", "hello world")])
    assert rolling < 0
    arguments = {"until": [text.text[3:5]], "max_gen_toks": 6}
    (written,) = wrapped.generate_until([ask("generate_until", "hello", arguments)])
    assert written == text.text[: text.text.index(text.text[3:5])]
