"""Functions of `fluid.layers` that models of clicks have."""

from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_layers import L, outcome, rows
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import caught, check


@check(L + "continuous_value_model")
def what_was_shown_and_clicked(fluid, np):
    def counted(*lengths):
        return (np.abs(rows(np, [list(lengths)], 5)[0]), [list(lengths)]), draw(np, len(lengths), 2, low=0, high=3)

    plain = np.abs(draw(np, 4, 5)), draw(np, 4, 2, low=0, high=3)
    found = {"of a width": outcome(fluid, np, lambda L, x, c: L.continuous_value_model(x, c), np.abs(draw(np, 1, 3)), plain[1][:1])}
    for name, use in (("kept", True), ("dropped", False)):
        found[name] = each(fluid, np, lambda L, x, c, use=use: L.continuous_value_model(x, c, use), plain, counted(2, 0, 1), counted(3),
                           counted(1, 4, 2))
    return found


def normed(fluid, np, x, act=None, **more):
    """What `data_norm` makes of rows, its gradients, and its parameters after a step."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        v, w = fluid.layers.data("x", list(x.shape[1:])), fluid.layers.data("w", list(x.shape[1:]))
        v.stop_gradient = False
        made = fluid.layers.data_norm(v, act, name="n", **more)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.reduce_sum(fluid.layers.elementwise_mul(made, w)))
        names = [p.name for p in fluid.default_main_program().all_parameters()]
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        found = []
        for _ in range(2):
            feed = {"x": x, "w": draw(np, *x.shape, seed=9)}
            found.append(exe.run(feed=feed, fetch_list=[made, "x@GRAD"] + [name + "@GRAD" for name in sorted(names)]))
        return {"names": sorted(names), "found": found}


@check(L + "data_norm")
def rows_are_normed_by_all_data(fluid, np):
    sums = {"batch_size": 100.0, "batch_sum": 30.0, "batch_square": 50.0, "scale_w": 2.0, "bias": 0.5}
    apart = draw(np, 5, 6)
    apart[0, 0] = apart[1, 2] = apart[1, 4] = apart[4, 0] = 0
    lost = draw(np, 2, 4)
    lost[:, 0] = 0
    return {
        "from the start": [normed(fluid, np, draw(np, *shape)) for shape in ((4, 3), (1, 5), (7, 2))],
        "by sums": normed(fluid, np, draw(np, 4, 3), param_attr=sums), "activated": normed(fluid, np, draw(np, 4, 3), "relu"),
        "scaled": normed(fluid, np, draw(np, 4, 3), param_attr=sums, enable_scale_and_shift=True, epsilon=1e-4),
        "of slots": normed(fluid, np, apart, param_attr=sums, slot_dim=2), "of lost slots": normed(fluid, np, lost, slot_dim=2),
        "of wide slots": normed(fluid, np, apart, param_attr=sums, slot_dim=3),
        "of slots, scaled": normed(fluid, np, apart, param_attr=sums, slot_dim=2, enable_scale_and_shift=True),
        "layout": caught(lambda: fluid.layers.data_norm(fluid.layers.data("y", [3]), data_layout="NN"), "data layout"),
    }  # fmt: skip


@check(L + "filter_by_instag")
def rows_are_chosen_by_tags(fluid, np):
    def tagged(*lengths):
        return whole(np, (sum(lengths), 1), 5), [list(lengths)]

    def chosen(by_sequences, **more):
        return lambda L, x, t, w: L.filter_by_instag(x, t, L.reshape(w, [-1]), by_sequences, **more)

    one, two, none = np.array([[1]], "int64"), np.array([[0], [3]], "int64"), np.array([[9]], "int64")
    flat = draw(np, 4, 3)
    return {
        "rows": [outcome(fluid, np, chosen(False), flat, tagged(*tags), wanted) for tags, wanted in (
            ((2, 2, 2, 2), one), ((1, 3, 1, 2), two), ((2, 0, 1, 1), two))],
        "sequences": [outcome(fluid, np, chosen(True), rows(np, [lengths], 3), tagged(*[2] * len(lengths)), wanted)
                      for lengths in ([1, 1, 1, 1], [2, 0, 3, 1], [4]) for wanted in (one, two)],
        "none": [outcome(fluid, np, chosen(kind, **more), x, tagged(2, 2, 2, 2), none) for kind, x, more in (
            (True, (flat, [[1] * 4]), {}), (False, flat, {"out_val_if_empty": 7}))],
        "of whole numbers": outcome(fluid, np, lambda *x: still(chosen(False)(*x)), whole(np, (4, 2), 9), tagged(2, 2, 2, 2), two),
    }  # fmt: skip


@check(L + "hash")
def words_are_hashed(fluid, np):
    def hashed(size, count=1):
        """1.8.5's function asks whether its numbers are 'int32' or 'int64' in a way that Python refuses; its operator works."""

        def apply(L, x):
            try:
                return L.hash(x, size, count)
            except TypeError:
                helper = fluid.layer_helper.LayerHelper("hash")
                made = helper.create_variable_for_type_inference(x.dtype, stop_gradient=True)
                helper.append_op(type="hash", inputs={"X": x}, outputs={"Out": made}, attrs={"num_hash": count, "mod_by": size})
                return made

        return apply

    def words(*lengths, **more):
        given = rows(np, [list(lengths)], more.get("columns", 1), whole=True)
        return (given[0] - 3).astype(more.get("dtype", "int64")), given[1]

    return {
        "one word": each(fluid, np, hashed(1000), (words(2, 1),), (words(3, 0, 2),), (words(1),)),
        "several": each(fluid, np, hashed(10 ** 9, 4), *[(words(2, 0, 3, columns=n),) for n in (2, 3, 4, 5, 9, 13)]),
        "of int32": each(fluid, np, hashed(2 ** 31 - 1, 2), *[(words(2, 0, 3, columns=n, dtype="int32"),) for n in (1, 2, 3, 7, 8, 9, 19)]),
        "no sequences": outcome(fluid, np, hashed(2 ** 40, 2), whole(np, (3, 2), 2 ** 40)),
        "example": outcome(fluid, np, hashed(1000, 4), (np.array([[1, 2], [3, 4]], "int32"), [[2]])),
    }  # fmt: skip
