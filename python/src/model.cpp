// Models, their tokenizers, and the devices that there are.
#include "model.h"

#include <nanobind/stl/shared_ptr.h>

#include <optional>

#include "binding.h"
#include "options.h"

namespace weft::python {

namespace {

ModelPtr load(const std::filesystem::path& path, const Dict& options, const nb::object& progress) {
  ModelParams params;
  set_fields(params, model_fields(), options);
  // What Python throws on the way (Ctrl-C, or the callback itself) is thrown on when loading has ended.
  std::optional<nb::python_error> thrown;
  params.progress = [&](float done) {
    const Locked lock;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return progress.is_none() || !progress(done).is(nb::handle(Py_False));
    } catch (nb::python_error& error) {
      thrown.emplace(std::move(error));
      return false;
    }
  };
  std::shared_ptr<const Model> model;
  try {
    const Unlocked unlocked;
    model = Model::load(path, params);
  } catch (const Error&) {
    if (thrown) throw std::move(*thrown);
    throw;
  }
  return std::make_shared<LoadedModel>(std::move(model));
}

Dict info(const LoadedModel& loaded) {
  const ModelInfo& info = loaded.model()->info();
  Dict result;
  result["name"] = to_str(info.name);
  result["architecture"] = to_str(info.architecture);
  result["quantisation"] = to_str(info.quantisation);
  result["n_parameters"] = info.n_parameters;
  result["file_bytes"] = info.file_bytes;
  result["weight_bytes"] = info.weight_bytes;
  result["n_vocab"] = info.n_vocab;
  result["n_ctx_train"] = info.n_ctx_train;
  result["n_embd"] = info.n_embd;
  result["n_layers"] = info.n_layers;
  result["n_heads"] = info.n_heads;
  result["n_kv_heads"] = info.n_kv_heads;
  result["window"] = info.window;
  result["recurrent"] = info.recurrent;
  result["encoder"] = info.encoder;
  result["reads_source"] = info.reads_source;
  result["ranks"] = info.ranks;
  return result;
}

std::optional<Token> known(Token token) { return token == kNoToken ? std::nullopt : std::optional(token); }

nb::typed<nb::list, Dict> device_list() {
  nb::typed<nb::list, Dict> result;
  for (const DeviceInfo& device : devices()) {
    Dict one;
    one["name"] = to_str(device.name);
    one["backend"] = to_str(device.backend);
    one["description"] = to_str(device.description);
    one["memory_total"] = device.memory_total;
    one["memory_free"] = device.memory_free;
    one["features"] = device.features;
    result.append(one);
  }
  return result;
}

}  // namespace

void bind_model(nb::module_& m) {
  nb::class_<LoadedModel>(m, "Model")
      .def_static("load", &load, nb::arg("path"), nb::arg("options"), nb::arg("progress").none())
      .def("info", &info)
      .def(
          "tokenize",
          [](const LoadedModel& model, std::string_view text, bool add_special, bool parse_special) {
            return model.tokenizer().encode(text,
                                            {.add_special = add_special, .parse_special = parse_special});
          },
          nb::arg("text"), nb::arg("add_special"), nb::arg("parse_special"), WithoutLock())
      .def(
          "detokenize",
          [](const LoadedModel& model, const std::vector<Token>& tokens, bool special) {
            const std::string text = model.tokenizer().decode(tokens, special);
            return nb::bytes(text.data(), text.size());
          },
          nb::arg("tokens"), nb::arg("special"))
      .def("token_text",
           [](const LoadedModel& model, Token token) { return to_str(model.tokenizer().text(token)); })
      .def("find_token", [](const LoadedModel& model,
                            std::string_view text) { return known(model.tokenizer().find(text)); })
      .def("is_end", [](const LoadedModel& model, Token token) { return model.tokenizer().is_end(token); })
      .def_prop_ro("bos", [](const LoadedModel& model) { return known(model.tokenizer().bos()); })
      .def_prop_ro("eos", [](const LoadedModel& model) { return known(model.tokenizer().eos()); })
      .def_prop_ro("chat_template",
                   [](const LoadedModel& model) -> std::optional<nb::str> {
                     const ChatTemplate* const source = model.model()->chat_template();
                     if (source == nullptr) return std::nullopt;
                     return to_str(source->source());
                   })
      .def_prop_ro("notes", [](const LoadedModel& model) {
        nb::typed<nb::list, nb::str> result;
        for (const std::string& what : model.model()->notes()) result.append(to_str(what));
        return result;
      });

  m.def("devices", &device_list);
  m.def("model_options", [] { return names_of(model_fields()); });
}

}  // namespace weft::python
