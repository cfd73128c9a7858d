#include "options/llama_cpp.h"

#include <algorithm>
#include <array>
#include <vector>

namespace weft::cli {
namespace {

using enum ForeignOption::Value;

constexpr Alias kAliases[] = {
    {"-md", "--model-draft"},
    {"--spec-draft-model", "--model-draft"},
    {"-hfd", "--hf-repo-draft"},
    {"-hfrd", "--hf-repo-draft"},
    {"--spec-draft-hf", "--hf-repo-draft"},
    {"--draft", "--draft-max"},
    {"--draft-n", "--draft-max"},
    {"--spec-draft-n-max", "--draft-max"},
    {"-cd", "--ctx-size-draft"},
    {"--spec-draft-ctx-size", "--ctx-size-draft"},
    {"-ngld", "--gpu-layers-draft"},
    {"--n-gpu-layers-draft", "--gpu-layers-draft"},
    {"--spec-draft-ngl", "--gpu-layers-draft"},
    {"-devd", "--device-draft"},
    {"--spec-draft-device", "--device-draft"},
    {"-hf", "--hf-repo"},
    {"-hfr", "--hf-repo"},
    {"-hff", "--hf-file"},
    {"-mu", "--model-url"},
    {"-ub", "--ubatch-size"},
    {"-cram", "--cache-ram"},
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
    {"-ctxcp", "--ctx-checkpoints"},
    {"--swa-checkpoints", "--ctx-checkpoints"},
    {"-npl", "--streams"},
    {"-pps", "--shared-prompt"},
    {"-pg", "--prompt-generate"},
    {"--served-model-name", "--alias"},
    {"--max-model-len", "--ctx-size"},
    {"--max-num-seqs", "--parallel"},
    {"--max-num-batched-tokens", "--ubatch-size"},
    {"--uds", "--host"},
    {"-fit", "--fit"},
    {"-fitt", "--fit-target"},
    {"-fitc", "--fit-ctx"},
    {"-nr", "--no-repack"},
    {"-mm", "--mmproj"},
    {"--no-mmproj-auto", "--no-mmproj"},
    {"-to", "--timeout"},
    {"--log-jsonl", "--log-json"},
    {"--no-log-jsonl", "--no-log-json"},
};

// Reasons that several options have.
constexpr std::string_view kAttention = "attention is always computed this way";
constexpr std::string_view kMapping = "weft maps the file and keeps packed weights on large pages";
constexpr std::string_view kWarmup = "there is nothing to warm up";
constexpr std::string_view kTimes = "-v prints times";
constexpr std::string_view kTemplates = "templates are always Jinja";
constexpr std::string_view kModes = "'weft chat' chats, 'weft run' continues a prompt";
constexpr std::string_view kPlainText = "this command does not process escapes";
constexpr std::string_view kLogs = "messages go to stderr; -q leaves them out";
constexpr std::string_view kTerminal =
    "colour and line editing are for terminals only; --color never, --no-wrap";
constexpr std::string_view kNoPrompt = "the prompt is not printed again";
constexpr std::string_view kBatching = "requests are always computed together";
constexpr std::string_view kPlacing = "the system places threads";
constexpr std::string_view kChecked =
    "headers are always checked; a model that computes NaN ends with an error";
constexpr std::string_view kNoPerplexity = "'weft perplexity' computes perplexities";
constexpr std::string_view kChatOnly = "use 'weft chat'";
constexpr std::string_view kRope = "weft reads RoPE scaling from the file; leave the option out";
constexpr std::string_view kDrafting =
    "drafts have --model-draft, --spec-type and --draft-max, in run, chat and serve; leave the option out";
constexpr std::string_view kDraftLengths = "weft measures which drafts pay, and drafts no others";
constexpr std::string_view kDraftThreads = "-t applies to the draft model, too";
constexpr std::string_view kDraftCache = "the cache of the draft model has the types of -ctk and -ctv";
constexpr std::string_view kDraftPlaces = "choose devices of the draft model with --device-draft";
constexpr std::string_view kLookup = "n-grams are looked up in the sequence itself";
constexpr std::string_view kVllmDrafts = "use --spec-type ngram, or --model-draft and --draft-max";
constexpr std::string_view kThoughts = "reasoning is printed as it is generated";
constexpr std::string_view kSeveralLines = "lines that end in \\, or lines between \"\"\", are one message";
constexpr std::string_view kEncoders = "the model determines its endpoints: chat, embeddings or reranking";
constexpr std::string_view kPrefixes = "equal prefixes are reused while the cache has room, by all requests";
constexpr std::string_view kSnapshots = "weft chat and weft serve keep snapshots for later prompts";
constexpr std::string_view kSnapshotPlaces = "weft keeps snapshots where prompts may diverge";
constexpr std::string_view kCost = "weft itself decides what runs on each device, by memory and cost";
constexpr std::string_view kFromModel = "weft takes this from the model's file; leave the option out";
constexpr std::string_view kNoTools =
    "the server runs no tools: a client sends 'tools' with its requests, and runs what the model calls";
constexpr std::string_view kNameModels =
    "name each model with -m, or put the files into the model cache ('weft models' shows it)";
constexpr std::string_view kOneProcess = "all models share the options; start a server for each set of them";
constexpr std::string_view kPullModel = "download the model with 'weft pull' or -hf, and name it with -m";
constexpr std::string_view kPage = "the page keeps its settings in the browser";
constexpr std::string_view kCorsHeaders = "pages that may use the server may use all of its API";
constexpr std::string_view kSequencesStay = "the template decides which earlier reasoning it includes";
constexpr std::string_view kTemplateDecides = "the chat template sets the strings around a message";

constexpr ForeignOption kOptions[] = {
    {"--plot", kOne, false,
     "bench/plot.py in weft's sources draws charts: weft bench -o json > results.json; "
     "bench/plot.py results.json -o speeds.svg"},
    {"--draft-min", kOne, true, kDraftLengths},
    {"--draft-n-min", kOne, true, kDraftLengths},
    {"--draft-p-min", kOne, true, kDraftLengths},
    {"--draft-p-split", kOne, true, kDraftLengths},
    {"--spec-draft-n-min", kOne, true, kDraftLengths},
    {"--spec-draft-p-min", kOne, true, kDraftLengths},
    {"--spec-draft-p-split", kOne, true, kDraftLengths},
    {"--spec-draft-backend-sampling", kNone, true, "the draft model's best tokens are found on its device"},
    {"--no-spec-draft-backend-sampling", kNone, true, "the output is the same"},
    {"--spec-default", kNone, true, "n-grams are the default: --spec-type ngram"},
    {"--spec-ngram-*", kOne, true, kLookup},
    {"-lcs", kOne, true, kLookup},
    {"-lcd", kOne, true, kLookup},
    {"--lookup-cache-*", kOne, true, kLookup},
    {"-td", kOne, true, kDraftThreads},
    {"-tbd", kOne, true, kDraftThreads},
    {"--threads-draft", kOne, true, kDraftThreads},
    {"--threads-batch-draft", kOne, true, kDraftThreads},
    {"--spec-draft-threads", kOne, true, kDraftThreads},
    {"--spec-draft-threads-batch", kOne, true, kDraftThreads},
    {"-ctkd", kOne, true, kDraftCache},
    {"-ctvd", kOne, true, kDraftCache},
    {"--cache-type-k-draft", kOne, true, kDraftCache},
    {"--cache-type-v-draft", kOne, true, kDraftCache},
    {"--spec-draft-type-*", kOne, true, kDraftCache},
    {"-otd", kOne, false, kDraftPlaces},
    {"--override-tensor-draft", kOne, false, kDraftPlaces},
    {"--spec-draft-override-tensor", kOne, false, kDraftPlaces},
    {"-cmoed", kNone, false, kDraftPlaces},
    {"--cpu-moe-draft", kNone, false, kDraftPlaces},
    {"--spec-draft-cpu-moe", kNone, false, kDraftPlaces},
    {"-ncmoed", kOne, false, kDraftPlaces},
    {"--n-cpu-moe-draft", kOne, false, kDraftPlaces},
    {"--speculative-config", kOne, false, kVllmDrafts},
    {"-sc", kOne, false, kVllmDrafts},
    {"--speculative-model", kOne, false, kVllmDrafts},
    {"--num-speculative-tokens", kOne, false, kVllmDrafts},
    // Of commands that do not draft.
    {"--spec-type", kOne, false, kDrafting, "none"},
    {"--draft", kOne, false, kDrafting, "0"},
    {"--spec-*", kOne, false, kDrafting},
    {"--draft-*", kOne, false, kDrafting},
    {"*-draft", kOne, false, kDrafting},
    {"-md", kOne, false, kDrafting},
    {"-hfd", kOne, false, kDrafting},
    {"-hfrd", kOne, false, kDrafting},
    {"-cd", kOne, false, kDrafting},
    {"-devd", kOne, false, kDrafting},
    {"-ngld", kOne, false, kDrafting},

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
    {"--no-log-prefix", kNone, true, kLogs},
    {"--no-log-timestamps", kNone, true, kLogs},
    {"--log-colors", kSwitch, true, kLogs},
    {"-lv", kOne, true, kLogs},
    {"--verbosity", kOne, true, kLogs},
    {"--log-verbosity", kOne, true, kLogs},
    {"--display-prompt", kNone, true, kNoPrompt},
    {"--no-display-prompt", kNone, true, kNoPrompt},
    {"-tb", kOne, true, "-t applies to prompts, too"},
    {"--threads-batch", kOne, true, "-t applies to prompts, too"},
    {"-cb", kNone, true, kBatching},
    {"--cont-batching", kNone, true, kBatching},
    {"-kvu", kNone, true, kBatching},
    {"--kv-unified", kNone, true, kBatching},
    {"--prio", kOne, true, kPlacing},
    {"--poll", kOne, true, kPlacing},
    {"-C", kOne, true, kPlacing},
    {"--cpu-mask", kOne, true, kPlacing},
    {"--cpu-strict", kOne, true, kPlacing},
    {"-no-kvu", kNone, true, kBatching},
    {"--no-kv-unified", kNone, true, kBatching},
    {"-nocb", kNone, true, kBatching},
    {"--no-cont-batching", kNone, true, kBatching},
    {"-Cr", kOne, true, kPlacing},
    {"-Cb", kOne, true, kPlacing},
    {"-Crb", kOne, true, kPlacing},
    {"--cpu-*", kOne, true, kPlacing},
    {"--prio-batch", kOne, true, kPlacing},
    {"--poll-batch", kOne, true, kPlacing},
    {"-kvo", kNone, true, kCost},
    {"--kv-offload", kNone, true, kCost},
    {"--op-offload", kNone, true, kCost},
    {"--no-op-offload", kNone, true, kCost},
    {"--no-host", kNone, true, kCost},
    {"--fit-*", kOne, true, kCost},
    {"--mmproj-offload", kNone, true, kCost},
    {"--no-mmproj-offload", kNone, true, kCost},
    {"-lzm", kOne, true, kMapping},
    {"--lazy-mode", kOne, true, kMapping},
    {"-dio", kNone, true, kMapping},
    {"--direct-io", kNone, true, kMapping},
    {"-dt", kOne, true, "the cache has pages, which need no defragmentation"},
    {"--defrag-thold", kOne, true, "the cache has pages, which need no defragmentation"},
    {"-bs", kNone, true, "devices screen the tokens that samplers may need anyway"},
    {"--backend-sampling", kNone, true, "devices screen the tokens that samplers may need anyway"},
    {"--cache-reuse", kOne, true, kPrefixes},
    {"--cache-prompt", kNone, true, kPrefixes},
    {"--no-cache-prompt", kNone, true, kPrefixes},
    {"--cache-idle-slots", kNone, true, kPrefixes},
    {"--no-cache-idle-slots", kNone, true, kPrefixes},
    {"-sps", kOne, true, kPrefixes},
    {"--slot-prompt-similarity", kOne, true, kPrefixes},
    {"-ctxcp", kOne, true, kSnapshots},
    {"--ctx-checkpoints", kOne, true, kSnapshots},
    {"--swa-checkpoints", kOne, true, kSnapshots},
    {"-cms", kOne, true, kSnapshotPlaces},
    {"--checkpoint-min-step", kOne, true, kSnapshotPlaces},
    {"--embedding", kNone, true, kEncoders},
    {"--embeddings", kNone, true, kEncoders},
    {"--rerank", kNone, true, kEncoders},
    {"--reranking", kNone, true, kEncoders},
    {"--props", kNone, true, "GET /props is always there, and nothing in it can be changed"},
    {"--mmproj-auto", kNone, true, "an encoder that was downloaded with the model is always used"},
    {"--mtmd-batch-max-tokens", kOne, true, "weft itself divides images over steps"},
    {"--cors-methods", kOne, true, kCorsHeaders},
    {"--cors-headers", kOne, true, kCorsHeaders},
    {"--cors-credentials", kNone, true, kCorsHeaders},
    {"--no-cors-credentials", kNone, true, kCorsHeaders},
    {"--ui-config", kOne, true, kPage},
    {"--ui-config-file", kOne, true, kPage},
    {"--webui-config", kOne, true, kPage},
    {"--webui-config-file", kOne, true, kPage},
    {"--no-ui-mcp-proxy", kNone, true, "the server has no such proxy"},
    {"--no-webui-mcp-proxy", kNone, true, "the server has no such proxy"},
    {"-no-ag", kNone, true, "the server runs no tools"},
    {"--no-agent", kNone, true, "the server runs no tools"},
    {"--models-autoload", kNone, true, "models are loaded when a request asks for them"},
    {"--sse-ping-interval", kOne, true, "a silent stream gets a comment every 10 seconds"},
    {"--reasoning-preserve", kNone, true, kSequencesStay},
    {"--no-reasoning-preserve", kNone, true, kSequencesStay},
    {"--no-skip-chat-parsing", kNone, true, "responses are always parsed"},
    {"--prefill-assistant", kNone, true, "a request says so with continue_final_message"},
    {"--no-prefill-assistant", kNone, true, "a request says so with continue_final_message"},
    {"--check-tensors", kNone, true, kChecked},
    {"--offline", kNone, true, "downloaded models need no network; HF_HUB_OFFLINE=1 forbids downloads"},
    {"--max-buffer-size", kOne, true, "weft holds one tensor and four MiB of the input in memory at a time"},
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
    {"-mg", kOne, false, "choose devices with --device, as 'weft devices' names them", "0"},
    {"--main-gpu", kOne, false, "choose devices with --device, as 'weft devices' names them", "0"},
    {"--list-devices", kNone, false, "use 'weft devices'"},
    {"-nkvo", kNone, false,
     "caches are on the devices of their layers; --pin 'cache=cpu' keeps them on the CPU"},
    {"--no-kv-offload", kNone, false,
     "caches are on the devices of their layers; --pin 'cache=cpu' keeps them on the CPU"},
    {"--rope-scaling", kOne, false, kRope, "none"},
    {"--rope-scale", kOne, false, kRope, "1"},
    {"--yarn-*", kOne, false, kRope},
    {"--rope-freq-base", kOne, false, kRope},
    {"--rope-freq-scale", kOne, false, kRope},
    {"--tools", kOne, false, kNoTools},
    {"--tools-runtime", kOne, false, kNoTools},
    {"--mcp-*", kOne, false, kNoTools},
    {"-ag", kNone, false, kNoTools},
    {"--agent", kNone, false, kNoTools},
    {"--ui-mcp-proxy", kNone, false, kNoTools},
    {"--webui-mcp-proxy", kNone, false, kNoTools},
    {"--models-dir", kOne, false, kNameModels},
    {"--models-preset", kOne, false, kOneProcess},
    {"--no-models-autoload", kNone, false,
     "models are loaded when a request asks for them; --models-max 1 keeps one of them in memory"},
    {"--path", kOne, false, "the page is built in; serve other files with a web server in front"},
    {"--media-path", kOne, false,
     "send images and audio as data: URLs; the server opens no files for clients"},
    {"-mmu", kOne, false, "download the file, and name it with --mmproj"},
    {"--mmproj-url", kOne, false, "download the file, and name it with --mmproj"},
    {"-mmdev", kOne, false, "choose devices with --device, which applies to encoders, too"},
    {"--mmproj-device", kOne, false, "choose devices with --device, which applies to encoders, too"},
    {"--image-*", kOne, false, kFromModel},
    {"--video-*", kOne, false, "weft reads no video; leave the option out"},
    {"--reuse-port", kNone, false, "let one server listen; more connections need no second process"},
    {"--kv-unified-per-slot", kOne, false,
     "-c sets the tokens of the cache, which all requests share; leave the option out"},
    {"--moe-cache-mib", kOne, false, "--cpu-moe and --pin place experts; leave the option out", "0"},
    {"-ncffn", kOne, false, "use --pin, as in --pin 'blk\\.[0-3]\\.ffn=cpu'", "0"},
    {"--n-cpu-ffn", kOne, false, "use --pin, as in --pin 'blk\\.[0-3]\\.ffn=cpu'", "0"},
    {"--adaptive-target", kOne, false, "weft does not have this sampler; use --min-p or --xtc-probability",
     "-1"},
    {"--adaptive-decay", kOne, true, "it belongs to --adaptive-target, which weft does not have"},
    {"--skip-chat-parsing", kNone, false, "use /v1/completions for unparsed completions"},
    {"--log-prompts-dir", kOne, false, "the server never logs prompts; log them where they are sent"},
    {"-hft", kOne, false, "set HF_TOKEN in the environment, so that no list of processes shows the token"},
    {"--hf-token", kOne, false,
     "set HF_TOKEN in the environment, so that no list of processes shows the token"},
    {"-dr", kOne, false, kPullModel},
    {"--docker-repo", kOne, false, kPullModel},
    {"--fim-*", kNone, false, kPullModel},
    {"--gpt-oss-*", kNone, false, kPullModel},
    {"--vision-*", kNone, false, kPullModel},
    {"--embd-gemma-default", kNone, false, kPullModel},
    {"-cl", kNone, false, "use 'weft models'"},
    {"--cache-list", kNone, false, "use 'weft models'"},
    {"--completion-bash", kNone, false, "use 'weft completion bash'"},
    {"--version", kNone, false, "use 'weft version'"},
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
      {"model-draft", {"LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_MODEL_DRAFT"}},
      {"hf-repo-draft", {"LLAMA_ARG_SPEC_DRAFT_HF_REPO", "LLAMA_ARG_HFD_REPO"}},
      {"draft-max", {"LLAMA_ARG_SPEC_DRAFT_N_MAX", "LLAMA_ARG_DRAFT_MAX"}},
      {"ctx-size-draft", {"LLAMA_ARG_CTX_SIZE_DRAFT"}},
      {"gpu-layers-draft", {"LLAMA_ARG_N_GPU_LAYERS_DRAFT"}},
      {"spec-type", {"LLAMA_ARG_SPEC_TYPE"}},
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
      {"fit", {"LLAMA_ARG_FIT"}},
      {"fit-target", {"LLAMA_ARG_FIT_TARGET"}},
      {"fit-ctx", {"LLAMA_ARG_FIT_CTX"}},
      {"context-shift", {"LLAMA_ARG_CONTEXT_SHIFT"}},
      {"top-k", {"LLAMA_ARG_TOP_K"}},
      {"chat-template", {"LLAMA_ARG_CHAT_TEMPLATE"}},
      {"chat-template-file", {"LLAMA_ARG_CHAT_TEMPLATE_FILE"}},
      {"chat-template-kwargs", {"LLAMA_ARG_CHAT_TEMPLATE_KWARGS", "LLAMA_CHAT_TEMPLATE_KWARGS"}},
      {"reasoning", {"LLAMA_ARG_REASONING"}},
      {"host", {"LLAMA_ARG_HOST"}},
      {"port", {"LLAMA_ARG_PORT"}},
      {"parallel", {"LLAMA_ARG_N_PARALLEL"}},
      {"ctx-checkpoints", {"LLAMA_ARG_CTX_CHECKPOINTS"}},
      {"cache-ram", {"LLAMA_ARG_CACHE_RAM"}},
      {"api-key", {"WEFT_API_KEY", "LLAMA_API_KEY", "LLAMA_ARG_API_KEY", "VLLM_API_KEY"}},
      {"alias", {"LLAMA_ARG_ALIAS"}},
      {"timeout", {"LLAMA_ARG_TIMEOUT"}},
      {"metrics", {"LLAMA_ARG_ENDPOINT_METRICS"}},
      {"models-max", {"LLAMA_ARG_MODELS_MAX"}},
      {"slots", {"LLAMA_ARG_ENDPOINT_SLOTS"}},
      {"webui", {"LLAMA_ARG_UI", "LLAMA_ARG_WEBUI"}},
      {"pooling", {"LLAMA_ARG_POOLING"}},
      {"api-prefix", {"LLAMA_ARG_API_PREFIX"}},
      {"api-key-file", {"LLAMA_ARG_API_KEY_FILE"}},
      {"threads-http", {"LLAMA_ARG_THREADS_HTTP"}},
      {"tags", {"LLAMA_ARG_TAGS"}},
      {"cors-origins", {"LLAMA_ARG_CORS_ORIGINS"}},
      {"slot-save-path", {"LLAMA_ARG_SLOT_SAVE_PATH"}},
      {"reasoning-budget", {"LLAMA_ARG_THINK_BUDGET"}},
      {"reasoning-budget-message", {"LLAMA_ARG_THINK_BUDGET_MESSAGE"}},
      {"reasoning-effort", {"LLAMA_ARG_REASONING_EFFORT"}},
      {"temp", {"LLAMA_ARG_TEMPERATURE"}},
      {"top-p", {"LLAMA_ARG_TOP_P"}},
      {"min-p", {"LLAMA_ARG_MIN_P"}},
      {"repeat-penalty", {"LLAMA_ARG_REPEAT_PENALTY"}},
      {"presence-penalty", {"LLAMA_ARG_PRESENCE_PENALTY"}},
      {"frequency-penalty", {"LLAMA_ARG_FREQUENCY_PENALTY"}},
  };
  return kVariables;
}

}  // namespace

std::span<const Alias> aliases() { return kAliases; }

const ForeignOption* find_foreign_option(std::string_view name) {
  const auto fits = [&](const ForeignOption& option) {
    if (option.name.ends_with('*')) return name.starts_with(option.name.substr(0, option.name.size() - 1));
    if (option.name.starts_with('*')) return name.ends_with(option.name.substr(1));
    return option.name == name;
  };
  const auto* const found = std::find_if(std::begin(kOptions), std::end(kOptions), fits);
  return found != std::end(kOptions) ? found : nullptr;
}

bool takes_switch_word(std::string_view long_name) { return long_name == "--fit"; }

std::span<const std::string_view> foreign_variables(std::string_view long_name) {
  for (const Variable& variable : variables())
    if (variable.long_name == long_name) return variable.names;
  return {};
}

bool is_foreign_variable(std::string_view name) {
  return std::ranges::any_of(variables(), [&](const Variable& variable) {
    return std::ranges::find(variable.names, name) != variable.names.end();
  });
}

}  // namespace weft::cli
