"""The C++ interface of a compiled library: a header of its own around the C one, with a model that ends by itself, arrays that carry their
shapes, and errors as exceptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from string import Template

from polyreme.ir.dims import parse_dim, symbols
from polyreme.lowering.link.c_interface import c_name_of, comment_text
from polyreme.lowering.link.runtime import Manifest, TensorSpec

__all__ = ["cpp_header"]

_TYPES = {
    "float32": "float", "float64": "double", "bool": "std::uint8_t", "float16": "std::uint16_t", "bfloat16": "std::uint16_t",
    "complex64": "std::complex<float>", "complex128": "std::complex<double>",
    **{f"{sign}int{bits}": f"std::{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
# What a name may not be: what the header has itself in places where it is used beside them, and macros that systems have.
_TAKEN = frozenset(
    "Array Error Model Results View attempt capacities check_weights code detail get inputs model model_ output_shapes outputs results run "
    "set_threads shapes threads try_run std linux unix errno assert stdin stdout stderr NULL EOF major minor".split()
)


def cpp_header(manifest: Manifest, name: str, header: str, has_weights_file: bool) -> str:
    """The text of `NAME.hpp`, for C++17 and later, beside the C header of this name."""
    inputs, outputs = _names(manifest.inputs, name), _names(manifest.outputs, name)
    arguments = ", ".join(f"View<{_type(t)}, {len(t.shape)}> {n}" for n, t in zip(inputs, manifest.inputs, strict=True))
    known = frozenset(manifest.size_names)
    told_later = any(_is_unknown(size, known) for t in manifest.outputs for size in t.shape)
    return Template(_HEADER).substitute(
        name=name,
        NAME=name.upper(),
        header=header,
        space=f"{name}_" if name in _TAKEN else name,
        results="\n".join(_result(n, t) for n, t in zip(outputs, manifest.outputs, strict=True)),
        takes="\n".join(f" *   {n}: {_shape(t)}" for n, t in zip(inputs, manifest.inputs, strict=True)) or " *   (nothing)",
        arguments=arguments,
        more_arguments=f"{arguments}, " if arguments else "",
        given="".join(f"{n}, " for n in inputs),
        inputs_count=len(inputs),
        outputs_count=len(outputs),
        data=", ".join(f"{n}.data" for n in inputs),
        shapes=", ".join(f"{n}.shape.data()" for n in inputs),
        output_shapes=", ".join(f"results.{n}.shape.data()" for n in outputs),
        make_room=_lines(f"detail::make_room(results.{n});" for n in outputs),
        places=", ".join(f"results.{n}.data.data()" for n in outputs),
        capacities=", ".join(f"static_cast<std::int64_t>(results.{n}.data.size())" for n in outputs),
        fit=_lines((f"detail::fit(results.{n});" for n in outputs), 4),
        unknown=_UNKNOWN if told_later else "",
        with_weights=Template(_WITH_WEIGHTS).substitute(name=name) if has_weights_file else "",
    )


def _is_unknown(size: int | str, known: frozenset[str]) -> bool:
    return isinstance(size, str) and not symbols(parse_dim(size)) <= known


def _names(tensors: Iterable[TensorSpec], model: str) -> list[str]:
    """What tensors are called, each otherwise; functions and macros of the model begin with its name."""
    found: list[str] = []
    for tensor in tensors:
        name = c_name_of(tensor.name)
        if name in _TAKEN or name.startswith((f"{model}_", f"{model.upper()}_")):
            name = f"of_{name}"
        count = 2
        first = name
        while name in found:
            name, count = f"{first}_{count}", count + 1
        found.append(name)
    return found


def _type(tensor: TensorSpec) -> str:
    return _TYPES[tensor.dtype]


def _result(name: str, tensor: TensorSpec) -> str:
    return f"  Array<{_type(tensor)}, {len(tensor.shape)}> {name}; /* {_shape(tensor)} */"


def _shape(tensor: TensorSpec) -> str:
    return comment_text(f"{tensor.name}, {tensor.dtype}[{', '.join(map(str, tensor.shape))}]")


def _lines(lines: Iterable[str], indent: int = 6) -> str:
    return ("\n" + " " * indent).join(lines)


_WITH_WEIGHTS = """
  /* The same, with the file of the weights at another place than beside the library. */
  explicit Model(const std::string &weights, std::int32_t threads = 0) {
    const char *error = nullptr;
    model_ = ${name}_create_with_weights(weights.c_str(), threads, &error);
    if (model_ == nullptr) detail::fail(0, error);
  }
"""

_UNKNOWN = """
 * Sizes of results that only a run tells make it run a second time where `results` has too little room from the run before."""

_HEADER = """\
/* ${name} in C++: one class around ${header}, for C++17 and later. Link with the same library.
 *
 *   ${space}::Model model;                            ends the model and its threads where it goes out of scope
 *   auto results = model.run({pixels, {2, 1, 28, 28}});   a container (vector, span, array) or a pointer, and its shape
 *
 * Arrays are dense and row-major. bool is one byte, float16 and bfloat16 are their bits.
 *
 * Takes:
${takes}
 */
#ifndef ${NAME}_HPP
#define ${NAME}_HPP

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "${header}"

namespace ${space} {

/* What a function of the library returned, ${NAME}_BAD_SHAPE for example, and its text. 0: the model could not be made. */
class Error : public std::runtime_error {
 public:
  Error(std::int32_t code, const std::string &text) : std::runtime_error(text), code_(code) {}
  std::int32_t code() const noexcept { return code_; }

 private:
  std::int32_t code_;
};

namespace detail {

/* Throws; without exceptions (-fno-exceptions) the program ends: use try_run and Model::attempt there. */
[[noreturn]] inline void fail(std::int32_t code, const char *text) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw Error(code, text == nullptr ? "" : text);
#else
  static_cast<void>(code), static_cast<void>(text);
  std::abort();
#endif
}

template <std::size_t Rank>
std::size_t elements(const std::array<std::int64_t, Rank> &shape) {
  std::size_t count = 1;
  for (std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  return count;
}

}  // namespace detail

/* Elements of somebody else, with their shape. */
template <class T, std::size_t Rank>
struct View {
  const T *data;
  std::array<std::int64_t, Rank> shape;

  View(const T *elements, const std::array<std::int64_t, Rank> &sizes) : data(elements), shape(sizes) {}

  /* Of a container, which has to have as many elements. */
  template <class Container, class = decltype(std::declval<const Container &>().size())>
  View(const Container &elements, const std::array<std::int64_t, Rank> &sizes) : data(elements.data()), shape(sizes) {
    if (detail::elements(shape) != static_cast<std::size_t>(elements.size()))
      detail::fail(${NAME}_BAD_ARGUMENT, "expected as many elements as the shape has");
  }
};

/* Elements of its own, with their shape. */
template <class T, std::size_t Rank>
struct Array {
  std::vector<T> data;
  std::array<std::int64_t, Rank> shape{};

  operator View<T, Rank>() const { return View<T, Rank>(data.data(), shape); }
};

/* What a run gives. */
struct Results {
${results}
};

namespace detail {

/* Room for what has this shape by now; where it is not known, what there is already. */
template <class T, std::size_t Rank>
void make_room(Array<T, Rank> &array) {
  bool known = true;
  for (std::int64_t size : array.shape) known = known && size >= 0;
  array.data.resize(known ? elements(array.shape) : array.data.capacity());
}

template <class T, std::size_t Rank>
void fit(Array<T, Rank> &array) {
  array.data.resize(elements(array.shape));
}

}  // namespace detail

/* A model. It can be moved, not copied; what was moved from may only be assigned to or end. Several threads may run one model, or several,
 * at the same time, each with Results of its own; everything else about a model is for one thread at a time. */
class Model {
 public:
  /* Runs on so many threads, the caller's among them (0: one per processor). */
  explicit Model(std::int32_t threads = 0) {
    const char *error = nullptr;
    model_ = ${name}_create(threads, &error);
    if (model_ == nullptr) detail::fail(0, error);
  }
${with_weights}
  /* A model, or one that is `false`, with the reason in *error, unless `error` is NULL. */
  static Model attempt(std::int32_t threads, const char **error) noexcept { return Model(${name}_create(threads, error)); }

  Model(Model &&other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  Model &operator=(Model &&other) noexcept {
    std::swap(model_, other.model_);
    return *this;
  }
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;
  ~Model() { ${name}_destroy(model_); }

  explicit operator bool() const noexcept { return model_ != nullptr; }

  /* Runs the model. Throws Error where an argument is not what the model takes, or memory is missing. */
  Results run(${arguments}) const {
    Results results;
    run(${given}results);
    return results;
  }

  /* The same into `results`, whose memory is used again. */
  void run(${more_arguments}Results &results) const {
    const std::int32_t code = try_run(${given}results);
    if (code != ${NAME}_OK) detail::fail(code, ${name}_error());
  }

  /* The same, without an exception: ${NAME}_OK or another code, whose text ${name}_error() has.${unknown} */
  std::int32_t try_run(${more_arguments}Results &results) const {
    const std::array<const void *, ${inputs_count}> inputs{${data}};
    const std::array<const std::int64_t *, ${inputs_count}> shapes{${shapes}};
    const std::array<std::int64_t *, ${outputs_count}> output_shapes{${output_shapes}};
    std::int32_t code = ${name}_output_shapes(shapes.data(), output_shapes.data());
    if (code != ${NAME}_OK) return code;
    for (int attempt = 0; attempt < 2; attempt++) {
      ${make_room}
      const std::array<void *, ${outputs_count}> outputs{${places}};
      const std::array<std::int64_t, ${outputs_count}> capacities{${capacities}};
      code = ${name}_run_sized(model_, inputs.data(), shapes.data(), outputs.data(), capacities.data(), output_shapes.data());
      if (code != ${NAME}_TOO_SMALL) break;
    }
    if (code != ${NAME}_OK) return code;
    ${fit}
    return code;
  }

  std::int32_t threads() const noexcept { return ${name}_threads(model_); }
  std::int32_t set_threads(std::int32_t threads) noexcept { return ${name}_set_threads(model_, threads); }

  /* Reads all weights and throws Error where they are not those that the library was written with. */
  void check_weights() const {
    const std::int32_t code = ${name}_check_weights(model_);
    if (code != ${NAME}_OK) detail::fail(code, ${name}_error());
  }

  /* The model of the C interface, which stays this one's. */
  ${name}_model *get() const noexcept { return model_; }

 private:
  explicit Model(${name}_model *model) noexcept : model_(model) {}

  ${name}_model *model_ = nullptr;
};

}  // namespace ${space}

#endif
"""
