"""Dygraph mode: how it is switched, tensors, gradients, files."""

import os
import tempfile

from tests.fluid_api.table import caught, check

F = "paddle.fluid."
D = F + "dygraph."


@check(
    D + "guard", D + "enabled", D + "enable_dygraph", D + "disable_dygraph", D + "enable_imperative", D + "disable_imperative",
    F + "enable_dygraph", F + "disable_dygraph", F + "enable_imperative", F + "disable_imperative",
)  # fmt: skip
def dygraph_mode_is_switched(fluid, np):
    modes = [fluid.in_dygraph_mode(), fluid.dygraph.enabled()]
    with fluid.dygraph.guard():
        modes += [fluid.in_dygraph_mode(), fluid.dygraph.enabled()]
        with fluid.dygraph.guard(fluid.CPUPlace()):
            modes.append(fluid.dygraph.enabled())
        modes.append(fluid.dygraph.enabled())
    modes.append(fluid.dygraph.enabled())
    switches = ((fluid.enable_dygraph, fluid.disable_dygraph), (fluid.enable_imperative, fluid.disable_imperative),
                (fluid.dygraph.enable_dygraph, fluid.dygraph.disable_dygraph),
                (fluid.dygraph.enable_imperative, fluid.dygraph.disable_imperative))  # fmt: skip
    for enable, disable in switches:
        enable()
        modes.append(fluid.dygraph.enabled())
        disable()
        modes.append(fluid.dygraph.enabled())
        disable()
    return modes


@check(D + "to_variable", D + "grad", D + "no_grad", D + "Layer", D + "LayerList", D + "Sequential", D + "ParameterList",
       D + "save_dygraph", D + "load_dygraph", F + "save_dygraph", F + "load_dygraph")  # fmt: skip
def tensors_have_gradients(fluid, np):
    d = fluid.dygraph
    with d.guard():
        x = d.to_variable(np.array([1.0, -2.0, 3.0], "float32"))
        found = {"fresh": [x.numpy(), x.stop_gradient, list(x.shape)], "same": d.to_variable(x) is x}
        found["errors"] = [caught(lambda: d.to_variable("x")), caught(lambda: d.to_variable(None))]
        x.stop_gradient = False
        loss = fluid.layers.reduce_sum(x * x * x)
        slope, = d.grad([loss], [x], retain_graph=True)
        found["grad"] = [slope.numpy(), slope.stop_gradient]
        loss.backward()
        found["backward"] = [x.gradient()]
        x.clear_gradient()
        found["cleared"] = x.gradient()
        with d.no_grad():
            found["no_grad"] = (x * 2).stop_gradient
        found["detached"] = [x.detach().stop_gradient, x.detach().numpy()]

        class Own(d.Layer):
            def __init__(self):
                super().__init__()
                self.w = self.create_parameter([3], default_initializer=fluid.initializer.Constant(2.0))

            def forward(self, value):
                return value * self.w

        listed = d.LayerList([Own(), Own()])
        whole = d.Sequential(Own(), Own())
        kept = d.ParameterList([Own().w, Own().w])
        found["layers"] = [whole(x).numpy(), len(listed), len(listed.parameters()), sorted(whole.state_dict()), len(kept)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model")
            d.save_dygraph(whole.state_dict(), path)
            found["files"] = sorted(os.listdir(folder))
            state, other = d.load_dygraph(path)
            found["loaded"] = [sorted(k for k in state if not k.startswith("Structured")), other is None]
            found["missing"] = [caught(lambda: d.load_dygraph(path + "none")), caught(lambda: d.save_dygraph({}, path))]
    return found


@check(F + "reader.DataLoader.from_generator", *[F + "reader.PyReader." + n for n in (
    "decorate_batch_generator", "decorate_sample_generator", "decorate_sample_list_generator", "iterable", "start", "reset")],
    F + "io.PyReader.iterable")  # fmt: skip
def readers_feed_programs(fluid, np):
    x = fluid.layers.data("x", [2], dtype="float32")
    rows = [np.full(2, k, "float32") for k in range(5)]
    ways = {
        "sample": lambda r: r.decorate_sample_generator(lambda: ((row,) for row in rows), 2, True, fluid.CPUPlace()),
        "list": lambda r: r.decorate_sample_list_generator(lambda: iter([[(row,) for row in rows[:3]], [(rows[4],)]]), fluid.CPUPlace()),
        "batch": lambda r: r.decorate_batch_generator(lambda: iter([[np.stack(rows)]]), fluid.CPUPlace()),
    }
    found = {}
    for name, way in ways.items():
        reader = fluid.reader.PyReader([x], 4, use_double_buffer=False, iterable=True)
        way(reader)
        found[name] = [[np.array(feed[0]["x"]) for feed in reader()] for _ in range(2)]
    loader = fluid.reader.DataLoader.from_generator([x], capacity=4, iterable=True, use_double_buffer=False)
    loader.set_batch_generator(lambda: iter([[np.stack(rows)]]), fluid.CPUPlace())
    found["loader"] = [np.array(feed[0]["x"]) for feed in loader()]
    found["errors"] = [caught(reader.start)]
    return found


@check(F + "profiler", F + "profiler.profiler", *[F + "profiler." + n for n in ("start_profiler", "stop_profiler", "reset_profiler")])
def profilers_refuse_what_they_do_not_know(fluid, np):
    p = fluid.profiler
    return [caught(lambda: p.start_profiler("TPU"), "CPU"), caught(lambda: p.profiler("x").__enter__(), "CPU"),
            caught(lambda: p.start_profiler(3))]
