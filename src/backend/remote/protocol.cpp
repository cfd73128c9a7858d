#include "backend/remote/protocol.h"

#include <variant>

#include "weft/backend/module.h"
#include "weft/graph.h"

namespace weft::remote {

std::string build_name() {
  std::string name = "weft " WEFT_VERSION;
  for (const std::size_t part :
       {static_cast<std::size_t>(kProtocol), static_cast<std::size_t>(kModuleVersion), sizeof(Graph),
        sizeof(Op), std::variant_size_v<Op>})
    name += '.' + std::to_string(part);
  return name;
}

}  // namespace weft::remote
