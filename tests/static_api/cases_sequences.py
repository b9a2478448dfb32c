"""`paddle.static.nn`: sequences of several lengths, which are fed with their levels of detail."""

from tests.static_api.table import check, filled, numbers

N = "paddle.static.nn."
LENGTHS = [[2, 1, 4]]


def fed(paddle, array):
    """The array as rows of three sequences."""
    core = getattr(paddle, "base", paddle.fluid if hasattr(paddle, "fluid") else None)
    return core.create_lod_tensor(array, LENGTHS, paddle.CPUPlace())


def sequences(paddle, columns):
    made = paddle.static.data("x", [None, columns], "float32", lod_level=1)
    made.stop_gradient = False
    return made


def computed(paddle, np, y, x, columns):
    """`y` and the gradient of the sum of its squares, with the levels of `y`."""
    (slope,) = paddle.static.gradients([(y * y).sum()], [x])
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    found = executor.run(feed={"x": fed(paddle, numbers(7, columns))}, fetch_list=[y, slope], return_numpy=False)
    levels = [list(level) for level in found[0].lod()] if hasattr(found[0], "lod") else []
    return {"y": np.array(found[0]), "levels": levels, "grad": np.array(found[1])}


@check(N + "sequence_pool", N + "sequence_first_step", N + "sequence_last_step", paddle="2.6.2")
def sequences_become_rows(paddle, np):
    x, nn = sequences(paddle, 3), paddle.static.nn
    pools = [nn.sequence_pool(x, kind) for kind in ("average", "sum", "sqrt", "max")]
    y = paddle.concat([*pools, nn.sequence_first_step(x), nn.sequence_last_step(x)], 1)
    return computed(paddle, np, y, x, 3)


@check(N + "sequence_softmax", paddle="2.6.2")
def numbers_of_a_sequence_add_up_to_one(paddle, np):
    x = sequences(paddle, 1)
    return computed(paddle, np, paddle.static.nn.sequence_softmax(x), x, 1)


@check(N + "sequence_expand", paddle="2.6.2")
def rows_are_repeated_along_sequences(paddle, np):
    x = sequences(paddle, 3)
    made = paddle.static.nn.sequence_expand(paddle.static.nn.sequence_pool(x, "sum"), x)
    return computed(paddle, np, x * made, x, 3)


@check(N + "sequence_conv", paddle="2.6.2")
def windows_stay_within_their_sequence(paddle, np):
    x = sequences(paddle, 3)
    y = paddle.static.nn.sequence_conv(x, 2, 3, param_attr=filled(paddle, 9, 2), bias_attr=filled(paddle, 2), act="tanh")
    z = paddle.static.nn.sequence_conv(x, 2, 2, padding_start=0, param_attr=filled(paddle, 6, 2), bias_attr=False)
    return computed(paddle, np, y + z, x, 3)
