"""`fluid.DataFeedDesc`: which slots of files are used, as a text message says it."""

from __future__ import annotations

import re
from typing import Any

from polyreme.names import listed
from polyreme.utils.shown import Shown

__all__ = ["DataFeedDesc"]

_TOKEN = re.compile(r'\s*(?:#[^\n]*\n\s*)*([A-Za-z_]\w*|[{}:;,]|"(?:[^"\\]|\\.)*"|-?[\d.][\w.+-]*)')


class DataFeedDesc(Shown):
    """A description in protobuf's text form, read from a file: `name`, `batch_size`, and `multi_slot_desc` with its `slots`."""

    def __init__(self, proto_file: str):
        with open(proto_file, encoding="utf-8") as file:
            text = file.read()
        tokens, at = [], 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None:
                raise ValueError(f"{proto_file}: expected a message in protobuf's text form but got {text[at : at + 20]!r}")
            tokens.append(found[1])
            at = found.end()
        self.proto_desc: dict[str, Any] = {"pipe_command": "cat"}
        self.proto_desc |= _message(tokens, proto_file)
        slots = self.proto_desc.get("multi_slot_desc", {}).get("slots", [])
        self._slots = {slot["name"]: slot for slot in (slots if isinstance(slots, list) else [slots])}

    def set_batch_size(self, batch_size: int) -> None:
        """How many samples a batch has."""
        self.proto_desc["batch_size"] = int(batch_size)

    def _of_slots(self, names: list[str], field: str) -> None:
        if self.proto_desc.get("name") != "MultiSlotDataFeed":
            raise ValueError("Only MultiSlotDataFeed needs set_use_slots, please check your datafeed.proto")
        for name in names:
            if name not in self._slots:
                raise KeyError(f"expected slots of the description ({', '.join(self._slots)}) but got '{name}'")
            self._slots[name][field] = True

    def set_dense_slots(self, dense_slots_name: list[str]) -> None:
        """Slots with as many values in each sample."""
        self._of_slots(dense_slots_name, "is_dense")

    def set_use_slots(self, use_slots_name: list[str]) -> None:
        """Slots that a program reads."""
        self._of_slots(use_slots_name, "is_used")

    def desc(self) -> str:
        """The description as text."""
        return _text(self.proto_desc, 0)


def _message(tokens: list[str], file: str, inside: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while tokens:
        name = tokens.pop(0)
        if name == "}" and inside:
            return found
        if name in ",;":
            continue
        if not tokens:
            break
        mark = tokens.pop(0)
        value: Any
        if mark == "{" or mark == ":" and tokens[:1] == ["{"]:
            if mark == ":":
                tokens.pop(0)
            value = _message(tokens, file, True)
        elif mark == ":" and tokens:
            value = _scalar(tokens.pop(0))
        else:
            raise ValueError(f"{file}: expected ':' or '{{' behind '{name}' but got '{mark}'")
        if name in found:
            found[name] = [*(found[name] if isinstance(found[name], list) else [found[name]]), value]
        else:
            found[name] = value
    if inside:
        raise ValueError(f"{file}: expected '}}' before the end")
    return found


def _scalar(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return text[1:-1].replace('\\"', '"')
    return float(text) if "." in text else int(text) if text.lstrip("-").isdigit() else text


# As the fields of the two messages are numbered, which is the order in that protobuf prints them.
_ORDER = ("name", "type", "is_dense", "is_used", "shape", "batch_size", "multi_slot_desc", "pipe_command", "thread_num")


def _text(message: dict[str, Any], depth: int) -> str:
    lines = []
    for name, value in sorted(message.items(), key=lambda pair: _ORDER.index(pair[0]) if pair[0] in _ORDER else len(_ORDER)):
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                lines.append(f"{'  ' * depth}{name} {{\n{_text(item, depth + 1)}{'  ' * depth}}}\n")
            else:
                shown = f'"{item}"' if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else item
                lines.append(f"{'  ' * depth}{name}: {shown}\n")
    return "".join(lines)


__dir__ = listed(__name__)
