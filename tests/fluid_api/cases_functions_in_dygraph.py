"""Functions of `fluid.layers` in dygraph mode: values, what gradients reach, and what is a number or a list there."""

from tests.fluid_api.cases_detection import draw
from tests.fluid_api.cases_layers import L
from tests.fluid_api.table import caught, check


def at_once(fluid, np, function, *inputs):
    """What a function gives for tensors of these arrays, and the gradients of the squares of all that has some."""
    with fluid.dygraph.guard(), fluid.unique_name.guard():
        tensors = [fluid.dygraph.to_variable(value) for value in inputs]
        for tensor, value in zip(tensors, inputs):  # noqa: B905  # Python 3.8
            tensor.stop_gradient = value.dtype.kind != "f"
        made = function(fluid.layers, *tensors)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        learned = [v for v in made if hasattr(v, "numpy") and v.numpy().dtype == np.float32 and not v.stop_gradient]
        if learned:
            fluid.layers.sums([fluid.layers.reduce_sum(fluid.layers.square(v)) for v in learned]).backward()
        return {
            "values": [v.numpy() if hasattr(v, "numpy") else v for v in made], "learned": len(learned),
            "gradients": [t.gradient() for t in tensors if not t.stop_gradient],
        }  # fmt: skip


@check(L + "array_write", L + "array_read", L + "array_length", L + "create_array", L + "tensor_array_to_tensor")
def arrays_are_lists(fluid, np):
    def written(F, x, y):
        array, places = F.create_array("float32"), [F.fill_constant([1], "int64", i) for i in range(3)]
        for place, value in zip(places, (x, y, x)):  # noqa: B905  # Python 3.8
            array = F.array_write(F.scale(value, 2.0), place, array)
        F.array_write(y, places[0], array)
        return [F.array_read(array, places[0]), F.array_read(array, places[2]), F.array_length(array)]

    def beyond(F, x):
        return caught(lambda: F.array_write(x, F.fill_constant([1], "int64", 1), F.create_array("float32")), "length")["says"]["length"]

    x, y = draw(np, 2, 3), draw(np, 2, 3, seed=1)
    return {
        "written": at_once(fluid, np, written, x, y), "beyond": at_once(fluid, np, beyond, x),
        "joined": at_once(fluid, np, lambda F, x, y: F.tensor_array_to_tensor([x, y, x], axis=1), x, y),
        "stacked": at_once(fluid, np, lambda F, x, y: F.tensor_array_to_tensor([x, y], axis=0, use_stack=True), x, y),
    }  # fmt: skip


@check(L + "autoincreased_step_counter", L + "create_global_var", L + "auc", L + "create_tensor")
def variables_have_values(fluid, np):
    scores, labels = draw(np, 8, 2, low=0, high=1), np.arange(8).reshape(8, 1) % 2
    return {
        "counters": at_once(fluid, np, lambda F: [F.autoincreased_step_counter(begin=3, step=2) for _ in range(2)]),
        "filled": at_once(fluid, np, lambda F: [F.create_global_var([2, 3], 1.5, "float32"), F.create_global_var([1], 7, "int64")]),
        "area": at_once(fluid, np, lambda F, x, y: F.auc(F.softmax(x), y, num_thresholds=20)[0], scores, labels),
        "made": at_once(fluid, np, lambda F, x: F.assign(x, F.create_tensor("float32")), scores),
    }  # fmt: skip


@check(L + "dropout")
def dropout_is_that_of_the_last_mode(fluid, np):
    def both(x):
        ways = ("downgrade_in_infer", "upscale_in_train")
        return [fluid.layers.dropout(x, 0.4, dropout_implementation=way).numpy() for way in ways]

    class Net(fluid.dygraph.Layer):
        def forward(self, x):
            return both(x)

    found = {}
    with fluid.dygraph.guard():
        x, net, other = fluid.dygraph.to_variable(np.ones([50, 40], "float32")), Net(), Net()
        net.eval()
        found["eval"] = [made[:2, :3] for made in net(x)]
        found["of another layer"] = [made[:2, :3] for made in other(x)]
        net.train()
        found["train"] = [np.unique(made).tolist() for made in net(x)]
        with fluid.dygraph.no_grad():
            found["no_grad"] = [made[:2, :3] for made in both(x)]
        net.eval()
    with fluid.dygraph.guard():
        found["anew"] = [np.unique(made).tolist() for made in both(fluid.dygraph.to_variable(np.ones([50, 40], "float32")))]
    return found


@check(L + "topk", L + "batch_norm", L + "teacher_student_sigmoid_loss", L + "argsort")
def gradients_reach_what_they_reach_in_programs(fluid, np):
    image, rows, share, label = draw(np, 2, 3, 4, 4), draw(np, 3, 5), draw(np, 3, 1), draw(np, 3, 1, low=0, high=1)
    return {
        "greatest": at_once(fluid, np, lambda F, x: F.topk(x, 2), rows),
        "greatest and all": at_once(fluid, np, lambda F, x: [F.topk(x, 2)[0], F.scale(x, 3.0)], rows),
        "ordered": at_once(fluid, np, lambda F, x: F.argsort(x), rows),
        "by running statistics": at_once(fluid, np, lambda F, x: F.batch_norm(x, use_global_stats=True), image),
        "of a batch": at_once(fluid, np, lambda F, x: F.batch_norm(x), image),
        "taught": at_once(fluid, np, lambda F, x, y: F.teacher_student_sigmoid_loss(x, y), share, label),
        "boxes": at_once(fluid, np, lambda F, x: F.prior_box(x, x, [2.0]), image),
        "flat": at_once(fluid, np, lambda F, x: F.diag_embed(x), rows),
    }  # fmt: skip


@check(L + "cond", L + "case", L + "switch_case", L + "while_loop")
def branches_and_loops_are_those_of_python(fluid, np):
    x, y = draw(np, 2, 3), draw(np, 2, 3, seed=1)

    def less(F, a, b):
        return F.less_than(F.reduce_sum(F.abs(a)), F.reduce_sum(F.abs(b)))

    def loop(F, x, y):
        last = F.fill_constant([1], "int64", 3)
        return F.while_loop(lambda i, v: F.less_than(i, last), lambda i, v: [i + 1, v * y], [F.fill_constant([1], "int64", 0), x])[::-1]

    return {
        "true": at_once(fluid, np, lambda F, x, y: F.cond(less(F, x, x * 2.0), lambda: x * 2.0, lambda: y), x, y),
        "false": at_once(fluid, np, lambda F, x, y: F.cond(less(F, x * 2.0, x), lambda: x * 2.0, lambda: y), x, y),
        "second": at_once(fluid, np, lambda F, x, y: F.case(
            [(less(F, x * 2.0, x), lambda: x), (less(F, x, x * 2.0), lambda: y * x)], lambda: x), x, y),
        "neither": at_once(fluid, np, lambda F, x, y: F.case([(less(F, x * 2.0, x), lambda: x)], lambda: y * 3.0), x, y),
        "number": at_once(fluid, np, lambda F, x, y: F.switch_case(
            F.fill_constant([1], "int32", 1), {0: lambda: x, 1: lambda: y * 3.0}), x, y),
        "loop": at_once(fluid, np, loop, x, y),
    }  # fmt: skip
