#pragma once
// A model: weights on one or several devices, its vocabulary and its chat template. Immutable after loading,
// shared by contexts and threads (reload() is for lost devices and files).
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

/// The CPU kernels. kBest selects the best that the machine supports; the others are for tests and
/// comparison.
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

/// An adapter to load with a model: low-rank additions to its matrices (LoRA, arXiv 2106.09685) in a GGUF
/// file (general.type "adapter", adapter.type "lora"), made for the same architecture.
struct AdapterFile {
  std::filesystem::path path = {};
  std::string name = {};  ///< Empty: the file's general.name, otherwise the file's name.
};

/// Vectors that are added to the outputs of layers, for every sequence: tensor direction.N of a GGUF file
/// after layer N. Vectors of several files are summed.
struct ControlVectorFile {
  std::filesystem::path path = {};
  float scale = 1.0f;
};

struct ModelParams {
  int n_threads = 0;  ///< CPU threads for loading, at most 1024. 0: the number of cores.
  CpuIsa isa = CpuIsa::kBest;
  PlacementParams placement = {};
  /// Experts of the first n_cpu_moe layers stay with the CPU. PlacementParams::experts_on_cpu: of all layers.
  int n_cpu_moe = 0;
  std::shared_ptr<const Registry> registry = nullptr;  ///< Null: find_backends().
  /// The CPU packs weights into the order in which its kernels read them. Without packing, weights are used
  /// in the mapped file as they are. Loading is then instant and takes no memory of its own. Results are the
  /// same, but steps are much slower. The file must not change: see check_weights().
  bool repack = true;
  /// A folder for packed weights and compiled GPU kernels: the next start of the same model maps them instead
  /// of packing (see check_weights()). It is made where it is missing; empty: none. If the folder cannot be
  /// used, the model loads without it.
  std::filesystem::path pack_cache = {};
  /// The most bytes of the folder: the least recently loaded models are removed first. 5 % of the disk also
  /// stay free.
  std::uint64_t pack_cache_bytes = std::uint64_t{64} << 30;
  /// Byte-level BPE: the pre-tokenizer to use instead of the one that the file names ("gpt-2", "llama-bpe",
  /// ...). Empty: the file's.
  std::string pre_tokenizer = {};
  /// A chat template to use instead of the file's. Its end of an assistant's message ends generations, too.
  /// Throws Error kInvalidFile where it does not parse. Empty: the file's.
  std::string chat_template = {};
  /// Adapters that sequences can use (ContextParams::adapters, Context::set_adapters). Loading them does not
  /// change sequences without adapters. They are numbered in this order.
  std::vector<AdapterFile> adapters = {};
  std::vector<ControlVectorFile> control_vectors = {};
  /// The first and last layer that control vectors are added after; -1: all layers of the vectors.
  int first_control_layer = -1;
  int last_control_layer = -1;
  /// Called with 0 to 1 while weights load, from the loading thread. Returning false cancels (Error
  /// kCancelled).
  std::function<bool(float)> progress = {};
};

/// How the hidden states of an input become one vector.
enum class Pooling : std::uint8_t {
  kNone,  ///< No pooling: one vector for each token.
  kMean,
  kCls,   ///< The first token's.
  kLast,  ///< The last token's.
};

struct ModelInfo {
  std::string name = {};
  std::string architecture = {};
  /// As the file names it, "Q4_K_M"; otherwise the type of most weights, "q4_K".
  std::string quantisation = {};
  std::int64_t n_parameters = 0;
  std::int64_t file_bytes = 0;
  std::int64_t weight_bytes =
      0;  ///< In memory, as the devices hold them; for an inspected file, as a CPU would.
  bool weights_mapped = false;  ///< In a mapped file: the cache of packed weights, or the model's own.
  int n_vocab = 0;
  int n_ctx_train = 0;
  int n_embd = 0;
  int n_embd_input = 0;  ///< Size of an embedding that replaces a token: n_embd, or a multiple of it.
  int n_layers = 0;
  int n_heads = 0;  ///< 0 in models without attention.
  int n_kv_heads = 0;
  int window = 0;  ///< Positions that layers with a sliding window see; 0: there are none.
  /// Keys and queries turn by positions of several axes (M-RoPE): see Batch::stand_at.
  bool axes = false;
  bool recurrent =
      false;  ///< Some layers have a recurrent state: sequences are removed and copied as a whole only.
  /// An encoder with bidirectional attention: for an Embedder. It has no Context.
  bool encoder = false;
  /// An encoder-decoder model. The encoder reads a source with bidirectional attention first
  /// (Context::set_source), then the decoder generates.
  bool reads_source = false;
  Token first_token = kNoToken;      ///< The first token of each sequence of such a model.
  bool ranks = false;                ///< An encoder with a classifier (Embedder::score).
  Pooling pooling = Pooling::kMean;  ///< As the file says, otherwise the mean.
};

/// An adapter that was loaded with a model.
struct AdapterInfo {
  std::string name = {};
  std::filesystem::path path = {};
  int rank = 0;  ///< The largest.
  float alpha = 0.0f;
  int n_tensors = 0;  ///< Tensors of the model that it changes.
};

/// An adapter of a sequence, and its scale.
struct AdapterUse {
  int adapter = 0;  ///< Its place in ModelParams::adapters.
  float scale = 1.0f;
  friend auto operator<=>(const AdapterUse&, const AdapterUse&) = default;
};

class Model {
 public:
  /// Reads a GGUF file, or a split set by one of its files. Everything is checked before memory is allocated.
  /// Throws Error: kInvalidArgument for params; other errors name the key or tensor and the expected value.
  static std::shared_ptr<const Model> load(const std::filesystem::path& path, const ModelParams& params = {});
  ~Model();

  /// Loads the weights again onto the present devices. Use it where devices are lost for good or
  /// check_weights() throws. Throws kIo where the model's own file was written to. Contexts and embedders of
  /// the model must be destroyed first, and none may be made until this returns. Other uses may continue;
  /// info() and the like do not change. Throws like load(). After that the model has no weights: it refuses
  /// contexts and embedders, and reload() may be tried again.
  void reload(const ModelParams& params) const;

  const ModelInfo& info() const;
  /// Throws Error kIo, which names the file, where weights are read from a mapped file (see info()) whose
  /// bytes have changed since it was opened. Another process cut the file or wrote to it, or its disk failed.
  /// From then on all steps of contexts and embedders throw it, and the process continues. The results of a
  /// step that did not throw are right. A file that was renamed, removed, replaced by renaming, touched or
  /// given other permissions stays in use. So does a file that was written with the same bytes, from a second
  /// after loading on.
  ///
  /// If the file had packed weights, reload() packs them again. If the model's own file is whole again,
  /// load() reads it. Any thread may call this, but not while reload() runs.
  ///
  /// A SIGBUS handler finds lost bytes of mapped files: see guard_mapped_files (weft/weights.h).
  void check_weights() const;
  /// Blocks until mapped weights have moved to large pages, which makes the model faster, and until their
  /// bytes are hashed for check_weights(). Otherwise both happen while the model is used.
  void settle() const;
  const Tokenizer& tokenizer() const;
  /// Null where the file has none. Encoder-decoder models always have one, which makes the last question the
  /// source.
  const ChatTemplate* chat_template() const;
  std::span<const AdapterInfo> adapters() const;
  /// Oddities of the file, and how they are read: a sentence each, with the key's name. For the program's
  /// log.
  std::span<const std::string> notes() const;

  const engine::ModelImpl& impl() const { return *impl_; }

 private:
  explicit Model(std::unique_ptr<engine::ModelImpl> impl);
  std::unique_ptr<engine::ModelImpl> impl_;
};

/// The tokenizer alone, also from a file that has a vocabulary and no tensors. `pre_tokenizer` as in
/// ModelParams. Its notes() are about the file.
Tokenizer load_tokenizer(const std::filesystem::path& path, std::string_view pre_tokenizer = {});

/// The contents of a GGUF file, without loading it.
struct FileInfo {
  struct Entry {
    std::string key = {};
    std::string type = {};
    std::string value = {};  ///< For people; long arrays and strings are cut.
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
  /// Set where the file holds a model that weft can run; otherwise `problem` says why not.
  std::optional<ModelInfo> model = {};
  std::string problem = {};
  /// The cache of a full context with one sequence on the CPU; zeros without a model.
  struct Cache {
    int n_ctx = 0;
    std::string type = {};              ///< "bf16"; "q8_0, f16" where keys and values differ.
    std::uint64_t bytes = 0;            ///< Layers with a sliding window keep little more than the window.
    std::uint64_t bytes_per_token = 0;  ///< Growth with each token once windows are full.
  };
  Cache cache = {};
};
/// Throws Error kInvalidArgument for impossible parameters of the context.
FileInfo inspect(const std::filesystem::path& path, const ContextParams& context);
FileInfo inspect(const std::filesystem::path& path);  ///< With a context's defaults.

/// The placement of a model on devices, and the steps of a context of the expected sizes.
struct PlanReport {
  struct Device {
    std::string name = {};
    std::uint64_t weights = 0, cache = 0;
    std::uint64_t workspace = 0;  ///< Inputs, outputs, copies and temporaries of steps.
    std::uint64_t free = 0;
  };
  /// A run of nodes on one device.
  struct Split {
    std::string device = {};
    int n_nodes = 0;
    std::string first = {}, last = {};  ///< Its first and last value.
  };
  struct Copy {
    std::string value = {};
    std::string from = {}, to = {};
    std::uint64_t bytes = 0;  ///< In a step of one token, at most.
    int before = 0;           ///< The split that reads it first.
  };
  std::vector<Device> devices = {};
  std::vector<Split> splits = {};
  std::vector<Copy> copies = {};
  std::string drawing = {};  ///< For Graphviz.
};
/// Reads the file's description only. Opens the devices.
PlanReport inspect_plan(const std::filesystem::path& path, const ModelParams& params);

}  // namespace weft

#pragma GCC visibility pop
