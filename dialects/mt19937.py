"""MT19937-64 as `std::mt19937_64` has it: the generator behind every random draw, as pure functions on a state array.

A state is 313 words of uint64: the 312 words of the twister, then how many of them are used up. Functions take a state and return a
new one; none writes into its argument. Seeding is that of C++'s `std::seed_seq{seed}`, and the distributions are those of libstdc++
(one 64-bit draw per uniform number, Marsaglia's polar method for normal ones), so that a program seeded as in Paddle
on a CPU sees the same numbers, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WORDS = 312
STATE_WORDS = WORDS + 1
HALF = 156
MATRIX = np.uint64(0xB5026F5AA96619E9)
UPPER = np.uint64(0xFFFFFFFF80000000)
LOWER = np.uint64(0x7FFFFFFF)
_ONE = np.uint64(1)


def seed_state(seed: int) -> Array:
    """The state after `std::seed_seq sequence{seed}; std::mt19937_64 engine(sequence)`; only the seed's low 32 bits count."""
    return _seeded(seed & 0xFFFFFFFF).copy()


@lru_cache(64)
def _seeded(seed: int) -> Array:
    """What `seed_state` gives copies of: it takes some milliseconds to make, and programs come back to their seeds."""
    halves = _seed_sequence([seed], 2 * WORDS).reshape(WORDS, 2)
    words = halves[:, 0] | halves[:, 1] << np.uint64(32)
    if not (words[1:].any() or words[0] & UPPER):
        words[0] = np.uint64(1 << 63)
    return np.append(words, np.uint64(WORDS))


def plain_state(seed: int) -> Array:
    """The state after `std::mt19937_64 engine(seed)`: what Paddle's operators with a seed of their own start from."""
    mask = 0xFFFFFFFFFFFFFFFF
    words = [seed & mask]
    for i in range(1, WORDS):
        words.append((6364136223846793005 * (words[-1] ^ words[-1] >> 62) + i) & mask)
    return np.append(np.array(words, np.uint64), np.uint64(WORDS))


def _seed_sequence(seeds: list[int], count: int) -> Array:
    """`std::seed_seq(seeds).generate` of `count` (at least 623) words of 32 bits, each in a uint64."""
    mask = 0xFFFFFFFF
    words = [0x8B8B8B8B] * count
    t = 11
    p = (count - t) // 2
    q = p + t
    rounds = max(len(seeds) + 1, count)

    def scramble(x: int) -> int:
        return x ^ (x >> 27)

    for k in range(rounds):
        r1 = 1664525 * scramble(words[k % count] ^ words[(k + p) % count] ^ words[(k - 1) % count]) & mask
        r2 = r1 + (len(seeds) if k == 0 else k % count + seeds[k - 1] if k <= len(seeds) else k % count) & mask
        words[(k + p) % count] = words[(k + p) % count] + r1 & mask
        words[(k + q) % count] = words[(k + q) % count] + r2 & mask
        words[k % count] = r2
    for k in range(rounds, rounds + count):
        r3 = 1566083941 * scramble((words[k % count] + words[(k + p) % count] + words[(k - 1) % count]) & mask) & mask
        r4 = r3 - k % count & mask
        words[(k + p) % count] ^= r3
        words[(k + q) % count] ^= r4
        words[k % count] = r4
    return np.array(words, np.uint64)


def _twist(words: Array) -> Array:
    """The next 312 words. The second half depends on the first, each half on nothing of itself, so two vector steps do."""
    fresh = np.empty_like(words)

    def step(current: Array, following: Array, far: Array) -> Array:
        y = (current & UPPER) | (following & LOWER)
        return far ^ (y >> _ONE) ^ np.where(y & _ONE, MATRIX, np.uint64(0))

    fresh[:HALF] = step(words[:HALF], words[1 : HALF + 1], words[HALF:])
    fresh[HALF:-1] = step(words[HALF:-1], words[HALF + 1 :], fresh[: HALF - 1])
    fresh[-1:] = step(words[-1:], fresh[:1], fresh[HALF - 1 : HALF])
    return fresh


def draw(state: Array, count: int) -> tuple[Array, Array]:
    """`count` draws as uint64[count], and the state after them."""
    words, used = state[:WORDS], int(state[WORDS])
    pieces = [words[used : used + count]]
    missing = count - len(pieces[0])
    used += len(pieces[0])
    while missing > 0:
        words = _twist(words)
        pieces.append(words[:missing])
        used = len(pieces[-1])
        missing -= used
    return _temper(np.concatenate(pieces)), np.append(words, np.uint64(used))


def _temper(x: Array) -> Array:
    x = x ^ ((x >> np.uint64(29)) & np.uint64(0x5555555555555555))
    x = x ^ ((x << np.uint64(17)) & np.uint64(0x71D67FFFEDA60000))
    x = x ^ ((x << np.uint64(37)) & np.uint64(0xFFF7EEE000000000))
    return x ^ (x >> np.uint64(43))


def _canonical(words: Array, dtype: np.dtype[Any]) -> Array:
    """Draws as floats in [0, 1): word / 2^64, both rounded to `dtype`; a quotient that rounds to 1 becomes its predecessor."""
    one = dtype.type(1)
    return np.minimum(words.astype(dtype) / dtype.type(2.0**64), np.nextafter(one, dtype.type(0)))


def _working(dtype: Any) -> np.dtype[Any]:
    """float64 draws in float64, everything narrower in float32."""
    return np.dtype(np.float64 if np.dtype(dtype) == np.float64 else np.float32)


def units(state: Array, count: int, dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """`count` numbers in [0, 1) of float32 or float64, one draw each, and the state after them."""
    words, state = draw(state, count)
    return _canonical(words, dtype), state


# What draws numbers as `units` does.
Units = Callable[[Array, int, "np.dtype[Any]"], tuple[Array, Array]]
# So many draws at a time stay in a core's cache while they are worked on.
BATCH = 1 << 15


def uniform(
    state: Array, shape: tuple[int, ...], low: float = 0.0, high: float = 1.0, dtype: Any = np.float32, units: Units = units
) -> tuple[Array, Array]:
    """Numbers in [low, high), one draw each in row-major order, and the state after them."""
    working = _working(dtype)
    low, high = working.type(low), working.type(high)
    values = np.empty(int(np.prod(shape, dtype=np.int64)), dtype)
    for start in range(0, len(values), BATCH):
        part = values[start : start + BATCH]
        drawn, state = units(state, len(part), working)
        part[:] = drawn * (high - low) + low
    return values.reshape(shape), state.copy()


def normal(
    state: Array, shape: tuple[int, ...], mean: float = 0.0, std: float = 1.0, dtype: Any = np.float32, units: Units = units
) -> tuple[Array, Array]:
    """Normal numbers by the polar method, in row-major order, and the state after them.

    A point (x, y) of the unit disc gives two numbers, y's first; the second of an odd last pair is thrown away.
    """
    working = _working(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    values = np.empty((count + 1) // 2 * 2, dtype)
    done = 0
    while done < count:
        missing = (len(values) - done) // 2
        # pi/4 of the points are kept; a little more than the mean seldom needs another batch.
        tries = min(BATCH // 2, int(missing * 1.35) + 16)
        drawn, following = units(state, 2 * tries, working)
        points = working.type(2) * drawn.reshape(tries, 2) - working.type(1)
        squares = points * points
        radius = squares[:, 0] + squares[:, 1]
        kept = np.flatnonzero((radius <= 1) & (radius > 0))
        if len(kept) >= missing:
            # The draws end with the last point that is needed.
            kept = kept[:missing]
            _, following = units(state, 2 * (int(kept[-1]) + 1), working)
        r = radius[kept]
        log = _logf(r) if working == np.float32 else np.log(r)
        scale = np.sqrt(working.type(-2) * log / r)
        pairs = points[kept, ::-1] * scale[:, None]
        values[done : done + 2 * len(kept)] = (pairs * working.type(std) + working.type(mean)).reshape(-1)
        done += 2 * len(kept)
        state = following
    return values[:count].reshape(shape), state.copy()


def integers(state: Array, shape: tuple[int, ...], low: int, high: int) -> tuple[Array, Array]:
    """Whole numbers in [low, high) as int64, by libstdc++'s `uniform_int_distribution`, and the state after them."""
    count, bound = math.prod(shape), high - low
    if bound < 1 << 32:
        words, following = draw(state, count)
        scaled = _scaled(words, bound)
        if scaled is not None:
            return (scaled.astype(np.int64) + low).reshape(shape), following
    values = np.empty(count, np.uint64)
    for i in range(count):
        values[i], state = below(state, bound)
    return (values.astype(np.int64) + low).reshape(shape), state


def permutation(state: Array, count: int) -> tuple[Array, Array]:
    """The numbers below `count` as int64, shuffled as `std::shuffle` of libstdc++ does it (one draw serves two swaps), and the state after
    it.
    """
    order = list(range(count))
    at = 1
    if count % 2 == 0 and count:
        other, state = below(state, 2)
        order[1], order[other] = order[other], order[1]
        at = 2
    while at < count:
        both, state = below(state, (at + 1) * (at + 2))
        for other in divmod(both, at + 2):
            order[at], order[other] = order[other], order[at]
            at += 1
    return np.array(order, np.int64), state


def below(state: Array, bound: int) -> tuple[int, Array]:
    """A whole number in [0, bound): the high half of a 128-bit product, small low halves rejected (Lemire's method); and the state after
    it.
    """
    threshold = -1
    while True:
        words, state = draw(state, 1)
        product = int(words[0]) * bound
        low = product & 0xFFFFFFFFFFFFFFFF
        if low < bound:
            if threshold < 0:
                threshold = (1 << 64) % bound
            if low < threshold:
                continue
        return product >> 64, state


def _scaled(words: Array, bound: int) -> Array | None:
    """`words * bound / 2^64` for bounds under 2^32; None in the rare case that the distribution rejects one of the words."""
    b, half = np.uint64(bound), np.uint64(32)
    low = words * b  # modulo 2^64
    if (low < np.uint64((1 << 64) % bound)).any():
        return None
    return ((words >> half) * b + ((words & np.uint64(0xFFFFFFFF)) * b >> half)) >> half


# 1/c and log(c) for 16 points c in [0.7, 1.4), and a polynomial for what is left: the numbers of glibc's logf (from Arm's optimized
# routines, MIT).
_INVERSES = np.array([float.fromhex(x) for x in (
    "0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010bp+0 0x1.3c995b0b80385p+0 0x1.30d190c8864a5p+0 0x1.25e227b0b8eap+0 "
    "0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0 0x1.0953f419900a7p+0 0x1p+0 0x1.e608cfd9a47acp-1 0x1.ca4b31f026aap-1 "
    "0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1 0x1.767dcf5534862p-1"
).split()])  # fmt: skip
_LOGS = np.array([float.fromhex(x) for x in (
    "-0x1.57bf7808caadep-2 -0x1.2bef0a7c06ddbp-2 -0x1.01eae7f513a67p-2 -0x1.b31d8a68224e9p-3 -0x1.6574f0ac07758p-3 -0x1.1aa2bc79c81p-3 "
    "-0x1.a4e76ce8c0e5ep-4 -0x1.1973c5a611cccp-4 -0x1.252f438e10c1ep-5 0x0p+0 0x1.aa5aa5df25984p-5 0x1.c5e53aa362eb4p-4 "
    "0x1.526e57720db08p-3 0x1.bc2860d22477p-3 0x1.1058bc8a07ee1p-2 0x1.4043057b6ee09p-2"
).split()])  # fmt: skip
_POLYNOMIAL = [float.fromhex(x) for x in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")]
_LN2 = float.fromhex("0x1.62e42fefa39efp-1")
_LOWEST = 0x3F330000


def _logf(x: Array) -> Array:
    """The C library's float32 logarithm of positive normal numbers. It is not always rounded correctly, and its last bits are part of the
    stream.
    """
    bits = x.view(np.int32)
    offset = bits - np.int32(_LOWEST)
    point = (offset >> 19) & 15
    mantissa = (bits - (offset & np.int32(-(1 << 23)))).view(np.float32).astype(np.float64)
    r = mantissa * _INVERSES[point] - 1
    rest = (_POLYNOMIAL[1] * r + _POLYNOMIAL[2]) + _POLYNOMIAL[0] * (r * r)
    return (rest * (r * r) + (_LOGS[point] + (offset >> 23) * _LN2 + r)).astype(np.float32)
