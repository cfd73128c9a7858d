// Contexts: batches in, logits out, and operations on sequences. Samplers, which choose tokens from logits.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>

#include <tuple>
#include <variant>

#include "binding.h"
#include "model.h"
#include "options.h"

namespace weft::python {

namespace {

using LogitsRow = nb::ndarray<nb::numpy, const float, nb::ndim<1>>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Mask = nb::ndarray<const bool, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A batch that no other thread can change while it is computed.
class PyBatch {
 public:
  template <typename F>
  auto with(const F& use) {
    const auto hold = user_.hold("the batch");
    return use(batch_);
  }

 private:
  Batch batch_;
  OneUser user_;
};

class PyContext {
 public:
  PyContext(const ModelPtr& model, const ContextParams& params)
      : context_(std::make_shared<Context>(model->model(), params)) {}

  template <typename F>
  auto with(const F& use) {
    const auto hold = user_.hold("the context");
    if (context_ == nullptr) refuse("the context was closed");
    return use(*context_);
  }
  /// Runs `use` and throws CacheFull if it returns false.
  template <typename F>
  void with_room(const F& use) {
    with([&](Context& context) {
      if (!use(context)) throw CacheFull(context.cache().why_full());
    });
  }
  /// Any thread that has the interpreter's lock.
  void cancel() {
    if (const std::shared_ptr<Context> context = context_) context->cancel();
  }
  /// Frees its memory, once no array of logits uses it any more.
  void close() {
    const auto hold = user_.hold("the context");
    std::shared_ptr<Context> dying =
        std::move(context_);  // With the interpreter's lock, as cancel() reads it.
    const Unlocked unlocked;
    dying.reset();
  }
  const std::shared_ptr<Context>& shared() const { return context_; }
  std::string text() {
    if (context_ == nullptr) return "<weft.Context closed>";
    return with([](const Context& context) {
      return "<weft.Context n_ctx=" + std::to_string(context.params().n_ctx) +
             " n_sequences=" + std::to_string(context.params().n_sequences) + ", " +
             std::to_string(context.cache().cells_used()) + " of " +
             std::to_string(context.cache().cells_total()) + " cells used>";
    });
  }

 private:
  std::shared_ptr<Context> context_;  // Null: closed. Holds the model.
  OneUser user_;
};

class PySampler {
 public:
  PySampler(const SamplerParams& params, const ModelPtr& model)
      : model_(model), sampler_(params, model->model()->tokenizer()) {}
  int n_vocab() const { return model_->model()->info().n_vocab; }
  template <typename F>
  auto with(const F& use) {
    const auto hold = user_.hold("the sampler");
    return use(sampler_);
  }

 private:
  ModelPtr model_;  // Keeps the tokenizer.
  Sampler sampler_;
  OneUser user_;
};

std::unique_ptr<PyContext> make_context(const ModelPtr& model, const Dict& options) {
  ContextParams params;
  set_fields(params, context_fields(), options);
  const Unlocked unlocked;
  return std::make_unique<PyContext>(model, params);
}

std::unique_ptr<PySampler> make_sampler(const ModelPtr& model, const Dict& options) {
  SamplerParams params;
  set_fields(params, sampler_fields(), options);
  return std::make_unique<PySampler>(params, model);
}

using Tokens = std::variant<Token, std::vector<Token>>;
using Sequences = std::variant<SeqId, std::vector<SeqId>>;

/// The options apply to the last token. `pos` is the position of the first.
int add(PyBatch& self, const Tokens& tokens, const Sequences& seqs, bool logits, std::optional<Pos> pos,
        int n_best, bool log_sum_exp, std::optional<Token> logit_of, bool embedding,
        std::optional<Pos> attend_to) {
  if (n_best < 0) refuse("n_best is " + std::to_string(n_best) + ", expected at least 0");
  const ItemOptions last = {.logits = logits,
                            .n_best = n_best,
                            .log_sum_exp = log_sum_exp,
                            .logit_of = logit_of.value_or(kNoToken),
                            .embedding = embedding,
                            .attend_to = attend_to.value_or(-1)};
  return self.with([&](Batch& batch) {
    const Token* const one = std::get_if<Token>(&tokens);
    const std::span<const Token> all =
        one != nullptr ? std::span(one, 1) : std::span<const Token>(std::get<std::vector<Token>>(tokens));
    if (all.empty())
      throw Error(ErrorCode::kInvalidArgument,
                  "there are no tokens to add, and so no number of the last one");
    for (std::size_t i = 0; i < all.size(); ++i) {
      ItemOptions options = i + 1 == all.size() ? last : ItemOptions();
      options.pos = pos ? *pos + static_cast<Pos>(i) : kNextPos;
      if (const SeqId* const seq = std::get_if<SeqId>(&seqs))
        batch.add(all[i], *seq, options);
      else
        batch.add(all[i], std::span<const SeqId>(std::get<std::vector<SeqId>>(seqs)), options);
    }
    return batch.size() - 1;
  });
}

void decode(PyContext& self, PyBatch& items) {
  const DecodeStatus status = self.with([&](Context& context) {
    return items.with([&](const Batch& batch) {
      const DecodeStatus done = context.decode(batch);
      if (done == DecodeStatus::kCacheFull) throw CacheFull(context.cache().why_full(batch.size()));
      return done;
    });
  });
  if (status == DecodeStatus::kCancelled) throw Error(ErrorCode::kCancelled, "the batch was cancelled");
}

/// A view of the context's memory, which the array keeps alive. The next batch overwrites its values.
LogitsRow logits(PyContext& self, int item) {
  const std::span<const float> row = self.with([&](const Context& context) { return context.logits(item); });
  auto shared = std::make_unique<std::shared_ptr<Context>>(self.shared());
  const nb::capsule owner(shared.release(),
                          [](void* p) noexcept { delete static_cast<std::shared_ptr<Context>*>(p); });
  return LogitsRow(row.data(), {row.size()}, owner);
}

nb::ndarray<nb::numpy, float> embedding(PyContext& self, int item) {
  const std::span<const float> row =
      self.with([&](const Context& context) { return context.embedding(item); });
  return to_numpy(std::vector<float>(row.begin(), row.end()), {row.size()});
}

std::vector<std::pair<Token, float>> best(PyContext& self, int item) {
  std::vector<std::pair<Token, float>> result;
  self.with([&](const Context& context) {
    for (const Best& one : context.best(item)) result.emplace_back(one.id, one.logit);
  });
  return result;
}

nb::bytes save(PyContext& self, std::optional<SeqId> seq) {
  std::vector<std::byte> state;
  {
    const Unlocked unlocked;
    state = self.with([&](const Context& context) { return seq ? context.save(*seq) : context.save(); });
  }
  return nb::bytes(state.data(), state.size());
}

void restore(PyContext& self, const nb::bytes& state, std::optional<SeqId> seq) {
  const std::span bytes(reinterpret_cast<const std::byte*>(state.c_str()), state.size());
  const Unlocked unlocked;
  self.with_room(
      [&](Context& context) { return seq ? context.restore(bytes, *seq) : context.restore(bytes); });
}

Token sample(PySampler& self, const Floats& row, const std::optional<Mask>& allowed) {
  std::vector<std::uint32_t> words;
  if (allowed) {
    if (static_cast<int>(allowed->size()) != self.n_vocab())
      refuse("allowed has " + std::to_string(allowed->size()) + " elements for a vocabulary of " +
             std::to_string(self.n_vocab()));
    words.resize((allowed->size() + 31) / 32);
    for (std::size_t i = 0; i < allowed->size(); ++i)
      words[i / 32] |= static_cast<std::uint32_t>(allowed->data()[i]) << (i % 32);
  }
  const Unlocked unlocked;
  const std::span logits(row.data(), row.size());
  return self.with(
      [&](Sampler& sampler) { return allowed ? sampler.sample(logits, words) : sampler.sample(logits); });
}

/// Tokens with their logits and probabilities.
std::vector<std::tuple<Token, float, float>> candidates(PySampler& self) {
  std::vector<std::tuple<Token, float, float>> result;
  self.with([&](const Sampler& sampler) {
    for (const Candidate& one : sampler.candidates()) result.emplace_back(one.id, one.logit, one.probability);
  });
  return result;
}

/// Changes the options of an item, for a method with an old name.
template <typename F>
void change_item(PyBatch& self, int item, const char* advice, F change) {
  if (PyErr_WarnEx(PyExc_DeprecationWarning, advice, 1) != 0) throw nb::python_error();
  self.with([&](Batch& batch) {
    ItemOptions options = batch.options(item);
    change(options);
    batch.set_options(item, options);
  });
}

void bind_batch(nb::module_& m) {
  nb::class_<PyBatch>(m, "Batch", "The tokens of one Context.decode(), of any mix of sequences.")
      .def(nb::new_([](const nb::args& given, const nb::kwargs& named) {
        no_arguments("Batch", given, named);
        return std::make_unique<PyBatch>();
      }))
      .def("__len__",
           [](PyBatch& self) { return self.with([](const Batch& batch) { return batch.size(); }); })
      .def(
          "clear", [](PyBatch& self) { self.with([](Batch& batch) { batch.clear(); }); },
          "Removes all items.")
      .def("add", &add, nb::arg("tokens"), nb::arg("seq") = Sequences(0), nb::arg("logits") = false,
           nb::arg("pos") = nb::none(), nb::kw_only(), nb::arg("n_best") = 0, nb::arg("log_sum_exp") = false,
           nb::arg("logit_of") = nb::none(), nb::arg("embedding") = false, nb::arg("attend_to") = nb::none(),
           nb::sig("def add(self, tokens: int | collections.abc.Sequence[int] | "
                   "numpy.typing.NDArray[numpy.integer], "
                   "seq: int | collections.abc.Sequence[int] = 0, logits: bool = False, "
                   "pos: int | None = None, *, n_best: int = 0, log_sum_exp: bool = False, "
                   "logit_of: int | None = None, embedding: bool = False, attend_to: int | None = None) -> "
                   "int"),
           "Adds a token, or a list of consecutive tokens, to one sequence or to several. `pos`: position of "
           "the first token (default: the next of the sequence).\n"
           "Returns the item number of the last token. The other options request results of that token:\n"
           "`logits`: all logits, for Context.logits(). `n_best`: only the n best tokens, for "
           "Context.best(); needs `logits`.\n"
           "`log_sum_exp`: the log-sum-exp of its logits; needs `logits`. `logit_of`: the logit of this "
           "token, for Context.logit(); needs `log_sum_exp`.\n"
           "`embedding`: its last hidden state, for Context.embedding(). `attend_to`: it attends only to "
           "positions before this one (default: up to its own).")
      .def(
          "add_embedding",
          [](PyBatch& self, const Floats& row, SeqId seq, bool logits, std::optional<Pos> pos) {
            return self.with([&](Batch& batch) {
              batch.add(std::span(row.data(), row.size()), seq,
                        {.logits = logits, .pos = pos.value_or(kNextPos)});
              return batch.size() - 1;
            });
          },
          nb::arg("row"), nb::arg("seq") = 0, nb::arg("logits") = false, nb::arg("pos") = nb::none(),
          "Adds an embedding in place of a token, such as a row of an image.")
      .def(
          "only_best",
          [](PyBatch& self, int item, int n) {
            change_item(
                self, item, "only_best() is deprecated: use add(..., n_best=n)", [&](ItemOptions& options) {
                  if (n < 1)
                    refuse("the number of best tokens is " + std::to_string(n) + ", expected at least 1");
                  options.n_best = n;
                });
          },
          nb::arg("item"), nb::arg("n"), "Deprecated: add(..., n_best=n).")
      .def(
          "want_log_sum_exp",
          [](PyBatch& self, int item, std::optional<Token> token) {
            change_item(self, item, "want_log_sum_exp() is deprecated: use add(..., log_sum_exp=True)",
                        [&](ItemOptions& options) {
                          options.log_sum_exp = true;
                          options.logit_of = token.value_or(kNoToken);
                        });
          },
          nb::arg("item"), nb::arg("token") = nb::none(),
          "Deprecated: add(..., log_sum_exp=True, logit_of=token).")
      .def(
          "want_embedding",
          [](PyBatch& self, int item) {
            change_item(self, item, "want_embedding() is deprecated: use add(..., embedding=True)",
                        [](ItemOptions& options) { options.embedding = true; });
          },
          nb::arg("item"), "Deprecated: add(..., embedding=True).")
      .def(
          "see_to",
          [](PyBatch& self, int item, Pos end) {
            change_item(self, item, "see_to() is deprecated: use add(..., attend_to=end)",
                        [&](ItemOptions& options) { options.attend_to = end; });
          },
          nb::arg("item"), nb::arg("end"), "Deprecated: add(..., attend_to=end).")
      .def(
          "hide",
          [](PyBatch& self, int item, int other) { self.with([&](Batch& b) { b.hide(item, other); }); },
          nb::arg("item"), nb::arg("other"), "The item does not attend to the other item.");
}

}  // namespace

void bind_context(nb::module_& m) {
  bind_batch(m);
  nb::class_<PyContext>(
      m, "Context",
      "A KV cache with sequences. decode() computes batches of their tokens. Model.context() makes one.")
      .def("close", &PyContext::close,
           "Frees the context's memory. Arrays of logits that are still in use keep it until they are gone.")
      .def("__enter__", [](nb::handle_t<PyContext> self) { return self; })
      .def("__exit__", [](PyContext& self, const nb::args&) { self.close(); })
      .def("__repr__", &PyContext::text)
      .def_static("make", &make_context, nb::arg("model"), nb::arg("options"))
      .def("decode", &decode, nb::arg("batch"), WithoutLock(),
           "Computes a batch. Raises CacheFullError and changes nothing if the cache has no room for it.")
      .def("cancel", &PyContext::cancel,
           "The running decode(), or else the next one, raises CancelledError. Any thread may call it.")
      .def("logits", &logits, nb::arg("item"),
           "The logits of an item of the last batch: a read-only array over the context's own memory. The "
           "next "
           "decode() overwrites it, so copy what you keep.")
      .def("best", &best, nb::arg("item"), "The best tokens of an item and their logits, best first.")
      .def(
          "log_sum_exp",
          [](PyContext& self, int item) {
            return self.with([&](const Context& c) { return c.log_sum_exp(item); });
          },
          nb::arg("item"),
          "The log-sum-exp of the item's logits. A logit minus it is the token's log-probability.")
      .def(
          "logit",
          [](PyContext& self, int item) {
            return self.with([&](const Context& c) { return c.logit(item); });
          },
          nb::arg("item"), "The logit of the token that `logit_of` of Batch.add() named.")
      .def("embedding", &embedding, nb::arg("item"), "The last hidden state of an item of the last batch.")
      .def(
          "remove",
          [](PyContext& self, SeqId seq, Pos begin, Pos end) {
            self.with([&](Context& c) { c.cache().remove(seq, begin, end); });
          },
          nb::arg("seq"), nb::arg("begin") = 0, nb::arg("end") = -1,
          "Removes the positions from begin to end - 1 of a sequence. end -1: to its end.")
      .def(
          "copy",
          [](PyContext& self, SeqId from, SeqId to, Pos begin, Pos end) {
            self.with_room([&](Context& c) { return c.cache().copy(from, to, begin, end); });
          },
          nb::arg("source"), nb::arg("target"), nb::arg("begin") = 0, nb::arg("end") = -1, WithoutLock(),
          "Replaces the positions from begin to end - 1 of target by those of source. end -1: to the end of "
          "source.\n"
          "Both share the cells. A sequence that continues within a shared page of 64 cells copies it first.")
      .def(
          "keep", [](PyContext& self, SeqId seq) { self.with([&](Context& c) { c.cache().keep(seq); }); },
          nb::arg("seq"), "Removes all other sequences.")
      .def(
          "shift",
          [](PyContext& self, SeqId seq, Pos begin, Pos end, Pos delta) {
            self.with_room([&](Context& c) { return c.cache().shift(seq, begin, end, delta); });
          },
          nb::arg("seq"), nb::arg("begin"), nb::arg("end"), nb::arg("delta"), WithoutLock(),
          "Adds delta to the positions from begin to end - 1.")
      .def(
          "divide",
          [](PyContext& self, SeqId seq, Pos begin, Pos end, int divisor) {
            self.with_room([&](Context& c) { return c.cache().divide(seq, begin, end, divisor); });
          },
          nb::arg("seq"), nb::arg("begin"), nb::arg("end"), nb::arg("divisor"), WithoutLock(),
          "Divides the positions from begin to end - 1, and rounds down.")
      .def(
          "clear", [](PyContext& self) { self.with([](Context& c) { c.cache().clear(); }); },
          "Removes all sequences.")
      .def(
          "can_cut",
          [](PyContext& self, SeqId seq, Pos pos) {
            return self.with([&](const Context& c) { return c.cache().can_cut(seq, pos); });
          },
          nb::arg("seq"), nb::arg("pos"),
          "Whether remove(seq, pos) is possible, so that the sequence can continue at `pos`.")
      .def(
          "next_pos",
          [](PyContext& self, SeqId seq) {
            return self.with([&](const Context& c) { return c.cache().next_pos(seq); });
          },
          nb::arg("seq") = 0, "The position after the last token of a sequence.")
      .def(
          "min_pos",
          [](PyContext& self, SeqId seq) {
            return self.with([&](const Context& c) { return c.cache().min_pos(seq); });
          },
          nb::arg("seq") = 0)
      .def(
          "set_adapters",
          [](PyContext& self, SeqId seq, const std::vector<std::pair<int, float>>& adapters) {
            std::vector<AdapterUse> uses;
            for (const auto& [adapter, scale] : adapters)
              uses.push_back({.adapter = adapter, .scale = scale});
            self.with([&](Context& c) { c.set_adapters(seq, uses); });
          },
          nb::arg("seq"), nb::arg("adapters"),
          "Sets the adapters of an empty sequence: pairs (index, scale).")
      .def(
          "set_source",
          [](PyContext& self, SeqId seq, const std::vector<Token>& tokens) {
            return self.with([&](Context& c) { return c.set_source(seq, tokens) == DecodeStatus::kOk; });
          },
          nb::arg("seq"), nb::arg("tokens"),
          "Sets the encoder input of an empty sequence, for encoder-decoder models. Returns False if "
          "cancelled.")
      .def("save", &save, nb::arg("seq") = nb::none(),
           "Returns the saved state of a sequence, or of all sequences.")
      .def("restore", &restore, nb::arg("state"), nb::arg("seq") = nb::none(),
           "Restores a saved state, as this sequence or as all sequences.")
      .def_prop_ro(
          "n_ctx",
          [](PyContext& self) { return self.with([](const Context& c) { return c.params().n_ctx; }); })
      .def_prop_ro(
          "n_sequences",
          [](PyContext& self) { return self.with([](const Context& c) { return c.params().n_sequences; }); })
      .def_prop_ro(
          "cells_used",
          [](PyContext& self) { return self.with([](const Context& c) { return c.cache().cells_used(); }); })
      .def_prop_ro("cells_total", [](PyContext& self) {
        return self.with([](const Context& c) { return c.cache().cells_total(); });
      });

  nb::class_<PySampler>(m, "Sampler", "Draws tokens from logits. Model.sampler() makes one.")
      .def_static("make", &make_sampler, nb::arg("model"), nb::arg("options"))
      .def("sample", &sample, nb::arg("logits"), nb::arg("allowed") = nb::none(),
           "Draws a token from a row of logits. `allowed`: an array with True for each token that may be "
           "drawn "
           "(None: all).")
      .def("candidates", &candidates,
           "The candidates of the last sample(), most probable first: (token, logit, probability).")
      .def(
          "accept", [](PySampler& self, Token token) { self.with([&](Sampler& s) { s.accept(token); }); },
          nb::arg("token"), "Appends a token to the history that penalties count.")
      .def(
          "reset", [](PySampler& self) { self.with([](Sampler& s) { s.reset(); }); },
          "Clears the history, and starts the random numbers again.")
      .def_prop_ro("seed",
                   [](PySampler& self) { return self.with([](const Sampler& s) { return s.seed(); }); });

  m.def("context_options", [] { return names_of(context_fields()); });
  m.def("sampler_options", [] { return names_of(sampler_fields()); });
}

}  // namespace weft::python
