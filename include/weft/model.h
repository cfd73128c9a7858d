#pragma once
// A loaded model: its weights on one or several devices, its tokenizer and its chat template. Contexts,
// embedders and threads share it as std::shared_ptr<const Model>; only reload() replaces lost weights.
//
//   const auto model = weft::Model::load("model.gguf");
//   weft::Context context(model);
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/chat_template.h"
#include "weft/device.h"
#include "weft/tokenizer.h"

#pragma GCC visibility push(default)

namespace weft {

struct ContextParams;

namespace engine {
struct ModelImpl;
}

/// The devices and memory of a model and of a context of the expected size (PlacementParams).
struct PlacementReport {
  struct Device {
    std::string name = {};
    std::uint64_t weights = 0, cache = 0;
    std::uint64_t workspace = 0;  ///< Bytes for inputs, outputs, copies and temporaries of steps.
    std::uint64_t margin = 0;     ///< Left free (PlacementParams::margins).
    std::uint64_t free = 0;       ///< Free before loading.
  };
  std::vector<Device> devices = {};
  int n_layers = 0;      ///< Layers on PlacementParams::devices; the output head counts as one.
  int n_layers_all = 0;  ///< The model's layers and its output head.
  int n_cpu_moe = 0;     ///< The first layers whose experts stay on the CPU.
  int n_ctx = 0;         ///< Cells of the expected context; 0: an encoder, which has none.
  int n_ctx_full = 0;    ///< Its cells before `fit` lowered them.
};

/// The instruction set of the CPU kernels. kBest: the fastest that this machine supports. The others are for
/// tests and comparison.
enum class CpuIsa : std::uint8_t {
  kBest,
  kGeneric,
  kAvx2,
  kAvxVnni,
  kAvx512,
  kAvx512Bf16,
  kAmx,
  kNeon,
  kI8mm
};

/// A LoRA adapter (arXiv 2106.09685) to load with a model of the same architecture: a GGUF file with
/// general.type "adapter" and adapter.type "lora".
struct AdapterFile {
  std::filesystem::path path = {};
  std::string name = {};  ///< Empty: general.name in the file, or else the file's name.
};

/// A control vector, which changes the output of all sequences. The GGUF tensor direction.N is added, times
/// `scale`, to the output of layer N. Several files add up.
struct ControlVectorFile {
  std::filesystem::path path = {};
  float scale = 1.0f;
};

struct ModelParams {
  int n_threads = 0;  ///< CPU threads for loading, at most 1024. 0: the number of cores.
  CpuIsa isa = CpuIsa::kBest;
  PlacementParams placement = {};
  /// Experts of the first n_cpu_moe layers are placed on the CPU. PlacementParams::experts_on_cpu does the
  /// same for all layers.
  int n_cpu_moe = 0;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: load_backends().
  /// Whether the CPU packs weights into the layout of its kernels. If not, it uses them in the mapped file:
  /// loading is instant and takes no memory of its own. Results are the same, but steps are much slower. The
  /// file must not change while the model is used: see check_weights().
  bool repack = true;
  /// A folder that caches packed weights and compiled GPU kernels. The next load of the same model maps the
  /// packed weights instead of packing again (see check_weights()). The folder is created if it does not
  /// exist. A folder that cannot be used is ignored. Empty: no cache.
  std::filesystem::path pack_cache = {};
  /// The maximum size of the folder. Least recently loaded models are removed first. 5 % of the disk stay
  /// free as well.
  std::uint64_t pack_cache_bytes = std::uint64_t{64} << 30;
  /// The pre-tokenizer of byte-level BPE ("gpt-2", "llama-bpe", ...), instead of the one in the file. Empty:
  /// the file's.
  std::string pre_tokenizer = {};
  /// A chat template (Jinja) instead of the one in the file. The token that ends an assistant message in it
  /// also ends generations. Throws Error kInvalidFile if it does not parse. Empty: the file's.
  std::string chat_template = {};
  /// LoRA adapters that sequences can use (ContextParams::adapters, Context::set_adapters).
  /// AdapterUse::adapter is an index into this list. Sequences without adapters are not affected.
  std::vector<AdapterFile> adapters = {};
  std::vector<ControlVectorFile> control_vectors = {};
  /// The first and last layer to which control vectors are added. -1: all layers that the files have.
  int first_control_layer = -1;
  int last_control_layer = -1;
  /// Called by the loading thread after devices are chosen, before weights are loaded.
  std::function<void(const PlacementReport&)> placed = {};
  /// Called by the loading thread with the progress, 0 to 1. Returning false cancels (Error kCancelled).
  std::function<bool(float)> progress = {};
};

/// How the hidden states of an input's tokens become one vector.
enum class Pooling : std::uint8_t {
  kNone,  ///< No pooling: one vector for each token.
  kMean,
  kCls,   ///< The first token's.
  kLast,  ///< The last token's.
};

struct ModelInfo {
  std::string name = {};
  std::string architecture = {};
  /// The file's name for it, "Q4_K_M", or else the type of most weights, "q4_K".
  std::string quantisation = {};
  std::int64_t n_parameters = 0;
  std::int64_t file_bytes = 0;
  /// Bytes of the weights as the devices store them; from inspect(): as a CPU would.
  std::int64_t weight_bytes = 0;
  /// Whether weights are used in a mapped file: the packed cache or the model's file.
  bool weights_mapped = false;
  int n_vocab = 0;
  int n_ctx_train = 0;  ///< 0: the file does not state it.
  int n_ctx_fit = 0;    ///< The default of ContextParams::n_ctx if `fit` has lowered it; otherwise 0.
  int n_embd = 0;
  int n_embd_input = 0;  ///< Size of an embedding that replaces a token: n_embd, or a multiple of it.
  int n_layers = 0;
  int n_heads = 0;  ///< 0: a model without attention.
  int n_kv_heads = 0;
  int window = 0;  ///< The sliding window in tokens. 0: no layer has one.
  /// Whether RoPE has three positions per token (M-RoPE): see ItemOptions::axes.
  bool axes = false;
  /// Whether layers have a recurrent state. Sequences can then be removed and copied only as a whole.
  bool recurrent = false;
  /// Whether it is an encoder with bidirectional attention (BERT): for an Embedder, not for a Context.
  bool encoder = false;
  /// Whether it is an encoder-decoder model (T5): the encoder reads a source (Context::set_source), then the
  /// decoder generates.
  bool reads_source = false;
  Token first_token = kNoToken;  ///< The decoder's first token in such a model.
  bool ranks = false;  ///< Whether it is a reranker: an encoder with a classifier (Embedder::score).
  Pooling pooling = Pooling::kMean;  ///< From the file; kMean if it names none.
};

/// An adapter that was loaded with a model.
struct AdapterInfo {
  std::string name = {};
  std::filesystem::path path = {};
  int rank = 0;  ///< The largest rank of its matrices.
  float alpha = 0.0f;
  int n_tensors = 0;  ///< The number of the model's tensors that it changes.
};

/// An adapter of a sequence, and its scale.
struct AdapterUse {
  int adapter = 0;  ///< Its index in ModelParams::adapters.
  float scale = 1.0f;
  friend auto operator<=>(const AdapterUse&, const AdapterUse&) = default;
};

class Model {
 public:
  /// Loads a GGUF file, or a split set by the path of any of its files. The file is untrusted: it is checked
  /// before memory is allocated. Throws Error kInvalidArgument for wrong params. Errors of the file name the
  /// key or tensor and the expected value. Any thread.
  static std::shared_ptr<Model> load(const std::filesystem::path& path, const ModelParams& params = {});
  ~Model();

  /// Loads the weights again, onto the devices that are present now. Call it after a device was lost for good
  /// or check_weights() has thrown. Destroy all contexts and embedders of the model before; none may be made
  /// until reload() returns. Other members may be used during the call, and info() does not change. Throws
  /// like load(), and Error kIo if the model's own file was written to. After an error the model may be
  /// without weights: it then refuses contexts and embedders, and reload() may be called again.
  void reload(const ModelParams& params);

  const ModelInfo& info() const;
  /// Throws Error kIo, with the file's name, if weights are used in a mapped file (ModelInfo::weights_mapped)
  /// whose bytes have changed since it was opened. Reasons are a process that truncated or overwrote the
  /// file, and a failed disk. All later steps of contexts and embedders then throw it, too; the results of
  /// steps that did not throw are correct. A file may be renamed, deleted, replaced by renaming, touched or
  /// given other permissions. From a second after loading it may also be rewritten with the same bytes.
  ///
  /// If the file was the cache of packed weights, reload() packs them again. If it was the model's own file,
  /// restore it and call load(). Any thread may call check_weights(), but not during reload().
  ///
  /// Reading lost bytes of a mapped file raises SIGBUS, which weft handles: see guard_mapped_files
  /// (weft/weights.h).
  void check_weights() const;
  /// Blocks until background work on mapped weights is done: moving them to huge pages, which makes steps
  /// faster, and hashing them for check_weights(). Without this call both happen while the model is used.
  void settle() const;
  const Tokenizer& tokenizer() const;
  /// Null if the file has none. Encoder-decoder models always have one. It renders the last user message,
  /// which becomes the source.
  const ChatTemplate* chat_template() const;
  std::span<const AdapterInfo> adapters() const;
  /// Notes for a log. A note says in a sentence how weft reads an unusual key of the file.
  std::span<const std::string> notes() const;

  const engine::ModelImpl& impl() const { return *impl_; }

 private:
  explicit Model(std::unique_ptr<engine::ModelImpl> impl);
  std::unique_ptr<engine::ModelImpl> impl_;
};

/// Loads only the tokenizer, even from a file without tensors. `pre_tokenizer` is as in ModelParams.
/// Tokenizer::notes() are about the file.
Tokenizer load_tokenizer(const std::filesystem::path& path, std::string_view pre_tokenizer = {});

/// The contents of a GGUF file, without loading it.
struct FileInfo {
  struct Entry {
    std::string key = {};
    std::string type = {};
    std::string value = {};  ///< For display: long arrays and strings are truncated.
  };
  struct Tensor {
    std::string name = {};
    std::string type = {};
    std::vector<std::int64_t> shape = {};  ///< Outermost first.
    std::uint64_t bytes = 0;
  };
  int version = 0;
  int n_parts = 1;
  std::uint64_t file_bytes = 0;
  std::vector<Entry> metadata = {};
  std::vector<Tensor> tensors = {};
  /// Set if weft can run the file's model. Otherwise `problem` says why not.
  std::optional<ModelInfo> model = {};
  std::string problem = {};
  /// The KV cache of a context with one sequence, full, on the CPU. All 0 if `model` is not set.
  struct Cache {
    int n_ctx = 0;
    std::string type = {};    ///< "bf16", or "q8_0, f16" if keys and values differ.
    std::uint64_t bytes = 0;  ///< All of it. Sliding-window layers keep little more than their window.
    std::uint64_t bytes_per_token = 0;  ///< Growth per token after the windows are full.
  };
  Cache cache = {};
};
/// Reads only the file's description. Throws Error kInvalidArgument for wrong parameters of the context.
FileInfo inspect(const std::filesystem::path& path, const ContextParams& context);
FileInfo inspect(const std::filesystem::path& path);  ///< With default ContextParams.

/// Where a model's weights and nodes are placed, for contexts of the expected size.
struct PlanReport : PlacementReport {
  /// Consecutive nodes of the graph on one device.
  struct Split {
    std::string device = {};
    int n_nodes = 0;
    std::string first = {}, last = {};  ///< The names of its first and last result.
  };
  struct Copy {
    std::string value = {};
    std::string from = {}, to = {};
    std::uint64_t bytes = 0;  ///< Bytes of one step with one token, at most.
    int before = 0;           ///< The index of the first split that reads it.
  };
  std::vector<Split> splits = {};
  std::vector<Copy> copies = {};
  std::string drawing = {};  ///< The graph, for Graphviz.
};
/// Reads only the file's description, and opens the devices.
PlanReport inspect_plan(const std::filesystem::path& path, const ModelParams& params);

}  // namespace weft

#pragma GCC visibility pop
