"""`polyreme info`: what an installation consists of, and what it found of the machine; or what a model file or a library is."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import click

import polyreme
from polyreme.cli import Command
from polyreme.cli.completion import complete_files
from polyreme.cli.info.file_facts import facts_of

EXAMPLES = (
    ("What is installed here, and for which machine it makes code", "polyreme info"),
    ("The same for a program, or a bug report", "polyreme info --json"),
    ("What a library takes and gives, and for which machine it is", "polyreme info lenet.so"),
    ("What a model of Paddle's consists of, and which of its operators are not here", "polyreme info net.json"),
)
NO_LINKER = "none: install binutils, lld, a C compiler or ziglang, which shared libraries need"
# By the extras of the package: what each needs, as distributions.
EXTRAS = {
    "cuda": ("pycuda",),
    "distributed": ("mpi4py", "openmpi", "cloudpickle"),
    "vision": ("pillow",),
    "linker": ("ziglang",),
    "peers": ("paddlepaddle", "onnxruntime", "onnx", "iree-base-compiler", "xdsl", "scipy"),
}


@click.command("info", cls=Command, examples=EXAMPLES)
@click.argument("file", required=False, shell_complete=complete_files)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
@click.pass_context
def command(ctx: click.Context, file: str | None, as_json: bool) -> None:
    """Say which polyreme, Python and LLVM this is, for which processor and GPU it makes code, and where it keeps what it compiled.

    Or what FILE is, a library or a saved model: what it takes and gives, its size, its operators and weights. Exit code 1: it cannot be
    used here.
    """
    if file is not None:
        facts = facts_of(file)
        if as_json:
            click.echo(json.dumps(facts.as_json, indent=1))
        else:
            for name, text in facts.lines:
                click.echo(f"{name:12} {text}")
        ctx.exit(0 if facts.is_usable else 1)
    found = installation()
    if as_json:
        click.echo(json.dumps(found, indent=1))
        return
    for name, text in lines(found):
        click.echo(f"{name:12} {text}")


def installation() -> dict[str, Any]:
    """What there is, as JSON can hold it."""
    import llvmlite
    import llvmlite.binding as llvm
    import numpy as np

    from polyreme.ir import config
    from polyreme.lowering.link.linkers import first_of

    return {
        "polyreme": {"version": polyreme.__version__, "folder": str(Path(polyreme.__file__).parent)},
        "python": {"version": platform.python_version(), "implementation": platform.python_implementation(), "path": sys.executable},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
        "processor": _processor(),
        "threads": {"processors": config.processors(), "used": config.threads(), "compiling": config.jobs()},
        "cache": _cache(),
        "gpu": _gpu(),
        "linker": first_of("ld", "ld.lld", "cc"),
        "wasm_linker": first_of("wasm-ld"),
        "extras": {extra: {name: _version(name) for name in needed} for extra, needed in EXTRAS.items()},
    }


def lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The same for people: a name and a text for each line."""
    from polyreme.ir.config import bytes_text

    cpu, threads, cache, gpu = found["processor"], found["threads"], found["cache"], found["gpu"]
    caches = ", ".join(f"L{level} {size / 1024:.0f} KiB" for level, size in enumerate(cpu["caches"], 1))
    kept = (
        f"{cache['folder']}: {cache['entries']} entries of {bytes_text(cache['bytes'])}, at most {bytes_text(cache['limit'])}"
        if cache["folder"] is not None
        else "off: POLYREME_CACHE says so"
    )
    told = [
        ("polyreme", f"{found['polyreme']['version']} in {found['polyreme']['folder']}"),
        ("python", f"{found['python']['version']} ({found['python']['implementation']}), {found['python']['path']}"),
        ("system", found["system"]),
        ("numpy", found["numpy"]),
        ("llvmlite", f"{found['llvmlite']} with LLVM {found['llvm']}"),
        ("processor", cpu["model"] or cpu["cpu"]),
        ("target", f"{cpu['triple']}, {cpu['cpu']}: vectors of {cpu['vector_bits']} bits, {cpu['vector_registers']} registers"),
        ("caches", caches),
        ("threads", f"{threads['used']} of {threads['processors']} processors, {threads['compiling']} processes that compile"),
        ("cache", kept),
        ("gpu", f"{gpu['name']}, sm_{gpu['sm']}" if gpu["name"] is not None else f"none: {gpu['reason']}"),
        ("linker", f"{found['linker'] or NO_LINKER}; for WebAssembly {found['wasm_linker'] or 'none: install lld or ziglang'}"),
    ]
    for extra, needed in found["extras"].items():
        there = ", ".join(f"{name} {version}" for name, version in needed.items() if version is not None)
        absent = ", ".join(name for name, version in needed.items() if version is None)
        told.append((f"[{extra}]", "; ".join(filter(None, (there, absent and f"not installed: {absent}")))))
    return told


def _processor() -> dict[str, Any]:
    from polyreme.lowering.machines.targets import host
    from polyreme.runtime.cpu import processor_name

    target = host()
    return {
        "model": processor_name(),
        "triple": target.triple,
        "cpu": target.cpu,
        "features": [feature[1:] for feature in target.features.split(",") if feature.startswith("+")],
        "vector_bits": 8 * target.vector_bytes,
        "vector_registers": target.vector_registers,
        "caches": list(target.caches),
    }


def _cache() -> dict[str, Any]:
    from polyreme.ir import config
    from polyreme.runtime.cache import Cache

    folder = config.cache_folder()
    if folder is None:
        return {"folder": None, "entries": 0, "bytes": 0, "limit": 0}
    cache = Cache(folder, config.cache_limit())
    entries = cache.entries()
    return {"folder": str(folder), "entries": len(entries), "bytes": sum(entry.size for entry in entries), "limit": cache.limit}


def _gpu() -> dict[str, Any]:
    from polyreme.runtime.errors import RuntimeFault
    from polyreme.runtime.gpu.drivers import open_driver

    try:
        driver: Any = open_driver("gpu")
    except RuntimeFault as error:
        return {"name": None, "sm": None, "reason": error.message}
    return {"name": driver.model, "sm": driver.sm, "reason": None}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
