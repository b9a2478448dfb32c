"""Mutated texts: number `n` of a seed is always the same text, whichever process makes it."""

import functools
import random
import re

import polyreme.dialects  # noqa: F401  (registers the dialects)
from polyreme.ir.context import all_ops
from polyreme.ir.debug.examples import example_module
from polyreme.ir.diagnostics import PolyremeError
from polyreme.ir.text import parse_module, print_module
from tests.test_filetests import SECTIONS

# Seeds are short, since most of the time goes into reading; what mutations blow up is cut at the longer limit.
LONGEST_SEED = 1500
LONGEST_TEXT = 20_000

TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[%@#^!]?[A-Za-z_$.][\w$.]*|[0-9]+(?:\.[0-9]+)?|\s+|->|.', re.DOTALL)
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
TYPE = re.compile(r"(?:!polyreme\.)?(?:tensor|buffer|vector|pending)<[^<>]*>|\b(?:f32|i64|i1|index|bf16)\b")

RESULT_TYPES = re.compile(r" : [^={}\n\"]*$", re.MULTILINE)

NUMBERS = [
    "0", "-0", "-1", "1", "2", "00", "31", "32", "33", "63", "64", "65", "255", "4096", str(2**31 - 1), str(2**31), str(2**32),
    str(2**63 - 1), str(2**63),
    str(-(2**63)), str(-(2**63) - 1), str(2**64), "1" + "0" * 30, "9" * 400, "9" * 5000, "1e999", "-1e999", "1e-999", "0.0", "-0.0", "0.5",
    "1e", "1.5.5", "nan",
    "inf", "-inf", "0x", "0x7FF0000000000001", "0x" + "F" * 17, "true", "N", "2*N+1", "N*N*N", "floordiv(N, 0)", "mod(N, 0)", "max(N, M)",
    "-N", "N-N", "?",
]  # fmt: skip

ODD = [
    "\0", "\x01", "\x1b[31m", "\x7f", "\x85", "\xa0", "\r", "\r\n", "\t", "\f", "\u2028", "\u202e", "\ufeff", "é", "ß", "λ", "٣", "²", "漢",
    "🙂",
    "\ud800", "\udfff", "\U0010ffff", "\\", '"', "'", "`", "//", "/*", "%", "@", "^", "#", "!", "->", "::", "<", ">", "(", ")", "{", "}",
    "[", "]", ",", "=", ":",
]  # fmt: skip


@functools.cache
def corpus() -> tuple[str, ...]:
    """Texts to start from: the sections of the file tests, and the examples of all ops, in both forms."""
    found = [section.text.lstrip("\n") for section in SECTIONS]
    modules = [example_module(cls) for _, cls in sorted(all_ops().items())]
    for text in list(found):
        try:
            modules.append(parse_module(text))
        except PolyremeError:
            continue
    for module in modules:
        found += [print_module(module), print_module(module, generic=True), print_module(module, generic=True, locations=True)]
    return tuple(dict.fromkeys(text for text in found if len(text) <= LONGEST_SEED))


def mutated(seed: int, number: int) -> str:
    """Text `number` of a run."""
    rng = random.Random(f"{seed} {number}")
    text = rng.choice(corpus())
    for _ in range(1 + min(int(rng.expovariate(0.9)), 8)):
        text = rng.choice(MUTATIONS)(rng, text)[:LONGEST_TEXT]
    return text


def _span(rng: random.Random, text: str, longest: int = 40) -> tuple[int, int]:
    start = rng.randrange(len(text) + 1)
    return start, min(len(text), start + rng.randint(1, longest))


def flip_a_bit(rng, text):
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data.decode("utf-8", "replace")


def delete_characters(rng, text):
    start, end = _span(rng, text)
    return text[:start] + text[end:]


def repeat_characters(rng, text):
    start, end = _span(rng, text)
    return text[:end] + text[start:end] * rng.choice((1, 1, 2, 50)) + text[end:]


def insert_odd_characters(rng, text):
    at = rng.randrange(len(text) + 1)
    return text[:at] + "".join(rng.choices(ODD, k=rng.randint(1, 3))) + text[at:]


def change_tokens(rng, text):
    """Delete, repeat, swap or replace tokens."""
    tokens = TOKEN.findall(text)
    if not tokens:
        return text
    i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    match rng.randrange(5):
        case 0:
            del tokens[i]
        case 1:
            tokens.insert(i, tokens[i])
        case 2:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        case 3:
            tokens[i] = tokens[j]
        case _:
            tokens[i] = rng.choice(TOKEN.findall(rng.choice(corpus())))
    return "".join(tokens)


def change_lines(rng, text):
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            lines.insert(i, rng.choice(rng.choice(corpus()).splitlines(keepends=True) or [""]))
    return "".join(lines)


def splice(rng, text):
    """The front of one text and the end of another."""
    other = rng.choice(corpus())
    if rng.random() < 0.5:
        return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]
    a, b = text.splitlines(keepends=True), other.splitlines(keepends=True)
    return "".join(a[: rng.randrange(len(a) + 1)] + b[rng.randrange(len(b) + 1) :])


def change_a_word(rng, text):
    """Put a name of the same sort in the place of one: a value, a function, an op, a word, a string. Most such texts still parse."""
    tokens = TOKEN.findall(text)
    at = [i for i, t in enumerate(tokens) if _sort(t)]
    if not at:
        return text
    i = rng.choice(at)
    others = [t for t in (tokens if rng.random() < 0.5 else TOKEN.findall(rng.choice(corpus()))) if _sort(t) == _sort(tokens[i])]
    tokens[i] = rng.choice(others or [tokens[i]])
    return "".join(tokens)


def _sort(token):
    if token[0] in '%@^#!"':
        return token[0] + ("op" if token.startswith('"polyreme.') else "")
    return ("op" if "." in token else "word") if token[0].isalpha() and len(token) > 1 else ""


def leave_out_types(rng, text):
    """Result types of the readable form, so that they are inferred from whatever the operands have become."""
    return RESULT_TYPES.sub("", text) if rng.random() < 0.7 else RESULT_TYPES.sub(lambda m: rng.choice(("", m.group())), text)


def change_a_number(rng, text):
    found = list(NUMBER.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(NUMBERS) + text[match.end() :]


def change_a_type(rng, text):
    found = list(TYPE.finditer(text))
    if not found:
        return text
    match = rng.choice(found)
    return text[: match.start()] + rng.choice(TYPE.findall(rng.choice(corpus())) or ["f32"]) + text[match.end() :]


def nest_deeply(rng, text):
    depth = rng.choice((5, 63, 64, 65, 300, 2000))
    opening, closing = rng.choice(
        (("[", "]"), ("(", ")"), ("{", "}"), ("tensor<", ">"), ("max(N, ", ")"), ("(1+", ")"), ('loc("a"(', "))"), ("-", ""), ("2*", ""))
    )
    kind = rng.randrange(3)
    start, end = _span(rng, text, 10)
    if kind == 0:
        return text[:start] + opening * depth + text[start:end] + closing * depth + text[end:]
    if kind == 1:
        return text[:start] + opening * depth + text[start:]
    body = "".join('"polyreme.tensor.fused"() ({\n' for _ in range(depth)) + "}) : () -> ()\n" * depth
    return text[:start] + body + text[start:]


def truncate(rng, text):
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.random() < 0.7 else text[at:]


def insert_a_huge_literal(rng, text):
    size = rng.choice((100, 1000, 6000))
    literal = rng.choice(
        (
            '"' + "a" * size + '"',
            '"' + "\\" * size + '"',
            'dense<"0x' + "0F" * size + '"> : tensor<4xf32>',
            "dense<[" + ", ".join(["1.0"] * size) + "]> : tensor<4xf32>",
            "dense<" + "[" * size + "]" * size + "> : tensor<4xf32>",
            "dense<0.0> : tensor<" + "9" * min(size, 18) + "xf32>",
            "dense<0> : tensor<100000x100000x100000xi64>",
            "tensor<" + "1x" * size + "f32>",
            "tensor<" + "?x" * size + "f32>",
            "tensor<(" + "+".join(f"N{i}*M{i}" for i in range(size // 10)) + ")xf32>",
            "[" + ", ".join(["1"] * size) + "]",
            "array<i64: " + ", ".join(["1"] * size) + ">",
            "9" * size,
            "0." + "9" * size,
            "%" + "x" * size,
            "@" + "y" * size,
            "(" + "*".join(f"(A{i}+B{i})" for i in range(min(size, 40))) + ")",
            "floordiv(" * min(size, 100) + "N" + ", 2)" * min(size, 100),
            "dense_resource<missing> : tensor<4xf32>",
            '{-# dialect_resources: { builtin: { a: "0x04000000' + "00" * size + '" } } #-}',
        )
    )
    tokens = TOKEN.findall(text)
    if not tokens:
        return literal
    at = rng.randrange(len(tokens))
    tokens[at : at + rng.randint(0, 1)] = [literal]
    return "".join(tokens)


MUTATIONS = [
    flip_a_bit, delete_characters, repeat_characters, insert_odd_characters, change_tokens, change_tokens, change_tokens, change_lines,
    splice,
    change_a_word, change_a_word, change_a_word, change_a_number, change_a_number, change_a_type, change_a_type, leave_out_types,
    leave_out_types, nest_deeply, truncate, insert_a_huge_literal,
]  # fmt: skip
