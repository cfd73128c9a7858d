// Models, their tokenizers, and the devices that there are.
#include "model.h"

#include <nanobind/stl/shared_ptr.h>

#include <optional>
#include <span>

#include "binding.h"
#include "options.h"
#include "weft/convert.h"

namespace weft::python {

namespace {

/// Calls back into Python with a fraction. Returns false if the callback returned False or raised.
class Progress {
 public:
  explicit Progress(nb::object callback) : callback_(std::move(callback)) {}
  /// In any thread that does not have the interpreter's lock.
  bool operator()(double done) {
    const Locked lock;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return callback_.is_none() || !callback_(done).is(nb::handle(Py_False));
    } catch (nb::python_error& error) {
      thrown_.emplace(std::move(error));
      return false;
    }
  }
  /// Calls f without the interpreter's lock. An exception of the callback is thrown after f.
  template <typename F>
  auto run(const F& f) {
    try {
      const Unlocked unlocked;
      return f();
    } catch (const Error&) {
      if (thrown_) throw std::move(*thrown_);
      throw;
    }
  }

 private:
  nb::object callback_;
  std::optional<nb::python_error> thrown_;
};

ModelPtr load(const std::filesystem::path& path, const Dict& options, const nb::object& callback) {
  ModelParams params;
  set_fields(params, model_fields(), options);
  Progress progress(callback);
  params.progress = [&](float done) { return progress(done); };
  PlacementReport placement;
  params.placed = [&](const PlacementReport& report) { placement = report; };
  const std::shared_ptr<const Model> model = progress.run([&] { return Model::load(path, params); });
  return std::make_shared<LoadedModel>(model, std::move(placement));
}

nb::typed<nb::list, nb::str> to_list(std::span<const std::string> lines) {
  nb::typed<nb::list, nb::str> list;
  for (const std::string& line : lines) list.append(to_str(line));
  return list;
}

/// The file, and notes on the conversion where it took place.
std::pair<std::filesystem::path, nb::typed<nb::list, nb::str>> convert_cached(
    const std::filesystem::path& folder, const std::filesystem::path& cache, const nb::object& callback) {
  Progress progress(callback);
  const ConvertedModel model =
      progress.run([&] { return converted(folder, cache, [&](double done) { return progress(done); }); });
  return {model.file, to_list(model.made ? model.made->notes : std::vector<std::string>())};
}

Dict convert_folder(const std::filesystem::path& folder, const std::filesystem::path& to,
                    const std::string& type, const std::string& pre_tokenizer, bool mmproj,
                    const std::filesystem::path& base, const nb::object& callback) {
  Progress progress(callback);
  ConvertParams params{.type = type, .pre_tokenizer = pre_tokenizer, .mmproj = mmproj, .base = base};
  params.progress = [&](double done) { return progress(done); };
  const ConvertResult made = progress.run([&] { return convert(folder, to, params); });
  Dict result;
  result["architecture"] = to_str(made.architecture);
  result["type"] = to_str(made.type);
  result["n_tensors"] = made.n_tensors;
  result["bytes"] = made.bytes;
  result["notes"] = to_list(made.notes);
  return result;
}

std::optional<Token> known(Token token) { return token == kNoToken ? std::nullopt : std::optional(token); }

std::string_view name(Pooling pooling) {
  switch (pooling) {
    case Pooling::kNone:
      return "none";
    case Pooling::kMean:
      return "mean";
    case Pooling::kCls:
      return "cls";
    case Pooling::kLast:
      return "last";
  }
  return "none";
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
  result["weights_mapped"] = info.weights_mapped;
  result["n_ctx_train"] = info.n_ctx_train;
  result["n_ctx_fit"] = info.n_ctx_fit;
  result["n_embd"] = info.n_embd;
  result["n_embd_input"] = info.n_embd_input;
  result["n_layers"] = info.n_layers;
  result["n_heads"] = info.n_heads;
  result["n_kv_heads"] = info.n_kv_heads;
  result["window"] = info.window;
  result["axes"] = info.axes;
  result["recurrent"] = info.recurrent;
  result["encoder"] = info.encoder;
  result["reads_source"] = info.reads_source;
  result["first_token"] = known(info.first_token);
  result["ranks"] = info.ranks;
  result["pooling"] = name(info.pooling);
  return result;
}

Dict placement(const LoadedModel& loaded) {
  const PlacementReport& report = loaded.placement();
  nb::typed<nb::list, Dict> devices;
  for (const PlacementReport::Device& device : report.devices) {
    Dict one;
    one["name"] = to_str(device.name);
    one["weights"] = device.weights;
    one["cache"] = device.cache;
    one["workspace"] = device.workspace;
    one["margin"] = device.margin;
    one["free"] = device.free;
    devices.append(one);
  }
  Dict result;
  result["devices"] = devices;
  result["n_layers"] = report.n_layers;
  result["n_layers_all"] = report.n_layers_all;
  result["n_cpu_moe"] = report.n_cpu_moe;
  result["n_ctx"] = report.n_ctx;
  result["n_ctx_full"] = report.n_ctx_full;
  return result;
}

nb::typed<nb::list, Dict> device_list() {
  nb::typed<nb::list, Dict> result;
  for (const DeviceInfo& device : list_devices()) {
    Dict one;
    one["name"] = to_str(device.name);
    one["backend"] = to_str(device.backend);
    one["description"] = to_str(device.description);
    one["memory_total"] = device.memory_total;
    one["memory_free"] = device.memory_free;
    one["n_threads"] = device.n_threads;
    one["is_async"] = device.is_async;
    one["on_host_cpu"] = device.on_host_cpu;
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
      .def("placement", &placement)
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
      .def_prop_ro("notes", [](const LoadedModel& model) { return to_list(model.model()->notes()); });

  m.def("devices", &device_list, "The devices that models and plans can be on.");
  m.def("is_model_folder", &is_model_folder, nb::arg("path"));
  m.def("converted", &convert_cached, nb::arg("folder"), nb::arg("cache"), nb::arg("progress").none());
  m.def("convert", &convert_folder, nb::arg("folder"), nb::arg("to"), nb::arg("type"),
        nb::arg("pre_tokenizer"), nb::arg("mmproj"), nb::arg("base"), nb::arg("progress").none());
  m.def("model_options", [] { return names_of(model_fields()); });
}

}  // namespace weft::python
