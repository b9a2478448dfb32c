"""`paddle.static.nn`: layers as functions, forward and backward."""

from tests.static_api.table import check, filled, numbers, run, variable, with_gradients

N = "paddle.static.nn."


def parameters(paddle):
    """Shapes of the program's parameters, in the order in which they were made."""
    return [list(p.shape) for p in paddle.static.default_main_program().global_block().all_parameters()]


@check(N + "fc")
def fc_flattens_and_activates(paddle, np):
    x = variable(paddle, "x", 2, 3, 4)
    w, b = filled(paddle, 12, 5), filled(paddle, 5)
    y = paddle.static.nn.fc(x, 5, weight_attr=w, bias_attr=b, activation="tanh")
    return with_gradients(paddle, {"x": numbers(2, 3, 4)}, y, [x])


@check(N + "fc")
def fc_keeps_leading_axes(paddle, np):
    x = variable(paddle, "x", 2, 3, 4)
    y = paddle.static.nn.fc(x, 5, num_flatten_dims=2, weight_attr=filled(paddle, 4, 5), bias_attr=False)
    return with_gradients(paddle, {"x": numbers(2, 3, 4)}, y, [x])


@check(N + "fc")
def fc_sums_several_inputs(paddle, np):
    a, b = variable(paddle, "a", 2, 3), variable(paddle, "b", 2, 4)
    y = paddle.static.nn.fc([a, b], 2, weight_attr=[filled(paddle, 3, 2), filled(paddle, 4, 2)])
    return with_gradients(paddle, {"a": numbers(2, 3), "b": numbers(2, 4)}, y, [a, b])


@check(N + "fc")
def fc_draws_its_weight_as_paddle_does(paddle, np):
    x = variable(paddle, "x", 2, 3)
    paddle.seed(7)
    return run(paddle, {"x": numbers(2, 3)}, [paddle.static.nn.fc(x, 4)])


@check(N + "embedding", paddle="2.6.2")
def embedding_has_no_gradient_for_padding(paddle, np):
    x = paddle.static.data("x", [None, 3], "int64")
    y = paddle.static.nn.embedding(x, [10, 4], padding_idx=2, param_attr=filled(paddle, 10, 4))
    return run(paddle, {"x": numbers(2, 3, dtype="int64")}, [y])


@check(N + "sparse_embedding", paddle="2.6.2")
def sparse_embedding_refuses_unknown_tables(paddle, np):
    x = paddle.static.data("x", [None, 3], "int64")
    try:
        paddle.static.nn.sparse_embedding(x, [10, 4], table_class="OtherTable")
    except ValueError as error:
        return str(error)


@check(N + "bilinear_tensor_product", paddle="2.6.2")
def bilinear_tensor_product_has_a_bias_when_asked(paddle, np):
    x, y = variable(paddle, "x", 2, 3), variable(paddle, "y", 2, 4)
    z = paddle.static.nn.bilinear_tensor_product(x, y, 5, param_attr=filled(paddle, 5, 3, 4), bias_attr=filled(paddle, 1, 5), act="tanh")
    return with_gradients(paddle, {"x": numbers(2, 3), "y": numbers(2, 4)}, z, [x, y])


@check(N + "row_conv", paddle="2.6.2")
def row_conv_looks_ahead(paddle, np):
    x = variable(paddle, "x", 2, 5, 3)
    y = paddle.static.nn.row_conv(x, 2, param_attr=filled(paddle, 3, 3), act="sigmoid")
    return with_gradients(paddle, {"x": numbers(2, 5, 3)}, y, [x])


def convolved(paddle, function, weight, shape=(2, 4, 7, 6), filters=6, **options):
    x = variable(paddle, "x", *shape)
    made = getattr(paddle.static.nn, function)(
        x, filters, param_attr=filled(paddle, *weight), bias_attr=filled(paddle, filters), **options
    )
    return with_gradients(paddle, {"x": numbers(*shape)}, made, [x])


@check(N + "conv2d", paddle="2.6.2")
def conv2d_in_groups_with_strides(paddle, np):
    return convolved(paddle, "conv2d", (6, 2, 3, 3), filter_size=3, stride=2, padding=1, groups=2, act="relu")


@check(N + "conv2d", paddle="2.6.2")
def conv2d_with_same_padding_and_channels_last(paddle, np):
    return convolved(paddle, "conv2d", (6, 4, 3, 2), (2, 7, 6, 4), filter_size=[3, 2], padding="SAME", data_format="NHWC")


@check(N + "conv2d", paddle="2.6.2")
def conv2d_draws_its_filters_as_paddle_does(paddle, np):
    x = variable(paddle, "x", 1, 3, 5, 5)
    paddle.seed(3)
    return run(paddle, {"x": numbers(1, 3, 5, 5)}, [paddle.static.nn.conv2d(x, 4, 3)])


@check(N + "conv3d", paddle="2.6.2")
def conv3d_with_dilation(paddle, np):
    return convolved(paddle, "conv3d", (6, 4, 2, 2, 2), (1, 4, 5, 5, 4), filter_size=2, dilation=2, padding=[1, 0, 1])


@check(N + "conv2d_transpose", paddle="2.6.2")
def conv2d_transpose_in_groups(paddle, np):
    return convolved(paddle, "conv2d_transpose", (4, 3, 3, 3), filter_size=3, stride=2, padding=1, groups=2, act="tanh")


@check(N + "conv2d_transpose", paddle="2.6.2")
def conv2d_transpose_finds_its_filter_size(paddle, np):
    return convolved(paddle, "conv2d_transpose", (4, 6, 3, 3), (2, 4, 5, 5), output_size=[11, 11], stride=2)


@check(N + "conv3d_transpose", paddle="2.6.2")
def conv3d_transpose_with_strides(paddle, np):
    return convolved(paddle, "conv3d_transpose", (4, 6, 2, 2, 2), (1, 4, 3, 4, 3), filter_size=2, stride=2)


@check(N + "conv3d_transpose", paddle="2.6.2")
def conv3d_transpose_finds_its_filter_size(paddle, np):
    return convolved(paddle, "conv3d_transpose", (4, 6, 2, 2, 2), (1, 4, 3, 3, 3), output_size=6, stride=2)


@check(N + "conv2d", paddle="2.6.2")
def conv2d_refuses_what_does_not_fit(paddle, np):
    from tests.api.table import caught

    x = variable(paddle, "x", 1, 4, 5, 5)
    conv2d = paddle.static.nn.conv2d
    return [
        caught(lambda: conv2d(x, 6, 3, groups=3)), caught(lambda: conv2d(x, 6, 3, groups=0)),
        caught(lambda: conv2d(x, 6, 3, data_format="NC")),
        caught(lambda: conv2d(x, 6, 3, param_attr=False)),
    ]  # fmt: skip


@check(N + "deform_conv2d", rtol=1e-4, atol=1e-5, paddle="2.6.2")
def deform_conv2d_moves_and_weights_its_taps(paddle, np):
    x, offset, mask = variable(paddle, "x", 2, 4, 6, 5), variable(paddle, "o", 2, 36, 6, 5), variable(paddle, "m", 2, 18, 6, 5)
    y = paddle.static.nn.deform_conv2d(
        x, offset, mask, 6, 3, padding=1, groups=2, deformable_groups=2, weight_attr=filled(paddle, 6, 2, 3, 3), bias_attr=filled(paddle, 6)
    )
    feed = {"x": numbers(2, 4, 6, 5), "o": numbers(2, 36, 6, 5), "m": numbers(2, 18, 6, 5)}
    return with_gradients(paddle, feed, y, [x, offset, mask])


@check(N + "deform_conv2d", rtol=1e-4, atol=1e-5, paddle="2.6.2")
def deform_conv2d_without_a_mask(paddle, np):
    x, offset = variable(paddle, "x", 1, 2, 7, 7), variable(paddle, "o", 1, 8, 3, 3)
    y = paddle.static.nn.deform_conv2d(x, offset, None, 3, 2, stride=2, weight_attr=filled(paddle, 3, 2, 2, 2), bias_attr=False)
    return with_gradients(paddle, {"x": numbers(1, 2, 7, 7), "o": numbers(1, 8, 3, 3)}, y, [x, offset])


@check(N + "batch_norm", paddle="2.6.2")
def batch_norm_moves_its_statistics(paddle, np):
    x = variable(paddle, "x", 4, 3, 2, 2)
    y = paddle.static.nn.batch_norm(
        x, param_attr=filled(paddle, 3), bias_attr=filled(paddle, 3), momentum=0.8, moving_mean_name="mean", moving_variance_name="variance"
    )
    made = with_gradients(paddle, {"x": numbers(4, 3, 2, 2)}, y, [x])
    scope = paddle.static.global_scope()
    statistics = [np.array(scope.find_var(name).get_tensor()) for name in ("mean", "variance")]
    return {**made, "statistics": statistics, "parameters": parameters(paddle)}


@check(N + "batch_norm", paddle="2.6.2")
def batch_norm_by_running_statistics(paddle, np):
    x = variable(paddle, "x", 4, 2, 2, 3)
    tested = paddle.static.nn.batch_norm(x, is_test=True, data_layout="NHWC", epsilon=1e-3, act="relu")
    running = paddle.static.nn.batch_norm(x, use_global_stats=True, data_layout="NHWC")
    return run(paddle, {"x": numbers(4, 2, 2, 3)}, [tested, running])


@check(N + "batch_norm", paddle="2.6.2")
def batch_norm_of_a_matrix(paddle, np):
    x = variable(paddle, "x", 5, 3)
    return with_gradients(paddle, {"x": numbers(5, 3)}, paddle.static.nn.batch_norm(x, param_attr=filled(paddle, 3)), [x])


@check(N + "layer_norm", paddle="2.6.2")
def layer_norm_from_an_axis_on(paddle, np):
    x = variable(paddle, "x", 4, 3, 5)
    y = paddle.static.nn.layer_norm(x, begin_norm_axis=1, param_attr=filled(paddle, 15), bias_attr=filled(paddle, 15), act="tanh")
    return {**with_gradients(paddle, {"x": numbers(4, 3, 5)}, y, [x]), "parameters": parameters(paddle)}


@check(N + "layer_norm", paddle="2.6.2")
def layer_norm_without_scale_and_shift(paddle, np):
    x = variable(paddle, "x", 4, 3, 5)
    y = paddle.static.nn.layer_norm(x, scale=False, shift=False, begin_norm_axis=2, epsilon=1e-3)
    return {"y": run(paddle, {"x": numbers(4, 3, 5)}, [y]), "parameters": parameters(paddle)}


@check(N + "group_norm", paddle="2.6.2")
def group_norm_has_parameters_when_asked(paddle, np):
    x = variable(paddle, "x", 2, 6, 3, 2)
    y = paddle.static.nn.group_norm(x, 3, param_attr=filled(paddle, 6), bias_attr=filled(paddle, 6))
    z = paddle.static.nn.group_norm(x, 2, param_attr=filled(paddle, 6, seed=2), act="relu")
    plain = paddle.static.nn.group_norm(x, 6)
    made = with_gradients(paddle, {"x": numbers(2, 6, 3, 2)}, y + z, [x])
    return {**made, "plain": run(paddle, {"x": numbers(2, 6, 3, 2)}, [plain]), "parameters": parameters(paddle)}


@check(N + "instance_norm", paddle="2.6.2")
def instance_norm_with_and_without_parameters(paddle, np):
    x = variable(paddle, "x", 2, 3, 4, 2)
    y = paddle.static.nn.instance_norm(x, param_attr=filled(paddle, 3), bias_attr=filled(paddle, 3))
    z = paddle.static.nn.instance_norm(x, epsilon=1e-3)
    return {**with_gradients(paddle, {"x": numbers(2, 3, 4, 2)}, y + z, [x]), "parameters": parameters(paddle)}


@check(N + "data_norm", paddle="2.6.2")
def data_norm_goes_by_its_sums(paddle, np):
    x = variable(paddle, "x", 4, 3)
    data_norm = getattr(paddle.static.nn, "data_norm", None) or paddle.static.nn.common.data_norm
    y = data_norm(x, param_attr={"batch_size": 50.0, "batch_sum": 10.0, "batch_square": 200.0})
    return {**with_gradients(paddle, {"x": numbers(4, 3)}, y, [x]), "parameters": parameters(paddle)}


@check(N + "spectral_norm")
def spectral_norm_divides_by_the_largest_singular_value(paddle, np):
    w = variable(paddle, "w", 3, 2, 4)
    paddle.seed(5)
    y = paddle.static.nn.spectral_norm(paddle.static.data("v", [3, 2, 4], "float32"), dim=1, power_iters=3)
    return run(paddle, {"v": numbers(3, 2, 4), "w": numbers(3, 2, 4)}, [y, w])


@check(N + "prelu", paddle="2.6.2")
def prelu_has_slopes_for_all_channels_or_elements(paddle, np):
    x = variable(paddle, "x", 2, 3, 2, 4)
    made = paddle.static.nn.prelu(x, "all", filled(paddle, 1))
    made = made + paddle.static.nn.prelu(x, "channel", filled(paddle, 1, 3, 1, 1))
    made = made + paddle.static.nn.prelu(x, "channel", filled(paddle, 1, 1, 1, 4), data_format="NHWC")
    made = made + paddle.static.nn.prelu(x, "element", filled(paddle, 1, 3, 2, 4))
    return {**with_gradients(paddle, {"x": numbers(2, 3, 2, 4)}, made, [x]), "parameters": parameters(paddle)}


@check(N + "static_pylayer")
def static_pylayer_has_the_gradient_that_is_given(paddle, np):
    x, z = variable(paddle, "x", 2, 3), variable(paddle, "z", 2, 3)
    two = paddle.static.nn.static_pylayer(lambda a, b: (a * b, a + b), [x, z], lambda d, e: (d * 3, e * 5))
    y = two[0] + two[1] * 2
    return with_gradients(paddle, {"x": numbers(2, 3), "z": numbers(2, 3, seed=1)}, y, [x, z])


@check(N + "py_func", "paddle.static.py_func", paddle="2.6.2")
def py_func_runs_a_function_of_the_user(paddle, np):
    x = variable(paddle, "x", 2, 3)
    out = paddle.static.default_main_program().current_block().create_var(name="out", dtype="float32", shape=[-1, 3])
    paddle.static.py_func(lambda a: np.sinh(a), x, out, lambda a, y, dy: np.array(dy) * np.cosh(np.array(a)))
    return with_gradients(paddle, {"x": numbers(2, 3)}, out, [x])
