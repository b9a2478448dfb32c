"""The launches of a compiled function as one CUDA graph, so that one call starts all of them.

pycuda has no graphs: it makes the launches, on a stream that is being recorded, and the recording is done by functions of the CUDA driver
itself, through ctypes. A graph has the arguments that its launches had; whoever has others makes another graph.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from ctypes import POINTER, c_char_p, c_int, c_uint64, c_void_p
from typing import Any

from polyreme.runtime.errors import RuntimeFault

__all__ = ["DriverFunctions", "Graph", "GraphError", "GraphFunctions", "load_library"]

# What each function takes; all of them return 0, or the number of an error.
SIGNATURES: dict[str, list[Any]] = {
    "cuStreamBeginCapture_v2": [c_void_p, c_int],
    "cuStreamEndCapture": [c_void_p, POINTER(c_void_p)],
    "cuGraphInstantiateWithFlags": [POINTER(c_void_p), c_void_p, c_uint64],
    "cuGraphLaunch": [c_void_p, c_void_p],
    "cuGraphDestroy": [c_void_p],
    "cuGraphExecDestroy": [c_void_p],
    "cuGetErrorName": [c_int, POINTER(c_char_p)],
}
# Other threads may do what they like while one records.
THREAD_LOCAL = 1


class GraphError(RuntimeFault, RuntimeError):
    """The driver has no graphs, or refused one."""

    code = "E0804"


def load_library() -> Any:
    """The library of the CUDA driver."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


class DriverFunctions:
    """Functions of the CUDA driver itself, for what pycuda lacks. All of them return 0, or the number of an error."""

    def __init__(self, signatures: Mapping[str, list[Any]], needed: str):
        try:
            library = load_library()
            self._functions = {name: getattr(library, name) for name in signatures}
        except (OSError, AttributeError) as error:
            raise GraphError(f"expected a CUDA driver {needed}: {error}") from None
        for name, function in self._functions.items():
            function.argtypes, function.restype = signatures[name], c_int

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; `GraphError` where it fails."""
        failed = self.tried(name, *arguments)
        if failed:
            said = c_char_p()
            self._functions["cuGetErrorName"](failed, ctypes.byref(said))
            raise GraphError(f"'{name}' failed: {said.value.decode() if said.value else failed}")

    def tried(self, name: str, *arguments: Any) -> int:
        """Call a function; the number of its error."""
        return int(self._functions[name](*arguments))


class GraphFunctions(DriverFunctions):
    """The functions of the CUDA driver for graphs."""

    def __init__(self) -> None:
        super().__init__(SIGNATURES, "with graphs (11.4 or newer)")

    def record(self, stream: int, launch: Callable[[], None]) -> Graph:
        """What `launch` starts on the stream with this handle, as a graph; nothing runs yet."""
        graph, executable = c_void_p(), c_void_p()
        self.call("cuStreamBeginCapture_v2", stream, THREAD_LOCAL)
        try:
            launch()
        except BaseException:
            # The stream must not stay in that state.
            with suppress(GraphError):
                self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
                self.call("cuGraphDestroy", graph)
            raise
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        try:
            self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, 0)
        finally:
            self.call("cuGraphDestroy", graph)
        return Graph(self, executable)


class Graph:
    """Launches with their arguments, ready to run; gone with this object, after a run under way."""

    def __init__(self, functions: GraphFunctions, executable: Any):
        self._functions, self._executable = functions, executable

    def launch(self) -> None:
        """Run all of it, behind what was launched before on the default stream."""
        self._functions.call("cuGraphLaunch", self._executable, None)

    def __del__(self) -> None:
        # At the end of the process the driver may be gone already.
        with suppress(Exception):
            self._functions.call("cuGraphExecDestroy", self._executable)
