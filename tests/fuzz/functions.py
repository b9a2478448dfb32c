"""Random functions as people write them, as the text of a module: control flow, mutation and views, with state outside that changes between
calls.

A module has `ENTRY`, the function or Layer to call; `INPUTS`, for each tensor argument its shape, in which "N" is a size that differs
between calls, and whether it needs a gradient; `NUMBERS`, for each call the number that is the last argument, or None where the function
takes none; and `change(call)`, which changes what is outside before a call. Values stay small, so that no branch hangs on rounding unless
`tests/fuzz/differences.py` notices.
"""

import random
from collections.abc import Callable, Sequence

__all__ = ["written"]

Shape = tuple[str | int, ...]
CALLS = 4
_SHAPES: tuple[Shape, ...] = (("N", 4), ("N", 4), (4,), (4, 4), ("N", 1), ())
_ROW: Shape = (4,)


def written(seed: int, number: int) -> str:
    """The module of one case: the same for the same seed and number."""
    return _Module(random.Random(f"{seed}/{number}")).text()


class _Module:
    def __init__(self, draw: random.Random):
        self.draw = draw
        self.entry = draw.choice(["function", "layer", "layer", "closure"])

    def text(self) -> str:
        draw = self.draw
        inputs = [(draw.choice(_SHAPES[:2] if i == 0 else _SHAPES), draw.random() < 0.5) for i in range(draw.randint(1, 3))]
        number = draw.random() < 0.3
        names = ["x", "y", "z"][: len(inputs)]
        given = {name: shape for name, (shape, _) in zip(names, inputs, strict=True)}
        leaves = {name for name, (_, needs) in zip(names, inputs, strict=True) if needs}
        parameters = ", ".join([*names, *(["k"] if number else [])])
        body = _Function(draw, given, leaves, ["k"] if number else [], self.entry).body(draw.randint(4, 9), results=True)
        helper = _Function(draw, {"t": ("N", 4)}, set(), ["k"], "helper").body(draw.randint(1, 3), returned=("N", 4))
        part = _Function(draw, {"t": ("N", 4)}, set(), [], "method").body(draw.randint(1, 3), returned=("N", 4))
        numbers = [draw.choice([1, 2, 2, 0.5]) for _ in range(CALLS)] if number else [None] * CALLS
        lines = [
            "import polyreme as paddle",
            "",
            f"INPUTS = {[(list(shape), needs) for shape, needs in inputs]}",
            f"NUMBERS = {numbers}",
            "SCALE = 0.5",
            "COUNT = 0",
            "FLAG = True",
            'TABLE = {"a": 0.5, "b": 0.25}',
            "LOG = []",
            "KEPT = paddle.to_tensor([0.3, -0.2, 0.7, 0.1])",
            "FREE = paddle.to_tensor([0.2, 0.4, -0.6, 0.3], stop_gradient=False)",
            "",
            "",
            "def helper(t, k=0.5):",
            *_indented(helper),
            "",
            "",
            "class Net(paddle.nn.Layer):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.linear = paddle.nn.Linear(4, 4)",
            "        self.parts = paddle.nn.LayerList([paddle.nn.Linear(4, 4), paddle.nn.LayerNorm(4)])",
            "        self.weight = self.create_parameter([4, 4])",
            '        self.register_buffer("sums", paddle.full([4], 0.25))',
            "        self.steps = 0",
            "        self.rate = 0.5",
            "        self.items = []",
            '        self.table = {"a": 0.25, "b": 0.75}',
            "        self.cache = None",
            "",
            "    def part(self, t):",
            *_indented(part, 2),
            "",
        ]
        if self.entry == "layer":
            lines += [f"    def forward(self, {parameters}):", *_indented(body, 2), "", "", "NET = Net()", "ENTRY = NET"]
        else:
            lines += ["    def forward(self, t):", "        return self.part(self.linear(t))", "", "", "NET = Net()"]
            if self.entry == "function":
                lines += ["", "", f"def entry({parameters}):", *_indented(body), "", "", "ENTRY = entry"]
            else:
                lines += [
                    "", "", "def make():", "    total = 0", "    held = paddle.to_tensor([0.1, 0.2, 0.3, 0.4])", "    notes = []", "",
                    f"    def entry({parameters}):", *_indented(body, 2), "", "    return entry", "", "", "ENTRY = make()",
                ]  # fmt: skip
        lines += ["", "", "def change(call):", *_indented(self.changes())]
        return "\n".join(lines) + "\n"

    def changes(self) -> list[str]:
        """What is changed from outside before a call."""
        draw = self.draw
        lines = ["global SCALE, COUNT, FLAG, KEPT"]
        kinds = [
            "SCALE = 0.5 + 0.25 * call",
            "FLAG = not FLAG",
            "COUNT = call",
            'TABLE["a"] = 0.5 - 0.125 * call',
            'TABLE["c"] = 1.0',
            "LOG.clear()",
            "KEPT.add_(paddle.full([4], 0.125))",
            "KEPT = paddle.full([4], 0.5 - 0.1 * call)",
            "NET.rate = 0.25 * call",
            "NET.eval()",
            "NET.train()",
            "NET.linear = paddle.nn.Linear(4, 4)",
            "NET.parts[1] = paddle.nn.Linear(4, 4)",
            "NET.sums.scale_(0.5)",
            'NET.table["b"] = 0.25 * call',
            "NET.items.append(0.5)",
            "NET.cache = None",
            "NET.weight.stop_gradient = not NET.weight.stop_gradient",
            "FREE.stop_gradient = not FREE.stop_gradient",
        ]
        for statement in draw.sample(kinds, draw.randint(0, 4)):
            lines += [f"if call == {draw.randint(1, CALLS - 1)}:", f"    {statement}"] if draw.random() < 0.7 else [statement]
        return lines


def _indented(lines: Sequence[str], levels: int = 1) -> list[str]:
    return ["    " * levels + line if line else line for line in lines]


def _broadcast(a: Shape, b: Shape) -> Shape | None:
    rank = max(len(a), len(b))
    sizes = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            return None
        sizes.append(y if x == 1 else x)
    return tuple(sizes)


class _Function:
    """Writes the statements of one function; `shapes` are those of the tensors it has by now, by name."""

    def __init__(self, draw: random.Random, given: dict[str, Shape], leaves: set[str], numbers: list[str], kind: str):
        self.draw = draw
        self.shapes = dict(given)
        self.leaves = set(leaves)  # which cannot be written in place
        self.numbers = list(numbers)
        self.locals: list[str] = []  # numbers that may be bound anew
        self.kind = kind
        self.made = 0
        self.depth = 0
        self.loops = 0
        self.globals: set[str] = set()
        self.result = False

    @property
    def net(self) -> str:
        return "self" if self.kind in ("layer", "method") else "NET"

    def body(self, count: int, returned: Shape | None = None, results: bool = False) -> list[str]:
        """The statements of the whole function. It returns a tensor of the shape `returned`, or any `results`."""
        self.result = results
        lines = []
        for _ in range(count):
            lines += self.statement()
        if returned is not None:
            lines.append(f"return {self.of_shape(returned)}")
        elif results:
            lines.append(f"return {self.returned()}")
        declared = sorted(self.globals)
        if declared:
            lines.insert(0, f"global {', '.join(declared)}")
        if self.kind == "closure" and any("total += 1" in line for line in lines):
            lines.insert(0, "nonlocal total")
        return lines

    def fresh(self, prefix: str = "v") -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    # --- expressions

    def tensor(self, shape: Shape | None = None) -> tuple[str, Shape]:
        """A tensor there is, of this shape if any has it."""
        names = [name for name, s in self.shapes.items() if shape is None or s == shape]
        if names and self.draw.random() < 0.85:
            name = self.draw.choice(names)
            return name, self.shapes[name]
        if shape in (None, _ROW):
            outside = ["KEPT", "FREE", f"{self.net}.sums", f"{self.net}.linear.bias", *(["held"] if self.kind == "closure" else [])]
            return self.draw.choice(outside), _ROW
        return self.of_shape(shape), shape

    def of_shape(self, shape: Shape) -> str:
        names = [name for name, s in self.shapes.items() if s == shape]
        if names:
            return self.draw.choice(names[-3:])
        for name, s in self.shapes.items():
            if _broadcast(s, shape) == shape and "N" not in shape:
                return f"({name} + paddle.zeros({list(shape)}))"
        if shape == ():
            return f"{self.draw.choice(list(self.shapes))}.mean()"
        if "N" in shape:
            source = next((name for name, s in self.shapes.items() if s and s[0] == "N"), None)
            if source is not None and len(shape) == 2:
                column = f"{source}.reshape([{source}.shape[0], -1]).mean(axis=1, keepdim=True)"
                return column if shape[1] == 1 else f"({column} + paddle.zeros([{shape[1]}]))"
            return f"({self.draw.choice(list(self.shapes))}.mean() + paddle.zeros([2, 4]))"
        return f"paddle.full({list(shape)}, 0.5)"

    def number(self) -> str:
        """A Python number."""
        options = ["SCALE", "0.5", "0.25", f"{self.net}.rate", 'TABLE["a"]', f'{self.net}.table["b"]', *self.numbers, *self.locals]
        tensor, _ = self.tensor()
        options += [f"float({tensor}.mean())", f"{tensor}.sum().tanh().item()"] if self.draw.random() < 0.12 else []
        if self.shapes and self.draw.random() < 0.1:
            ranked = [name for name, s in self.shapes.items() if s]
            options += [f"{self.draw.choice(ranked)}.shape[0] / 4"] if ranked else []
        return self.draw.choice(options)

    def value(self) -> tuple[str, Shape]:
        """An expression of a new tensor."""
        draw = self.draw
        a, shape = self.tensor()
        kind = draw.randrange(19)
        if kind <= 3:
            b, other = self.tensor(shape) if draw.random() < 0.7 else self.tensor()
            both = _broadcast(shape, other)
            if both is not None:
                return draw.choice(
                    [f"paddle.tanh({a} + {b})", f"paddle.clip({a} * {b}, -2.0, 2.0)", f"{a} - 0.5 * {b}", f"paddle.maximum({a}, {b})"]
                ), both
        if kind <= 6:
            return draw.choice(
                [
                    "paddle.tanh({0})",
                    "paddle.nn.functional.sigmoid({0})",
                    "paddle.nn.functional.relu({0})",
                    "{0}.abs() * 0.5",
                    "-{0}",
                    "{0}.sin()",
                ]
            ).format(a), shape
        if kind <= 8:
            return f"{a} {draw.choice(['*', '+', '-'])} {self.number()}", shape
        if kind == 9 and shape and shape[-1] == 4:
            weight = draw.choice([f"{self.net}.weight", f"{self.net}.weight.T"])
            return draw.choice([f"paddle.tanh({a} @ {weight})", f"paddle.tanh(paddle.matmul({a}, {weight}))"]), shape
        if kind == 10 and shape and shape[-1] == 4:
            return f"paddle.tanh({self.net}.{draw.choice(['linear', 'parts[0]', 'parts[1]'])}({a}))", shape
        if kind == 11 and shape == ("N", 4):
            called = ["helper({})", "helper({}, k=" + self.number() + ")"] if self.kind != "helper" else ["{}.clone()"]
            called += [self.net + ".part({})"] if self.kind not in ("method", "helper") else []
            return draw.choice(called).format(a), shape
        if kind == 12 and shape:
            if draw.random() < 0.5:
                return f"{a}.{draw.choice(['mean', 'sum', 'max'])}() * 0.25", ()
            return f"{a}.{draw.choice(['mean', 'max'])}(axis=0)", shape[1:]
        if kind == 13:
            return f"{a}.{draw.choice(['clone', 'detach', 'detach'])}()", shape
        if kind == 14 and len(shape) >= 1:
            return f"paddle.where({a} > {draw.choice(['0.2', '-0.1'])}, {a}, {a} * 0.5)", shape
        if kind == 15:
            return f"({a} * {self.number()} if {self.condition()} else {a} * 0.75)", shape
        if kind == 16 and shape == _ROW:
            return f"paddle.stack([{a}, {self.tensor(_ROW)[0]}])", (2, 4)
        if kind == 17 and self.draw.random() < 0.2:
            return f"paddle.nn.functional.dropout({a}, 0.5, training={draw.choice([self.net + '.training', 'FLAG'])})", shape
        return self.view(a, shape)

    def view(self, a: str, shape: Shape) -> tuple[str, Shape]:
        """A tensor that shares memory with another, if there is such a one of this shape."""
        draw = self.draw
        options: list[tuple[str, Shape]] = [(f"{a}.detach()", shape), (f"{a}.unsqueeze(0)", (1, *shape))]
        if shape:
            options += [(f"{a}[0]", shape[1:]), (f"{a}[-1]", shape[1:]), (f"{a}[:]", shape), (f"{a}.flatten()", (_product(shape),))]
        if shape and shape[0] == 1:
            options.append((f"{a}.squeeze(0)", shape[1:]))
        if shape and shape[-1] == 4:
            options += [
                (f"{a}[..., 1:3]", (*shape[:-1], 2)),
                (f"{a}[..., ::2]", (*shape[:-1], 2)),
                (f"{a}.reshape([-1, 2])", (_product((*shape[:-1], 2)), 2)),
            ]
        if len(shape) == 2:
            options += [(f"{a}.T", shape[::-1]), (f"{a}.transpose([1, 0])", shape[::-1]), (f"{a}[:, 0]", shape[:1])]
        return draw.choice(options)

    def condition(self) -> str:
        """Something that an `if` or `while` asks."""
        draw = self.draw
        kind = draw.randrange(16)
        a, shape = self.tensor()
        number = draw.choice(["0.1", "0.3", "-0.2", "SCALE", f"{self.net}.rate"])
        if kind <= 2:
            return f"{a}.{draw.choice(['sum', 'mean', 'max'])}() {draw.choice(['>', '<', '>=', '<='])} {number}"
        if kind == 3:
            return f"({a} > {number}).{draw.choice(['any', 'all'])}()"
        if kind == 4:
            return f"-0.4 < {a}.mean() < {number}"
        if kind == 5:
            return f"not {a}.sum() > {number}"
        if kind == 6 and self.depth < 4:
            self.depth += 1
            left, right = self.condition(), self.condition()
            self.depth -= 1
            return f"({left}) {draw.choice(['and', 'or'])} ({right})"
        if kind == 7 and shape:
            return f"{a}.shape[0] {draw.choice(['>', '<', '=='])} {draw.choice([3, 4])}"
        if kind == 8:
            return f"float({a}.mean()) > {number}"
        if kind == 9:
            return f"{a}.ndim == {draw.choice([1, 2])}"
        return draw.choice(
            [
                "FLAG",
                f"{self.net}.training",
                f"{self.net}.steps % 2 == 0",
                "COUNT > 1",
                "len(LOG) < 3",
                f"len({self.net}.items) > 1",
                f"{self.net}.cache is None",
                '"c" in TABLE',
                "SCALE > 0.6",
            ]
            + [f"{n} > 0.7" for n in [*self.numbers, *self.locals]]
            + (["total < 2", "len(notes) > 1"] if self.kind == "closure" else [])
        )

    def returned(self) -> str:
        draw = self.draw
        names = list(self.shapes)[-4:]
        a, b = draw.choice(names), draw.choice(list(self.shapes))
        kind = draw.randrange(12)
        if kind <= 4:
            return a
        if kind <= 6:
            return f"{a}, {b}"
        return [
            f"{a} * 0.5", f"[{a}, {self.number()}]", f'{{"a": {a}, "b": [{b}]}}', self.value()[0], f"{a}.detach(), {b}",
        ][kind - 7]  # fmt: skip

    # --- statements

    def block(self, count: int) -> list[str]:
        """Statements in a branch or a loop; what they name for the first time is not known behind it."""
        shapes, leaves, names = dict(self.shapes), set(self.leaves), list(self.locals)
        self.depth += 1
        lines = []
        for _ in range(count):
            lines += self.statement()
        self.depth -= 1
        self.shapes, self.locals = shapes, names
        self.leaves = leaves
        return _indented(lines or ["pass"])

    def statement(self) -> list[str]:
        draw = self.draw
        kinds: list[tuple[int, Callable[[], list[str]]]] = [
            (6, self.assign),
            (3, self.rebind),
            (4, self.write),
            (3, self.item),
            (3, self.state),
            (1, self.local),
        ]
        if self.depth < 3:
            kinds += [(4, self.branch), (1, self.modes)]
            kinds += [(2, self.counted), (2, self.repeated), (1, self.each)] if self.loops < 2 else []
        if self.depth and self.result and draw.random() < 0.3:
            kinds += [(1, self.leave)]
        chosen = draw.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]
        return chosen()

    def assign(self) -> list[str]:
        text, shape = self.value()
        name = self.fresh()
        self.shapes[name] = shape
        return [f"{name} = {text}"]

    def rebind(self) -> list[str]:
        """A variable there is gets another value of its shape."""
        names = list(self.shapes)
        name = self.draw.choice(names)
        shape = self.shapes[name]
        if self.draw.random() < 0.3 and name not in self.leaves:
            return [f"{name} {self.draw.choice(['+=', '-=', '*='])} {self.number()}"]
        for _ in range(6):
            text, found = self.value()
            if found == shape:
                self.leaves.discard(name)
                return [f"{name} = {text}"]
        self.leaves.discard(name)
        return [f"{name} = {name} * 0.5"]

    def target(self) -> tuple[str, Shape]:
        """A tensor that may be written in place."""
        names = [name for name in self.shapes if name not in self.leaves]
        if names and self.draw.random() < 0.7:
            name = self.draw.choice(names)
            return name, self.shapes[name]
        return self.draw.choice(["KEPT", f"{self.net}.sums", *(["held"] if self.kind == "closure" else [])]), _ROW

    def write(self) -> list[str]:
        draw = self.draw
        name, shape = self.target()
        if draw.random() < 0.3:
            name, shape = self.view(name, shape)
            if draw.random() < 0.5:
                made = self.fresh("w")
                self.shapes[made] = shape
                return [f"{made} = {name}", *self.changed(made, shape)]
        return self.changed(name, shape)

    def changed(self, name: str, shape: Shape) -> list[str]:
        draw = self.draw
        options = [
            f"{name}.scale_(0.5)",
            f"{name}.tanh_()",
            f"{name}.fill_(0.25)",
            f"{name}.zero_()",
            f"{name}.clip_(-0.5, 0.5)",
            f"{name}.add_(paddle.to_tensor({self.number()}))",
        ]
        other, found = self.tensor(shape)
        if found == shape:
            options += [
                f"{name}.add_({other})",
                f"{name}.multiply_({other})",
                f"{name}.copy_({other}, True)" if draw.random() < 0.2 else f"{name}.subtract_({other} * 0.5)",
            ]
        return [draw.choice(options)]

    def item(self) -> list[str]:
        draw = self.draw
        name, shape = self.target()
        if not shape:
            return [f"{name}.fill_(0.5)"]
        places: list[tuple[str, Shape]] = [("0", shape[1:]), ("-1", shape[1:]), (":", shape), (f"{name} > 0.3", ())]
        if len(shape) == 2:
            places += [(":, 0", shape[:1]), ("1:", ())]
        place, inner = draw.choice(places)
        value = self.number()
        if inner and draw.random() < 0.6:
            value, found = self.tensor(inner)
            value = value if found == inner else "0.5"
        elif draw.random() < 0.3:
            return [f"{name}[{place}] {draw.choice(['+=', '*='])} 0.5"]
        return [f"{name}[{place}] = {value}"]

    def state(self) -> list[str]:
        """Something outside changes."""
        draw, net = self.draw, self.net
        a, shape = self.tensor()
        row = self.tensor(_ROW)[0]
        options = [
            f"{net}.steps += 1", f"{net}.rate = {net}.rate * 0.5", f"{net}.items.append({self.number()})",
            f"{net}.items.append({a}.detach())",
            f"{net}.cache = {a}", f"{net}.cache = {a}.detach()", f'{net}.table["b"] = {self.number()}', f'{net}.table["d"] = {a}.detach()',
            f"LOG.append({self.number()})", f"LOG.append({a}.mean().item())", 'TABLE["c"] = 0.5', 'TABLE.pop("c", None)',
            f'TABLE.update(a={self.number()})',
            f"{net}.sums = {net}.sums * 0.5", f"{net}.sums.set_value({row}.detach() * 0.5)", f"{net}.items = [{net}.steps]",
            f"{a}.stop_gradient = {draw.choice(['True', 'True', 'False'])}", f"setattr({net}, 'rate', {self.number()})", "del LOG[:]",
            f"{net}.last = ({a}.detach(), {net}.steps)",
        ]  # fmt: skip
        options += ["total += 1", f"notes.append({a}.detach())", f"notes.append({self.number()})"] if self.kind == "closure" else []
        if draw.random() < 0.15:
            name = draw.choice(["COUNT", "SCALE", "KEPT"])
            self.globals.add(name)
            return [{"COUNT": "COUNT += 1", "SCALE": "SCALE = SCALE * 0.5 + 0.125", "KEPT": f"KEPT = {row}.detach() * 0.5"}[name]]
        return [draw.choice(options)]

    def local(self) -> list[str]:
        name = self.fresh("n")
        line = f"{name} = {self.number()} * {self.draw.choice(['0.5', '2', 'SCALE'])}"
        self.locals.append(name)
        return [line]

    def branch(self) -> list[str]:
        draw = self.draw
        lines = [f"if {self.condition()}:", *self.block(draw.randint(1, 3))]
        if draw.random() < 0.3:
            lines += [f"elif {self.condition()}:", *self.block(draw.randint(1, 2))]
        if draw.random() < 0.6:
            # What both branches name is known afterwards.
            name, (text, shape) = self.fresh(), self.value()
            lines.append(f"    {name} = {text}")
            other = self.of_shape(shape)
            if "elif" in "".join(lines):
                lines = [*lines, "else:", *self.block(draw.randint(1, 2))]
            else:
                lines += ["else:", *self.block(draw.randint(0, 2)), f"    {name} = {other} * 0.5"]
                self.shapes[name] = shape
        return lines

    def counted(self) -> list[str]:
        """A `for` over numbers, and what else it goes through."""
        draw = self.draw
        self.loops += 1
        name = self.fresh("i")
        a, shape = self.tensor()
        over = [
            ("range(3)", name),
            ("range(1, 3)", name),
            ("[0.5, 0.25]", name),
            ("(1, 2)", name),
            ("TABLE.items()", f"_, {name}"),
            ("sorted(TABLE.values())", name),
            ("enumerate([0.5, 1.0])", f"_, {name}"),
        ]
        over += [(f"range({a}.shape[0])", name)] if shape else []
        over += [("paddle.arange(3)", name)] if draw.random() < 0.3 else []
        text, target = draw.choice(over)
        tensor = text == "paddle.arange(3)"
        self.locals += [] if tensor else [name]
        body = self.block(draw.randint(1, 3))
        self.locals = [n for n in self.locals if n != name]
        lines = [f"for {target} in {text}:", *body]
        if draw.random() < 0.4:
            lines += _indented([f"if {self.condition()}:", f"    {draw.choice(['break', 'continue'])}", *self.rebind()])
        if draw.random() < 0.15:
            lines += ["else:", *self.block(1)]
        self.loops -= 1
        return lines

    def repeated(self) -> list[str]:
        """A `while` that ends."""
        draw = self.draw
        self.loops += 1
        name = self.fresh("c")
        kind = draw.randrange(3)
        if kind == 0:
            lines = [
                f"{name} = 0",
                f"while {name} < 3{f' and ({self.condition()})' if draw.random() < 0.5 else ''}:",
                f"    {name} += 1",
                *self.block(draw.randint(1, 3)),
            ]
        elif kind == 1:
            lines = [
                f"{name} = paddle.to_tensor(0)",
                f"while {name} < {draw.choice([2, 3])}:",
                f"    {name} = {name} + 1",
                *self.block(draw.randint(1, 2)),
            ]
        else:
            a, shape = self.tensor()
            lines = [
                f"{name} = {a} * 0.9",
                f"while {name}.abs().sum() > 0.77 and {name}.abs().sum() < 1000.0:",
                f"    {name} = {name} * 0.5",
                *self.block(draw.randint(0, 2)),
            ]
            self.shapes[name] = shape
        if draw.random() < 0.3:
            lines += _indented([f"if {self.condition()}:", "    break"])
        self.loops -= 1
        return lines

    def each(self) -> list[str]:
        """A `for` over tensors, or over Layers."""
        draw = self.draw
        self.loops += 1
        name = self.fresh("r")
        names = [n for n, s in self.shapes.items() if s]
        kind = draw.randrange(4)
        if kind == 0 or not names:
            wide = [n for n, s in self.shapes.items() if s and s[-1] == 4]
            a = draw.choice(wide) if wide else "KEPT"
            lines = (
                [f"for {name} in {self.net}.parts:", f"    {a} = paddle.tanh({name}({a}))"]
                if wide
                else [f"for {name} in {self.net}.parts:", f"    {name}({a})"]
            )
            self.leaves.discard(a)
        elif kind == 1:
            a = draw.choice(names)
            rows = self.fresh("l")
            self.shapes[name] = self.shapes[a][1:]
            lines = [f"{rows} = []", f"for {name} in {a}:", *self.block(draw.randint(0, 2)), f"    {rows}.append({name} * 0.5)"]
            del self.shapes[name]
            whole = self.fresh()
            lines.append(f"{whole} = paddle.stack({rows})")
            self.shapes[whole] = self.shapes[a]
        elif kind == 2:
            a = draw.choice(names)
            self.shapes[name] = self.shapes[a][1:]
            position = self.fresh("i")
            lines = [
                f"for {position}, {name} in enumerate({a}):",
                f"    if {position} > 1:",
                "        break",
                *self.block(draw.randint(1, 2)),
            ]
            del self.shapes[name]
        else:
            a, shape = self.tensor()
            b, other = self.tensor()
            self.shapes[name] = shape
            lines = [f"for {name}, _ in zip([{a}, {a} * 0.5], [{b}, 1]):", *self.block(draw.randint(1, 3))]
            del self.shapes[name]
        self.loops -= 1
        return lines

    def modes(self) -> list[str]:
        return ["with paddle.no_grad():", *self.block(self.draw.randint(1, 3))]

    def leave(self) -> list[str]:
        if self.loops and self.draw.random() < 0.3:
            return [f"if {self.condition()}:", f"    return {self.returned()}"]
        return [f"return {self.returned()}"] if self.depth else []


def _product(shape: Shape) -> str | int:
    """How many elements, as a size that is equal for equal ones."""
    count, free = 1, False
    others = []
    for size in shape:
        if isinstance(size, int):
            count *= size
        else:
            others.append(size)
            free = True
    return "*".join([*sorted(others), str(count)] if count != 1 else sorted(others)) if free else count
