"""Functions of `fluid.layers` that make features, and losses of classes that are many."""

from tests.fluid_api.cases_book import equal_parameters
from tests.fluid_api.cases_detection import draw, still
from tests.fluid_api.cases_layers import L, attr, outcome, rows
from tests.fluid_api.cases_places import each, whole
from tests.fluid_api.table import caught, check


@check(*[L + n for n in ("space_to_depth", "temporal_shift", "unfold", "affine_grid", "fsp_matrix", "similarity_focus")])
def images_are_rearranged(fluid, np):
    image, narrow = draw(np, 2, 4, 4, 6), draw(np, 1, 8, 2, 4)
    thetas = draw(np, 2, 2, 3)
    return {
        "to depth": each(fluid, np, lambda L, x: L.space_to_depth(x, 2), (image,), (narrow,), (draw(np, 3, 4, 2, 2),)),
        "shifted": each(fluid, np, lambda L, x: L.temporal_shift(L.reshape(x, [-1, 4, 2, 3]), 2, 0.25), (draw(np, 4, 4, 2, 3),),
                        (draw(np, 2, 4, 2, 3),), (draw(np, 6, 4, 2, 3),)),
        "unfolded": each(fluid, np, lambda L, x: L.unfold(x, [2, 3], [1, 2], [1, 0], 1), (image,), (narrow,), (draw(np, 3, 1, 3, 3),)),
        "unfolded, evenly": outcome(fluid, np, lambda L, x: L.unfold(x, 2, 1, 0, 2), image),
        "grid": each(fluid, np, lambda L, t: L.affine_grid(L.reshape(t, [2, 2, 3]), [2, 3, 4, 5]), (thetas,), (thetas * 2,), (-thetas,)),
        "grid of a variable": outcome(
            fluid, np, lambda L, t: L.affine_grid(L.reshape(t, [2, 2, 3]), L.assign(np.array([2, 3, 2, 3], "int32"))), thetas),
        "products": each(fluid, np, lambda L, x, y: L.fsp_matrix(x, y), (image, draw(np, 2, 3, 4, 6, seed=1)), (narrow, narrow),
                         (draw(np, 3, 1, 1, 2), draw(np, 3, 5, 1, 2))),
        "focus": each(fluid, np, lambda L, x: still(L.similarity_focus(x, 1, [0, 2])), (image,), (narrow,), (draw(np, 3, 3, 3, 2),)),
        "focus along 2": outcome(fluid, np, lambda L, x: still(L.similarity_focus(x, 2, [1])), image),
        "focus along 3": outcome(fluid, np, lambda L, x: still(L.similarity_focus(x, 3, [0, 1])), image),
    }  # fmt: skip


@check(*[L + n for n in ("add_position_encoding", "bilinear_tensor_product", "adaptive_pool3d", "conv3d_transpose")])
def features_are_put_together(fluid, np):
    def product(size, act=None):
        return lambda L, x, y: L.bilinear_tensor_product(
            x, y, size, act, None, attr(fluid, np, "weight", size, 3, 2), attr(fluid, np, "bias", 1, size))

    def transposed(weights, **more):
        return lambda L, x: L.conv3d_transpose(
            x, 2, param_attr=attr(fluid, np, "weight", *weights), bias_attr=attr(fluid, np, "bias", 2), **more)

    volume = draw(np, 2, 3, 2, 3, 4)
    return {
        "places": each(fluid, np, lambda L, x: L.add_position_encoding(x, 0.5, 2.0), (draw(np, 2, 5, 6),), (draw(np, 1, 3, 2),),
                       (draw(np, 3, 1, 4),)),
        "of sequences": outcome(fluid, np, lambda L, x: L.add_position_encoding(x, 1.0, 1.0), rows(np, [[2, 1, 3]], 4)),
        "products": each(fluid, np, product(4), (draw(np, 3, 3), draw(np, 3, 2)), (draw(np, 1, 3), draw(np, 1, 2)),
                         (draw(np, 5, 3), draw(np, 5, 2))),
        "activated": outcome(fluid, np, product(2, "tanh"), draw(np, 3, 3), draw(np, 3, 2)),
        "pooled": [outcome(fluid, np, lambda L, x, k=kind: L.adaptive_pool3d(x, [2, 1, 3], k), volume) for kind in ("max", "avg")],
        "pooled evenly": outcome(fluid, np, lambda L, x: L.adaptive_pool3d(x, 2, "avg"), draw(np, 1, 2, 4, 2, 3)),
        "transposed": outcome(fluid, np, transposed((3, 2, 2, 2, 2), filter_size=2, stride=2, act="relu"), volume),
        "to a size": outcome(fluid, np, transposed((3, 2, 2, 3, 3), output_size=[4, 7, 9], stride=2), volume),
        "of groups": outcome(fluid, np, transposed((2, 1, 1, 2, 3), filter_size=[1, 2, 3], padding=[0, 1, 1], dilation=[1, 1, 2],
                                                   groups=2), draw(np, 1, 2, 2, 3, 4)),
    }  # fmt: skip


@check(L + "center_loss", L + "hsigmoid", L + "teacher_student_sigmoid_loss", L + "sampled_softmax_with_cross_entropy")
def losses_of_many_classes(fluid, np):
    def trees(**more):
        count = 7 if more else 5
        return lambda L, x, y, *ways: L.hsigmoid(
            x, y, count + (not more), attr(fluid, np, "weight", count, 3), attr(fluid, np, "bias", count, 1),
            **(dict(more, path_table=ways[0], path_code=ways[1]) if more else {}))

    def sampled(**more):
        return lambda L, x, y, s, p: L.sampled_softmax_with_cross_entropy(
            x, y, 4, use_customized_samples=True, customized_samples=s, customized_probabilities=p, **more)

    def samples(count):
        labels = whole(np, (count, 1), 8)
        chosen = np.concatenate([labels, whole(np, (count, 4), 8, seed=1)], 1)
        return draw(np, count, 8) * 3, labels, chosen, draw(np, count, 5, low=0.1, high=0.9)

    table, code = np.array([[0, 2, -1], [0, 1, 4], [3, -1, -1]], "int64"), np.array([[1, 0, -1], [0, 1, 1], [0, -1, -1]], "int64")
    told = np.array([[-2], [-1], [0.3], [1.6], [0], [1], [-1]], "float32")
    sizes = 3, 1, 6
    return {
        "centers": each(
            fluid, np, lambda L, x, y: L.center_loss(x, y, 4, 0.3, attr(fluid, np, "centers", 4, 3)),
            *[(draw(np, n, 3), whole(np, (n, 1), 4)) for n in sizes]),
        "tree": each(fluid, np, trees(), *[(draw(np, n, 3), whole(np, (n, 1), 6)) for n in sizes]),
        "other tree": outcome(fluid, np, trees(is_custom=True), draw(np, 3, 3), whole(np, (3, 1), 3), table, code),
        "teacher": each(
            fluid, np, lambda L, x, y: L.teacher_student_sigmoid_loss(x, y), (draw(np, 7, 1) * 3, told), (draw(np, 1, 1), told[2:3]),
            (draw(np, 7, 1) * 40, told)),
        "sampled": each(fluid, np, sampled(), *[samples(n) for n in sizes]),
        "sampled, hits stay": each(fluid, np, sampled(remove_accidental_hits=False), *[samples(n) for n in sizes]),
    }  # fmt: skip


@check(L + "center_loss")
def centers_move(fluid, np):
    x, y = fluid.layers.data("x", [3]), fluid.layers.data("y", [1], dtype="int64")
    loss = fluid.layers.center_loss(x, y, 4, 0.3, attr(fluid, np, "centers", 4, 3))
    fluid.optimizer.SGD(0.1).minimize(fluid.layers.mean(loss))
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = []
    for n in (3, 5, 1):
        made = exe.run(feed={"x": draw(np, n, 3), "y": whole(np, (n, 1), 4)}, fetch_list=[loss])
        found.append([made[0], np.array(fluid.global_scope().find_var("centers").get_tensor())])
    return found


@check(*[L + n for n in ("Uniform", "Normal", "Categorical", "MultivariateNormalDiag")])
def distributions(fluid, np):
    low, high = draw(np, 3, low=0, high=1), draw(np, 3, low=1.5, high=2)
    matrix = np.diag(draw(np, 2, low=0.3, high=1))
    other = np.diag(draw(np, 2, low=0.3, high=1, seed=1))

    def of_three(function, *inputs):
        return [outcome(fluid, np, function, *[v[:n] for v in inputs]) for n in (3, 1, 2)]

    def columns(*values):
        return [v.reshape(-1, 1) for v in values]

    return {
        "uniform": of_three(lambda L, a, b: [L.Uniform(a, b).entropy()], *columns(low, high)),
        "uniform, density": of_three(lambda L, a, b, v: [L.Uniform(a, b).log_prob(v)], *columns(low, high, (low + high) / 2)),
        "normal": of_three(lambda L, a, b: [L.Normal(a, b).entropy()], *columns(low, high)),
        "normal, density": of_three(lambda L, a, b, v: [L.Normal(a, b).log_prob(v)], *columns(low, high, low - high)),
        "normal, apart": of_three(lambda L, a, b, c, d: [L.Normal(a, b).kl_divergence(L.Normal(c, d))], *columns(low, high, high, low + 1)),
        "numbers": [outcome(fluid, np, lambda L, x: [L.Normal(0.5, 2.0).log_prob(x), L.Normal([0.5, 1.0], [2.0, 3.0]).entropy(),
                                                     L.Uniform(0.5, 2.0).entropy()], draw(np, 2, 1))["values"]],
        "classes": of_three(lambda L, x: [L.Categorical(x).entropy()], draw(np, 3, 4)),
        "classes, apart": of_three(lambda L, x, y: [L.Categorical(x).kl_divergence(L.Categorical(y))],
                                   draw(np, 3, 4), draw(np, 3, 4, seed=1)),
        "vectors": outcome(fluid, np, lambda L, x: [
            L.MultivariateNormalDiag(low[:2], matrix).entropy(),
            L.MultivariateNormalDiag(low[:2], matrix).kl_divergence(L.MultivariateNormalDiag(high[:2], other)), x], low)["values"],
        "draws": [list(outcome(fluid, np, function, low.reshape(-1, 1))["values"][0].shape) for function in (
            lambda L, x: L.Normal(x, x).sample([4]), lambda L, x: L.Uniform(x, x).sample([4]),
            lambda L, x: L.Normal(0.0, 1.0).sample([2, 3]),
            lambda L, x: L.Uniform([0.0, 1.0], [2.0, 3.0]).sample([4]))],
    }  # fmt: skip


@check(L + "inplace_abn")
def norms_in_place_are_activated(fluid, np):
    def normed(act=None, **more):
        def way(L, x):
            scale, bias = attr(fluid, np, "scale", 3), attr(fluid, np, "bias", 3)
            # 1.8.5 puts the input back into the result when it goes back.
            return L.scale(L.inplace_abn(L.scale(x, 1.0), act, param_attr=scale, bias_attr=bias, **more), 1.0)

        return way

    found = {}
    for name, x in {"image": draw(np, 2, 3, 4, 5), "one pixel": draw(np, 4, 3, 1, 1), "one image": draw(np, 1, 3, 2, 2)}.items():
        found[name] = outcome(fluid, np, normed(), x)
        found[name + ", leaky"] = outcome(fluid, np, normed("leaky_relu", act_alpha=0.3), x)
        found[name + ", elu"] = outcome(fluid, np, normed("elu", act_alpha=0.7, epsilon=1e-3), x)
        found[name + ", for tests"] = outcome(fluid, np, lambda L, x: still(normed("identity", is_test=True)(L, x)), x)
    found["errors"] = [caught(lambda: fluid.layers.inplace_abn(fluid.layers.data("y", [3, 4, 4]), "relu"), "identity")]
    return found


@check(L + "spectral_norm")
def weights_have_one_as_their_greatest_singular_value(fluid, np):
    """Of so many power iterations that what they begin with does not count."""

    def way(dim):
        return lambda L, w: still(L.spectral_norm(w, dim=dim, power_iters=60))

    found = {}
    for name, shape in {"matrix": (4, 3), "filters": (3, 2, 2, 3), "row": (1, 5)}.items():
        weight = draw(np, *shape)

        def whole(L, w, weight=weight, dim=0):
            return way(dim)(L, L.assign(weight))

        found[name] = outcome(fluid, np, whole, weight)["values"]
        found[name + " along 1"] = outcome(fluid, np, lambda L, w, weight=weight: way(1)(L, L.assign(weight)), weight)["values"]
    return found


@check(L + "multi_box_head")
def heads_say_differences_and_scores(fluid, np):
    found, sized = {}, {"min_sizes": [4.0, 8.0], "max_sizes": [8.0, 12.0]}
    ways = {
        "two levels": {**sized, "aspect_ratios": [[2.0], [2.0, 3.0]], "flip": True, "clip": True},
        "steps": {**sized, "aspect_ratios": [[1.5], [2.0]], "steps": [4.0, 8.0], "flip": False, "offset": 0.25},
        "windows": {**sized, "aspect_ratios": [[2.0], [2.0]], "kernel_size": 3, "pad": 1},
        "ratios": {"min_ratio": 20, "max_ratio": 90, "aspect_ratios": [[2.0], [2.0], [3.0]]},
    }
    for name, more in ways.items():
        count = len(more["aspect_ratios"])
        with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
            layers = fluid.layers
            levels = [layers.data(f"level{i}", [5, 4 >> i, 6 >> i]) for i in range(count)]
            for level in levels:
                level.stop_gradient = False
            made = layers.multi_box_head(levels, layers.data("image", [3, 16, 24]), 16, 3, offset=more.pop("offset", 0.5), **more)
            slopes = fluid.gradients(layers.sums([layers.reduce_sum(layers.square(part)) for part in made[:2]]), levels)
            exe = fluid.Executor(fluid.CPUPlace())
            exe.run(fluid.default_startup_program())
            equal_parameters(fluid, np)
            feed = {f"level{i}": draw(np, 2, 5, 4 >> i, 6 >> i, seed=i) for i in range(count)}
            feed["image"] = draw(np, 2, 3, 16, 24)
            found[name] = exe.run(feed=feed, fetch_list=list(made) + slopes)
    return found
