#include "engine/boundary.h"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "weft/error.h"

namespace weft::engine {

void rethrow_as_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kOutOfMemory, "the host's memory is exhausted");
  } catch (const std::length_error&) {
    throw Error(ErrorCode::kOutOfMemory, "the request needs more memory than a host can have");
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorCode::kIo, error.path1().string() + ": " + error.code().message());
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kDevice, std::string("the system refused: ") + error.what());
  }
}

}  // namespace weft::engine
