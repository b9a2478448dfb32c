"""The C interface of a library for a GPU: the same functions, over a driver that is looked for when a model is made
(`runtime/capi_gpu.ll`).

This file makes the tables of one model: the launches of its plan, whose numbers are computed by one function from the free sizes, the
functions of the driver, and what is said where something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from string import Template

from polyreme.ir.dims import parse_dim
from polyreme.ir.python.records import dataclass
from polyreme.lowering.emit.llvm.size_code import CheckedSizeCode
from polyreme.lowering.link.c_interface import (
    Weights,
    array_text,
    library_table,
    placeholders,
    sections_of,
    sizes_function,
    text_constant,
    without_table,
)
from polyreme.lowering.link.c_parts import interface_of_parts, part_fields, with_own_text
from polyreme.lowering.link.parts import moved, part_name
from polyreme.lowering.link.runtime import (
    DTYPES,
    MAP_DTYPES,
    MAP_MODES,
    Argument,
    GpuPlan,
    Manifest,
    MapSpec,
    TargetSpec,
    cuda_for,
    cuda_text,
    device_of,
    native_text,
    version_of,
)

__all__ = ["DeviceCode", "device_code_text", "gpu_interfaces"]

# Runs of one model at the same time whose memory on the device is kept.
CALLS = 8
# Fewer launches than so many are started one by one, as `runtime/gpu/executable.py` has it.
FEWEST_LAUNCHES = 3
# In place of these sections of `capi.ll` stands `capi_gpu.ll`.
_REPLACED = ("making and ending a model", "running")

# The functions of the driver by what they take; all of them return 0, or the number of an error.
_FUNCTIONS = {
    "cuInit": "i32",
    "cuDriverGetVersion": "ptr",
    "cuGetErrorName": "i32 ptr",
    "cuGetErrorString": "i32 ptr",
    "cuDeviceGetCount": "ptr",
    "cuDeviceGet": "ptr i32",
    "cuDeviceGetName": "ptr i32 i32",
    "cuDeviceGetAttribute": "ptr i32 i32",
    "cuDevicePrimaryCtxRetain": "ptr i32",
    "cuDevicePrimaryCtxRelease_v2": "i32",
    "cuCtxPushCurrent_v2": "ptr",
    "cuCtxPopCurrent_v2": "ptr",
    "cuModuleLoadDataEx": "ptr ptr i32 ptr ptr",
    "cuModuleUnload": "ptr",
    "cuModuleGetFunction": "ptr ptr ptr",
    "cuFuncSetAttribute": "ptr i32 i32",
    "cuMemAlloc_v2": "ptr i64",
    "cuMemFree_v2": "i64",
    "cuMemGetInfo_v2": "ptr ptr",
    "cuMemcpyHtoD_v2": "i64 ptr i64",
    "cuMemcpyHtoDAsync_v2": "i64 ptr i64 ptr",
    "cuMemcpyDtoHAsync_v2": "ptr i64 i64 ptr",
    "cuStreamCreate": "ptr i32",
    "cuStreamDestroy_v2": "ptr",
    "cuStreamSynchronize": "ptr",
    "cuStreamWaitEvent": "ptr ptr i32",
    "cuEventCreate": "ptr i32",
    "cuEventRecord": "ptr ptr",
    "cuEventSynchronize": "ptr",
    "cuEventDestroy_v2": "ptr",
    "cuLaunchKernel": "ptr i32 i32 i32 i32 i32 i32 i32 ptr ptr ptr",
}
# Without these there are no graphs.
_GRAPH_FUNCTIONS = {
    "cuStreamBeginCapture_v2": "ptr i32",
    "cuStreamEndCapture": "ptr ptr",
    "cuGraphInstantiateWithFlags": "ptr ptr i64",
    "cuGraphLaunch": "ptr ptr",
    "cuGraphDestroy": "ptr",
    "cuGraphExecDestroy": "ptr",
}
# Kernels with tensor maps need it.
_MAP_FUNCTIONS = {"cuTensorMapEncodeTiled": "ptr i32 i32 i64 ptr ptr ptr ptr i32 i32 i32 i32"}
FUNCTIONS = {**_FUNCTIONS, **_MAP_FUNCTIONS, **_GRAPH_FUNCTIONS}


@dataclass(frozen=True)
class DeviceCode:
    """The kernels: PTX, and where an assembler was there, code for one device."""

    ptx: bytes
    cubin: bytes = b""


def device_code_text(manifest: Manifest, codes: Sequence[DeviceCode]) -> str:
    """LLVM IR (without triple and layout) of the kernels' code, of a model or of each of its parts."""
    return "\n".join(
        f'@{model}_gpu_{name} = hidden constant [{len(data)} x i8] c"\\{data.hex(chr(92), 1)}", align 64'
        for model, code in zip(_models(manifest), codes, strict=True)
        # The driver reads text up to a zero byte.
        for name, data in (("text", code.ptx + b"\0"), ("code", code.cubin or b"\0"))
    )


def _models(manifest: Manifest) -> list[str]:
    """What the functions of a model, or of each of its parts, are called after."""
    return [f"polyreme_{part_name(i)}" for i, _ in enumerate(manifest.parts)] if manifest.steps else ["polyreme_model"]


def gpu_interfaces(manifest: Manifest, name: str, weights: Weights, codes: Sequence[DeviceCode], host: TargetSpec) -> dict[str, str]:
    """LLVM IR (without triple and layout) of the functions `NAME_…`, for a `host`, and of the tables that `load_compiled` reads, by the
    name of its object file. `codes` are those of the model, or of its parts.
    """
    sections, own = sections_of(native_text("capi.ll")), sections_of(native_text("capi_gpu.ll"))
    models = _models(manifest)
    inside = bool(manifest.all_constants) and not weights.file
    constants = "ptr @polyreme_constants" if inside else "ptr null"
    tables = [
        f"@{name}__identity = external hidden constant i8",
        *(f"@{model}_gpu_text = external hidden constant i8" for model in models),
        # What a loader without a device reads: the texts, and how many bytes they have.
        f"@polyreme_gpu = constant [{len(codes)} x {{ ptr, i64 }}] [ "
        + ", ".join(f"{{ ptr, i64 }} {{ ptr @{model}_gpu_text, i64 {len(code.ptx)} }}" for model, code in zip(models, codes, strict=True))
        + " ]",
        library_table([f"ptr @{name}__identity", *["ptr null"] * 3, constants, *["ptr null"] * 4]),
    ]  # fmt: skip
    if not manifest.steps:
        (code,) = codes
        fields = placeholders(replace(manifest, target=host), name, weights)
        fields |= _model_fields(manifest, fields, code, 0, weights.bytes)
        fields |= {"open_all": _open_all(models, False)}
        fields["tables"] = "\n".join([str(fields["tables"]), *tables])
        # The types of the own tables stand in front of all tables.
        kept = [own.pop(""), *(section for key, section in sections.items() if key not in _REPLACED), *own.values()]
        return {"interface.o": Template("".join(kept)).substitute(fields)}
    whole = {key: section for key, section in sections.items() if key not in _REPLACED} | {_REPLACED[0]: own[_REPLACED[0]]}
    texts = {
        "interface.o": interface_of_parts(
            replace(manifest, target=host), name, weights, whole, {"open_all": "\n".join([*tables, _open_all(models, True)])}
        )
    }
    for number, (part, code) in enumerate(zip(manifest.parts, codes, strict=True)):
        # A part has its own weights on the device, and no others.
        first = min((c.offset for c in part.constants), default=0)
        count = max((c.offset + c.bytes for c in part.constants), default=first) - first
        part = replace(moved(part, -first), name=name, target=host)
        fields = part_fields(part, number)
        fields |= _model_fields(part, fields, code, first, count)
        kept = [
            own[""],
            *(sections[key] for key in ("", "sizes", "room for results")),
            *(own[key] for key in own if key not in ("", _REPLACED[0])),
        ]
        texts[f"interface_{part_name(number)}.o"] = with_own_text(Template("".join(kept)).substitute(fields))
    return texts


def _open_all(models: Sequence[str], in_parts: bool) -> str:
    """`open_all(model, device)` and `close_all(model)`: of a model in parts these stand behind it in memory, with its weights."""
    if not in_parts:
        opening = [f"  %code = call i32 @{models[0]}_open(ptr %model, i32 %device)", "  ret i32 %code"]
        closing = [f"  call void @{models[0]}_close(ptr %model)"]
    else:
        opening = ["  %weights_at = getelementptr %model, ptr %model, i64 0, i32 1", "  %weights = load ptr, ptr %weights_at"]
        closing = []
        for i, model in enumerate(models, 1):
            opening += [
                f"  %part{i} = getelementptr %model, ptr %model, i64 {i}",
                f"  %own_weights{i} = getelementptr %model, ptr %part{i}, i64 0, i32 1",
                f"  store ptr %weights, ptr %own_weights{i}",
                f"  %code{i} = call i32 @{model}_open(ptr %part{i}, i32 %device)",
                f"  %failed{i} = icmp ne i32 %code{i}, 0",
                f"  br i1 %failed{i}, label %failure{i}, label %next{i}",
                f"failure{i}:",
                f"  ret i32 %code{i}",
                f"next{i}:",
            ]
            closing += [f"  %part{i} = getelementptr %model, ptr %model, i64 {i}", f"  call void @{model}_close(ptr %part{i})"]
        opening.append("  ret i32 0")
    declared = [f"declare hidden i32 @{m}_open(ptr, i32)\ndeclare hidden void @{m}_close(ptr)" for m in models if in_parts]
    return "\n".join([
        *declared, "define internal i32 @open_all(ptr %model, i32 %device) nounwind {", "entry:", *opening, "}", "",
        "define internal void @close_all(ptr %model) nounwind {", "entry:", *closing, "  ret void", "}",
    ])  # fmt: skip


def _model_fields(
    manifest: Manifest, fields: Mapping[str, object], code: DeviceCode, weights_from: int, weights_bytes: int
) -> dict[str, object]:
    """What stands in `capi_gpu.ll` for its placeholders, beside the `fields` that a model of a CPU has, too; its weights begin at a place
    among all weights.
    """
    plan = GpuPlan.of(manifest)
    numbers = _PlanNumbers()
    # The pieces of the working memory stand first.
    ends = [numbers.of(end) for end in dict.fromkeys(plan.arena)]
    kernels = list(dict.fromkeys(launch.kernel for launch in plan.launches))
    launches, given, maps = _launches(plan, kernels, numbers)
    sm, only_this = device_of(code.ptx)
    shared = {kernel: max(launch.shared for launch in plan.launches if launch.kernel == kernel) for kernel in kernels}
    ranged = {found.input for found in manifest.ranges}
    model = fields["model"]
    tables = [
        _numbers_function(numbers.sizes, manifest),
        array_text("gpu_launches", "%launch", launches),
        array_text("gpu_given", "%given", given),
        array_text("gpu_maps", "%map", maps),
        *(f"@gpu_kernel_name_{i} = private constant {text_constant(kernel)}" for i, kernel in enumerate(kernels)),
        array_text("gpu_kernels", "%kernel", [f"{{ ptr @gpu_kernel_name_{i}, i32 {shared[k]} }}" for i, k in enumerate(kernels)]),
        array_text("gpu_input_items", "i64", [str(DTYPES[t.dtype]) for t in manifest.inputs]),
        array_text("gpu_output_items", "i64", [str(DTYPES[t.dtype]) for t in manifest.outputs]),
        array_text("gpu_ranged", "i8", [str(int(i in ranged)) for i in range(len(manifest.inputs))]),
        f"@{model}_gpu_code = external hidden constant i8",
    ]
    if model != "polyreme_model":
        tables.append(f"@{model}_gpu_text = external hidden constant i8")
    messages = [f"@gpu_{key} = private constant {text_constant(text)}" for key, text in _messages(code, sm, only_this).items()]
    return {
        "tables": "\n".join([without_table(str(fields["tables"])), *tables]),
        "messages": "\n".join([str(fields["messages"]), *messages]),
        "model_functions": sizes_function(f"{model}_output_shapes", [size for t in manifest.outputs for size in t.shape], manifest),
        "driver": _driver_text(),
        "functions": len(FUNCTIONS),
        "needed_functions": len(_FUNCTIONS) + (len(_MAP_FUNCTIONS) if maps else 0),
        "graph_functions": len(_FUNCTIONS) + len(_MAP_FUNCTIONS),
        "most_maps": max(1, *(len(launch.maps) for launch in plan.launches), 1),
        "map_modes": ", ".join(f"i32 {mode}" for mode in MAP_MODES),
        "calls": CALLS,
        "kernels_count": len(kernels),
        "kernel_slots": max(1, len(kernels)),
        "input_slots": max(1, len(manifest.inputs)),
        "ends_count": len(ends),
        "numbers_count": len(numbers.sizes),
        "numbers_bytes": 8 * len(numbers.sizes),
        "number_slots": max(1, len(numbers.sizes)),
        "arguments_bytes": 8 * len(manifest.arguments),
        "key_words": len(numbers.sizes) + len(manifest.arguments) + 1,
        "launches_count": len(launches),
        "fewest_launches": FEWEST_LAUNCHES,
        "most_given": max(1, *(len(launch.maps) + len(launch.arguments) for launch in plan.launches), 1),
        "look_bytes": 24 * len(manifest.looks),
        "weights_from": weights_from,
        "weights_bytes": weights_bytes,
        "sm": sm,
        "only_this": "true" if only_this else "false",
        "code_sm": sm,
        "generation": sm // 10,
        "has_code": "true" if code.cubin else "false",
        "cuda": cuda_for(code.ptx),
    }


def _messages(code: DeviceCode, sm: int, only_this: bool) -> dict[str, str]:
    version = version_of(code.ptx) or (0, 0)
    which = "and no other" if only_this else "or newer"
    return {
        "no_driver": "expected the driver of an NVIDIA GPU (libcuda.so.1): %s",
        "old_driver": "expected a driver of CUDA that has '%s': install a newer one",
        "no_device": "expected an NVIDIA GPU but the driver finds none that this process may use",
        "bad_device": "expected the number of a GPU below %d but got %d",
        "unfit": f"expected a GPU of compute capability {sm // 10}.{sm % 10} {which} for this library but '%s' has %d.%d: compile the "
        "model for that one (--target cuda:sm_…)",
        "old_text": f"expected a driver for CUDA {cuda_text(cuda_for(code.ptx))} or newer, since the kernels are PTX "
        f"{version[0]}.{version[1]}, but this machine's is for %d.%d: install a newer one",
        "small_shared": "the kernels need %d bytes of shared memory for a block, and '%s' has %d: compile the model for that GPU "
        "(--target cuda:sm_…)",
        "no_memory": "no memory on the GPU '%s' for %lld bytes of %s: %lld of its %lld bytes are free",
        "weights_word": "weights",
        "memory_word": "working storage, inputs and results",
        "misplaced": "expected the device address of %s '%s' to be a multiple of 16",
        "too_many": "the sizes are too large: a kernel of %lld x %lld x %lld blocks",
        "failed": "could not %s: %s (%d) %s%s%s",
        "do_start": "start the driver of the GPU",
        "do_find": "look for a GPU",
        "do_open": "use the GPU",
        "do_load": "load the kernels",
        "do_allocate": "allocate memory on the GPU",
        "do_upload": "copy to the GPU",
        "do_download": "copy from the GPU",
        "do_launch": "launch a kernel",
        "do_map": "make a tensor map",
        "do_run": "run the kernels",
        "unknown": "an error without a name",
        "nothing": "",
        "between": ": ",
    }


class _PlanNumbers:
    """Sizes of the plan, each once."""

    def __init__(self) -> None:
        self.sizes: list[int | str] = []
        self._places: dict[int | str, int] = {}

    def of(self, size: int | str) -> int:
        """The place of a size among the numbers."""
        if size not in self._places:
            self._places[size] = len(self.sizes)
            self.sizes.append(size)
        return self._places[size]


def _launches(plan: GpuPlan, kernels: Sequence[str], numbers: _PlanNumbers) -> tuple[list[str], list[str], list[str]]:
    """Rows of the tables of launches, of what they are given, and of their tensor maps."""
    assert not plan.many, "libraries are for one set of arguments"
    rows: list[str] = []
    given: list[str] = []
    maps: list[str] = []
    for launch in plan.launches:
        grid, block = ((*sizes, 1, 1)[:3] for sizes in (launch.grid, launch.block))
        first, first_map = len(given), len(maps)
        given += [_given_row(argument, numbers) for argument in launch.arguments]
        maps += [_map_row(map, numbers) for map in launch.maps]
        blocks = ", ".join(f"i32 {numbers.of(size)}" for size in grid)
        threads = ", ".join(f"i32 {count}" for count in block)
        rows.append(
            f"{{ i32 {kernels.index(launch.kernel)}, [3 x i32] [ {blocks} ], [3 x i32] [ {threads} ], i32 {launch.shared}, "
            f"i32 {first}, i32 {len(launch.arguments)}, i32 {first_map}, i32 {len(launch.maps)} }}"
        )
    return rows, given, maps


def _given_row(argument: Argument, numbers: _PlanNumbers) -> str:
    which = argument.value if argument.kind == "buffer" else numbers.of(argument.value)
    return f"{{ i32 {('buffer', 'arena', 'size').index(argument.kind)}, i32 {which} }}"


def _map_row(map: MapSpec, numbers: _PlanNumbers) -> str:
    sizes, strides = ([numbers.of(size) for size in found] for found in (map.sizes, map.strides))
    fields = [
        f"%given {_given_row(map.argument, numbers)}",
        f"i32 {MAP_DTYPES[map.dtype]}",
        f"i32 {len(map.sizes)}",
        f"i32 {numbers.of(map.start)}",
        *(_row_of(count, given) for count, given in ((5, sizes), (4, strides), (5, map.box))),
    ]
    return f"{{ {', '.join(fields)} }}"


def _row_of(count: int, numbers: Sequence[int]) -> str:
    """An array of so many numbers, which ends with zeros."""
    return f"[{count} x i32] [ {', '.join(f'i32 {n}' for n in [*numbers, *[0] * (count - len(numbers))])} ]"


def _numbers_function(sizes: Sequence[int | str], manifest: Manifest) -> str:
    """`plan_numbers(sizes, out)`: the numbers one after another, and whether all of them have 63 bits."""
    code = CheckedSizeCode(manifest.size_names)
    for i, size in enumerate(sizes):
        value = code.emit(parse_dim(size) if isinstance(size, str) else size)
        at = code.step(f"getelementptr i64, ptr %out, i64 {i}")
        code.lines.append(f"  store i64 {value}, ptr {at}, align 8")
    return "\n".join([
        "define internal i1 @plan_numbers(ptr %sizes, ptr %out) nounwind {",
        *code.lines,
        f"  %fit = xor i1 {code.lost or 'false'}, true",
        "  ret i1 %fit",
        "}",
    ])  # fmt: skip


def _driver_text() -> str:
    """The names of the driver's functions, and a function for each that calls it through a model's table."""
    lines = [f"@driver_name_{name} = private constant {text_constant(name)}" for name in FUNCTIONS]
    lines += [
        f"@driver_names = internal constant [{len(FUNCTIONS)} x ptr] [ {', '.join(f'ptr @driver_name_{name}' for name in FUNCTIONS)} ]",
        f"@driver_variable = private constant {text_constant('POLYREME_LIBCUDA')}",
        f"@driver_library = private constant {text_constant('libcuda.so.1')}",
    ]
    for i, (name, types) in enumerate(FUNCTIONS.items()):
        given = ", ".join(f"{type} %a{n}" for n, type in enumerate(types.split()))
        lines += [
            "",
            f"define internal i32 @{name}(ptr %gpu, {given}) nounwind {{",
            f"  %at = getelementptr ptr, ptr %gpu, i64 {i}",
            "  %function = load ptr, ptr %at",
            f"  %code = call i32 %function({given})",
            "  ret i32 %code",
            "}",
        ]
    return "\n".join(lines)
