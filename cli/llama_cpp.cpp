#include "llama_cpp.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weft::cli {
namespace {

using enum ForeignOption::Value;

constexpr Alias kAliases[] = {
    {"-hf", "--hf-repo"},
    {"-hfr", "--hf-repo"},
    {"-hff", "--hf-file"},
    {"-mu", "--model-url"},
    {"-ub", "--ubatch-size"},
    {"-ctk", "--cache-type-k"},
    {"-ctv", "--cache-type-v"},
    {"-sys", "--system-prompt"},
    {"-sysf", "--system-prompt-file"},
    {"-jf", "--json-schema-file"},
    {"-sp", "--special"},
    {"-bf", "--file"},
    {"--binary-file", "--file"},
    {"-st", "--single-turn"},
    {"-rea", "--reasoning"},
    {"-ngl", "--gpu-layers"},
    {"-ts", "--tensor-split"},
    {"-sm", "--split-mode"},
    {"-cmoe", "--cpu-moe"},
    {"-ncmoe", "--n-cpu-moe"},
    {"-ot", "--pin"},
    {"--override-tensor", "--pin"},
    {"-ofreq", "--output-frequency"},
    {"-dev", "--device"},
    {"-l", "--logit-bias"},
    {"-np", "--parallel"},
    {"-npl", "--streams"},
    {"-pps", "--shared-prompt"},
    {"-pg", "--prompt-generate"},
    {"--served-model-name", "--alias"},
    {"--max-model-len", "--ctx-size"},
    {"--max-num-seqs", "--parallel"},
    {"--max-num-batched-tokens", "--ubatch-size"},
    {"--uds", "--host"},
};

// Reasons that several options have.
constexpr std::string_view kAttention = "attention is always computed this way";
constexpr std::string_view kMapping = "weft maps the file and keeps packed weights on large pages";
constexpr std::string_view kWarmup = "there is nothing to warm up";
constexpr std::string_view kTimes = "-v prints times";
constexpr std::string_view kTemplates = "templates are always Jinja";
constexpr std::string_view kModes = "'weft chat' talks, 'weft run' continues a text";
constexpr std::string_view kPlainText = "this command takes texts as they are";
constexpr std::string_view kLogs = "messages go to stderr; -q leaves them out";
constexpr std::string_view kTerminal =
    "colour and line editing are for terminals only; --color never, --no-wrap";
constexpr std::string_view kNoPrompt = "the prompt is not printed again";
constexpr std::string_view kBatching = "requests are always computed together";
constexpr std::string_view kPlacing = "the system places threads";
constexpr std::string_view kChecked = "headers are always checked; a model that computes NaN ends with an error";
constexpr std::string_view kNoPerplexity = "'weft perplexity' finds perplexities";
constexpr std::string_view kChatOnly = "use 'weft chat'";
constexpr std::string_view kRope = "weft takes the scaling of positions from the file";
constexpr std::string_view kNoDraft =
    "speculative decoding is in the library only (weft/batcher.h); leave the option out";
constexpr std::string_view kThoughts = "what a model thinks is printed as it comes";
constexpr std::string_view kSeveralLines = "lines that end in \\, or stand between \"\"\", are one question";
constexpr std::string_view kTemplateDecides = "the chat template decides what stands around a message";

constexpr ForeignOption kOptions[] = {
    {"-fa", kSwitch, true, kAttention},
    {"--flash-attn", kSwitch, true, kAttention},
    {"--mmap", kNone, true, kMapping},
    {"--no-mmap", kNone, true, kMapping},
    {"--mlock", kNone, true, kMapping},
    {"-lm", kOne, true, kMapping},
    {"--load-mode", kOne, true, kMapping},
    {"--numa", kOne, true, "weights are spread over the nodes of memory"},
    {"--warmup", kNone, true, kWarmup},
    {"--no-warmup", kNone, true, kWarmup},
    {"--perf", kNone, true, kTimes},
    {"--no-perf", kNone, true, kTimes},
    {"--show-timings", kNone, true, kTimes},
    {"--no-show-timings", kNone, true, kTimes},
    {"--jinja", kNone, true, kTemplates},
    {"--no-jinja", kNone, true, kTemplates},
    {"-cnv", kNone, true, kModes},
    {"--conversation", kNone, true, kModes},
    {"-no-cnv", kNone, true, kModes},
    {"--no-conversation", kNone, true, kModes},
    {"-e", kNone, true, kPlainText},
    {"--escape", kNone, true, kPlainText},
    {"--no-escape", kNone, true, kPlainText},
    {"--simple-io", kNone, true, kTerminal},
    {"-co", kSwitch, true, kTerminal},
    {"--log-disable", kNone, true, kLogs},
    {"--log-timestamps", kNone, true, kLogs},
    {"--log-prefix", kNone, true, kLogs},
    {"--log-colors", kSwitch, true, kLogs},
    {"-lv", kOne, true, kLogs},
    {"--verbosity", kOne, true, kLogs},
    {"--log-verbosity", kOne, true, kLogs},
    {"--display-prompt", kNone, true, kNoPrompt},
    {"--no-display-prompt", kNone, true, kNoPrompt},
    {"-tb", kOne, true, "-t holds for prompts, too"},
    {"--threads-batch", kOne, true, "-t holds for prompts, too"},
    {"-cb", kNone, true, kBatching},
    {"--cont-batching", kNone, true, kBatching},
    {"-kvu", kNone, true, kBatching},
    {"--kv-unified", kNone, true, kBatching},
    {"--prio", kOne, true, kPlacing},
    {"--poll", kOne, true, kPlacing},
    {"-C", kOne, true, kPlacing},
    {"--cpu-mask", kOne, true, kPlacing},
    {"--cpu-strict", kOne, true, kPlacing},
    {"--check-tensors", kNone, true, kChecked},
    {"--offline", kNone, true,
     "what was fetched is used without asking anybody; HF_HUB_OFFLINE=1 fetches nothing"},
    {"--max-buffer-size", kOne, true, "weft holds one tensor and four MiB of its source at a time"},
    {"--ppl", kNone, true, kNoPerplexity},
    {"--no-ppl", kNone, true, kNoPerplexity},
    {"--reasoning-format", kOne, true, kThoughts},
    {"-mli", kNone, true, kSeveralLines},
    {"--multiline-input", kNone, true, kSeveralLines},
    {"--verbose-prompt", kNone, true, kNoPrompt},

    {"-i", kNone, false, kChatOnly},
    {"--interactive", kNone, false, kChatOnly},
    {"-if", kNone, false, kChatOnly},
    {"--interactive-first", kNone, false, kChatOnly},
    {"--in-prefix", kOne, false, kTemplateDecides},
    {"--in-suffix", kOne, false, kTemplateDecides},
    {"--reasoning-budget", kOne, false, "weft cannot cut thoughts short; --reasoning off leaves them out"},
    {"-mg", kOne, false, "choose devices with --device, as 'weft devices' names them"},
    {"--main-gpu", kOne, false, "choose devices with --device, as 'weft devices' names them"},
    {"--list-devices", kNone, false, "use 'weft devices'"},
    {"-nkvo", kNone, false, "caches lie beside their layers; --pin 'cache=cpu' leaves them to the CPU"},
    {"--no-kv-offload", kNone, false,
     "caches lie beside their layers; --pin 'cache=cpu' leaves them to the CPU"},
    {"-md", kOne, false, kNoDraft},
    {"--model-draft", kOne, false, kNoDraft},
    {"--draft", kOne, false, kNoDraft},
    {"--rope-scaling", kOne, false, kRope},
    {"--rope-scale", kOne, false, kRope},
    {"--rope-freq-base", kOne, false, kRope},
    {"--rope-freq-scale", kOne, false, kRope},
    {"--yarn-orig-ctx", kOne, false, kRope},
    {"--rpc", kOne, false,
     "weft uses several machines through MPI: mpirun starts it on each (docs/machines.md)"},
};

struct Variable {
  std::string_view long_name;
  std::vector<std::string_view> names;
};

const std::vector<Variable>& variables() {
  static const std::vector<Variable> kVariables = {
      {"model", {"LLAMA_ARG_MODEL"}},
      {"hf-repo", {"LLAMA_ARG_HF_REPO"}},
      {"hf-file", {"LLAMA_ARG_HF_FILE"}},
      {"model-url", {"LLAMA_ARG_MODEL_URL"}},
      {"mmproj", {"LLAMA_ARG_MMPROJ"}},
      {"threads", {"LLAMA_ARG_THREADS"}},
      {"ctx-size", {"LLAMA_ARG_CTX_SIZE"}},
      {"predict", {"LLAMA_ARG_N_PREDICT"}},
      {"batch-size", {"LLAMA_ARG_BATCH"}},
      {"ubatch-size", {"LLAMA_ARG_UBATCH"}},
      {"cache-type-k", {"LLAMA_ARG_CACHE_TYPE_K"}},
      {"cache-type-v", {"LLAMA_ARG_CACHE_TYPE_V"}},
      {"swa-full", {"LLAMA_ARG_SWA_FULL"}},
      {"gpu-layers", {"LLAMA_ARG_N_GPU_LAYERS"}},
      {"tensor-split", {"LLAMA_ARG_TENSOR_SPLIT"}},
      {"cpu-moe", {"LLAMA_ARG_CPU_MOE"}},
      {"n-cpu-moe", {"LLAMA_ARG_N_CPU_MOE"}},
      {"context-shift", {"LLAMA_ARG_CONTEXT_SHIFT"}},
      {"top-k", {"LLAMA_ARG_TOP_K"}},
      {"chat-template", {"LLAMA_ARG_CHAT_TEMPLATE"}},
      {"chat-template-file", {"LLAMA_ARG_CHAT_TEMPLATE_FILE"}},
      {"chat-template-kwargs", {"LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "LLAMA_CHAT_TEMPLATE_KWARGS"}},
      {"reasoning", {"LLAMA_ARG_REASONING"}},
      {"host", {"LLAMA_ARG_HOST"}},
      {"port", {"LLAMA_ARG_PORT"}},
      {"parallel", {"LLAMA_ARG_N_PARALLEL"}},
      {"api-key", {"LLAMA_API_KEY"}},
      {"alias", {"LLAMA_ARG_ALIAS"}},
      {"timeout", {"LLAMA_ARG_TIMEOUT"}},
      {"metrics", {"LLAMA_ARG_ENDPOINT_METRICS"}},
      {"models-max", {"LLAMA_ARG_MODELS_MAX"}},
  };
  return kVariables;
}

}  // namespace

std::span<const Alias> aliases() { return kAliases; }

const ForeignOption* find_foreign_option(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                         [&](const ForeignOption& option) { return option.name == name; });
  return found != std::end(kOptions) ? found : nullptr;
}

std::span<const std::string_view> foreign_variables(std::string_view long_name) {
  for (const Variable& variable : variables())
    if (variable.long_name == long_name) return variable.names;
  return {};
}

}  // namespace weft::cli
