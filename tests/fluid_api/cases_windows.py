"""Windows and places of rows in sequences, and other levels."""

from tests.fluid_api.cases_labelling import with_gradient_of
from tests.fluid_api.cases_layers import attr, outcome, rows
from tests.fluid_api.table import caught, check

L = "paddle.fluid.layers."


@check(L + "row_conv")
def rows_see_those_after_them(fluid, np):
    def conv(L, x):
        return L.row_conv(x, 2, attr(fluid, np, "roww", 3, 4), act="tanh")

    def made(x):
        return outcome(fluid, np, with_gradient_of(fluid, np, "roww", conv), x)

    found = {str(n): made(rows(np, n, 4)) for n in ([[5, 1, 3]], [[4]], [[1, 1]])}
    found["padded"] = made(rows(np, [[1, 1, 1]], 5, 4)[0])
    return found


@check(L + "im2sequence")
def images_are_sequences_of_windows(fluid, np):
    images = rows(np, [[1, 1]], 3, 5, 6)[0]

    def made(*sizes, **more):
        def apply(L, x, *given):
            found = L.im2sequence(x, input_image_size=given[0] if given else None, **more)
            found.stop_gradient = bool(given)  # 1.8.5 has no gradient then
            return found

        return outcome(fluid, np, apply, images, *sizes)

    return {
        "single": made(), "windows": made(filter_size=2), "strides": made(filter_size=[2, 3], stride=[2, 1]),
        "padding": made(filter_size=3, stride=2, padding=1), "four": made(filter_size=[3, 2], stride=3, padding=[0, 1, 2, 1]),
        "sizes": made(np.array([[5, 6], [3, 4]], "float32"), filter_size=2),
        "scaled sizes": made(np.array([[20, 12], [9, 23]], "float32"), filter_size=[2, 3], stride=[1, 2], padding=1, out_stride=4),
    }  # fmt: skip


@check(L + "lod_append")
def levels_are_put_below(fluid, np):
    one, flat = rows(np, [[2, 1]], 2), rows(np, [[1] * 3], 2)[0]
    return {
        "offsets": outcome(fluid, np, lambda L, x: L.lod_append(x, [0, 1, 2, 3]), one),
        "alone": outcome(fluid, np, lambda L, x: L.lod_append(x, [0, 1, 3]), flat),
        "levels": outcome(fluid, np, lambda L, x, y: L.lod_append(x, y), flat, one),
        "no level": caught(lambda: fluid.layers.lod_append(fluid.layers.data("x", [1]), 3), "list, tuple or Variable"),
    }  # fmt: skip


@check(L + "sequence_scatter")
def sequences_are_added_in_columns(fluid, np):
    x = rows(np, [[1, 1, 1]], 6)[0]

    def made(lengths):
        draws = np.random.RandomState(4)
        ids = draws.randint(0, 6, (sum(lengths[0]), 1)).astype("int64"), lengths
        return outcome(fluid, np, lambda L, x, i, u: L.sequence_scatter(x, i, u), x[: len(lengths[0])], ids, rows(np, lengths, 1, seed=9))

    return {"ragged": made([[3, 5, 4]]), "one": made([[6]]), "single rows": made([[1, 1, 1]])}


@check(L + "add_position_encoding")
def places_are_waves(fluid, np):
    def made(x, alpha, beta):
        return outcome(fluid, np, lambda L, x: L.add_position_encoding(x, alpha, beta), x)

    return {
        "ragged": made(rows(np, [[3, 1, 4]], 4), 0.5, 2.0), "one": made(rows(np, [[5]], 2), 1.0, 1.0),
        "empty ones": made(rows(np, [[0, 2, 0]], 6), 1.5, 0.5), "padded": made(rows(np, [[1, 1]], 4, 6)[0], 1.0, 3.0),
    }  # fmt: skip


@check(L + "is_empty", L + "merge_selected_rows", L + "get_tensor_from_selected_rows")
def rows_that_were_read_are_a_tensor(fluid, np):
    L = fluid.layers
    ids = L.data("ids", [1], dtype="int64")
    read = L.embedding(ids, [5, 3], is_sparse=True, param_attr=attr(fluid, np, "table", 5, 3))
    ((_, gradient),) = fluid.backward.append_backward(L.mean(L.square(read)))
    whole = L.get_tensor_from_selected_rows(L.merge_selected_rows(gradient))
    flag = L.fill_constant([1], "bool", True)
    results = [L.reduce_sum(whole, dim=0), L.is_empty(read), L.is_empty(read, cond=flag), flag]
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"ids": np.array([[3], [1], [3]], "int64")}
    return {"values": exe.run(feed=feed, fetch_list=results), "refused": caught(lambda: L.get_tensor_from_selected_rows(read), "SELECTED")}
