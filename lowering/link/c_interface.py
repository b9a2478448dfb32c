"""The C interface of a compiled library: LLVM IR for the code, and the header that documents it.

The code is `runtime/capi.ll`, generic over tables; this file makes the tables of one model. Both outputs depend on the manifest alone, so
equal models give equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import Template

from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.dims import parse_dim
from polyreme.ir.python.records import dataclass
from polyreme.lowering.emit.llvm.size_code import OVERFLOW_DECLARATIONS, CheckedSizeCode, SizeCode
from polyreme.lowering.link.processor import machine_check
from polyreme.lowering.link.runtime import (
    DTYPES,
    GPU_PLAN,
    SUM_LANES,
    GuardSpec,
    Manifest,
    RangeSpec,
    SizeSpec,
    TargetSpec,
    TensorSpec,
    native_text,
)

LIBRARY_FORMAT = 1

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_KEYWORDS = frozenset(
    "alignas alignof and asm auto bool break case catch char class const constexpr continue default delete do double else enum "
    "explicit export extern false float for friend goto if inline int long main mutable namespace new not nullptr operator or private "
    "protected public register restrict return short signed sizeof static struct switch template this throw true try typedef typeof "
    "union unsigned using virtual void volatile while xor".split()
)

_MESSAGES = {
    "no_model": "expected a model but got NULL",
    "no_memory": "no memory for %lld bytes of working storage",
    "no_inputs": "expected arrays of pointers but got NULL",
    "no_shapes": "expected the shapes of the inputs, because some sizes are not fixed",
    "no_shape": "expected the shape of input '%s' but got NULL",
    "no_data": "expected data for %s '%s' but got NULL",
    "bad_size": "input '%s': expected a size of at least 0 on axis %d but got %lld",
    "bad_axis": "input '%s': expected %s%lld on axis %d but got %lld%s",
    "bad_sizes": "the sizes are too large together: an array would have more bytes than 63 bits can count",
    "bad_output": "output '%s': its size on axis %d would be %s%lld",
    "bad_arena": "the sizes are too large: %lld bytes of working storage",
    "bad_form": "input '%s': expected %s but got %lld on axis %d",
    "bad_guard": "expected %s but got %lld",
    "bad_look": "expected %s from %lld to %lld but computed %lld to %lld",
    "bad_range": "input '%s': expected %s from %lld to %lld but got %lld",
    "bad_number": "expected a number from 0 to %lld, as many rows as there are at most, but got %lld",
    "large_value": "the sizes are too large: a value on the way would have more than 2^48 elements",
    "small_output": "output '%s': expected room for %lld elements but got room for %lld",
    "needs_sized": "expected a call that takes sizes of results after the run (the function that ends in _run_sized)",
    "word_input": "input",
    "word_output": "output",
    "no_file": "cannot open the file of the weights: %s",
    "no_bytes": "expected the bytes of the file of the weights (%s) but got NULL",
    "bad_file": "the file of the weights does not belong to this library, or is damaged: %s",
    "bad_sum": "the weights are damaged: their checksum is %016llx but was %016llx when the library was written",
    "no_path": "cannot find out where the library was loaded from",
    "path_format": "%.*s%s",
    "old_processor": "the code of this library is for a processor with %s, which this one lacks: compile it for this one (--target), or "
    "for any (--cpu multi)",
    "no_tiles": "the system does not let programs use the tile registers of this processor",
}


@dataclass(frozen=True)
class Weights:
    """Where the constants are: inside the library (`file` empty; the symbol `polyreme_constants`), or in a file beside it, which has so
    many bytes; how many bytes they have themselves.
    """

    file: str = ""
    file_bytes: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Digests:
    """What tells whether parts belong together: of the library, in itself and in its trailer; the header of the file of its weights, if
    they have one; the checksum of the weights.
    """

    identity: bytes
    header: bytes = b""
    sum: int = 0


def check_c_name(name: str) -> str:
    """`name`, if C functions can start with it."""
    if not _IDENTIFIER.match(name) or name in _KEYWORDS or len(name) > 200:
        raise PolyremeError(f"expected a name that C functions can start with (letters, digits, '_') but got '{name}'", code="E0004")
    return name


def is_wasm(target: TargetSpec) -> bool:
    """Whether code is for WebAssembly, where there is no system."""
    return target.triple.startswith("wasm")


def c_name_of(text: str) -> str:
    """The nearest name that C functions can start with: `my-net.v2` gives `my_net_v2`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text).lstrip("_")
    if not name or name[0].isdigit() or name in _KEYWORDS:
        name = f"model_{name}".rstrip("_")
    return name[:200]


# --- code


MODEL_FUNCTIONS = """\
declare hidden void @$model_run(ptr, ptr, ptr, ptr)
declare hidden i64 @$model_arena_bytes(ptr)
declare hidden void @$model_output_shapes(ptr, ptr)"""


def c_interface(manifest: Manifest, name: str, weights: Weights) -> str:
    """LLVM IR (without triple and layout) of the functions `NAME_…` and of the table `polyreme_library` that `load_compiled` reads.

    It depends on nothing that is known only when kernels and constants are made: that stands in `digests_text`.
    """
    return Template(native_text("capi.ll")).substitute(placeholders(manifest, name, weights))


# In `capi.ll` each section begins with such a line.
_SECTION = "; --- "


def sections_of(text: str) -> dict[str, str]:
    """The sections of a native text by their first words; what stands in front of them under none."""
    head, *rest = text.split(f"\n{_SECTION}")
    return {"": head + "\n"} | {part.split("\n")[0]: f"\n{_SECTION}{part}" for part in rest}


def without_table(text: str) -> str:
    """Without the table that a loader asks for, and what is in it alone: an object asks for what it declares, even if nothing uses it."""
    return "\n".join(line for line in text.split("\n") if not re.match(r"@polyreme_library\b|@\w+__identity = external", line))


def digests_text(name: str, digests: Digests) -> str:
    """LLVM IR, likewise, of the digests."""
    return "\n".join([
        f"@{name}__identity = hidden constant [{len(digests.identity)} x i8] {_bytes(digests.identity)}",
        f"@{name}__weights_header = hidden constant [{len(digests.header)} x i8] {_bytes(digests.header)}, align 8",
        f"@{name}__weights_sum = hidden constant i64 {digests.sum - (1 << 64) if digests.sum >> 63 else digests.sum}",
        "",
    ])  # fmt: skip


def placeholders(manifest: Manifest, name: str, weights: Weights, model: str = "polyreme_model") -> dict[str, object]:
    """What stands in `capi.ll` for its placeholders, for a model whose native functions are called after `model`."""
    text = _Tables()
    input_rows = _tensor_rows(text, manifest.inputs, manifest)
    output_rows = _tensor_rows(text, manifest.outputs, manifest)
    tables = [
        array_text("inputs", "%tensor", input_rows),
        array_text("outputs", "%tensor", output_rows),
        array_text(
            "arguments",
            "%argument",
            [f"{{ i32 {('input', 'constant', 'output', 'looks').index(kind)}, i32 {n} }}" for kind, n in manifest.arguments],
        ),
        array_text("constants", "i64", [str(c.offset) for c in manifest.constants]),
        array_text("sizes", "%size", [_size_row(text, s, manifest) for s in manifest.sizes]),
        array_text("ranges", "%range", [_range_row(text, r, manifest) for r in manifest.ranges]),
        array_text("looks", "%look", [f"{{ i64 {int(look.wraps)}, ptr {text.text(look.what)} }}" for look in manifest.looks]),
        array_text("guards", "%guard", [_guard_row(text, g) for g in manifest.bounds]),
        f"@{name}__identity = external hidden constant i8",
        _library_table(name, bool(manifest.all_constants) and not weights.file, bool(manifest.steps)),
        "",
        # These look at what a model in parts gives.
        _fit_function(manifest, manifest.inputs if manifest.steps else (*manifest.inputs, *manifest.outputs)),
        sizes_function("input_sizes", [size for t in manifest.inputs for size in t.shape], manifest),
        sizes_function("guard_sizes", [guard.size for guard in manifest.bounds], manifest),
    ]
    return {
        "name": name,
        "model": model,
        "models": 1,
        "model_functions": MODEL_FUNCTIONS.replace("$model", model),
        "text": "@text = internal thread_local global [512 x i8] zeroinitializer",
        "checked_outputs": len(manifest.outputs),
        "messages": "\n".join(
            f"@{key} = private constant [{len(m) + 1} x i8] {_bytes(m.encode() + bytes(1))}" for key, m in _MESSAGES.items()
        ),
        "tables": "\n".join([*text.lines, *tables]),
        "getters": "\n".join(_getters(name, side, len(rows)) for side, rows in (("input", input_rows), ("output", output_rows))),
        "machine": machine_check(manifest.target),
        "weights": _weights(name, bool(manifest.all_constants), weights, is_wasm(manifest.target)),
        "check": _check(name, weights),
        "inputs_count": len(manifest.inputs),
        "outputs_count": len(manifest.outputs),
        "sizes_count": len(manifest.sizes),
        "ranges_count": len(manifest.ranges),
        "looks_count": len(manifest.looks),
        "look_slots": max(1, 3 * len(manifest.looks)),
        "guards_count": len(manifest.bounds),
        "arguments": len(manifest.arguments),
        "has_inputs": _flag(manifest.inputs),
        "has_outputs": _flag(manifest.outputs),
        "has_sizes": _flag(manifest.sizes),
        # Arrays on the stack have at least one element, so that their addresses are valid.
        "size_slots": max(1, len(manifest.sizes)),
        "input_dim_slots": max(1, _dims_count(manifest.inputs)),
        "output_dim_slots": max(1, _dims_count(manifest.outputs)),
        "output_slots": max(1, len(manifest.outputs)),
        "argument_slots": max(1, len(manifest.arguments)),
        "guard_slots": max(1, len(manifest.bounds)),
    }


def _flag(items: Sequence[object]) -> str:
    return "true" if items else "false"


def _dims_count(tensors: Sequence[TensorSpec]) -> int:
    return sum(len(t.shape) for t in tensors)


def _bytes(data: bytes) -> str:
    plain = frozenset(range(32, 127)) - frozenset(b'"\\')
    return 'c"' + "".join(chr(b) if b in plain else f"\\{b:02X}" for b in data) + '"'


def text_constant(text: str) -> str:
    """A text as C has it: its type and its bytes."""
    data = text.encode() + bytes(1)
    return f"[{len(data)} x i8] {_bytes(data)}"


def array_text(name: str, type: str, rows: Sequence[str]) -> str:
    """A constant that is an array of rows of a type."""
    content = f"[ {', '.join(f'{type} {row}' for row in rows)} ]" if rows else "zeroinitializer"
    return f"@{name} = internal constant [{len(rows)} x {type}] {content}"


class _Tables:
    """Private constants, numbered, each text once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._texts: dict[str, str] = {}

    def text(self, value: str) -> str:
        if value not in self._texts:
            self._texts[value] = self.add(text_constant(value))
        return self._texts[value]

    def add(self, initializer: str) -> str:
        name = f"@table.{len(self.lines)}"
        self.lines.append(f"{name} = private constant {initializer}")
        return name


def _size_row(tables: _Tables, size: SizeSpec, manifest: Manifest) -> str:
    spec = manifest.inputs[size.input]
    why = manifest.reasons(spec, size.axis, "divisor") or str(spec.shape[size.axis])
    return f"{{ i32 {size.input}, i32 {size.axis}, i64 {size.scale}, i64 {size.offset}, ptr {tables.text(why)} }}"


def _guard_row(tables: _Tables, guard: GuardSpec) -> str:
    low, high = (-(1 << 62) if guard.low is None else guard.low), (1 << 62 if guard.high is None else guard.high)
    return f"{{ i64 {low}, i64 {high}, ptr {tables.text(guard.what)} }}"


# How the elements of an input of whole numbers are read, as `range_holds` has it.
_KINDS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")


def _range_row(tables: _Tables, found: RangeSpec, manifest: Manifest) -> str:
    kind = _KINDS.index(manifest.inputs[found.input].dtype)
    return f"{{ i32 {found.input}, i32 {kind}, i64 {found.low}, i64 {found.high}, ptr {tables.text(found.what)} }}"


def _tensor_rows(tables: _Tables, tensors: Sequence[TensorSpec], manifest: Manifest) -> list[str]:
    rows = []
    first = 0
    for t in tensors:
        rank = len(t.shape)
        shape = dims = whys = "null"
        if rank:
            shape = tables.add(f"[{rank} x i64] [ {', '.join(f'i64 {size if isinstance(size, int) else -1}' for size in t.shape)} ]")
            # What stands before the number in messages: `N = ` for a free size.
            texts = [f"ptr {tables.text(f'{size} = ' if isinstance(size, str) else '')}" for size in t.shape]
            dims = tables.add(f"[{rank} x ptr] [ {', '.join(texts)} ]")
            # What stands after them: the guards that say so.
            after = [
                f"ptr {tables.text(f'; expected {why}' if (why := manifest.reasons(t, axis, 'equal')) else '')}" for axis in range(rank)
            ]
            whys = tables.add(f"[{rank} x ptr] [ {', '.join(after)} ]")
        rows.append(
            f"{{ ptr {tables.text(t.name)}, ptr {tables.text(t.dtype)}, i32 {rank}, i32 {first}, ptr {shape}, ptr {dims}, ptr {whys} }}"
        )
        first += rank
    return rows


def _library_table(name: str, constants_inside: bool, in_parts: bool) -> str:
    """What `runtime/library.py` needs; the fields are listed there too. A model in parts has a table of these."""
    functions = ["run", "arena_bytes", "output_shapes"]
    return library_table([
        f"ptr @{name}__identity", *("ptr null" if in_parts else f"ptr @polyreme_model_{function}" for function in functions),
        "ptr @polyreme_constants" if constants_inside else "ptr null",
        "ptr @polyreme_pool_create", "ptr @polyreme_pool_destroy", "ptr @polyreme_pool_threads", "ptr @polyreme_pool_set_threads",
    ])  # fmt: skip


def library_table(fields: Sequence[str]) -> str:
    """The table with these fields behind its format."""
    return f"@polyreme_library = constant {{ i64{', ptr' * len(fields)} }} {{ i64 {LIBRARY_FORMAT}, {', '.join(fields)} }}"


def _weights(name: str, any_constants: bool, weights: Weights, from_bytes: bool) -> str:
    """The functions `open_weights(model, path)`, 0 or an error code with the text set, and `close_weights(model)`. `from_bytes`: the path
    is the address of what is in the file.
    """
    if weights.file:
        file = weights.file.encode() + bytes(1)
        text = native_text("wasm/weights.ll" if from_bytes else "capi_weights.ll")
        return "\n".join([
            f"@weights_name = private constant [{len(file)} x i8] {_bytes(file)}",
            f"@{name}__weights_header = external hidden constant i8",
            Template(text).substitute(name=name, file_bytes=weights.file_bytes),
        ])  # fmt: skip
    lines = ["define internal i32 @open_weights(ptr %model, ptr %path) nounwind {"]
    if any_constants:
        lines.insert(0, "@polyreme_constants = external hidden global i8")
        lines += [
            "  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1",
            "  store ptr @polyreme_constants, ptr %weights_at",
        ]
    lines += ["  ret i32 0", "}", "", "define internal void @close_weights(ptr %model) nounwind {", "  ret void", "}"]
    return "\n".join(lines)


def _check(name: str, weights: Weights) -> str:
    """The function `NAME_check_weights(model)`."""
    row = 8 * SUM_LANES
    return Template(native_text("capi_check.ll")).substitute(
        name=name,
        rows=weights.bytes // row,
        rest=weights.bytes % row,
        bytes=weights.bytes,
    )


def _getters(name: str, side: str, count: int) -> str:
    """Functions that read one field of the table of inputs or outputs, and give a neutral value for a number out of range."""
    lines = [f"define i32 @{name}_{side}_count() nounwind {{", f"  ret i32 {count}", "}", ""]
    for field, type, place, neutral in (
        ("name", "ptr", 0, "null"),
        ("dtype", "ptr", 1, "null"),
        ("rank", "i32", 2, "-1"),
        ("shape", "ptr", 4, "null"),
    ):
        lines += [
            f"define {type} @{name}_{side}_{field}(i32 %number) nounwind {{",
            "entry:",
            f"  %known = icmp ult i32 %number, {count}",
            "  br i1 %known, label %read, label %unknown",
            "",
            "read:",
            "  %i = zext i32 %number to i64",
            f"  %at = getelementptr %tensor, ptr @{side}s, i64 %i, i32 {place}",
            f"  %value = load {type}, ptr %at",
            f"  ret {type} %value",
            "",
            "unknown:",
            f"  ret {type} {neutral}",
            "}",
            "",
        ]
    return "\n".join(lines)


def sizes_function(name: str, dims: Sequence[int | str], manifest: Manifest) -> str:
    """`name(sizes, out)`: what `dims` are, one after another. `sizes_fit` has found that they can be told."""
    code = SizeCode(manifest.size_names)
    for i, size in enumerate(dims):
        value = code.emit(parse_dim(size) if isinstance(size, str) else size)
        at = code.step(f"getelementptr i64, ptr %out, i64 {i}")
        code.lines.append(f"  store i64 {value}, ptr {at}, align 8")
    return "\n".join([f"define internal void @{name}(ptr %sizes, ptr %out) nounwind {{", *code.lines, "  ret void", "}"])


def _fit_function(manifest: Manifest, tensors: Sequence[TensorSpec]) -> str:
    """`sizes_fit(sizes)`: whether all sizes, and the bytes of each of these arrays, are numbers of 63 bits for these. Sizes that no array
    can have, such as negative ones, are told later.
    """
    code = CheckedSizeCode(manifest.size_names)
    for tensor in tensors:
        sizes = [code.emit(parse_dim(size)) if isinstance(size, str) else str(size) for size in tensor.shape]
        count = str(DTYPES[tensor.dtype])
        for size in sizes:
            # What is negative is told with its axis.
            negative = code.step(f"icmp slt i64 {size}, 0")
            count = code.operation("mul", count, code.step(f"select i1 {negative}, i64 1, i64 {size}"))
    for guard in manifest.bounds:
        code.emit(parse_dim(guard.size))
    lost = code.lost or "false"
    return "\n".join([
        *OVERFLOW_DECLARATIONS,
        "",
        "define internal i1 @sizes_fit(ptr %sizes) nounwind {",
        *code.lines,
        f"  %fit = xor i1 {lost}, true",
        "  ret i1 %fit",
        "}",
    ])  # fmt: skip


# --- header


def c_header(manifest: Manifest, name: str, weights: Weights, form: str = "shared") -> str:
    """The header, for C and C++."""
    target = ", ".join(filter(None, [manifest.target.triple, manifest.target.cpu]))
    words = _ON_GPU if GPU_PLAN in manifest.extra else {"making": _MAKING, "threads": _THREADS, "more_codes": "", "more_runs": ""}
    if manifest.steps:
        words = {**words, "more_runs": ""}  # values between parts go through main memory
    create_with = (_CREATE_WITH_WEIGHTS if weights.file else "") + words.get("create_more", "")
    return Template(_HEADER).substitute(
        name=name,
        NAME=name.upper(),
        target=comment_text(target),
        inputs=_signature(manifest.inputs),
        outputs=_signature(manifest.outputs),
        sizes=_sizes_comment(manifest),
        guards="".join(f"\n * Expects {comment_text(guard.what)}." for guard in manifest.guards),
        build=comment_text(_BUILD[form].format(name=name)),
        weights=comment_text(f"; keep {weights.file} beside {'it' if form == 'shared' else 'the program'}" if weights.file else ""),
        learnt=_LEARNT.replace("$name", name) if manifest.steps else "",
        unknown=", -1 for one that only a run tells" if manifest.steps else "",
        create_with=Template(create_with).substitute(name=name, file=comment_text(weights.file)),
        **{key: Template(text).substitute(name=name, NAME=name.upper()) for key, text in words.items()},
        inputs_count=len(manifest.inputs),
        outputs_count=len(manifest.outputs),
        shapes_hint="NULL when all sizes are fixed (they are)" if not manifest.sizes else "one array of sizes per input",
    )


def comment_text(text: str) -> str:
    """`text` as it may stand inside a C comment."""
    return re.sub(r"[^\x20-\x7e]", "?", text).replace("*/", "* /").replace("/*", "/ *")


def _signature(tensors: Sequence[TensorSpec]) -> str:
    lines = [f" *   {i}: {comment_text(t.name)}, {t.dtype}[{', '.join(map(str, t.shape))}]" for i, t in enumerate(tensors)]
    return "\n".join(lines) or " *   (none)"


def _sizes_comment(manifest: Manifest) -> str:
    if not manifest.sizes:
        return " * All sizes are fixed."
    found = []
    for s in manifest.sizes:
        given = manifest.inputs[s.input]
        form = "" if given.shape[s.axis] == s.name else f", which is {given.shape[s.axis]}"
        found.append(f"{s.name} (axis {s.axis} of {comment_text(given.name)}{form})")
    return " * Free sizes, read from the shapes of the inputs: " + ", ".join(found) + "."


_CREATE_WITH_WEIGHTS = """
/* The same, with the file of the weights (${file}) at another place than beside the library. */
${name}_model *${name}_create_with_weights(const char *path, int32_t threads, const char **error);
"""

_BUILD = {
    "shared": "cc program.c path/to/lib{name}.so",
    "static": "cc program.c path/to/lib{name}.a -lm",
    "object": "cc program.c path/to/{name}.o -lm",
}

_LEARNT = """ Sizes of this
 * model's results are known once it has run: $name_run refuses then."""

_MAKING = """\
/* Makes a model that runs on `threads` threads, the caller's among them (0: one per processor). NULL on failure; then *error, unless
 * `error` is NULL, points to a text that lasts until the thread's next call. Threads are started here and end in ${name}_destroy; they
 * sleep between runs. After fork(), the child's runs go on the calling thread until it calls ${name}_set_threads. */
"""
_THREADS = "/* The number of threads; changing it waits for a running job, and returns the number there is now. */"

# What differs for a GPU.
_ON_GPU = {
    "making": """\
/* Makes a model on GPU 0, whose driver (libcuda.so.1, or what POLYREME_LIBCUDA in the environment names) is looked for here, not before:
 * nothing else of CUDA is needed. `threads` is not used. NULL on failure; then *error, unless `error` is NULL, points to a text that lasts
 * until the thread's next call: no driver, no GPU, a GPU or a driver that is too old, no memory for the weights. Weights and code stay on
 * the GPU until ${name}_destroy. A model is of no use in a child after fork(). */
""",
    "create_more": """
/* The same on GPU number `device`, with the file of the weights at another place unless `weights` is NULL. */
${name}_model *${name}_create_on(int32_t device, const char *weights, const char **error);
""",
    "threads": "/* 1: a run computes on the GPU, and copies on the calling thread. */",
    "more_codes": "  ${NAME}_BAD_DEVICE = 7,   /* the GPU or its driver failed; results may be written to */\n",
    "more_runs": """\
/* The same as ${name}_run with arrays that lie on the GPU of the model: inputs[i] and outputs[i] are device addresses, multiples of 16.
 * The work is queued on `stream` (a CUstream or cudaStream_t; NULL is the default one), behind what is there, and may still be under way
 * when this returns; a model with positions (ids) among its inputs, or that computes some, waits for it and looks at them. The stream must
 * not be one that is being recorded. Outputs may be written to where ${NAME}_BAD_DATA or ${NAME}_BAD_DEVICE is returned. */
int32_t ${name}_run_on_device(${name}_model *model, const void *const *inputs, const int64_t *const *input_shapes, void *const *outputs,
                              void *stream);

""",
}

_HEADER = """\
/* ${name}: a model compiled by polyreme for ${target}.
 *
 * Inputs:
${inputs}
 * Outputs:
${outputs}
${sizes}${guards}
 *
 * Arrays are dense and row-major, aligned to their elements; no output may overlap an input or another output. bool takes one byte, 0 or 1.
 * Build with:  ${build}   (any name of the library will do${weights})
 */
#ifndef ${NAME}_H
#define ${NAME}_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ${NAME}_INPUTS ${inputs_count}
#define ${NAME}_OUTPUTS ${outputs_count}

/* What functions return. For everything but ${NAME}_OK, ${name}_error() has the text. */
enum {
  ${NAME}_OK = 0,
  ${NAME}_BAD_ARGUMENT = 1, /* a pointer is NULL */
  ${NAME}_BAD_SHAPE = 2,    /* a size is not what the model takes */
  ${NAME}_NO_MEMORY = 3,
  ${NAME}_BAD_WEIGHTS = 4,  /* the file of the weights is missing or not this library's */
  ${NAME}_BAD_DATA = 5,     /* a position, of an input or computed, is outside of what it is one in, such as an id beyond a table */
${more_codes}  ${NAME}_TOO_SMALL = 6     /* there is not enough room for a result */
};

typedef struct ${name}_model ${name}_model;

${making}${name}_model *${name}_create(int32_t threads, const char **error);
${create_with}
/* Ends the model and its threads. No run may be under way. NULL is allowed. */
void ${name}_destroy(${name}_model *model);

/* Runs the model. inputs[i] and outputs[i] point to the data of input and output i. input_shapes[i] points to the sizes of input i;
 * input_shapes is ${shapes_hint}. Several threads may run one model, or several, at the same time.
 * On failure outputs are untouched. Nothing is allocated, except where the sizes are larger than before or runs overlap. */
int32_t ${name}_run(${name}_model *model, const void *const *inputs, const int64_t *const *input_shapes, void *const *outputs);

/* The same where outputs[i] has room for capacities[i] elements. Writes the sizes of output i to output_shapes[i][0 .. rank), unless
 * output_shapes or output_shapes[i] is NULL. Returns ${NAME}_TOO_SMALL where a result does not fit: outputs are untouched then, and the
 * sizes are written all the same, so that a second call has enough room.${learnt} */
int32_t ${name}_run_sized(${name}_model *model, const void *const *inputs, const int64_t *const *input_shapes, void *const *outputs,
                          const int64_t *capacities, int64_t *const *output_shapes);

${more_runs}/* Writes the sizes that output i will have to output_shapes[i][0 .. rank)${unknown}. */
int32_t ${name}_output_shapes(const int64_t *const *input_shapes, int64_t *const *output_shapes);

/* Text of the calling thread's last error; empty when its last run succeeded. */
const char *${name}_error(void);

${threads}
int32_t ${name}_threads(const ${name}_model *model);
int32_t ${name}_set_threads(${name}_model *model, int32_t threads);

/* Reads all weights and compares them with the checksum that was taken when the library was written: ${NAME}_OK or ${NAME}_BAD_WEIGHTS.
 * ${name}_create itself looks at the length of their file and at its first bytes, so that a model starts without reading all of it. */
int32_t ${name}_check_weights(${name}_model *model);

/* What the model takes and gives. dtype is numpy's name ("float32", "int64", "bool", ...); shape has -1 for a free size. For a number
 * that is out of range: NULL, or a rank of -1. A shape of rank 0 is NULL. */
int32_t ${name}_input_count(void);
const char *${name}_input_name(int32_t number);
const char *${name}_input_dtype(int32_t number);
int32_t ${name}_input_rank(int32_t number);
const int64_t *${name}_input_shape(int32_t number);
int32_t ${name}_output_count(void);
const char *${name}_output_name(int32_t number);
const char *${name}_output_dtype(int32_t number);
int32_t ${name}_output_rank(int32_t number);
const int64_t *${name}_output_shape(int32_t number);

#ifdef __cplusplus
}
#endif

#endif
"""
