#include "api/form.h"

#include <fmt/format.h>

#include <charconv>

#include "api/error.h"

namespace weft::server {
namespace {

constexpr std::size_t kMostPartBytes = 64 << 10;

Json typed(const std::string& name, const std::string& value) {
  if (name == "temperature") {
    double number = 0.0;
    const char* const end = value.data() + value.size();
    if (const auto [at, error] = std::from_chars(value.data(), end, number);
        error == std::errc() && at == end)
      return number;
  }
  if (name == "stream") {
    if (value == "true" || value == "True" || value == "1") return true;
    if (value == "false" || value == "False" || value == "0") return false;
  }
  return value;
}

}  // namespace

void FormSink::put(std::string piece, std::function<void()> taken) {
  if (error_ == nullptr) {
    try {
      n_held_ += piece.size();
      if ((*held_ += piece.size()) > kMostHeld)
        throw unavailable(kOverloaded, "too many files are being received; try again");
      reader_.read(piece);
    } catch (...) {
      error_ = std::current_exception();
      form_ = {};
    }
  }
  taken();
}

Form FormSink::take() {
  if (error_ != nullptr) std::rethrow_exception(error_);
  reader_.finish();
  return std::move(form_);
}

void FormSink::begin_part(FormPart part) {
  name_ = std::move(part.name);
  value_.clear();
  if (name_ != "file") return;
  if (form_.file) throw bad_request("file", "the form has two parts 'file'");
  form_.file.emplace();
}

void FormSink::add(std::string_view bytes) {
  if (name_ == "file") return void(form_.file->append(bytes));
  if (bytes.size() > kMostPartBytes - value_.size())
    throw bad_request(
        "", fmt::format("a part of the form other than 'file' has more than {} bytes", kMostPartBytes));
  value_ += bytes;
}

void FormSink::end_part() {
  if (name_ == "file") return;
  const bool is_element = name_.ends_with("[]");
  if (is_element) name_.resize(name_.size() - 2);
  Json& field = form_.fields[name_];
  if (!is_element) return void(field = typed(name_, value_));
  if (!field.is_array()) field = Json::array();
  field.push_back(value_);
}

Form take_form(const HttpRequest& request) {
  const auto sink = std::dynamic_pointer_cast<FormSink>(request.sink);
  if (sink == nullptr)
    throw bad_request("", "the body must be a form (multipart/form-data) with the parts 'file' and 'model'");
  return sink->take();
}

}  // namespace weft::server
