"""The parts of a manifest: inputs and outputs, constants, sizes, and what a run looks at; and the limits of all of them."""

from __future__ import annotations

from typing import NamedTuple

MAX_MANIFEST_BYTES = 64 << 20
MAX_ARGUMENTS = 100_000
MAX_RANK = 64
MAX_SIZE = 1 << 48
MAX_NAME = 1000

# Bytes of one element, by numpy's name of the dtype.
DTYPES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip

Shape = tuple["int | str", ...]

# What is read at every start is made of tuples, which Python makes much quicker than dataclasses.


class TensorSpec(NamedTuple):
    """An input or output. A size is a number or the text of an expression over the manifest's sizes, such as `2*N+1`."""

    name: str
    dtype: str
    shape: Shape
    role: str = "input"  # "input", "param" (a weight passed at every run), "packed" (one as kernels want it), "state", or "output"

    @property
    def is_static(self) -> bool:
        return not any(isinstance(size, str) for size in self.shape)

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


class ConstantSpec(NamedTuple):
    """An array inside the constants: `bytes` bytes from `offset`, which is a multiple of 64."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    bytes: int


class SizeSpec(NamedTuple):
    """A named size, and where its value is read: axis `axis` of input number `input` has `scale` times the value, plus `offset`."""

    name: str
    input: int
    axis: int
    scale: int = 1
    offset: int = 0


class GuardSpec(NamedTuple):
    """What the code was compiled for, as to `size`, an expression over the manifest's sizes; `what` says it in words, with the line that
    asks for it.

    `kind` is "bound" where `size` has to be from `low` to `high`; "divisor" or "equal" say why inputs have axes of just this size, "fixed"
    why one axis, with which its words begin, has this number.
    """

    size: str
    what: str
    kind: str
    low: int | None = None
    high: int | None = None


class RangeSpec(NamedTuple):
    """All elements of an input, of whole numbers, are from `low` to `high`; `what` says which they are, with the line that asks for it."""

    input: int
    low: int
    high: int
    what: str


class LookSpec(NamedTuple):
    """Positions that a run computes: from 0, or from minus the size of their axis where they wrap; `what` says which they are, with the
    line that reads at them. A run tells three numbers of each: the least, the greatest, and the size.
    """

    wraps: bool
    what: str


GUARD_KINDS = ("divisor", "equal", "bound", "fixed")


class BodySpec(NamedTuple):
    """A body of a branch or loop: steps, and the slots of what it yields. It reads the slots around it, and gives slots of its own."""

    steps: tuple[StepSpec, ...]
    yields: tuple[int, ...]


class StepSpec(NamedTuple):
    """One step of a model in parts: what is in the slots `takes` gives what goes into the slots `gives`.

    "part" runs part number `part`. "first" gives the first rows of a slot, as many as the number in a second one says; "range" gives the
    numbers 0, 1, … below the number in a slot; "size" gives so many rows without elements, if a flag in a second slot says that the number
    is what is needed, which `need` says in words. All make a size of the number.

    "if" takes a flag and gives what the first of two `bodies` yields if it holds, else the second. "while" runs the second of its bodies
    for as long as the first one yields a flag that holds: both read what is carried, which is what the step takes at first and what the
    second body yielded then, in the slots that it gives; a last slot has the number of rounds. `names` are what a step calls the sizes
    that are known once it has run.
    """

    kind: str
    takes: tuple[int, ...]
    gives: tuple[int, ...]
    part: int = 0
    names: tuple[str, ...] = ()
    need: str = ""
    bodies: tuple[BodySpec, ...] = ()

    def reads(self) -> list[int]:
        """The slots that the step needs: those that it takes, and what its bodies read from around it."""
        found = dict.fromkeys(self.takes)
        for body in self.bodies:
            own = set(self.gives)
            for step in body.steps:
                found |= dict.fromkeys(slot for slot in step.reads() if slot not in own)
                own.update(step.gives)
            found |= dict.fromkeys(slot for slot in body.yields if slot not in own)
        return list(found)


# How many slots a step of each kind takes and gives; of a part its manifest says.
STEP_KINDS = {"part": None, "first": (2, 1), "range": (1, 1), "size": (2, 1), "if": None, "while": None}
# How deep branches and loops of a manifest may stand in one another.
MOST_NESTED = 32


class TargetSpec(NamedTuple):
    """The machine that the code is for, in LLVM's words."""

    triple: str
    cpu: str = ""
    features: str = ""
