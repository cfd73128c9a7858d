#include "backend/remote/protocol.h"

#include <span>
#include <utility>
#include <variant>

#include "base/to_size.h"
#include "weft/backend/module.h"
#include "weft/graph.h"
#include "weft/version.h"

namespace weft::remote {

std::string build_name() {
  std::string name = "weft " WEFT_VERSION;
  for (const std::size_t part :
       {to_size(kProtocol), to_size(kModuleVersion), sizeof(Graph), sizeof(Op), std::variant_size_v<Op>})
    name += '.' + std::to_string(part);
  return name;
}

Message labelled(Writer contents, const Label& label) { return std::move(contents.put(label)).take(); }

Label take_label(Message& message) {
  if (message.size() < sizeof(Label)) Reader::refuse();
  const auto label = Reader(std::span(message).last(sizeof(Label))).get<Label>();
  message.resize(message.size() - sizeof(Label));
  return label;
}

}  // namespace weft::remote
