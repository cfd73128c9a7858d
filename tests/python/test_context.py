"""Contexts: batches, sequences, logits without a copy."""
import gc
import inspect
import threading

import numpy as np
import pytest
import weft


@pytest.fixture
def context(model):
    return model.context(n_ctx=256, n_sequences=4, n_ubatch=64)


def decode(context, tokens, seq=0, logits=True):
    batch = weft.Batch()
    item = batch.add(tokens, seq, logits=logits)
    context.decode(batch)
    return context.logits(item).copy() if logits else None


def test_a_loop_over_decode_generates_the_same_tokens(model, context):
    expected = model.generate("hello", max_tokens=16, temperature=0, ignore_end=True).tokens
    sampler = model.sampler(temperature=0)
    tokens, written = model.tokenize("hello"), []
    for _ in range(16):
        written.append(sampler.sample(decode(context, tokens)))
        tokens = [written[-1]]
    assert written == expected


def test_logits_are_not_copied(model, context):
    batch = weft.Batch()
    item = batch.add(model.tokenize("hello"), logits=True)
    context.decode(batch)
    row = context.logits(item)
    assert row.shape == (model.n_vocab,) and row.dtype == np.float32
    assert not row.flags.owndata and not row.flags.writeable
    assert row.ctypes.data == context.logits(item).ctypes.data
    assert np.from_dlpack(row).ctypes.data == row.ctypes.data if np.lib.NumpyVersion(np.__version__) >= "2.1.0" else True
    with pytest.raises(ValueError):
        row[0] = 1


def test_no_tokens_have_no_number():
    batch = weft.Batch()
    assert batch.add([1, 2]) == 1
    with pytest.raises(weft.InvalidArgumentError, match="no tokens"):
        batch.add([])
    assert len(batch) == 2


def test_logits_outlive_their_context(model):
    """An array keeps its memory, whatever happens to the context and to the batches after it."""
    context = model.context(n_ctx=256, n_sequences=1, n_ubatch=16)
    batch = weft.Batch()
    for token in model.tokenize("hello world hello world"):
        batch.add(token, logits=True)
    context.decode(batch)
    rows = [context.logits(i) for i in range(len(batch))]
    first = [row.copy() for row in rows]
    assert all(np.array_equal(a, b) for a, b in zip(rows, first))
    big = weft.Batch()
    for _ in range(100):
        big.add(300, logits=True)
    context.decode(big)
    context.remove(0)
    context.decode(batch)
    assert [row.ctypes.data for row in rows] == [context.logits(i).ctypes.data for i in range(len(batch))]
    sums = [float(row.sum()) for row in rows]
    del context
    gc.collect()
    assert sums == [float(row.sum()) for row in rows]


def test_sequences(model, context):
    tokens = model.tokenize("hello world")
    alone = decode(context, tokens)
    used = context.cells_used
    context.copy(0, 1)
    assert context.cells_used == used == len(tokens) and context.next_pos(1) == len(tokens)
    next_alone = decode(context, [300], seq=0)
    assert np.array_equal(decode(context, [300], seq=1), next_alone)
    context.remove(0, begin=len(tokens))
    assert context.next_pos(0) == len(tokens)
    assert np.array_equal(decode(context, [300], seq=0), next_alone)
    context.keep(1)
    assert context.next_pos(0) == 0 and context.next_pos(1) == len(tokens) + 1
    assert np.array_equal(decode(context, tokens, seq=0), alone)
    context.shift(1, 4, -1, 8)
    assert context.next_pos(1) == len(tokens) + 9
    context.shift(1, 12, -1, -8)
    context.divide(1, 2, -1, 2)
    assert context.next_pos(1) < len(tokens) + 1
    context.clear()
    assert context.cells_used == 0


def test_sequences_side_by_side_have_the_bits_that_they_have_alone(model, context):
    texts = [model.tokenize(text) for text in ("hello", "world hello", "a")]
    alone = [decode(context, tokens, seq) for seq, tokens in enumerate(texts)]
    context.clear()
    batch = weft.Batch()
    items = [batch.add(tokens, seq, logits=True) for seq, tokens in enumerate(texts)]
    context.decode(batch)
    assert all(np.array_equal(context.logits(item), one) for item, one in zip(items, alone))


def test_states(model, context):
    tokens = model.tokenize("hello world")
    decode(context, tokens)
    state = context.save(0)
    expected = decode(context, [300])
    other = model.context(n_ctx=256, n_sequences=2)
    other.restore(state, 1)
    assert np.array_equal(decode(other, [300], seq=1), expected)
    with pytest.raises(weft.InvalidFileError):
        other.restore(state[:-4], 0)


def test_other_operations_on_an_item(model, context):
    batch = weft.Batch()
    tokens = model.tokenize("hello")
    item = batch.add(tokens, logits=True, log_sum_exp=True, logit_of=300, embedding=True)
    context.decode(batch)
    row = context.logits(item).astype(np.float64)
    assert context.log_sum_exp(item) == pytest.approx(np.log(np.exp(row).sum()), rel=1e-5)
    assert context.logit(item) == row[300]
    assert context.embedding(item).shape == (model.info["n_embd"],)
    batch.clear()
    item = batch.add(tokens, 1, logits=True, n_best=3)
    context.decode(batch)
    assert [token for token, _ in context.best(item)] == list(np.argsort(-row, kind="stable")[:3])


def test_old_names_of_item_options_warn_and_work(model, context):
    batch = weft.Batch()
    item = batch.add(model.tokenize("hello"), logits=True)
    for name, given in (("want_log_sum_exp", (300,)), ("want_embedding", ()), ("see_to", (9,)), ("only_best", (3,))):
        with pytest.warns(DeprecationWarning, match=rf"{name}\(\) is deprecated: use add"):
            getattr(batch, name)(item, *given)
    context.decode(batch)
    assert len(context.best(item)) == 3 and context.embedding(item).shape == (model.info["n_embd"],)
    with pytest.raises(weft.InvalidArgumentError, match="n_best is -1"):
        batch.add(5, logits=True, n_best=-1)
    with pytest.raises(TypeError, match="no argument 'best'"):
        batch.add(5, best=2)


def test_dry_breakers_are_strings(model):
    logits = np.zeros(model.n_vocab, dtype=np.float32)
    logits[350] = 30

    def drawn(**options):
        sampler = model.sampler(temperature=0, dry_multiplier=100.0, dry_allowed_length=1, **options)
        for token in [300, 301, 13, 350, 310, 311, 300, 301, 13]:  # 13 is the byte of a newline.
            sampler.accept(token)
        return sampler.sample(logits)

    assert drawn() == drawn(dry_breakers=["\n"]) == 350
    assert drawn(dry_breakers=[]) != 350
    with pytest.raises(weft.InvalidArgumentError, match="breaker is empty"):
        model.sampler(dry_breakers=[""])


def test_a_full_cache_changes_nothing(model):
    context = model.context(n_ctx=64, n_sequences=2)
    decode(context, [300] * 60, logits=False)
    with pytest.raises(weft.CacheFullError, match="60 of 64 cells are in use, and the batch has 8 tokens"):
        decode(context, [300] * 8, seq=1)
    assert context.next_pos(1) == 0
    context.remove(0)
    decode(context, [300] * 8, seq=1)
    with pytest.raises(weft.InvalidArgumentError):
        decode(context, [300] * 100)
    with pytest.raises(weft.InvalidArgumentError, match="sequence"):
        decode(context, [300], seq=7)
    with pytest.raises(weft.InvalidArgumentError, match="no logits"):
        context.logits(5)


def test_a_cancelled_batch(model, context):
    context.cancel()
    with pytest.raises(weft.CancelledError):
        decode(context, model.tokenize("hello"))
    assert context.next_pos(0) == 0
    decode(context, model.tokenize("hello"))


def test_two_threads_get_an_error_not_a_race(model):
    context = model.context(n_ctx=4096, n_sequences=1)
    errors, started = [], threading.Event()

    def work():
        started.set()
        try:
            for _ in range(4):
                decode(context, [300] * 800, logits=False)
        except weft.InvalidArgumentError as error:  # Or the other way round.
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    while thread.is_alive():
        try:
            context.next_pos(0)
        except weft.InvalidArgumentError as error:
            errors.append(str(error))
    thread.join()
    assert errors and "another thread" in errors[0]


def test_samplers(model):
    logits = np.zeros(model.n_vocab, dtype=np.float32)
    logits[42] = 50.0
    sampler = model.sampler(seed=5)
    assert sampler.seed == 5 and sampler.sample(logits) == 42
    assert model.sampler(temperature=0, logit_bias={42: float("-inf"), 7: 1.0}).sample(logits) == 7
    with pytest.raises(ValueError):
        sampler.sample(logits[:10])


def test_a_closed_context_is_an_error_and_its_logits_stay(model):
    with model.context(n_ctx=64) as context:
        decode(context, [5, 6, 7])
        row = context.logits(2)
        before = row.copy()
        assert repr(context) == "<weft.Context n_ctx=64 n_sequences=1, 3 of 64 cells used>"
    assert np.array_equal(row, before) and repr(context) == "<weft.Context closed>"
    context.close()
    context.cancel()
    for use in (lambda: context.next_pos(), lambda: context.logits(0), lambda: context.save(), lambda: decode(context, [5])):
        with pytest.raises(weft.InvalidArgumentError, match="the context was closed"):
            use()


def test_a_loop_over_decode_follows_a_grammar(model):
    for asked in ({"regex": "[ab]{3}"}, {"json_schema": {"enum": [12, "x"]}}, {"grammar": 'root ::= "yes" | "no"'}):
        grammar = model.grammar(**asked)
        context, sampler, constraint = model.context(n_ctx=64), model.sampler(seed=1), grammar.constraint()
        written, following = [], model.tokenize("hello")
        while not written or not model.is_end(written[-1]):
            allowed = constraint.allowed()
            assert allowed.dtype == bool and len(allowed) == model.n_vocab and allowed.any()
            row = decode(context, following)
            token = sampler.sample(row, allowed)
            assert allowed[token] and all(allowed[one] for one, _, _ in sampler.candidates())
            constraint.accept(token)
            sampler.accept(token)
            written.append(token)
            following = [token]
        text = model.detokenize(written)
        assert grammar.allows(text) and not grammar.allows(text + "!")
        # The engine's own constraint gives the same tokens.
        assert model.generate("hello", seed=1, **asked).text == text
    constraint = model.grammar(regex="a").constraint()
    with pytest.raises(weft.InvalidArgumentError, match="token 5 is not allowed here"):
        constraint.accept(5)
    assert constraint.allowed().sum() > 0
    compiled = weft.Grammar.compile(model, "regex", "[ab]{3}")
    assert compiled.allows("aba") and not compiled.allows("abc")
    with pytest.raises(TypeError, match="model cannot be 5"):
        weft.Grammar.compile(5, "regex", "a")
    with pytest.raises(TypeError, match="one of grammar, regex and json_schema"):
        model.grammar()


def test_candidates_of_a_sampler(model):
    sampler = model.sampler(top_k=3, temperature=1.0, top_p=1.0, min_p=0.0)
    row = np.random.default_rng(3).standard_normal(model.n_vocab).astype(np.float32)
    token = sampler.sample(row)
    found = sampler.candidates()
    assert [one for one, _, _ in found] == list(np.argsort(-row)[:3]) and token in [one for one, _, _ in found]
    assert sum(probability for _, _, probability in found) == pytest.approx(1.0, abs=1e-6)
    only = np.zeros(model.n_vocab, bool)
    only[[7, 100]] = True
    assert {sampler.sample(row, only) for _ in range(50)} <= {7, 100}
    with pytest.raises(weft.InvalidArgumentError, match="allowed has 5 elements for a vocabulary of"):
        sampler.sample(row, np.ones(5, bool))
    with pytest.raises(weft.InvalidArgumentError):
        sampler.sample(row, np.zeros(model.n_vocab, bool))


def test_native_functions_have_signatures():
    assert str(inspect.signature(weft.Batch.add)).startswith("(self, tokens: 'int | Sequence[int] | NDArray[numpy.integer]', seq: 'int | Sequence[int]' = 0, logits:")
    for kind in (weft.Batch, weft.Context, weft.Sampler, weft.Grammar, weft.Constraint, weft.Graph):
        assert kind.__doc__
        for name, function in vars(kind).items():
            if callable(function) and not name.startswith("__"):
                inspect.signature(function)
    for name, function in vars(weft.ops).items():
        if callable(function) and not isinstance(function, type) and not name.startswith("_"):
            inspect.signature(function)
