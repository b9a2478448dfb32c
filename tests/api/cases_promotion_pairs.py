"""Functions whose tensors without axes, and numbers, meet wider ones: in which dtype, and what comes of it."""

from tests.api.table import check

FLOATS = ("float16", "bfloat16", "float32", "float64")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
COMPLEX = ("complex64", "complex128")
NUMBERS = (
    "True",
    "2",
    "2.5",
    "1+2j",
    "np.bool_(True)",
    "np.int32(2)",
    "np.int64(2)",
    "np.float16(2.5)",
    "np.float32(2.5)",
    "np.float64(2.5)",
    "np.complex64(1+2j)",
    "np.complex128(1j)",
)
# Which ranks the two have. (Tensors with axes have cases of their own, and follow other rules.)
RANKS = ((1, 0), (0, 1), (0, 0))


def tensor(paddle, np, rank, dtype, first):
    """[first, 2, -3], or first alone, which bools and unsigned numbers are without their signs."""
    values = np.array([first, 2.0, -3.0]) if rank else np.float64(first)
    return paddle.to_tensor(np.abs(values) if dtype in ("uint8", "bool") else values, dtype="float64").astype(dtype)


def said(paddle, result):
    """The dtype, and the elements: of 16 bits as float32."""
    dtype = str(result.dtype).split(".")[-1]
    return [dtype, (result.astype("float32") if dtype in ("float16", "bfloat16") else result).numpy()]


def pairs(paddle, np, function, dtypes, others=None):
    return {
        f"{a} of {m} axes, {b} of {n}": said(paddle, function(tensor(paddle, np, m, a, -1.5), tensor(paddle, np, n, b, 2.25)))
        for a in dtypes for b in others or dtypes for m, n in RANKS if a != b
    }  # fmt: skip


def numbers(paddle, np, function, dtypes, given):
    return {
        f"{a} and {text}": said(paddle, function(tensor(paddle, np, 1, a, -1.5), eval(text, {"np": np}))) for a in dtypes for text in given
    }


@check("paddle.maximum", "paddle.minimum")
def the_wider_float_wins_in_maxima(paddle, np, rng):
    return {name: pairs(paddle, np, getattr(paddle, name), FLOATS) for name in ("maximum", "minimum")}


@check("paddle.atan2")
def the_wider_float_wins_in_angles(paddle, np, rng):
    return pairs(paddle, np, paddle.atan2, FLOATS)


@check("paddle.where")
def the_wider_one_is_chosen_from(paddle, np, rng):
    mask = paddle.to_tensor([True, False, True])
    choose = lambda a, b: paddle.where(mask, a, b)
    return [pairs(paddle, np, choose, FLOATS), pairs(paddle, np, choose, COMPLEX), pairs(paddle, np, choose, FLOATS[2:], COMPLEX)]


@check("paddle.where")
def a_number_is_the_tensor_that_is_made_of_it(paddle, np, rng):
    mask = paddle.to_tensor([True, False, True])
    floats = [t for t in NUMBERS if "." in t.split("np.")[-1] or "j" in t]
    found = {}
    for name, choose in {"right": lambda a, b: paddle.where(mask, a, b), "left": lambda a, b: paddle.where(mask, b, a)}.items():
        found[name] = [
            numbers(paddle, np, choose, FLOATS[2:], floats),
            numbers(paddle, np, choose, FLOATS[:2], ("2.5", "np.float32(2.5)", "np.float64(2.5)", "np.complex64(1+2j)")),
            numbers(paddle, np, choose, ("bool",), ("True", "np.bool_(True)")),
            numbers(paddle, np, choose, ("int32",), ("np.int32(2)",)), numbers(paddle, np, choose, ("int64",), ("2", "np.int64(2)")),
        ]  # fmt: skip
    return found


@check("paddle.copysign")
def a_sign_goes_to_whole_numbers_too(paddle, np, rng):
    own = {a: said(paddle, paddle.copysign(tensor(paddle, np, 1, a, -1.5), tensor(paddle, np, 1, a, 2.25))) for a in (*WHOLE, "bool")}
    return [
        own,
        pairs(paddle, np, paddle.copysign, WHOLE),
        numbers(paddle, np, paddle.copysign, (*WHOLE, "bool"), ("True", "2", "-3", "2.5")),
    ]


@check("paddle.ldexp")
def only_float64_is_kept_by_ldexp(paddle, np, rng):
    return [pairs(paddle, np, paddle.ldexp, (*WHOLE, *FLOATS)), pairs(paddle, np, paddle.ldexp, ("bool",), FLOATS)]


@check("paddle.floor_divide")
def a_number_divides_in_the_dtype_it_has_of_its_own(paddle, np, rng):
    given = [t for t in NUMBERS if "j" not in t and "True" not in t]
    return [
        numbers(paddle, np, paddle.floor_divide, (*WHOLE, *FLOATS), given),
        pairs(paddle, np, paddle.floor_divide, WHOLE),
        pairs(paddle, np, paddle.floor_divide, FLOATS),
    ]


@check("paddle.clip")
def only_a_float_of_python_makes_floats_of_whole_numbers(paddle, np, rng):
    bounds = [t for t in NUMBERS if "j" not in t and "bool" not in t and "True" not in t]
    return {
        "at least": numbers(paddle, np, lambda x, n: paddle.clip(x, min=n), ("int32", "int64", "float32", "float64"), bounds),
        "at most": numbers(paddle, np, lambda x, n: paddle.clip(x, max=n), ("int32", "int64", "float32", "float64"), bounds),
    }


@check("paddle.add", "paddle.subtract")
def unsigned_and_signed_bytes_meet_in_int16(paddle, np, rng):
    one, other = (paddle.to_tensor(np.asarray(2, dtype)) for dtype in ("uint8", "int8"))
    return [said(paddle, f(a, b)) for f in (paddle.add, paddle.subtract) for a, b in ((one, other), (other, one))]


@check("paddle.equal")
def a_number_is_cast_before_it_is_compared(paddle, np, rng):
    return numbers(paddle, np, paddle.equal, ("bool", "int32", "float32", "float64"), ("True", "2", "2.5", "-3", "np.float64(2.5)"))
