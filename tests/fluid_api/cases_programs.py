"""Programs, blocks, operators, variables."""

from tests.fluid_api.table import caught, check, kind_of, sizes_of

F = "paddle.fluid."
B, OP, P, V = F + "Block.", F + "Operator.", F + "Program.", F + "Variable."


def net(fluid):
    x = fluid.layers.data(name="x", shape=[3], dtype="float32")
    hidden = fluid.layers.fc(x, 4, act="relu", param_attr=fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.5)))
    return x, hidden, fluid.layers.mean(hidden)


@check(
    F + "Program", P + "num_blocks", P + "random_seed", P + "global_block", P + "block", P + "current_block", P + "create_block",
    P + "rollback", P + "_create_block", P + "list_vars", P + "all_parameters", P + "global_seed", F + "default_main_program",
    F + "default_startup_program", F + "program_guard", F + "framework.Block.parent_idx", F + "framework.Block.idx",
    F + "framework.Block.forward_block_idx", F + "framework.Block.backward_block_idx", B + "set_forward_block_idx", F + "Block",
)  # fmt: skip
def programs_know_their_parts(fluid, np):
    net(fluid)
    main = fluid.default_main_program()
    block = main.global_block()
    inner = main._create_block()
    found = {
        "blocks": [main.num_blocks, inner.idx, inner.parent_idx, inner.forward_block_idx, inner.backward_block_idx],
        "current": main.current_block().idx,
        "block": [main.block(0) is block, main.block(1) is inner, caught(lambda: main.block(2))],
        "vars": sorted(v.name for v in main.list_vars()),
        "parameters": [p.name for p in main.all_parameters()],
        "seed": [main.random_seed, caught(lambda: setattr(main, "random_seed", "3"), "int")],
        "guards": [caught(lambda: fluid.program_guard(3).__enter__(), "Program"), caught(lambda: fluid.program_guard(main, 3).__enter__())],
        "startup": [op.type for op in fluid.default_startup_program().global_block().ops],
    }
    main._rollback()
    main.random_seed = 7
    again = main._create_block(parent_idx=1)
    found["after"] = [main.current_block().idx, again.parent_idx, main.random_seed, main.clone().random_seed]
    return found


@check(
    B + "var", B + "var_recursive", B + "create_var", F + "framework.Block.var", F + "framework.Block.has_var",
    F + "framework.Block.all_parameters", F + "framework.Block.iter_parameters", F + "framework.Block.create_var",
    F + "framework.Block.create_parameter", B + "clone_variable", F + "framework.Block.program", F + "framework.Parameter",
    F + "framework.Block", F + "framework.Operator",
)  # fmt: skip
def blocks_find_their_variables(fluid, np):
    net(fluid)
    main = fluid.default_main_program()
    block = main.global_block()
    inner = main._create_block()
    own = inner.create_var(name="own", shape=[2, 0], dtype="int64", persistable=True, lod_level=1, stop_gradient=True)
    other = fluid.Program().global_block()
    cloned = other._clone_variable(own)
    made = block.create_parameter(name="p", shape=[2, 3], dtype="float64", trainable=False)
    main._rollback()
    return {
        "own": [inner.has_var("own"), inner.has_var("w"), block.has_var("own"), own.name, sizes_of(own), kind_of(fluid, own),
            own.lod_level],
        "flags": [own.persistable, own.stop_gradient, own.block is inner],
        "errors": [caught(lambda: block.var("none"), "none"), caught(lambda: block.var(3)), caught(lambda: inner.var("w"), "w")],
        "recursive": [inner._var_recursive("w").name, caught(lambda: inner._var_recursive("none"), "none")],
        "clone": [cloned.name, sizes_of(cloned), cloned.lod_level, cloned.persistable, cloned.block is other],
        "parameter": [made.name, sizes_of(made), kind_of(fluid, made), made.trainable, made.persistable, type(made).__name__],
        "bad": [
            caught(lambda: block.create_parameter(name="q", shape=[2, 0], dtype="float32")),
            caught(lambda: block.create_parameter(name="q", shape=None, dtype="float32")),
            caught(lambda: block.create_parameter(name="r", shape=[2, -1], dtype="float32")),
        ],
        "all": [p.name for p in block.all_parameters()],
        "generated": [block.create_var(dtype="float32").name, block.create_var(dtype="float32").name],
    }


@check(
    B + "append_op", B + "prepend_op", B + "insert_op", B + "remove_op", B + "slice_ops", F + "framework.Block.append_op", B + "rename_var",
    B + "sync_with_cpp", P + "sync_with_cpp",
)  # fmt: skip
def operators_are_put_and_taken(fluid, np):
    net(fluid)
    block = fluid.default_main_program().global_block()
    x, out = block.var("x"), block.create_var(name="out", dtype="float32", shape=[-1, 3])
    block.append_op(type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"scale": 2.0})
    block._prepend_op(type="scale", inputs={"X": x}, outputs={"Out": out}, attrs={"scale": 3.0})
    block._insert_op(1, type="scale", inputs={"X": [x]}, outputs={"Out": [out]}, attrs={"scale": 4.0, "bias": 1.0})
    first = [(op.type, op.attr("scale") if op.has_attr("scale") else None) for op in block.ops]
    block._remove_op(0)
    sliced = [op.type for op in block._slice_ops(0, 2)]
    block._rename_var("w", "renamed")
    block._sync_with_cpp()
    return {
        "first": first,
        "then": [op.type for op in block.ops],
        "sliced": sliced,
        "renamed": [block.has_var("w"), block.has_var("renamed"), block.ops[1].input("Y"), type(block.var("renamed")).__name__],
        "errors": [
            caught(lambda: block._rename_var("none", "n"), "none"),
            caught(lambda: block.append_op(type="no_such_operator", inputs={}, outputs={}), "no_such_operator"),
            caught(lambda: block.append_op(type=None)),
        ],
        "count": len(block.ops),
    }


@check(
    OP + "input", OP + "output", OP + "rename_input", OP + "rename_output", OP + "has_attr", OP + "attr_type", OP + "set_attr", OP + "attr",
    OP + "block_attr", OP + "all_attrs", F + "framework.Operator.input", F + "framework.Operator.output", F + "framework.Operator.has_attr",
    F + "framework.Operator.attr", F + "framework.Operator.attr_type", F + "framework.Operator.rename_input",
    F + "framework.Operator.rename_output", F + "framework.Operator.all_attrs", F + "framework.Operator.input_names",
    F + "framework.Operator.output_names", F + "framework.Operator.input_arg_names", F + "framework.Operator.output_arg_names",
    F + "framework.Operator.attr_names", F + "framework.Operator.type", F + "Operator", F + "framework.Operator.block_attr",
    F + "framework.Operator.block_attr_id", F + "framework.Operator.blocks_attr", F + "framework.Operator.blocks_attr_ids",
)  # fmt: skip
def operators_tell_what_they_are(fluid, np):
    x, hidden, loss = net(fluid)
    kinds = ("INT", "INTS", "FLOAT", "FLOATS", "STRINGS", "BOOL", "LONG")
    kind = lambda op, name: [k for k in kinds if op.attr_type(name) == getattr(fluid.core.AttrType, k)]
    block = fluid.default_main_program().global_block()
    mul, add = block.ops[0], block.ops[1]
    found = {
        "mul": [mul.type, mul.input("X"), mul.input("Y"), mul.output("Out"), sorted(mul.input_names), sorted(mul.output_names)],
        "args": [mul.input_arg_names, mul.output_arg_names],
        "attr": [mul.attr("x_num_col_dims"), mul.has_attr("y_num_col_dims"), mul.has_attr("none"), kind(mul, "x_num_col_dims")],
        "axis": [add.attr("axis"), kind(add, "axis")],
        "errors": [caught(lambda: mul.input("None")), caught(lambda: mul.attr("none"), "none"), caught(lambda: mul.output("Nothing"))],
    }
    mul._set_attr("x_num_col_dims", 2)
    mul._rename_input("x", "other")
    mul._rename_output(mul.output("Out")[0], "made")
    found["set"] = [mul.attr("x_num_col_dims"), kind(mul, "op_role_var")]
    found["renamed"] = [mul.input("X"), mul.output("Out")]
    found["all"] = sorted(n for n in mul.all_attrs() if not n.startswith(("op_", "use_", "scale_", "force_", "with_", "mkldnn_")))
    return found


@check(
    F + "Variable", V + "name", V + "astype", V + "set_error_clip", F + "Variable.shape", F + "Variable.dtype", F + "Variable.type",
    F + "Variable.stop_gradient", F + "Variable.persistable", F + "Variable.lod_level",
    F + "Variable.set_value", F + "Variable.numpy", F + "Variable.backward", F + "Variable.gradient", F + "Variable.clear_gradient",
    F + "Variable.detach",
)  # fmt: skip
def variables_tell_what_they_are(fluid, np):
    x, hidden, loss = net(fluid)
    cast = x.astype("int64")
    found = {
        "x": [x.name, sizes_of(x), kind_of(fluid, x), x.type == fluid.core.VarDesc.VarType.LOD_TENSOR, x.persistable,
            x.stop_gradient, x.lod_level, x.is_data],
        "hidden": [hidden.name, sizes_of(hidden), kind_of(fluid, hidden), hidden.stop_gradient, hidden.persistable],
        "cast": [kind_of(fluid, cast), sizes_of(cast), caught(lambda: x.astype("no such type"))],
        "eager": [caught(lambda: x.numpy()), caught(lambda: x.gradient()), caught(lambda: x.backward())],
        "clip": [caught(lambda: x._set_error_clip(fluid.clip.ErrorClipByValue(1.0)))],
        "grad name": loss.block.program.global_block().var("w").name,
    }
    x.persistable, x.stop_gradient = True, False
    found["set"] = [x.persistable, x.stop_gradient]
    return found


@check(V + "astype", F + "data", F + "layers.data")
def inputs_have_shapes_and_dtypes(fluid, np):
    made = [
        fluid.data("a", [None, 3]), fluid.data("b", [2, -1], "int64", lod_level=1), fluid.layers.data("c", [3], dtype="bool"),
        fluid.layers.data("d", [2, 0], append_batch_size=False, dtype="float64"), fluid.data("e", [None], dtype="uint8"),
    ]  # fmt: skip
    return {
        "made": [[v.name, sizes_of(v), kind_of(fluid, v), v.lod_level, v.stop_gradient, v.is_data, v.persistable] for v in made],
        "errors": [caught(lambda: fluid.data("f", 3)), caught(lambda: fluid.data(3, [3])), caught(lambda: fluid.data("g", [3], "f99"))],
    }


@check(P + "clone", P + "prune", P + "inference_optimize", P + "copy_param_info_from", P + "copy_data_info_from",
       B + "copy_param_info_from")
def programs_are_cloned_and_pruned(fluid, np):
    x, hidden, loss = net(fluid)
    dropped = fluid.layers.dropout(hidden, 0.5)
    label = fluid.layers.data(name="label", shape=[4], dtype="float32")
    cost = fluid.layers.mean(fluid.layers.square_error_cost(dropped, label))
    main = fluid.default_main_program()
    test = main.clone(for_test=True)
    before = [op.type for op in main.global_block().ops]
    fluid.optimizer.SGD(0.1).minimize(cost)
    late = main.clone(for_test=True)
    pruned = late._prune([hidden])
    return {
        "same": [op.type for op in test.global_block().ops] == before,
        "test": [op.attr("is_test") for op in test.global_block().ops if op.type == "dropout"],
        "late": [op.type for op in late.global_block().ops],
        "whole": [op.type for op in main.clone().global_block().ops][-3:],
        "pruned": [op.type for op in pruned.global_block().ops],
        "parameters": sorted(p.name for p in test.all_parameters()),
        "errors": [caught(lambda: main._prune(["none"]))],
        "pruned for test": [op.type for op in main._prune([cost])._inference_optimize().global_block().ops],
    }


@check(P + "op_role", P + "set_op_role", P + "op_role_var", P + "set_op_role_var", P + "optimized_guard")
def roles_are_those_of_1_8(fluid, np):
    x, hidden, loss = net(fluid)
    main = fluid.default_main_program()
    fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return {
        "ops": [(op.type, op.attr("op_role"),
            op.attr("op_role_var") if op.has_attr("op_role_var") else []) for op in main.global_block().ops],
    }


@check(P + "parse_from_string", P + "get_desc", P + "to_string", B + "to_string", V + "to_string", OP + "to_string",
       F + "framework.Block.to_string", F + "framework.Operator.to_string", V + "set_desc",
           F + "framework.Parameter.to_string")  # fmt: skip
def programs_are_written_and_read(fluid, np):
    x, hidden, loss = net(fluid)
    main = fluid.default_main_program()
    again = fluid.Program.parse_from_string(main.desc.serialize_to_string())
    texts = {
        "program": main.to_string(True), "block": main.global_block().to_string(True), "variable": x.to_string(True),
        "operator": main.global_block().ops[0].to_string(True), "parameter": main.global_block().var("w").to_string(True),
        "details": main.global_block().var("w").to_string(True, True),
    }  # fmt: skip
    return {
        "again": [op.type for op in again.global_block().ops],
        "vars": sorted((v.name, sizes_of(v)) for v in again.list_vars()),
        "starts": {k: texts[k].split()[:2] for k in ("program", "block")},
        "has": {k: ["mul" in t, "relu" in t, "FP32" in t, "fc_0.tmp_0" in t] for k, t in sorted(texts.items()) if k in ("program",
            "block")},
        "names": ["x" in texts["variable"], "mul" in texts["operator"], "w" in texts["parameter"], "trainable" in texts["details"]],
        "errors": [caught(lambda: main.to_string("yes")), caught(lambda: x.to_string(3)),
            caught(lambda: main.global_block().to_string(None))],
    }


@check(F + "get_var", F + "unique_name.generate", F + "unique_name.switch", F + "unique_name.guard", F + "name_scope",
       F + "require_version",
       F + "device_guard", F + "in_dygraph_mode", F + "cpu_places", F + "cuda_places", F + "cuda_pinned_places",
           F + "is_compiled_with_cuda",
       F + "get_flags", F + "set_flags", F + "load_op_library", F + "CPUPlace", F + "CUDAPlace", F + "CUDAPinnedPlace",
       F + "core.CPUPlace", F + "core.CUDAPlace", F + "core.is_compiled_with_cuda")  # fmt: skip
def small_things_of_the_framework(fluid, np):
    u = fluid.unique_name
    names = [u.generate("fc"), u.generate("fc"), u.generate("")]
    with u.guard("pre_"):
        names += [u.generate("fc")]
    with u.guard():
        names += [u.generate("fc")]
    names += [u.generate("fc")]
    return {
        "names": names,
        "dygraph": fluid.in_dygraph_mode(),
        "places": [len(fluid.cpu_places(3)), caught(lambda: fluid.cpu_places(3)[0]), fluid.core.CPUPlace.__name__],
        "versions": [
            caught(lambda: fluid.require_version("0.1.0")), caught(lambda: fluid.require_version("99.0")),
            caught(lambda: fluid.require_version(3)), caught(lambda: fluid.require_version("one")),
            caught(lambda: fluid.require_version("0.1.0", "0.2.0")), caught(lambda: fluid.require_version("0.1.0", 3)),
        ],
        "flags": [fluid.get_flags(["FLAGS_eager_delete_tensor_gb"]), caught(lambda: fluid.get_flags(3)),
            caught(lambda: fluid.set_flags(3))],
        "bad": [caught(lambda: fluid.get_flags("FLAGS_none"), "FLAGS_none"), caught(lambda: fluid.set_flags({"FLAGS_none": 1}),
            "FLAGS_none")],
        "device": [caught(lambda: fluid.device_guard("tpu").__enter__()), caught(lambda: fluid.device_guard("cpu").__enter__())],
    }  # fmt: skip


@check(F + "framework.Block.create_var", F + "Variable.type")
def variables_are_of_the_type_that_they_are_made_with(fluid, np):
    kinds, found = fluid.core.VarDesc.VarType, {}
    block = fluid.default_main_program().global_block()
    plain = ("LOD_TENSOR", "LOD_TENSOR_ARRAY", "SELECTED_ROWS")
    for name in ("RAW", "READER", "LOD_RANK_TABLE", "STEP_SCOPES", "FEED_MINIBATCH", "FETCH_LIST") + plain:
        made = block.create_var(name=name.lower(), type=getattr(kinds, name))
        found[name] = [made.type == getattr(kinds, name), made.type == kinds.RAW, made.persistable, made.stop_gradient]
        if name not in plain:
            sized = {"name": name + "2", "type": getattr(kinds, name), "shape": [2]}
            found[name] += [made.to_string(True), caught(lambda given=sized: block.create_var(**given))]
    rows = block.create_var(name="sized", type=kinds.SELECTED_ROWS, shape=[3, 2], dtype="float32")
    again = fluid.Program.parse_from_string(fluid.Program.clone(fluid.default_main_program()).desc.serialize_to_string())
    return {
        "types": found, "rows": [rows.type == kinds.SELECTED_ROWS, list(rows.shape)],
        "copied": [again.global_block().var(name).type == getattr(kinds, name.upper()) for name in ("raw", "reader", "selected_rows")],
    }  # fmt: skip


@check(F + "framework.Operator.attr_names", F + "framework.Block.create_var")
def a_program_is_copied_part_by_part(fluid, np):
    L = fluid.layers
    h = L.fc(L.data("x", [3], dtype="float32"), 4, act="relu")
    p = L.fc(L.dropout(h, 0.5, is_test=True), 2, act="softmax")
    results = [p, L.reduce_mean(p, dim=1), L.transpose(L.reshape(h, [-1, 2, 2]), [0, 2, 1])]
    copied, given = fluid.Program(), fluid.default_main_program().global_block()
    block = copied.global_block()
    for v in given.vars.values():
        if isinstance(v, fluid.framework.Parameter):
            block.create_parameter(name=v.name, shape=v.shape, dtype=v.dtype)
        else:
            block.create_var(name=v.name, shape=v.shape, dtype=v.dtype, type=v.type, lod_level=v.lod_level, persistable=v.persistable)
    for op in given.ops:
        inputs = {slot: [block.var(n) for n in op.input(slot)] for slot in op.input_names}
        outputs = {slot: [block.var(n) for n in op.output(slot)] for slot in op.output_names}
        block.append_op(type=op.type, inputs=inputs, outputs=outputs, attrs={name: op.attr(name) for name in op.attr_names})
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {"x": np.ones((2, 3), "float32")}
    first, second = (exe.run(which, feed=feed, fetch_list=[v.name for v in results]) for which in (None, copied))
    told = [[name for name in op.attr_names if not name.startswith("op_") and "mkldnn" not in name] for op in given.ops]
    attributes = [sorted((name, str(op.attr(name))) for name in names) for op, names in zip(given.ops, told)]
    return {"attributes": attributes, "alike": [bool(np.array_equal(a, b)) for a, b in zip(first, second)]}
