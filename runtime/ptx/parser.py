"""Reading PTX: exactly the language that LLVM writes for our kernels, one statement a line.

What is not known is an error that names the line: the runner must never guess. `Instruction.line` counts the lines of the text from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from polyreme.runtime.errors import RuntimeFault


class PtxError(RuntimeFault, ValueError):
    """PTX text that cannot be read or run, or a kernel that does what it must not; says where."""

    code = "E0805"


@dataclass(frozen=True, slots=True)
class Register:
    """A register, or a special one such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Number:
    """A constant: the bits of a float (`bits` wide), or an integer (`bits` is 0)."""

    value: int
    bits: int = 0


@dataclass(frozen=True, slots=True)
class Symbol:
    """A label, a variable or a parameter."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; the base is None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """`{a, b, …}`."""

    items: tuple[Operand, ...]


Operand = Register | Number | Symbol | Address | Group


@dataclass(frozen=True, slots=True)
class Instruction:
    """`@guard op operands;`"""

    line: int
    op: str
    operands: tuple[Operand, ...]
    guard: Register | None = None
    negated: bool = False

    @property
    def parts(self) -> list[str]:
        """The opcode at its dots."""
        return self.op.split(".")


@dataclass
class Variable:
    """Shared or local memory of a kernel."""

    name: str
    bytes: int
    align: int


@dataclass
class Kernel:
    """An entry: its parameters (bytes each), registers (bits by prefix), memory and code. `labels` are positions in `code`."""

    name: str
    params: dict[str, int] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    shared: list[Variable] = field(default_factory=list)
    local: list[Variable] = field(default_factory=list)
    dynamic: Variable | None = None  # shared memory whose size a launch says: `bytes` is 0
    threads: int | None = None
    code: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class PtxText:
    """A module: its target, and its kernels by name."""

    target: str = ""
    version: str = ""
    kernels: dict[str, Kernel] = field(default_factory=dict)
    dynamic: Variable | None = None
    lines: list[str] = field(default_factory=list)


_ENTRY = re.compile(r"(?:\.visible )?\.entry ([\w$]+)\(\)?$")
_PARAM = re.compile(r"\.param (?:\.align \d+ )?\.[bus](8|16|32|64)(?: \.ptr)?(?: \.global)?(?: \.align \d+)? ([\w$]+)(?:\[(\d+)\])?,?$")
_REG = re.compile(r"\.reg \.(\w+)\s+%(\w+?)(?:<\d+>)?;$")
_VARIABLE = re.compile(r"\.(shared|local) \.align (\d+) \.b8\s+([\w$]+)\[(\d+)\];$")
_EXTERN = re.compile(r"\.extern \.shared \.align (\d+) \.b8 ([\w$]+)\[\];$")
_LABEL = re.compile(r"([\w$]+):$")
_STATEMENT = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*);$")
_BEGUN = re.compile(r"[a-z][\w.:]*\.[\w.:]*$")
# Half of a wide register: the other half goes to a register of its own that nobody reads.
_HALF = re.compile(r"\{ \.reg \.b(?:16|32) (\w+); (mov\.b(?:32|64) .*;) \}$")
_NUMBER = re.compile(r"(-?\d+|-?0x[0-9A-Fa-f]+)U?$")  # U: without a sign
_OPERAND = re.compile(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,\s]+)\s*(?:,|$)")
_BITS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "f32": 32, "f64": 64}
_IGNORED = (".address_size", ".maxnreg", ".minnctapersm", ".file ", ".loc ", ".section", ".pragma", "// ")


def parse_ptx(text: str) -> PtxText:
    """The kernels of a PTX module; `PtxError` names the line that cannot be read."""
    module = PtxText(lines=text.splitlines())
    kernel: Kernel | None = None
    begun = ""
    for number, raw in enumerate(module.lines, 1):
        line = raw.partition("//")[0].strip()
        if kernel is not None and (begun or _BEGUN.match(line)):
            # A statement over several lines.
            begun = f"{begun} {line}".strip()
            if not line.endswith(";"):
                continue
            line, begun = begun, ""
        if not line or line.startswith(_IGNORED) or line in ("{", ")", "("):
            continue
        if line.startswith(".version"):
            module.version = line.split()[1]
        elif line.startswith(".target"):
            module.target = line.split()[1].rstrip(",")
        elif entry := _ENTRY.match(line):
            kernel = module.kernels[entry[1]] = Kernel(entry[1], dynamic=module.dynamic)
        elif outside := _EXTERN.match(line):
            module.dynamic = Variable(outside[2], 0, int(outside[1]))
        elif line == "}":
            kernel = None
        elif kernel is None:
            raise PtxError(f"line {number}: expected a kernel but got '{line}'")
        else:
            _read_line(kernel, line, number)
    for found in module.kernels.values():
        _check_labels(found)
    return module


def _read_line(kernel: Kernel, line: str, number: int) -> None:
    if param := _PARAM.match(line):
        kernel.params[param[2]] = int(param[1]) // 8 * int(param[3] or 1)
    elif line.startswith((".maxntid", ".reqntid")):
        kernel.threads = int(np.prod([int(n) for n in line.split(maxsplit=1)[1].split(",")]))
    elif reg := _REG.match(line):
        if reg[1] not in _BITS:
            raise PtxError(f"line {number}: expected a register of {', '.join(_BITS)} but got '{reg[1]}'")
        kernel.registers[reg[2]] = _BITS[reg[1]]
    elif variable := _VARIABLE.match(line):
        (kernel.shared if variable[1] == "shared" else kernel.local).append(Variable(variable[3], int(variable[4]), int(variable[2])))
    elif label := _LABEL.match(line):
        kernel.labels[label[1]] = len(kernel.code)
    elif half := _HALF.match(line):
        _read_line(kernel, re.sub(rf"\b{half[1]}\b", "_", half[2]), number)
    elif statement := _STATEMENT.match(line):
        guard = Register(statement[2]) if statement[2] else None
        operands = tuple(_operand(part, number) for part in _split(statement[4], number))
        kernel.code.append(Instruction(number, statement[3], operands, guard, bool(statement[1])))
    else:
        raise PtxError(f"line {number}: expected an instruction but got '{line}'")


def _split(text: str, number: int) -> list[str]:
    parts, at = [], 0
    while at < len(text):
        found = _OPERAND.match(text, at)
        if found is None:
            raise PtxError(f"line {number}: expected operands but got '{text[at:]}'")
        # `%r1|%p1`: the second is whether the shuffle's source was there, which is always so.
        parts.append(found[1].partition("|")[0])
        at = found.end()
    return parts


def _operand(text: str, number: int) -> Operand:
    if text[0] == "{":
        return Group(tuple(_operand(part, number) for part in _split(text[1:-1].strip(), number)))
    if text[0] == "[" and "{" in text:
        # An address, and coordinates there.
        address, _, coordinates = text[1:-1].partition(",")
        return Group((_operand(f"[{address.strip()}]", number), _operand(coordinates.strip(), number)))
    if text[0] == "[":
        base, plus, offset = text[1:-1].partition("+")
        if not plus and (plain := _NUMBER.match(base)):
            return Address(None, int(plain[1], 0))
        inner = _operand(base.strip(), number)
        if not isinstance(inner, (Register, Symbol)):
            raise PtxError(f"line {number}: expected an address but got '{text}'")
        return Address(inner, int(offset, 0) if plus else 0)
    if text[0] == "%":
        return Register(text)
    if text[:2] in ("0f", "0F"):
        return Number(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Number(int(text[2:], 16), 64)
    if plain := _NUMBER.match(text):
        return Number(int(plain[1], 0))
    if re.match(r"[\w$]+$", text):
        return Symbol(text)
    raise PtxError(f"line {number}: expected an operand but got '{text}'")


def _check_labels(kernel: Kernel) -> None:
    for instruction in kernel.code:
        if instruction.op.startswith("bra"):
            target = instruction.operands[0]
            if not isinstance(target, Symbol) or target.name not in kernel.labels:
                raise PtxError(f"line {instruction.line}: '{kernel.name}' jumps to a label that it does not have")
