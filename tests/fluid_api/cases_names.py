"""Modules of `fluid` and what they export; members that programs name more than they use."""

from tests.fluid_api.table import caught, check

F = "paddle.fluid."
EXPORTS = {
    "backward": ["append_backward", "gradients"],
    "clip": ["ErrorClipByValue", "GradientClipByValue", "GradientClipByNorm", "GradientClipByGlobalNorm", "set_gradient_clip"],
    "dygraph": ["guard", "to_variable", "no_grad", "grad", "Layer", "enabled", "enable_dygraph", "disable_dygraph", "save_dygraph"],
    "initializer": ["Constant", "Uniform", "Normal", "TruncatedNormal", "Xavier", "Bilinear", "MSRA", "NumpyArrayInitializer"],
    "io": ["save_vars", "save_params", "save_persistables", "load_vars", "load_params", "load_persistables", "save_inference_model",
           "load_inference_model", "batch", "save", "load", "shuffle", "DataLoader", "PyReader"],  # fmt: skip
    "nets": ["simple_img_conv_pool", "glu", "scaled_dot_product_attention", "img_conv_group"],
    "optimizer": ["SGD", "Momentum", "Adagrad", "Adam", "Adamax", "DecayedAdagrad", "Ftrl", "Adadelta", "ModelAverage", "LarsMomentum"],
    "regularizer": ["L1Decay", "L2Decay", "L1DecayRegularizer", "L2DecayRegularizer"],
    "transpiler": ["memory_optimize", "release_memory", "HashName", "RoundRobin"],
    "unique_name": ["generate", "switch", "guard"],
}  # fmt: skip


@check(*[F + module for module in EXPORTS])
def modules_export(fluid, np):
    return {
        module: [[name, callable(getattr(getattr(fluid, module), name)), name in getattr(fluid, module).__all__] for name in names]
        for module, names in EXPORTS.items()
    }


@check(F + "core.AttrType", F + "core.OpDesc", F + "core.VarDesc", F + "core.VarDesc.VarType")
def descriptions_of_programs(fluid, np):
    x = fluid.layers.data("x", [3], dtype="float32")
    fluid.layers.scale(x, 2.0)
    op = fluid.default_main_program().global_block().ops[0]
    kinds = fluid.core.VarDesc.VarType
    given = [name for name in op.desc.input_names() if op.desc.input(name)]
    return {
        "op": [op.desc.type(), isinstance(op.desc, fluid.core.OpDesc), given, op.desc.input("X")],
        "var": [x.desc.name(), isinstance(x.desc, fluid.core.VarDesc), x.desc.persistable(), list(x.desc.shape())],
        "kinds": [x.dtype == kinds.FP32, x.type == kinds.LOD_TENSOR, x.desc.dtype() == kinds.FP32],
        "attribute": op.attr_type("scale") == fluid.core.AttrType.FLOAT,
    }


@check(F + "WeightNormParamAttr.params_with_weight_norm")
def weights_in_two_parts_are_listed(fluid, np):
    before = len(fluid.WeightNormParamAttr.params_with_weight_norm)
    x = fluid.layers.data("x", [3], dtype="float32")
    fluid.layers.fc(x, 2, param_attr=fluid.WeightNormParamAttr(dim=1, name="w"))
    made = fluid.WeightNormParamAttr.params_with_weight_norm[before:]
    return len(made), [list(p.shape) for p in made]


FR = F + "framework.Parameter."


@check(FR + "clear_gradient", FR + "detach", FR + "set_value", FR + "type")
def a_parameter_in_a_program(fluid, np):
    x = fluid.layers.data("x", [3], dtype="float32")
    fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    weight = fluid.default_main_program().global_block().var("w")
    return [weight.type == fluid.core.VarDesc.VarType.LOD_TENSOR] + [
        isinstance(caught(call), list) for call in (weight.detach, weight.clear_gradient, lambda: weight.set_value(np.ones([3, 2])))
    ]


@check(F + "optimizer.ModelAverage.get_opti_var_name_list")
def what_a_mean_of_parameters_keeps(fluid, np):
    x = fluid.layers.data("x", [3], dtype="float32")
    loss = fluid.layers.mean(fluid.layers.fc(x, 2, param_attr=fluid.ParamAttr(name="w"), bias_attr=False))
    fluid.optimizer.SGD(0.1).minimize(loss)
    average = fluid.optimizer.ModelAverage(0.15, min_average_window=2, max_average_window=5)
    fluid.Executor(fluid.CPUPlace()).run(fluid.default_startup_program())
    return sorted(average.get_opti_var_name_list())


@check(F + "unique_name.switch", F + "unique_name.generate")
def names_go_on_from_where_they_were(fluid, np):
    first = [fluid.unique_name.generate("fc") for _ in range(2)]
    kept, checker = fluid.unique_name.switch()
    anew = fluid.unique_name.generate("fc")
    fluid.unique_name.switch(kept, checker)
    return first, anew, fluid.unique_name.generate("fc")


@check(F + "io.DataLoader", F + "reader.DataLoader", F + "dygraph.grad")
def batches_of_a_dataset(fluid, np):
    class Squares(fluid.io.Dataset):
        def __getitem__(self, index):
            return np.array([index], "float32"), np.array([index * index], "float32")

        def __len__(self):
            return 7

    with fluid.dygraph.guard(fluid.CPUPlace()):
        loader = fluid.io.DataLoader(Squares(), places=fluid.CPUPlace(), return_list=True, batch_size=3, drop_last=True)
        batches = [[part.numpy() for part in batch] for batch in loader]
        x = fluid.dygraph.to_variable(np.array([2.0, 3.0], "float32"))
        x.stop_gradient = False
        (slope,) = fluid.dygraph.grad([x * x], [x], backward_strategy=None)
        return batches, len(loader), slope.numpy()
