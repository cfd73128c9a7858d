// weft test-backend: checks a device's results, for users to try on their GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "commands/command.h"
#include "files/json_output.h"
#include "options/arguments.h"
#include "options/options.h"
#include "terminal/terminal.h"
#include "weft/conformance.h"

namespace weft::cli {
namespace {

struct TestOptions {
  std::string device = "cpu";
  std::string op;
  bool json = false;
  Verbosity talk;
};

Json to_json(const std::string& device, const std::vector<ConformanceCase>& cases) {
  Json ops = Json::array(), failures = Json::array();
  for (const ConformanceRow& row : by_op(cases)) {
    ops.push_back({{"op", row.op},
                   {"cases", row.n_cases},
                   {"unsupported", row.n_unsupported},
                   {"failed", row.n_failed},
                   {"worst_error", row.worst.error},
                   {"tolerance", row.worst.tolerance},
                   {"worst_case", row.worst.what}});
  }
  for (const ConformanceCase& c : cases)
    if (!c.passed())
      failures.push_back({{"op", c.op}, {"case", c.what}, {"error", c.error}, {"tolerance", c.tolerance}});
  const bool passed = failures.empty();
  return {{"device", device}, {"passed", passed}, {"ops", std::move(ops)}, {"failures", std::move(failures)}};
}

int run(const TestOptions& options) {
  const std::shared_ptr<Registry> registry = find_all_backends();
  for (const std::string& problem : problems(*registry)) note(options.talk, problem);
  Progress bar(options.talk, "testing " + options.device);
  std::set<std::string> seen;
  const auto n_ops = static_cast<double>(options.op.empty() ? op_names().size() : 1);
  const auto progress = [&](const ConformanceCase& c) {
    seen.insert(c.op);
    bar.update(static_cast<double>(seen.size() - 1) / n_ops);
  };
  const std::vector<ConformanceCase> cases =
      check_conformance(*registry, options.device, {.only = options.op, .progress = progress});
  bar.done();

  const auto n_failed =
      std::count_if(cases.begin(), cases.end(), [](const ConformanceCase& c) { return !c.passed(); });
  if (options.json) {
    print(to_text(to_json(options.device, cases), 2));
  } else {
    print(to_table(cases) + fmt::format("{}: {} of {} cases {}\n", options.device,
                                        n_failed > 0 ? n_failed : std::ssize(cases), cases.size(),
                                        n_failed > 0 ? "failed" : "passed"));
  }
  return n_failed > 0 ? kExitFailure : kExitOk;
}

std::function<int()> prepare_test_backend(CLI::App& app) {
  auto options = std::make_shared<TestOptions>();
  app.add_option("DEVICE", options->device, "a device, as 'weft devices' names it (default: cpu)");
  app.add_option("--op", options->op, "test only this op")->type_name("OP")->group("Options");
  add_switch(app, "--json", options->json, "print one JSON object")->group("Output");
  add_verbosity_options(app, options->talk);
  return [options] { return run(*options); };
}

}  // namespace

const Command kTestBackendCommand = {
    "test-backend", "[options] [DEVICE]", "test whether a device computes correctly",
    "Runs every op with every type on the device and compares the results with sums in double precision.\n"
    "Cases that a device does not support run on the CPU when a model runs. Exits with 1 if a case fails.\n"
    "\n"
    "Examples:\n"
    "  weft test-backend vulkan0\n"
    "  weft test-backend vulkan0 --op attention --json\n",
    prepare_test_backend};

}  // namespace weft::cli
