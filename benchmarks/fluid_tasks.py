"""What `benchmarks.fluid_layers` times, and its workers: `python -m benchmarks.fluid_tasks LIBRARY`.

Python 3.8 must be able to read this file, since no later one has Paddle 1.8.5.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from benchmarks.processes import answer

PATTERNS = 4  # lengths of sequences, which take turns
SEQUENCES, LONGEST = 32, 60


def _lengths(pattern):
    return np.random.RandomState(pattern).randint(1, LONGEST + 1, SEQUENCES).tolist()


def _rows(lengths, columns, seed):
    return np.random.RandomState(seed).uniform(-1, 1, (sum(lengths), columns)).astype("float32"), [lengths]


def _boxes(draws, *shape):
    low, extent = draws.uniform(0, 500, shape + (2,)), draws.uniform(5, 120, shape + (2,))
    return np.concatenate([low, low + extent], -1).astype("float32")


def _words(columns, labels=0):
    """Feeds of sequences: rows of this many columns, and labels below a number."""
    feeds = []
    for pattern in range(PATTERNS):
        lengths = _lengths(pattern)
        feeds.append({"x": _rows(lengths, columns, pattern)})
        if labels:
            feeds[-1]["y"] = np.random.RandomState(pattern).randint(0, labels, (sum(lengths), 1)).astype("int64"), [lengths]
    return feeds


def _many_boxes():
    draws = np.random.RandomState(0)
    return [{"boxes": _boxes(draws, 1, 8000), "scores": draws.uniform(0, 1, (1, 20, 8000)).astype("float32") ** 4}]


def _regions():
    draws = np.random.RandomState(0)
    return [{"x": draws.uniform(-1, 1, (1, 256, 50, 50)).astype("float32"), "regions": (_boxes(draws, 300), [[300]])}]


ANCHORS = [10, 13, 16, 30, 33, 23, 30, 61, 62, 45, 59, 119, 116, 90, 156, 198, 373, 326]


def _grids():
    draws = np.random.RandomState(0)
    # Boxes of different places: of several at one place Paddle's gradient is that of the last one.
    cells = np.stack([draws.permutation(19 * 19)[:50] for _ in range(8)])
    middles = (np.stack([cells % 19, cells // 19], -1) + draws.uniform(0.1, 0.9, (8, 50, 2))) / 19
    truth = np.concatenate([middles, draws.uniform(0.05, 0.4, (8, 50, 2))], -1).astype("float32")
    said = draws.uniform(-1, 1, (8, 255, 19, 19)).astype("float32")
    return [{"x": said, "boxes": truth, "labels": draws.randint(0, 80, (8, 50)).astype("int32")}]


# --- programs, which Paddle 1.8.5 and this project both run


def _lstm(layers, x):
    return layers.dynamic_lstm(x, 512)[0]


def _windows(layers, x):
    return layers.sequence_pool(layers.sequence_conv(x, 128, 3, act="tanh"), "max")


def _field(layers, x, y):
    import importlib

    fluid = importlib.import_module(layers.__name__.rpartition(".")[0])
    return layers.linear_chain_crf(x, y, fluid.ParamAttr(name="transitions"))


def _chosen(layers, boxes, scores):
    return layers.multiclass_nms(boxes, scores, 0.05, 400, 200, 0.45, background_label=-1)


def _aligned(layers, x, regions):
    return layers.roi_align(x, regions, 7, 7, 1.0 / 16, 2)


def _yolo(layers, x, boxes, labels):
    return layers.yolov3_loss(x, boxes, labels, ANCHORS, [6, 7, 8], 80, 0.7, 32)


# By name: the function, what is fed, and whether its gradients are computed, too.
TASKS = {
    "dynamic_lstm of 128": (_lstm, lambda: _words(512), False),
    "dynamic_lstm of 128 and its gradients": (_lstm, lambda: _words(512), True),
    "sequence_conv and sequence_pool of 128": (_windows, lambda: _words(128), False),
    "sequence_conv and sequence_pool of 128 and their gradients": (_windows, lambda: _words(128), True),
    "linear_chain_crf of 25 labels": (_field, lambda: _words(25, 25), False),
    "linear_chain_crf of 25 labels and its gradients": (_field, lambda: _words(25, 25), True),
    "multiclass_nms of 8,000 boxes, 20 classes": (_chosen, _many_boxes, False),
    "roi_align of 300 regions, 256 channels": (_aligned, _regions, False),
    "roi_align of 300 regions, 256 channels, and its gradients": (_aligned, _regions, True),
    "yolov3_loss of 8 images": (_yolo, _grids, False),
    "yolov3_loss of 8 images and its gradients": (_yolo, _grids, True),
}


class Program:
    """A function as a program of `fluid`, ready to run on feeds that take turns."""

    def __init__(self, fluid, function, feeds, trains):
        self.fluid, self.turn = fluid, 0
        self.main, startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            given = []
            for name, value in feeds[0].items():
                array, lengths = value if isinstance(value, tuple) else (value, [])
                given.append(fluid.layers.data(name, list(array.shape[1:]), dtype=str(array.dtype), lod_level=len(lengths)))
                given[-1].stop_gradient = array.dtype.kind != "f"
            made = function(fluid.layers, *given)
            self.fetched = [made]
            if trains:
                learned = [v for v in given[:1] if not v.stop_gradient] + self.main.global_block().all_parameters()
                self.fetched += fluid.gradients(fluid.layers.reduce_sum(made), learned)
        self.executor = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(self.scope):
            self.executor.run(startup)
            draws = np.random.RandomState(0)
            for parameter in sorted(self.main.global_block().all_parameters(), key=lambda p: p.name):
                tensor = self.scope.find_var(parameter.name).get_tensor()
                tensor.set(draws.uniform(-0.1, 0.1, np.array(tensor).shape).astype("float32"), fluid.CPUPlace())
        self.feeds = [{name: self._fed(value) for name, value in feed.items()} for feed in feeds]

    def _fed(self, value):
        if not isinstance(value, tuple):
            return value
        return self.fluid.create_lod_tensor(value[0], value[1], self.fluid.CPUPlace())

    def __call__(self):
        feed = self.feeds[self.turn % len(self.feeds)]
        self.turn += 1
        with self.fluid.scope_guard(self.scope):
            return self.executor.run(self.main, feed=feed, fetch_list=self.fetched, return_numpy=False)


def in_paddle_3(paddle):
    """What Paddle 3.3.1 has of these, run at once."""

    def nms(boxes, scores):
        return [paddle._C_ops.multiclass_nms3(boxes, scores, None, 0.05, 400, 200, 0.45, True, 1.0, -1)[0]]

    def aligned(x, regions):
        count = paddle.to_tensor(np.array([regions.shape[0]], "int32"))
        return [paddle.vision.ops.roi_align(x, regions, count, 7, 1.0 / 16, 2, aligned=False)]

    def yolo(x, boxes, labels):
        return [paddle.vision.ops.yolo_loss(x, boxes, labels, ANCHORS, [6, 7, 8], 80, 0.7, 32)]

    return {_chosen: nms, _aligned: aligned, _yolo: yolo}


class AtOnce:
    """A function of Paddle 3, whose gradients are those of its first input."""

    def __init__(self, paddle, function, feeds, trains):
        self.paddle, self.function, self.trains = paddle, function, trains
        self.given = [paddle.to_tensor(value[0] if isinstance(value, tuple) else value) for value in feeds[0].values()]
        self.given[0].stop_gradient = not trains

    def __call__(self):
        made = self.function(*self.given)
        if self.trains:
            made += self.paddle.grad(made[0].sum(), [self.given[0]])
        return [m.numpy() for m in made]


def prepared(library, task):
    """The call of a task, or None where the library has it not."""
    function, feeds, trains = TASKS[task]
    if library == "paddle 3.3.1":
        import paddle

        known = in_paddle_3(paddle)
        return AtOnce(paddle, known[function], feeds(), trains) if function in known else None
    if library == "polyreme":
        from polyreme import fluid
    else:
        import paddle.fluid as fluid
    return Program(fluid, function, feeds(), trains)


def timed(call, seconds):
    """Seconds of the processor per call, for about `seconds`."""
    found, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(found) < PATTERNS:
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return found


def main(library):
    """A worker."""
    calls = {}

    def handle(request):
        task = request["task"]
        if request["do"] == "prepare":
            calls.clear()
            call = prepared(library, task)
            if call is None:
                return {"sums": None}
            calls[task] = call
            # Sums of squares, of all results for all feeds: what they are to agree in.
            return {"sums": [[float((np.array(m).astype("float64") ** 2).sum()) for m in call()] for _ in range(PATTERNS)]}
        return {"seconds": timed(calls[task], request["seconds"])}

    answer(handle)


if __name__ == "__main__":
    main(sys.argv[1])
