"""Sequences without rows: among others, at both ends, and nothing but those, as far as 1.8.5 takes them. What it refuses, or falls over,
`tests/fluid/test_empty_sequences.py` says.
"""

from tests.fluid_api.cases_detection import boxes, draw, still
from tests.fluid_api.cases_labelling import labels, with_gradient_of
from tests.fluid_api.cases_layers import L, attr, fed, given, rows
from tests.fluid_api.table import check

AMONG, ENDS, NONE, ONE = [2, 0, 3], [0, 2, 0], [0, 0], [0]
SOME, ALL = (AMONG, ENDS), (AMONG, ENDS, NONE, ONE)


def over(fluid, np, function, *feeds):
    """What one program of a function gives for several feeds, with gradients as those of `outcome`. What has no elements has in 1.8.5
    the shape [0] once it is fetched."""
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.scope_guard(fluid.Scope()), fluid.unique_name.guard():
        variables = [given(fluid, value, f"x{i}") for i, value in enumerate(feeds[0])]
        made = function(fluid.layers, *variables)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        wanted, kinds = [], fluid.core.VarDesc.VarType
        if made[0].dtype in (kinds.FP32, kinds.FP64) and not made[0].stop_gradient:
            weighed = fluid.layers.scale(fluid.layers.square(made[0]), 0.5, 0.3)
            wanted = fluid.gradients(fluid.layers.reduce_sum(weighed), [v for v in variables if not v.stop_gradient])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        results, found, kinds_of_values = made + [v for v in wanted if v is not None], [], []
        for inputs in feeds:
            feed = {f"x{i}": fed(fluid, np, value) for i, value in enumerate(inputs)}
            values = exe.run(feed=feed, fetch_list=results, return_numpy=False)
            kinds_of_values = kinds_of_values or [str(np.array(v).dtype) if 0 not in v.shape() else "" for v in values]
            found.append({
                "shapes": [v.shape() if 0 not in v.shape() else [] for v in values],
                "values": [np.array(v).ravel().tolist() for v in values],
                "lengths": [v.recursive_sequence_lengths() for v in values[: len(made)]],
            })  # fmt: skip
        return {"kinds": kinds_of_values, "none": [v is None for v in wanted], "found": found}


def without(found, *places):
    """Outcomes without the gradients at these places among what was fetched."""
    for outcome in found["found"]:
        for part in ("shapes", "values"):
            outcome[part] = [v for i, v in enumerate(outcome[part]) if i not in places]
    return found


def by_lengths(fluid, np, function, lengths, columns=2, **more):
    """`over` sequences of these lengths."""
    return over(fluid, np, function, *[[rows(np, [n], columns, **more)] for n in lengths])


def first(counts):
    """As many sequences as there are counts, with rows."""
    return [2, 1, 3][: len(counts)]


@check(*[L + "sequence_" + n for n in (
    "concat", "conv", "enumerate", "first_step", "last_step", "pad", "pool", "reshape", "reverse", "softmax", "unpad")])  # fmt: skip
def sequences_without_rows(fluid, np):
    def zero(L):
        return L.assign(np.array([0.5], "float32"))

    def conv(L, x):
        return L.sequence_conv(x, 3, 3, param_attr=attr(fluid, np, "convw", 6, 3), bias_attr=attr(fluid, np, "convb", 3))

    def with_numbers(L, x, n):
        return L.sequence_unpad(x, L.reshape(n, [-1]))

    found = {
        "concat": by_lengths(fluid, np, lambda L, x: L.sequence_concat([x, L.scale(x, 2.0)]), SOME),
        "conv": by_lengths(fluid, np, with_gradient_of(fluid, np, "convw", conv), SOME),
        "pad": by_lengths(fluid, np, lambda L, x: list(L.sequence_pad(x, zero(L))), SOME),
        "pad to 4": by_lengths(fluid, np, lambda L, x: list(L.sequence_pad(x, zero(L), 4)), SOME),
        "reverse": by_lengths(fluid, np, lambda L, x: L.sequence_reverse(x), SOME),
        "reshape": by_lengths(fluid, np, lambda L, x: L.sequence_reshape(x, 1), ALL),
        "first": by_lengths(fluid, np, lambda L, x: L.sequence_first_step(x), [AMONG]),
        "last": by_lengths(fluid, np, lambda L, x: L.sequence_last_step(x), [AMONG]),
        "softmax": by_lengths(fluid, np, lambda L, x: L.sequence_softmax(x), ALL, 1),
        "enumerate": by_lengths(fluid, np, lambda L, x: still(L.sequence_enumerate(x, 2, 7)), ALL, 1, whole=True),
        "unpad": by_lengths(fluid, np, lambda L, x: L.sequence_unpad(*L.sequence_pad(x, zero(L))), SOME),
        "unpad by numbers": over(fluid, np, with_numbers, *[
            [draw(np, len(n), 4, 2), np.array(n, "int64").reshape(-1, 1)] for n in SOME]),
    }  # fmt: skip
    for kind in ("sum", "average", "max", "sqrt", "first", "last"):
        found[kind] = by_lengths(fluid, np, lambda L, x, kind=kind: L.sequence_pool(x, kind), [AMONG])
        found[kind + " or a number"] = by_lengths(fluid, np, lambda L, x, kind=kind: L.sequence_pool(x, kind, pad_value=0.5), [AMONG])
    return found


@check(*[L + n for n in (
    "add_position_encoding", "lod_append", "lod_reset", "reorder_lod_tensor_by_rank", "sequence_expand", "sequence_expand_as",
    "sequence_mask", "sequence_scatter", "sequence_slice")])  # fmt: skip
def sequences_without_rows_and_others(fluid, np):
    def counts(lengths, most=9, dtype="int64"):
        return np.minimum(np.array(lengths), most).reshape(-1, 1).astype(dtype)

    def offsets(lengths):
        return np.cumsum([0] + lengths).astype("int32").reshape(-1, 1)

    def whole(lengths):
        return np.random.RandomState(4).randint(0, 6, (sum(lengths), 1)).astype("int64"), [lengths]

    def ranked(L, x, y):
        return L.reorder_lod_tensor_by_rank(x, L.control_flow.lod_rank_table(y))

    def sliced(L, x, a, b):
        return L.sequence_slice(x, a, b)

    rank = [1, 3, 2]
    return {
        "waves": by_lengths(fluid, np, lambda L, x: L.add_position_encoding(x, 0.5, 2.0), ALL),
        "mask": over(fluid, np, lambda L, n: L.sequence_mask(L.reshape(n, [-1]), 4, "float32"), *[[counts(n)] for n in ALL]),
        "rows": over(fluid, np, lambda L, x, y: L.sequence_expand(x, y), *[[draw(np, len(n), 2), rows(np, [n], 1)] for n in ALL]),
        "sequences": over(fluid, np, lambda L, x, y: L.sequence_expand(x, y, 0), *[
            [rows(np, [n], 2), rows(np, [first(n)], 1)] for n in SOME]),
        "sequences by nothing": over(fluid, np, lambda L, x, y: L.sequence_expand(x, y, 0), *[
            [rows(np, [n], 2), rows(np, [n], 1)] for n in SOME]),
        "as": over(fluid, np, lambda L, x, y: L.sequence_expand_as(x, y), *[[draw(np, len(n), 2), rows(np, [n], 1)] for n in ALL]),
        "parts of nothing": over(fluid, np, sliced, *[[rows(np, [n], 2), counts(n, 0), counts(n, 1)] for n in ALL]),
        "no part": over(fluid, np, sliced, *[[rows(np, [first(n)], 2), counts(n, 0), counts(n, 1)] for n in ALL]),
        "scattered": over(fluid, np, lambda L, x, i, u: L.sequence_scatter(x, i, u), *[
            [draw(np, len(n), 6), whole(n), rows(np, [n], 1, seed=9)] for n in ALL]),
        "levels of another": over(fluid, np, lambda L, x, y: L.lod_reset(x, y), *[[draw(np, sum(n), 2), rows(np, [n], 1)] for n in ALL]),
        "levels by numbers": over(fluid, np, lambda L, x, y: L.lod_reset(x, L.reshape(y, [-1])), *[
            [draw(np, sum(n), 2), offsets(n)] for n in ALL]),
        "levels by offsets": [
            by_lengths(fluid, np, lambda L, x, n=n: L.lod_reset(x, target_lod=offsets(n).ravel().tolist()), [n]) for n in ALL],
        "one sequence": [by_lengths(fluid, np, lambda L, x, n=n: L.lod_reset(x, target_lod=[0, sum(n)]), [n]) for n in ALL],
        "levels below": over(fluid, np, lambda L, x, y: L.lod_append(x, y), *[[draw(np, sum(n), 2), rows(np, [n], 1)] for n in ALL]),
        "rows below": [by_lengths(fluid, np, lambda L, x, n=n: L.lod_append(x, list(range(sum(n) + 1))), [n]) for n in SOME],
        "by rank": over(fluid, np, ranked, *[[rows(np, [rank[: len(n)]], 2), rows(np, [n], 1)] for n in ALL]),
        "rows by rank": over(fluid, np, ranked, *[[draw(np, len(n), 2), rows(np, [n], 1)] for n in ALL]),
    }  # fmt: skip


@check(L + "dynamic_lstm", L + "dynamic_lstmp", L + "dynamic_gru", L + "DynamicRNN", L + "gru_unit", L + "lstm_unit")
def recurrent_layers_over_sequences_without_rows(fluid, np):
    def lstm(L, x, *start, **more):
        return list(L.dynamic_lstm(
            x, 8, *start, param_attr=attr(fluid, np, "weight", 2, 8), bias_attr=attr(fluid, np, "bias", 1, 14), **more))  # fmt: skip

    def lstmp(L, x):
        given = [fluid.ParamAttr(initializer=fluid.initializer.Constant(0.3)), attr(fluid, np, "bias", 1, 14)]
        return list(L.dynamic_lstmp(x, 8, 3, *given))

    def gru(L, x, *start, **more):
        return L.dynamic_gru(
            x, 2, attr(fluid, np, "weight", 2, 6), attr(fluid, np, "bias", 1, 6), h_0=start[0] if start else None, **more)  # fmt: skip

    def stepped(L, x, *start):
        net = L.DynamicRNN()
        with net.block():
            now = net.step_input(x)
            memory = net.memory(init=start[0], need_reorder=True) if start else net.memory(shape=[2], value=0.1)
            after = L.tanh(L.elementwise_add(now, memory))
            net.update_memory(memory, after)
            net.output(after)
        return net()

    def started(function, columns, count):
        found = [[rows(np, [n], columns)] + [draw(np, len(n), 2, seed=i) for i in range(count)] for n in SOME]
        return over(fluid, np, function, *found)

    def step(L, x, h):
        return L.gru_unit(x, h, 6, attr(fluid, np, "weight", 2, 6), attr(fluid, np, "bias", 1, 6))

    def long_step(L, x, h, c):
        return L.concat(list(L.lstm_unit(x, h, c, 0.5, attr(fluid, np, "weight", 5, 8), attr(fluid, np, "bias", 8))), axis=1)

    return {
        "lstm": by_lengths(fluid, np, lstm, SOME, 8),
        "lstm learns": by_lengths(fluid, np, with_gradient_of(fluid, np, "weight", lambda L, x: lstm(L, x)[0]), SOME, 8),
        "lstm backwards": by_lengths(fluid, np, lambda L, x: lstm(L, x, is_reverse=True), SOME, 8),
        # Of the first states of sequences without rows 1.8.5 gives for gradients what was in memory.
        "lstm from states": without(started(lstm, 8, 2), 3, 4), "lstmp": by_lengths(fluid, np, lstmp, SOME, 8),
        "gru": by_lengths(fluid, np, gru, SOME, 6),
        "gru learns": by_lengths(fluid, np, with_gradient_of(fluid, np, "weight", gru), SOME, 6),
        "gru from states": started(lambda L, x, h: gru(L, x, h, is_reverse=True), 6, 1),
        "steps": by_lengths(fluid, np, stepped, SOME), "steps from states": started(stepped, 2, 1),
        "gru step": over(fluid, np, step, *[[rows(np, [n], 6), rows(np, [n], 2)] for n in ALL]),
        "lstm step": over(fluid, np, long_step, *[[rows(np, [n], 3), rows(np, [n], 2), rows(np, [n], 2)] for n in SOME]),
    }  # fmt: skip


@check(*[L + n for n in (
    "beam_search", "chunk_eval", "crf_decoding", "ctc_greedy_decoder", "edit_distance", "linear_chain_crf", "warpctc")])  # fmt: skip
def labels_of_sequences_without_rows(fluid, np):
    def crf(L, x, y, n=None):
        return L.linear_chain_crf(x, y, attr(fluid, np, "crfw", 6, 4), length=n)

    def decoded(L, x, y, n=None):
        crf(L, x, y, n)
        way = fluid.ParamAttr(name="crfw")
        return [L.crf_decoding(x, way, length=n), L.crf_decoding(x, way, label=y, length=n)]

    def padded(lengths):
        told = np.random.RandomState(0).randint(0, 4, (len(lengths), 5, 1)).astype("int64")
        return [draw(np, len(lengths), 5, 4), told, np.array(lengths, "int64").reshape(-1, 1)]

    def words(lengths, least=0, most=4, dtype="int64"):
        return np.random.RandomState(sum(lengths)).randint(least, most, (sum(lengths), 1)).astype(dtype), [lengths]

    def aligned(*given, **more):
        return over(fluid, np, lambda L, x, y: L.warpctc(x, y, **more), *given)

    def aligned_padded(L, x, y, n, m):
        return L.warpctc(x, y, 0, False, L.reshape(n, [-1]), L.reshape(m, [-1]))

    def column(values):
        return np.array(values, "int64").reshape(-1, 1)

    def told(count):
        return np.random.RandomState(0).randint(1, 4, (count, 4)).astype("int32")

    def searched(levels):
        draws, count = np.random.RandomState(8), sum(levels[1])
        before, old = draws.randint(2, 9, (count, 1)).astype("int64"), draws.uniform(0.2, 0.8, (count, 1)).astype("float32")
        chosen = np.array([draws.permutation(9)[:4] for _ in range(count)], "int64")
        shares = -np.sort(-draws.uniform(0.05, 0.9, (count, 4)), axis=1).astype("float32")
        return [(before, levels), (old, levels), (chosen, levels), (shares, levels)]

    def distances(*more):
        return lambda L, x, y: list(L.edit_distance(x, y, *more))

    tagged = [np.random.RandomState(0).randint(0, 7, (len(n), 5)).astype("int64") for n in ALL]
    return {
        "ways": over(fluid, np, with_gradient_of(fluid, np, "crfw", crf), *[[rows(np, [n], 4), labels(np, [n], 4)] for n in ALL]),
        "ways, padded": over(fluid, np, with_gradient_of(fluid, np, "crfw", crf), *[padded(n) for n in ALL]),
        "the best way": over(fluid, np, decoded, *[[rows(np, [n], 4), labels(np, [n], 4)] for n in ALL]),
        "the best way, padded": over(fluid, np, decoded, *[padded(n) for n in ALL]),
        "chunks": over(fluid, np, lambda L, x, y: list(L.chunk_eval(x, y, "IOB", 3)), *[[words(n, 0, 7)] * 2 for n in ALL]),
        "chunks, padded": over(fluid, np, lambda L, x, y, n: list(L.chunk_eval(x, y, "IOB", 3, None, n)), *[
            [t, t, column(n)] for t, n in zip(tagged, ALL)]),
        "aligned, no labels": aligned(*[[rows(np, [[5, 3, 7]], 4), words(n, 1, 4, "int32")] for n in SOME]),
        "aligned, padded, no labels": over(fluid, np, aligned_padded, *[
            [draw(np, 6, 3, 4), told(3), column([6, 4, 5]), column(n)] for n in SOME]),
        "read": by_lengths(fluid, np, lambda L, x: L.ctc_greedy_decoder(x, 0), SOME, 4),
        "read, padded": over(fluid, np, lambda L, x, n: L.ctc_greedy_decoder(x, 0, input_length=n, padding_value=-5), *[
            [draw(np, len(n), 5, 4), column(n)] for n in ALL]),
        "distances": over(fluid, np, distances(), *[[words(n), words(first(n))] for n in ALL]),
        "differences": over(fluid, np, distances(False), *[[words(n), words(n[::-1])] for n in ALL]),
        "differences of some": over(fluid, np, distances(False, [1, 2]), *[[words(n), words(n[::-1])] for n in ALL]),
        "searched": over(fluid, np, lambda L, *x: still(list(L.beam_search(*x, 3, 1, return_parent_idx=True))),
                         searched([[2, 0, 1], [1, 1, 1]]), searched([[2, 1], [1, 0, 2]])),
    }  # fmt: skip


@check(*[L + n for n in (
    "box_coder", "continuous_value_model", "deformable_roi_pooling", "embedding", "filter_by_instag", "iou_similarity",
    "prroi_pool", "psroi_pool", "roi_align", "roi_perspective_transform", "roi_pool", "target_assign", "bipartite_match")])  # fmt: skip
def images_without_boxes(fluid, np):
    def regions(function, lengths=ALL, channels=8):
        return over(fluid, np, function, *[[draw(np, len(n), channels, 6, 8), (boxes(np, sum(n), size=12.0), [n])] for n in lengths])

    def coded(L, p, v, x):
        return still(L.box_coder(p, v, x))

    def targets(L, x, m, *more):
        return still(list(L.target_assign(x, m, *more, mismatch_value=7)))

    def matched(lengths):
        return np.array([[0 if i < k else -1 for i in range(5)] for k in lengths], "int32")

    def places(lengths):
        return np.array([1 + i % 4 for i in range(sum(lengths))], "int32").reshape(-1, 1), [lengths]

    def tagged(L, x, t):
        return list(L.filter_by_instag(x, t, L.assign(np.array([1], "int64")), is_lod=True))[:2]

    def tags(lengths):
        return np.array([1, 2, 1, 3, 1][: sum(lengths)], "int64").reshape(-1, 1), [lengths]

    corners = np.array([[1, 1, 4, 0.5, 5, 4, 0.5, 3], [0, 0, 3, 0, 3, 3, 0, 3], [4, 0, 5, 2, 2, 4, 1, 2], [-2, -1, 4, 1, 3, 6, -1, 4],
                        [2, 0.4, 3, 0.6, 3.2, 3, 1.8, 3.1]], "float32") * np.float32(1.01)  # fmt: skip
    priors, spread = boxes(np, 4, seed=1), draw(np, 4, 4, low=0.1, high=0.5)
    return {
        "overlaps": over(fluid, np, lambda L, x, y: still(L.iou_similarity(x, y)), *[[(boxes(np, sum(n)), [n]), priors] for n in ALL]),
        "coded": over(fluid, np, coded, *[[priors, spread, (boxes(np, sum(n)), [n])] for n in ALL]),
        "matched": over(fluid, np, lambda L, x, y: still(L.bipartite_match(L.iou_similarity(x, y))), [(boxes(np, 0), [ONE]), priors]),
        "targets": over(fluid, np, targets, *[[(draw(np, sum(n), 5, 4), [n]), matched(n)] for n in ALL]),
        "targets and others": over(fluid, np, targets, *[
            [(draw(np, len(n), 1, 1), [[1] * len(n)]), matched([1] * len(n)), places(n)] for n in ALL]),
        "aligned": regions(lambda L, x, r: L.roi_align(x, r, 2, 3, 0.5, 2)),
        "aligned by size": regions(lambda L, x, r: L.roi_align(x, r, 2, 3, 0.5)),
        "pooled": regions(lambda L, x, r: L.roi_pool(x, r, 2, 2, 0.5)),
        "of channels": regions(lambda L, x, r: L.psroi_pool(x, r, 2, 0.5, 2, 2)),
        "exactly": regions(lambda L, x, r: L.prroi_pool(x, r, 0.5, 2, 2), SOME),
        "moved": over(fluid, np, lambda L, x, r, t: L.deformable_roi_pooling(
            x, r, t, pooled_height=2, pooled_width=2, sample_per_part=2, trans_std=0.3), *[
            [draw(np, len(n), 4, 5, 6), (boxes(np, sum(n), size=5.0), [n]), draw(np, sum(n), 2, 2, 2)] for n in ALL]),
        "quadrilaterals": over(fluid, np, lambda L, x, r: list(L.roi_perspective_transform(x, r, 3, 4)), *[
            [draw(np, len(n), 2, 5, 6), (corners[: sum(n)], [n])] for n in ALL]),
        "embedded": by_lengths(
            fluid, np, lambda L, x: L.embedding(x, [9, 3], param_attr=attr(fluid, np, "table", 9, 3)), ALL, 1, whole=True),
        "tagged": over(fluid, np, tagged, *[[rows(np, [first(n)], 2), tags(n)] for n in ALL]),
        "shown": over(fluid, np, lambda L, x, s: L.continuous_value_model(x, s, False), *[
            [(abs(rows(np, [n], 4)[0]), [n]), draw(np, len(n), 2, low=0)] for n in SOME]),
    }  # fmt: skip


@check(*[L + n for n in (
    "collect_fpn_proposals", "detection_output", "generate_mask_labels", "generate_proposal_labels", "generate_proposals",
    "locality_aware_nms", "matrix_nms", "multiclass_nms", "retinanet_detection_output")])  # fmt: skip
def images_in_which_nothing_is_found(fluid, np):
    info = np.array([[50, 60, 1.0], [40, 55, 1.5], [60, 44, 0.5]], "float32")

    def scored(lengths, *shape, **more):
        """Scores, which are `least` where a count is 0."""
        scores = draw(np, len(lengths), *shape, low=0.1, high=1, seed=2)
        scores[np.array(lengths) == 0] = more.get("least", 0)
        return scores

    def background(lengths):
        """Scores of which those of the first class alone are likely where a count is 0."""
        scores = scored(lengths, 6, 3, least=-9)
        scores[:, :, 0] += 1
        return scores

    def proposed(L, s, d, i):
        anchors, variances = L.anchor_generator(s, [16.0, 32.0, 8.0], [1.0], [1.0, 1.0, 1.0, 1.0], [16.0, 16.0])
        return still(L.generate_proposals(s, d, i, anchors, variances, 20, 6, 0.6, 1000.0))

    def learned(lengths):
        """More true boxes than regions."""
        true, draws = first(lengths), np.random.RandomState(7)
        classes = draws.randint(1, 4, (sum(true), 1)).astype("int32")
        return [(boxes(np, sum(lengths), seed=8, size=45.0), [lengths]), (classes, [true]), (classes * 0, [true]),
                (boxes(np, sum(true), seed=9, size=45.0), [true]), info[: len(lengths)]]  # fmt: skip

    def masked(lengths):
        """One triangle in each image."""
        ones = [1] * len(lengths)
        points = np.array([[5, 5], [20, 5], [20, 30]] * len(ones), "float32"), [ones, ones, [3] * len(ones)]
        classes = np.arange(1, len(ones) + 1, dtype="int32").reshape(-1, 1) % 2 + 1
        regions, kinds = boxes(np, sum(lengths), seed=8, size=45.0).round(3), np.ones((sum(lengths), 1), "int32")
        return [info[: len(ones)], (classes, [ones]), (classes * 0, [ones]), points, (regions, [lengths]), (kinds, [lengths])]

    def retina(L, x, y, i):
        return still(L.retinanet_detection_output([x], [y], [L.assign(boxes(np, 6, seed=5) * 50)], i, 0.05))

    def output(L, x, s, p):
        return L.detection_output(x, s, p, [0.1, 0.1, 0.2, 0.2], score_threshold=0.05)

    def collected(L, a, b, s, t):
        return still(L.collect_fpn_proposals([a, b], [s, t], 2, 3, 4))

    def levels(lengths, other):
        return [(boxes(np, sum(n), seed=2 + i), [n]) for i, n in enumerate((lengths, other))] + [
            rows(np, [n], 1, seed=4 + i) for i, n in enumerate((lengths, other))]

    return {
        "chosen": over(fluid, np, lambda L, b, s: still(L.multiclass_nms(b, s, 0.01, 10, 7)), *[
            [boxes(np, len(n), 6), scored(n, 3, 6)] for n in ALL]),
        "chosen of sequences": over(fluid, np, lambda L, b, s: still(L.multiclass_nms(b, s, 0.01, 10, 7, normalized=False)), *[
            [(boxes(np, sum(n), 3) * 20, [n]), (draw(np, sum(n), 3, low=0, high=1), [n])] for n in ([2, 1, 3], [4])]),
        "by a matrix": over(fluid, np, lambda L, b, s: still(list(L.matrix_nms(b, s, 0.01, 0.0, 10, 7, return_index=True))), *[
            [boxes(np, len(n), 6), scored(n, 3, 6)] for n in ALL]),
        "merged": over(fluid, np, lambda L, b, s: still(L.locality_aware_nms(b, s, 0.01, 10, 7)), *[
            [boxes(np, len(n), 6), scored(n, 1, 6, least=0.001)] for n in ALL]),
        "of levels": over(fluid, np, retina, *[[draw(np, len(n), 6, 4) * 0.5, scored(n, 6, 3, least=0.001), info[: len(n)]] for n in ALL]),
        "output": over(fluid, np, lambda L, *x: still(output(L, *x)), *[
            [draw(np, len(n), 6, 4), background(n) * 9, boxes(np, 6, seed=1)] for n in ALL]),
        "proposed": over(fluid, np, proposed, *[
            [draw(np, len(n), 3, 3, 4, low=0, high=1), draw(np, len(n), 12, 3, 4, seed=1) * 0.5, info[: len(n)]] for n in SOME]),
        # Behind an image without any in between, 1.8.5 gives the next region to that image.
        "collected": over(fluid, np, collected, *[levels(n, [1, 2, 1][: len(n)]) for n in ([2, 3, 0], ENDS, NONE, ONE)]),
        "labels": over(fluid, np, lambda L, *x: still(list(L.generate_proposal_labels(*x, class_nums=4, use_random=False))), *[
            learned(n) for n in ALL]),
        "masks": over(fluid, np, lambda L, *x: still(list(L.generate_mask_labels(*x, num_classes=3, resolution=4))), *[
            masked(n) for n in ALL]),
    }  # fmt: skip
