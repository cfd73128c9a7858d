#include "api/form.h"

#include <fmt/format.h>

#include <charconv>

#include "api/error.h"
#include "files/multipart.h"

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

class FormReader final : public FormHandler {
 public:
  Form form;

  void begin_part(FormPart part) override {
    name_ = std::move(part.name);
    value_.clear();
    if (!is_file()) return;
    if (form.file) throw bad_request("file", "the form has two parts 'file'");
    form.file.emplace();
  }
  void add(std::string_view bytes) override {
    if (is_file()) return void(form.file->append(bytes));
    if (bytes.size() > kMostPartBytes - value_.size())
      throw bad_request(
          "", fmt::format("a part of the form other than 'file' has more than {} bytes", kMostPartBytes));
    value_ += bytes;
  }
  void end_part() override {
    if (is_file()) return;
    const bool is_element = name_.ends_with("[]");
    if (is_element) name_.resize(name_.size() - 2);
    Json& field = form.fields[name_];
    if (is_element) {
      if (!field.is_array()) field = Json::array();
      field.push_back(value_);
    } else {
      field = typed(name_, value_);
    }
  }

 private:
  bool is_file() const { return name_ == "file"; }

  std::string name_, value_;
};

}  // namespace

Form read_form(const HttpRequest& request) {
  const auto boundary = boundary_of(request.header("Content-Type"));
  if (!boundary)
    throw bad_request("", "the body must be a form (multipart/form-data) with the parts 'file' and 'model'");
  FormReader handler;
  MultipartReader reader(*boundary, handler);
  reader.read(request.body);
  reader.finish();
  return std::move(handler.form);
}

}  // namespace weft::server
