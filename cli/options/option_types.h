#pragma once
// Declares the classes of the option library, for headers. Only files that add or read options include
// CLI/CLI.hpp: it costs each of them four seconds to compile.

namespace CLI {
class App;
class Option;
}  // namespace CLI
