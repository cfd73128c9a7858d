// The module `weft._weft`: weft's public API, as far as the package `weft` and its users need it.
#include <algorithm>
#include <exception>

#include "binding.h"
#include "weft/batcher.h"

namespace weft::python {

namespace {

/// Sets Python's error. The classes are in the package. Errors are too rare to cache them.
void raise(std::string_view code, const std::exception& error, double retry_after_ms = 0.0) {
  try {
    const nb::object exception = nb::module_::import_("weft.errors")
                                     .attr("from_code")(code, to_str(error.what()), retry_after_ms / 1000.0);
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
  } catch (nb::python_error& failure) {
    failure.restore();
  }
}

}  // namespace

nb::str to_str(std::string_view text) {
  PyObject* const str = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (str == nullptr) throw nb::python_error();
  return nb::steal<nb::str>(str);
}

void unknown_option(std::string_view name) {
  throw nb::type_error(("there is no option '" + std::string(name) + "'").c_str());
}

void wrong_type(std::string_view name, nb::handle value) {
  const nb::object error = nb::module_::import_("weft.arguments").attr("wrong")(name, value);
  PyErr_SetObject(error.type().ptr(), error.ptr());
  throw nb::python_error();
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const OverloadedError& error) {
      raise(to_string(error.code()), error, error.retry_after_ms);
    } catch (const Error& error) {
      raise(to_string(error.code()), error);
    } catch (const CacheFull& error) {
      raise("cache_full", error);
    } catch (const nb::cast_error&) {
      PyErr_SetString(PyExc_TypeError, "an argument is of a type that cannot be there");
    }
  });
}

}  // namespace weft::python

NB_MODULE(_weft, m) {
  using namespace weft::python;
  // No warnings for a process that ends with objects in use. Tests turn them on.
  nanobind::set_leak_warnings(false);
  m.def(
      "warn_of_leaks", [] { nanobind::set_leak_warnings(true); },
      "At the end of the process tell which objects are left.");
  m.doc() = "weft's C++ API for the package weft.";
  bind_errors();
  bind_model(m);
  bind_context(m);
  bind_engine(m);
  bind_chat(m);
  bind_embedder(m);
  bind_graph(m);
  bind_functions(m);
  bind_plan(m);
}
