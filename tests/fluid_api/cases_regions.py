"""Functions of `fluid.layers` of regions of images."""

from tests.fluid_api.cases_detection import boxes, draw, still
from tests.fluid_api.cases_layers import L, attr, outcome, rows
from tests.fluid_api.table import caught, check


@check(L + "roi_align", L + "roi_pool", L + "psroi_pool")
def regions_are_read(fluid, np):
    found = {}
    for name, (lengths, height, width) in {"two": ([2, 1], 6, 8), "one": ([1], 5, 5), "three": ([1, 2, 3], 4, 7)}.items():
        image = draw(np, len(lengths), 8, height, width)
        regions = boxes(np, sum(lengths), size=16.0, seed=1), [lengths]
        found[name] = {
            "aligned": outcome(fluid, np, lambda L, x, r: L.roi_align(x, r, 2, 3, 0.5, 2), image, regions),
            "aligned by size": outcome(fluid, np, lambda L, x, r: L.roi_align(x, r, 2, 2, 0.5), image, regions),
            "pooled": outcome(fluid, np, lambda L, x, r: L.roi_pool(x, r, 2, 2, 0.5), image, regions),
            "of channels": outcome(fluid, np, lambda L, x, r: L.psroi_pool(x, r, 2, 0.5, 2, 2), image, regions),
        }  # fmt: skip
    return found


@check(L + "generate_proposals", L + "distribute_fpn_proposals", L + "collect_fpn_proposals")
def regions_are_proposed(fluid, np):
    found = {}
    for name, (count, height, width) in {"two": (2, 3, 4), "one": (1, 2, 2), "three": (3, 1, 5)}.items():
        given = draw(np, count, 3, height, width, low=0, high=1), draw(np, count, 12, height, width, seed=1) * 0.5
        info = np.array([[48, 64, 1.0], [40, 50, 1.5], [30, 64, 1.0]], "float32")[:count]

        def propose(L, s, d, i):
            anchors, variances = L.anchor_generator(s, [16.0, 32.0, 8.0], [1.0], [1.0, 1.0, 1.0, 1.0], [16.0, 16.0])
            return still(L.generate_proposals(s, d, i, anchors, variances, 20, 6, 0.6, 2.0))

        lengths = [[2, 1, 3][:count]]
        some = boxes(np, sum(lengths[0]), seed=2), lengths
        some[0][:, 2:] = some[0][:, :2] + np.array([[40.0], [100.0]] * sum(lengths[0]))[: sum(lengths[0])]  # some on each level
        more = boxes(np, sum(lengths[0]), size=300.0, seed=3), lengths

        def spread(L, r):
            parts, order = L.distribute_fpn_proposals(r, 2, 3, 3, 60)
            return still([*parts, order])

        scores = rows(np, lengths, 1, seed=1), rows(np, lengths, 1, seed=4)
        found[name] = {
            "proposed": outcome(fluid, np, propose, *given, info), "spread": outcome(fluid, np, spread, some),
            "collected": outcome(fluid, np, lambda L, a, b, s, t: still(L.collect_fpn_proposals([a, b], [s, t], 2, 3, 5)),
                                 some, more, *scores),
        }  # fmt: skip
    return found


@check(L + "deformable_conv")
def windows_are_deformed(fluid, np):
    found = {}
    for name, (count, size, parts) in {"two": (2, 5, 1), "one": (1, 4, 2), "three": (3, 3, 1)}.items():
        image, moves, mask = draw(np, count, 4, size, size), draw(np, count, 18 * parts, size, size), draw(np, count, 9 * parts, size, size)

        def conv(weights, parts=parts, **more):
            return lambda L, x, o, m: L.deformable_conv(
                x, o, m, 2, 3, 1, 1, deformable_groups=parts, im2col_step=1, param_attr=attr(fluid, np, "weight", *weights),
                bias_attr=attr(fluid, np, "bias", 2), **more)

        found[name] = {
            "modulated": outcome(fluid, np, conv((2, 4, 3, 3), groups=1), image, moves, mask),
            "older": outcome(fluid, np, conv((2, 2, 3, 3), groups=2, modulated=False), image, moves, mask),
        }  # fmt: skip
    return found


def pooled(np, channels):
    """Images and regions of them, one a line and one beyond its image, a sequence for each image."""
    for name, (lengths, height, width) in {"two": ([2, 1], 5, 6), "one": ([1], 4, 4), "three": ([1, 2, 3], 4, 7)}.items():
        regions = boxes(np, sum(lengths), size=9.0, seed=1) - 1.5
        yield name, draw(np, len(lengths), channels, height, width), (regions, [lengths])


@check(L + "prroi_pool")
def regions_are_read_exactly(fluid, np):
    found = {}
    for name, image, regions in pooled(np, 3):
        counts = np.array(regions[1][0], "int64").reshape(-1, 1)
        found[name] = {
            "parts": outcome(fluid, np, lambda L, x, r: L.prroi_pool(x, r, 1.0, 2, 3), image, regions),
            "scaled": outcome(fluid, np, lambda L, x, r: L.prroi_pool(x, r, 0.5, 3, 1), image, regions),
            "by counts": outcome(
                fluid, np, lambda L, x, r, n: L.prroi_pool(x, r, 0.8, 1, 2, L.reshape(n, [-1])), image, regions[0], counts),
        }  # fmt: skip
    return found


@check(L + "deformable_roi_pooling")
def regions_are_moved(fluid, np):
    def by_groups(*numbers):
        """As `position_sensitive`, whose number of channels 1.8.5 divides to a float that its operator refuses."""
        names = ("group_size", "pooled_height", "pooled_width", "part_size", "sample_per_part", "trans_std")

        def apply(L, x, r, t):
            helper = fluid.layer_helper.LayerHelper("deformable_psroi_pooling")
            made, count = (helper.create_variable_for_type_inference("float32") for _ in range(2))
            attrs = dict(zip(names, numbers), no_trans=False, spatial_scale=0.7, output_dim=2)
            helper.append_op(type="deformable_psroi_pooling", inputs={"Input": x, "ROIs": r, "Trans": t},
                             outputs={"Output": made, "TopCount": count}, attrs=attrs)
            return [made, count]

        return apply

    found = {}
    for name, image, regions in pooled(np, 4):
        count = len(regions[0])
        # As many parts down as across: of others 1.8.5's gradients are not the derivatives.
        moves, more = draw(np, count, 2, 2, 2, seed=4) * 2, draw(np, count, 4, 2, 2, seed=5) * 2
        wide = draw(np, count, 2, 1, 2, seed=6)
        found[name] = {
            "moved": outcome(fluid, np, lambda L, x, r, t: L.deformable_roi_pooling(
                x, r, t, pooled_height=2, pooled_width=2, sample_per_part=2, trans_std=0.3), image, regions, moves),
            "by fewer moves": outcome(fluid, np, lambda L, x, r, t: L.deformable_roi_pooling(
                x, r, t, False, 0.5, pooled_height=3, pooled_width=3, part_size=(2, 2), sample_per_part=3), image, regions, more),
            "unmoved": outcome(fluid, np, lambda L, x, r, t: L.deformable_roi_pooling(
                x, r, t, True, 0.8, pooled_height=2, pooled_width=3, part_size=[1, 2]), image, regions, wide),
            "wide": outcome(fluid, np, lambda L, x, r, t: still(L.deformable_roi_pooling(
                x, r, t, False, 0.8, pooled_height=2, pooled_width=3, part_size=[1, 2])), image, regions, wide),
            "of groups": outcome(fluid, np, by_groups([2, 1], 2, 2, [2, 2], 2, 0.2), image, regions, more),
        }  # fmt: skip
    return found


@check(L + "deformable_roi_pooling")
def regions_of_groups_are_read(fluid, np):
    """What `position_sensitive` means: the operator, where 1.8.5's function hands it a float."""
    _, image, regions = next(pooled(np, 8))
    moves = draw(np, 3, 2, 2, 2, seed=4)
    kinds = {"group_size": [2, 2], "pooled_height": 2, "pooled_width": 2, "sample_per_part": 2, "trans_std": 0.3}

    def by_function(L, x, r, t):
        return L.deformable_roi_pooling(x, r, t, position_sensitive=True, **kinds)

    def by_operator(L, x, r, t):
        helper = fluid.layer_helper.LayerHelper("deformable_psroi_pooling")
        made, count = (helper.create_variable_for_type_inference("float32") for _ in range(2))
        helper.append_op(type="deformable_psroi_pooling", inputs={"Input": x, "ROIs": r, "Trans": t},
                         outputs={"Output": made, "TopCount": count},
                         attrs=dict(kinds, no_trans=False, spatial_scale=1.0, part_size=[2, 2], output_dim=2))
        return made

    refused = "gave" not in caught(lambda: outcome(fluid, np, by_function, image, regions, moves) and 1)
    return outcome(fluid, np, by_operator if refused else by_function, image, regions, moves)


@check(L + "roi_perspective_transform")
def quadrilaterals_become_rectangles(fluid, np):
    corners = np.array([[1, 1, 4, 0.5, 5, 4, 0.5, 3], [0, 0, 3, 0, 3, 3, 0, 3], [4, 0, 5, 2, 2, 4, 1, 2], [-2, -1, 4, 1, 3, 6, -1, 4],
                        [2, 0.4, 3, 0.6, 3.2, 3, 1.8, 3.1], [3, 1, 1, 1, 1, 3, 3, 3]], "float32")
    found = {}
    for name, image, regions in pooled(np, 2):
        given = corners[: len(regions[0])] * 1.01, regions[1]
        found[name] = {
            "rows": outcome(fluid, np, lambda L, x, r: list(L.roi_perspective_transform(x, r, 3, 4)), image, given),
            "columns": outcome(fluid, np, lambda L, x, r: list(L.roi_perspective_transform(x, r, 4, 1, 0.8)), image, given),
            "a row": outcome(fluid, np, lambda L, x, r: list(L.roi_perspective_transform(x, r, 1, 3, 1.2)), image, given),
        }  # fmt: skip
    return found
