"""Functions of `fluid.layers` of regions of images."""

from tests.fluid_api.cases_detection import boxes, draw, still
from tests.fluid_api.cases_layers import L, attr, outcome, rows
from tests.fluid_api.table import check


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
