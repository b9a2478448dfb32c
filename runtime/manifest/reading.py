"""Reading the parts of a manifest, as plain data from a file that anybody may have written: every field is checked against the limits.

What is wrong is an `ArtifactError` that names the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyreme.runtime.errors import ArtifactError
from polyreme.runtime.manifest.sizes import MAX_LENGTH, NAME
from polyreme.runtime.manifest.specs import (
    DTYPES,
    GUARD_KINDS,
    MAX_ARGUMENTS,
    MAX_NAME,
    MAX_RANK,
    MAX_SIZE,
    MOST_NESTED,
    STEP_KINDS,
    BodySpec,
    ConstantSpec,
    GuardSpec,
    LookSpec,
    RangeSpec,
    Shape,
    SizeSpec,
    StepSpec,
    TargetSpec,
    TensorSpec,
)

__all__ = [
    "Reader", "read_argument", "read_constant", "read_extra", "read_guard", "read_look", "read_range", "read_size", "read_step",
    "read_target", "read_tensor", "read_update",
]  # fmt: skip


class Reader:
    """The fields of one JSON object, each taken once and checked; `path` is for messages."""

    def __init__(self, data: Any, path: str):
        if not isinstance(data, dict):
            raise ArtifactError(f"expected '{path}' to be an object but got {_kind(data)}")
        self.data, self.path = dict(data), path

    def take(self, key: str) -> Any:
        if key not in self.data:
            raise ArtifactError(f"expected a field '{key}' in '{self.path}'")
        return self.data.pop(key)

    def finish(self) -> None:
        if self.data:
            raise ArtifactError(f"expected no other fields in '{self.path}' but got {', '.join(sorted(map(repr, self.data)))}")

    def text(self, key: str, limit: int = MAX_NAME) -> str:
        value = self.take(key)
        if not isinstance(value, str) or len(value) > limit or "\0" in value:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a text of at most {limit} characters but got {_kind(value)}")
        return value

    def choice(self, key: str, choices: Sequence[str]) -> str:
        value = self.take(key)
        if not isinstance(value, str) or value not in choices:
            raise ArtifactError(f"expected '{self.path}.{key}' to be one of {', '.join(choices)} but got {value!r:.100}")
        return value

    def integer(self, key: str, low: int, high: int) -> int:
        value = self.take(key)
        if not _is_int(value) or not low <= value <= high:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a whole number from {low} to {high} but got {value!r:.100}")
        return int(value)

    def limit(self, key: str) -> int | None:
        """A bound of a size, or None."""
        if self.data.get(key, 0) is None:
            self.take(key)
            return None
        return self.integer(key, -MAX_SIZE, MAX_SIZE)

    def entries(self, key: str, limit: int = MAX_ARGUMENTS) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list) or len(value) > limit:
            raise ArtifactError(f"expected '{self.path}.{key}' to be a list of at most {limit} items but got {_kind(value)}")
        return value

    def items(self, key: str) -> list[Reader]:
        return [Reader(item, f"{self.path}.{key}[{i}]") for i, item in enumerate(self.entries(key))]

    def child(self, key: str) -> Reader:
        return Reader(self.take(key), f"{self.path}.{key}")

    def counts(self, key: str) -> tuple[int, ...]:
        """A list of numbers of bytes."""
        values = self.entries(key)
        for value in values:
            if not _is_int(value) or not 0 <= value <= MAX_SIZE:
                raise ArtifactError(f"expected '{self.path}.{key}' to be numbers of bytes but got {value!r:.100}")
        return tuple(values)

    def static_shape(self, key: str) -> tuple[int, ...]:
        shape = self.entries(key, MAX_RANK)
        for size in shape:
            if not _is_int(size) or not 0 <= size <= MAX_SIZE:
                raise ArtifactError(f"expected the sizes in '{self.path}.{key}' to be from 0 to {MAX_SIZE} but got {size!r:.100}")
        return tuple(shape)

    def shape(self, key: str) -> Shape:
        shape = self.entries(key, MAX_RANK)
        for size in shape:
            known = _is_int(size) and 0 <= size <= MAX_SIZE
            if not known and not (isinstance(size, str) and 0 < len(size) <= MAX_LENGTH):
                raise ArtifactError(
                    f"expected the sizes in '{self.path}.{key}' to be from 0 to {MAX_SIZE}, or texts, but got {size!r:.100}"
                )
        return tuple(shape)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return (
        "nothing" if value is None else f"{type(value).__name__} of length {len(value)}" if hasattr(value, "__len__") else f"{value!r:.100}"
    )


def read_tensor(reader: Reader, roles: Sequence[str]) -> TensorSpec:
    spec = TensorSpec(reader.text("name"), reader.choice("dtype", tuple(DTYPES)), reader.shape("shape"), reader.choice("role", roles))
    reader.finish()
    return spec


def read_constant(reader: Reader) -> ConstantSpec:
    name, dtype, shape = reader.text("name"), reader.choice("dtype", tuple(DTYPES)), reader.static_shape("shape")
    spec = ConstantSpec(name, dtype, shape, reader.integer("offset", 0, MAX_SIZE), reader.integer("bytes", 0, MAX_SIZE))
    reader.finish()
    return spec


def read_size(reader: Reader) -> SizeSpec:
    name = reader.text("name")
    if not NAME.match(name):
        raise ArtifactError(f"expected '{reader.path}.name' to be an identifier but got {name!r}")
    place = reader.integer("input", 0, MAX_ARGUMENTS), reader.integer("axis", 0, MAX_RANK)
    line = (reader.integer("scale", 1, MAX_SIZE), reader.integer("offset", -MAX_SIZE, MAX_SIZE)) if "scale" in reader.data else (1, 0)
    reader.finish()
    return SizeSpec(name, *place, *line)


def read_guard(reader: Reader) -> GuardSpec:
    size, what = reader.text("size", MAX_LENGTH), reader.text("what", 4 * MAX_NAME)
    spec = GuardSpec(size, what, reader.choice("kind", GUARD_KINDS), reader.limit("low"), reader.limit("high"))
    reader.finish()
    return spec


def read_range(reader: Reader) -> RangeSpec:
    most = 1 << 62
    spec = RangeSpec(
        reader.integer("input", 0, MAX_ARGUMENTS), reader.integer("low", -most, most), reader.integer("high", -most, most),
        reader.text("what", 4 * MAX_NAME),
    )  # fmt: skip
    reader.finish()
    return spec


def read_look(reader: Reader) -> LookSpec:
    spec = LookSpec(bool(reader.integer("wraps", 0, 1)), reader.text("what", 4 * MAX_NAME))
    reader.finish()
    return spec


def _read_body(reader: Reader, depth: int) -> BodySpec:
    if depth > MOST_NESTED:
        raise ArtifactError(f"expected at most {MOST_NESTED} branches and loops in one another in '{reader.path}'")
    body = BodySpec(tuple(read_step(item, depth) for item in reader.items("steps")), reader.counts("yields"))
    reader.finish()
    return body


def read_step(reader: Reader, depth: int = 0) -> StepSpec:
    kind = reader.choice("kind", tuple(STEP_KINDS))
    names = reader.entries("names")
    for name in names:
        if not isinstance(name, str) or len(name) > MAX_NAME or not NAME.match(name):
            raise ArtifactError(f"expected '{reader.path}.names' to be identifiers but got {name!r:.100}")
    takes, gives, part = reader.counts("takes"), reader.counts("gives"), reader.integer("part", 0, MAX_ARGUMENTS)
    spec = StepSpec(kind, takes, gives, part, tuple(names), reader.text("need", 4 * MAX_NAME))
    spec = spec._replace(bodies=tuple(_read_body(item, depth + 1) for item in reader.items("bodies")))
    reader.finish()
    return spec


def read_argument(item: Any, index: int) -> tuple[str, int]:
    kinds = ("input", "constant", "output", "looks")
    if not isinstance(item, list) or len(item) != 2 or item[0] not in kinds or not _is_int(item[1]):
        raise ArtifactError(f"expected 'manifest.arguments[{index}]' to be a kind ({', '.join(kinds)}) and a number but got {item!r:.100}")
    return item[0], item[1]


def read_update(item: Any, index: int) -> tuple[int, int]:
    if not isinstance(item, list) or len(item) != 2 or not all(_is_int(n) and n >= 0 for n in item):
        raise ArtifactError(f"expected 'manifest.updates[{index}]' to be the numbers of an input and an output but got {item!r:.100}")
    return item[0], item[1]


def read_target(reader: Reader) -> TargetSpec:
    spec = TargetSpec(reader.text("triple"), reader.text("cpu"), reader.text("features", 10_000))
    reader.finish()
    return spec


def read_extra(reader: Reader) -> dict[str, str]:
    return {key: reader.text(key, 1 << 20) for key in sorted(reader.data)}
