"""Functions of `fluid.layers` that say what networks learn which propose regions."""

from tests.fluid_api.cases_detection import boxes, draw
from tests.fluid_api.cases_layers import L, outcome
from tests.fluid_api.table import check


def pictures(np):
    """Numbers of true boxes by image."""
    return {"two": [2, 1], "one": [1], "three": [1, 3, 2]}


def anchored(fluid, np, lengths, seed=0):
    """What is said of 30 anchors, the true boxes, which of them are crowds (never the first of an image), and the images."""
    count, total = len(lengths), sum(lengths)
    crowd = np.random.RandomState(seed).randint(0, 2, (total, 1)).astype("int32")
    crowd[np.cumsum([0] + lengths[:-1])] = 0
    info = np.array([[50, 60, 1.0], [40, 55, 1.5], [60, 44, 0.8]], "float32")[:count]
    return [draw(np, count, 30, 4), draw(np, count, 30, 3, seed=1), (boxes(np, total, seed=seed + 2, size=50.0), [lengths]),
            (crowd, [lengths]), info]


@check(L + "rpn_target_assign")
def anchors_learn_to_be_boxes(fluid, np):
    anchors = boxes(np, 30, seed=5, size=60.0) - 4

    def assigned(*numbers):
        def apply(L, said, scores, true, crowd, info):
            anchor = L.assign(anchors)
            scores = L.slice(scores, [2], [0], [1])
            return list(L.rpn_target_assign(said, scores, anchor, anchor, true, crowd, info, *numbers, use_random=False))

        return apply

    found = {}
    for name, lengths in pictures(np).items():
        given = anchored(fluid, np, lengths)
        found[name] = {
            "all": outcome(fluid, np, assigned(256, -1.0), *given), "inside": outcome(fluid, np, assigned(), *given),
            "few": outcome(fluid, np, assigned(6, 5.0, 0.5, 0.4, 0.2), *given),
            "both": outcome(fluid, np, assigned(9, -1.0, 0.75, 0.1, 0.4), *given),
        }  # fmt: skip
    return found


@check(L + "rpn_target_assign")
def anchors_are_drawn(fluid, np):
    """How many of which kind are drawn, and that each is one that may be."""
    anchors, lengths = boxes(np, 30, seed=5, size=60.0), [2, 3]
    said, scores, true, crowd, info = anchored(fluid, np, lengths)
    place = np.arange(60, dtype="float32").reshape(2, 30, 1)

    def apply(L, scores, true, crowd, info, drawn, most):
        anchor = L.assign(anchors)
        made = L.rpn_target_assign(L.expand(scores, [1, 1, 4]), scores, anchor, anchor, true, crowd, info, most, -1.0, 0.5, 0.2, 0.1, drawn)
        for part in made:
            part.stop_gradient = True
        return [made[0], made[2]]

    def drawn(drawn, most):
        made = outcome(fluid, np, lambda L, *x: apply(L, *(x + (drawn, most))), place, true, crowd, info)
        scored, labels = (v.ravel() for v in made["values"])
        return scored, labels, made["lengths"][1]

    (every, kinds, _), (some, labels, ends) = drawn(False, 1000), drawn(True, 8)
    kind = dict(zip(every.tolist(), kinds.tolist()))
    return {
        "lengths": ends, "boxes": int(labels.sum()), "apart": len(set(some.tolist())) == len(some),
        "of their kind": all(kind[s] == k for s, k in zip(some.tolist(), labels.tolist())),
    }  # fmt: skip


@check(L + "retinanet_target_assign")
def anchors_learn_classes(fluid, np):
    anchors = boxes(np, 30, seed=5, size=60.0)

    def assigned(*numbers):
        def apply(L, said, scores, true, crowd, info, labels):
            anchor = L.assign(anchors)
            return list(L.retinanet_target_assign(said, scores, anchor, anchor, true, labels, crowd, info, 3, *numbers))

        return apply

    found = {}
    for name, lengths in pictures(np).items():
        given = anchored(fluid, np, lengths, seed=3)
        labels = np.random.RandomState(1).randint(1, 4, (sum(lengths), 1)).astype("int32"), [lengths]
        found[name] = {
            "usual": outcome(fluid, np, assigned(), *given, labels), "both": outcome(fluid, np, assigned(0.2, 0.5), *given, labels),
        }  # fmt: skip
    return found


def proposed(np, lengths, few=0):
    """Regions, more than there are true boxes, classes, crowds, true boxes, and images."""
    counts = [n + 4 + few for n in lengths]
    draws = np.random.RandomState(7)
    classes = draws.randint(1, 4, (sum(lengths), 1)).astype("int32")
    crowd = draws.randint(0, 2, (sum(lengths), 1)).astype("int32")
    crowd[np.cumsum([0] + lengths[:-1])] = 0
    info = np.array([[50, 60, 1.0], [40, 55, 1.5], [60, 44, 0.5]], "float32")[: len(lengths)]
    regions = boxes(np, sum(counts), seed=8, size=45.0)
    return [(regions, [counts]), (classes, [lengths]), (crowd, [lengths]), (boxes(np, sum(lengths), seed=9, size=45.0), [lengths]), info]


@check(L + "generate_proposal_labels")
def regions_learn_classes(fluid, np):
    def labelled(**more):
        return lambda L, *x: list(L.generate_proposal_labels(*x, **dict({"class_nums": 4, "use_random": False}, **more)))

    found = {}
    for name, lengths in pictures(np).items():
        given = proposed(np, lengths)
        found[name] = {
            "usual": outcome(fluid, np, labelled(), *given),
            "few": outcome(fluid, np, labelled(batch_size_per_im=5, fg_fraction=0.5, fg_thresh=0.1, bg_thresh_lo=0.05), *given),
            "of one class": outcome(fluid, np, labelled(is_cls_agnostic=True, class_nums=2, bbox_reg_weights=[0.2, 0.1, 0.3, 0.4]), *given),
            "of a cascade": outcome(fluid, np, labelled(is_cascade_rcnn=True, fg_thresh=0.1), *given),
        }  # fmt: skip
    return found


@check(L + "generate_proposal_labels")
def regions_are_drawn(fluid, np):
    def labelled(most, drawn):
        def apply(L, *x):
            made = L.generate_proposal_labels(*x, batch_size_per_im=most, fg_fraction=0.5, fg_thresh=0.2, class_nums=4, use_random=drawn)
            return list(made[:2])

        made = outcome(fluid, np, apply, *proposed(np, [2, 3], few=8))
        return [tuple(row) for row in np.concatenate(made["values"], 1).round(3).tolist()], made["lengths"][0]

    (every, _), (some, ends) = labelled(1000, False), labelled(6, True)
    boxes_of_these = sum(row[4] > 0 for row in some)
    return {"lengths": ends, "boxes": boxes_of_these, "of all": set(some) <= set(every), "apart": len(set(some)) == len(some)}


@check(L + "generate_mask_labels")
def regions_learn_masks(fluid, np):
    def objects(lengths, digits):
        """Polygons of the objects of images of so many objects: their points, and the numbers of polygons and of points."""
        draws = np.random.RandomState(len(lengths))
        polygons = draws.randint(1, 4, sum(lengths))
        sizes, points = draws.randint(3, 7, polygons.sum()), []
        for size, middle in zip(sizes, np.repeat(draws.uniform(10, 40, (sum(lengths), 2)), polygons, 0)):
            around, far = np.sort(draws.uniform(0, 6.28, size)), draws.uniform(3, 15, size)
            points.append(middle + draws.uniform(-6, 6, 2) + np.stack([np.cos(around) * far, np.sin(around) * far], 1))
        return np.concatenate(points).round(digits).astype("float32"), [list(lengths), polygons.tolist(), sizes.tolist()]

    found = {}
    for name, (lengths, counts, digits) in {"two": ([2, 1], [3, 4], 3), "one": ([1], [5], 0), "three": ([1, 3, 2], [4, 1, 6], 1)}.items():
        total, draws = sum(counts), np.random.RandomState(3)
        info = np.array([[50, 60, 1.0], [40, 55, 1.5], [60, 44, 0.5]], "float32")[: len(lengths)]
        regions = boxes(np, total, seed=8, size=45.0).round(digits)
        labels = draws.randint(0, 3, (total, 1)).astype("int32")
        labels[np.cumsum([0] + counts[:-1])] = 0
        classes, crowd = draws.randint(1, 3, (sum(lengths), 1)).astype("int32"), draws.randint(0, 2, (sum(lengths), 1)).astype("int32")
        crowd[np.cumsum([0] + lengths[:-1])] = 0
        given = info, (classes, [lengths]), (crowd, [lengths]), objects(lengths, digits), (regions, [counts]), (labels, [counts])
        found[name] = {
            str(size): outcome(fluid, np, lambda L, *x, size=size: list(L.generate_mask_labels(*x, num_classes=3, resolution=size)), *given)
            for size in (4, 14)
        }  # fmt: skip
        given = given[:5] + ((labels * 0, [counts]),)
        found[name]["background"] = outcome(fluid, np, lambda L, *x: list(L.generate_mask_labels(*x, num_classes=2, resolution=3)), *given)
    return found
