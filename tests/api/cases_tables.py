"""Tables that are read with `sparse=True`: their gradients are the rows that were read, and optimizers step as on such."""

from tests.api.table import caught, check

OPT = "paddle.optimizer."
NAMES = ("paddle.nn.Embedding", "paddle.nn.functional.embedding")
# Rows that repeat, that come in any order, and that nobody reads; those of SORTED are the only ones that Paddle's Momentum and RMSProp
# find all: a binary search over rows that nobody has put in order.
MIXED = [[1, 3, 3], [7, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]
# Of each batch the last row of the table: where that is not read, Paddle's Adam without `lazy_mode` looks at a position behind those that
# were, whatever is there.
ENDED = [[1, 8, 8], [7, 8, 3], [5, 5, 8], [0, 8, 7], [8, 1, 8]]
SORTED = [[1, 2, 3], [0, 2, 3], [5, 5, 1], [0, 2, 7], [1, 1, 1]]


def model(paddle, np, padding=None, lookups=1, whole=False, attr=None, dtype="float32"):
    draws = np.random.RandomState(0)

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.table = paddle.nn.Embedding(9, 2, sparse=True, padding_idx=padding, weight_attr=attr, dtype=dtype)
            self.table.weight.set_value(draws.uniform(-1, 1, (9, 2)).astype(dtype))
            self.out = self.create_parameter([2, 1], dtype=dtype)
            self.out.set_value(draws.uniform(-1, 1, (2, 1)).astype(dtype))

        def forward(self, ids, y):
            read = self.table(ids[0])
            for i in range(1, lookups):
                read = read + self.table(ids[i])
            loss = ((paddle.matmul(read, self.out) - y) ** 2).mean()
            return loss + (self.table.weight ** 2).sum() * 0.1 if whole else loss

    return Net(), draws


def batch(paddle, np, draws, ids, lookups=2, dtype="float32"):
    several = np.stack([np.array(ids[i:] + ids[:i], "int64") % (9 - i) for i in range(lookups)])
    return paddle.to_tensor(several), paddle.to_tensor(draws.uniform(-1, 1, (3, 1)).astype(dtype))


def trained(paddle, np, make, batches=MIXED, compiled=False, dtype="float32", **options):
    """Losses, weights and the optimizer's state after five steps, and whether the gradient was rows."""
    net, draws = model(paddle, np, dtype=dtype, **options)
    optimizer = make(list(net.parameters()))
    run = paddle.jit.to_static(net, full_graph=True) if compiled else net
    losses, kinds = [], []
    for ids in batches:
        loss = run(*batch(paddle, np, draws, ids, dtype=dtype))
        loss.backward()
        kinds.append(net.table.weight.grad.is_selected_rows())
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.detach())
    state = optimizer.state_dict()
    kept = [state[name] for name in sorted(state, key=lambda name: name.replace("create_parameter", "net")) if name != "LR_Scheduler"]
    return [losses, net.table.weight.detach(), net.out.detach(), kept, kinds]


@check(OPT + "Adam", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def adam_corrects_the_moments_of_tables_as_after_one_step_more(paddle, np, rng):
    adam = lambda **more: lambda p: paddle.optimizer.Adam(0.1, parameters=p, **more)  # noqa: E731
    several = {"two lookups": {"lookups": 2}, "padded": {"padding": 3}, "whole, too": {"whole": True}}
    found = {name: trained(paddle, np, adam(), ENDED, **options) for name, options in several.items()}
    found |= {str(more): trained(paddle, np, adam(**more), ENDED) for more in ({}, {"beta1": 0.8, "epsilon": 1e-3}, {"amsgrad": True})}
    return found


@check(OPT + "Adam", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def lazy_adam_moves_only_rows_that_were_read(paddle, np, rng):
    adam = lambda **more: lambda p: paddle.optimizer.Adam(0.1, parameters=p, lazy_mode=True, **more)  # noqa: E731
    found = {name: trained(paddle, np, adam(), **{name: value}) for name, value in (("lookups", 2), ("padding", 3), ("whole", True))}
    found["amsgrad"] = trained(paddle, np, adam(amsgrad=True))
    found["float64"] = trained(paddle, np, adam(beta2=0.9), dtype="float64")
    found["decay"] = trained(paddle, np, lambda p: adam_by_decay(paddle, p))
    return found


def adam_by_decay(paddle, parameters):
    class Stepped(paddle.optimizer.Adam):
        def step(self):
            super().step()
            self._learning_rate.step()

    return Stepped(paddle.optimizer.lr.ExponentialDecay(0.1, 0.5), parameters=parameters, lazy_mode=True)


@check(OPT + "SGD", OPT + "Adagrad", OPT + "Lamb", OPT + "Rprop", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def other_optimizers_of_tables(paddle, np, rng):
    """The row of `padding_idx` reads as zeros, and its gradient is that of what was read."""
    found = {}
    for name in ("SGD", "Adagrad", "Lamb", "Rprop"):
        make = lambda p: getattr(paddle.optimizer, name)(0.1, parameters=p)  # noqa: B023, E731
        found[name] = [trained(paddle, np, make, padding=3), trained(paddle, np, make, lookups=2)]
    return found


@check(OPT + "Momentum", OPT + "RMSProp", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def moments_of_sorted_tables(paddle, np, rng):
    o = paddle.optimizer
    return [
        trained(paddle, np, lambda p: o.Momentum(0.1, 0.9, p, use_nesterov=True), SORTED),
        trained(paddle, np, lambda p: o.Momentum(0.1, 0.9, p, weight_decay=0.1), SORTED),
        trained(paddle, np, lambda p: o.RMSProp(0.1, parameters=p, centered=True, momentum=0.5), SORTED),
        trained(paddle, np, lambda p: o.RMSProp(0.1, parameters=p), MIXED, lookups=2),
    ]


@check("paddle.nn.ClipGradByGlobalNorm", "paddle.nn.ClipGradByNorm", *NAMES, rtol=5e-5, atol=5e-6, traits=("float32",))
def clips_of_tables(paddle, np, rng):
    lazy = lambda clip: lambda p: paddle.optimizer.Adam(0.1, epsilon=1e-3, parameters=p, lazy_mode=True, grad_clip=clip)  # noqa: E731
    return [
        trained(paddle, np, lazy(paddle.nn.ClipGradByGlobalNorm(0.05)), padding=3),
        trained(paddle, np, lazy(paddle.nn.ClipGradByNorm(0.05))),
        trained(paddle, np, lambda p: paddle.optimizer.SGD(0.1, p, grad_clip=paddle.nn.ClipGradByNorm(0.05)), lookups=2),
    ]


@check(OPT + "Adam", "paddle.regularizer.L2Decay", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def penalties_of_tables_give_all_rows_a_gradient(paddle, np, rng):
    """But Adam refuses a penalty of its own in `step()`."""
    o, penalty = paddle.optimizer, paddle.regularizer.L2Decay(0.1)
    own = paddle.ParamAttr(regularizer=penalty)
    return [
        trained(paddle, np, lambda p: o.Adam(0.1, parameters=p), attr=own),
        trained(paddle, np, lambda p: o.Adam(0.1, parameters=[{"params": p, "weight_decay": 0.1}])),
        trained(paddle, np, lambda p: o.SGD(0.1, p, weight_decay=paddle.regularizer.L1Decay(0.1))),
        trained(paddle, np, lambda p: o.Adagrad(0.1, parameters=p, weight_decay=0.1), padding=3),
        caught(lambda: trained(paddle, np, lambda p: o.Adam(0.1, parameters=p, weight_decay=0.1))),
    ]


@check(OPT + "Adam", "paddle.jit.to_static", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def compiled_functions_have_whole_gradients_of_tables(paddle, np, rng):
    o = paddle.optimizer
    return [
        trained(paddle, np, lambda p: o.Adam(0.1, parameters=p, lazy_mode=True), compiled=True, padding=3),
        trained(paddle, np, lambda p: o.Adam(0.1, parameters=p, weight_decay=0.1), compiled=True),
        trained(paddle, np, lambda p: o.AdamW(0.1, parameters=p), compiled=True),
        trained(paddle, np, lambda p: o.Momentum(0.1, 0.9, p), compiled=True),
    ]


def seen(gradient):
    dense = bool(gradient.is_dense())
    return [gradient.numpy(), list(gradient.shape), bool(gradient.is_selected_rows()), dense, [] if dense else gradient.rows()]


@check("paddle.grad", *NAMES, traits=("float32", "gradient"))
def gradients_of_tables_are_rows(paddle, np, rng):
    values = np.arange(10, dtype="float32").reshape(5, 2)

    def table(**options):
        made = paddle.nn.Embedding(5, 2, sparse=True, **options)
        made.weight.set_value(values)
        return made

    square = lambda t, *ids: (t(paddle.to_tensor(np.array(ids, "int64"))) ** 2).sum()  # noqa: E731
    found, hooked = {}, []
    once = table()
    square(once, 3, 1, 3).backward()
    found["once"] = seen(once.weight.grad)
    found["gradient()"] = list(once.weight.gradient())
    found["shown"] = repr(once.weight.grad)
    found["times a number"] = [seen(once.weight.grad * 2), seen(0.5 * once.weight.grad), seen(once.weight.grad + 1)]
    found["detached"] = seen(once.weight.grad.detach())
    square(once, 1, 0).backward()
    found["twice"] = seen(once.weight.grad)
    (once.weight * 2).sum().backward()
    found["and whole"] = seen(once.weight.grad)
    two = table()
    (square(two, 1, 3, 1) + square(two, 2, 4, 2)).backward()
    found["two lookups"] = seen(two.weight.grad)
    two.weight.clear_gradient()
    found["cleared"] = two.weight.grad is None
    square(two, 0).backward()
    found["after that"] = seen(two.weight.grad)
    mixed = table()
    (square(mixed, 1, 3) + (paddle.nn.functional.embedding(paddle.to_tensor([1, 0]), mixed.weight) ** 2).sum()).backward()
    found["sparse and not"] = seen(mixed.weight.grad)
    padded = table(padding_idx=3)
    padded(paddle.to_tensor([1, 3, 3])).sum().backward()
    found["padded"] = seen(padded.weight.grad)
    with_hook = table()
    with_hook.weight.register_hook(lambda g: hooked.append(seen(g)))
    with_hook.weight.register_hook(lambda g: g * 3)
    square(with_hook, 2, 2, 0).backward()
    found["hooked"] = [hooked, seen(with_hook.weight.grad)]
    by_grad = table()
    found["paddle.grad"] = seen(paddle.grad(square(by_grad, 2, 0, 2), [by_grad.weight])[0])
    found["and left alone"] = by_grad.weight.grad is None
    with paddle.no_grad():
        found["no_grad"] = square(by_grad, 1).stop_gradient
    empty = table()
    square(empty).backward()
    found["nothing read"] = seen(empty.weight.grad)[1:]
    return found


@check(OPT + "Adam.state_dict", OPT + "Adam.set_state_dict", *NAMES, rtol=2e-5, atol=1e-6, traits=("float32",))
def training_of_tables_goes_on_from_a_state(paddle, np, rng):
    """Three steps, and two by another optimizer with the state of the first."""
    net, draws = model(paddle, np)
    make = lambda: paddle.optimizer.Adam(0.1, parameters=list(net.parameters()), lazy_mode=True)  # noqa: E731
    optimizer = make()
    for i, ids in enumerate(MIXED):
        if i == 3:
            state = {name: value.numpy() for name, value in optimizer.state_dict().items()}
            optimizer = make()
            optimizer.set_state_dict({name[:-1] + "1": paddle.to_tensor(value) for name, value in state.items()})  # as it calls its own
        net(*batch(paddle, np, draws, ids)).backward()
        optimizer.step()
        optimizer.clear_grad()
    return net.table.weight
