"""`paddle.summary` and `paddle.flops` beyond what the recorded cases compare with Paddle."""

import pytest

import polyreme as paddle


def small() -> paddle.nn.Layer:
    return paddle.nn.Sequential(paddle.nn.Linear(4, 3), paddle.nn.BatchNorm2D(2), paddle.nn.ReLU())


def test_a_summary_leaves_modes_of_layers_and_hooks_as_they_were(capsys: pytest.CaptureFixture[str]) -> None:
    net = small()
    net[1].eval()
    paddle.summary(net, (1, 2, 3, 4))
    paddle.flops(net, [1, 2, 3, 4])
    assert net.training and net[0].training and not net[1].training
    assert not any(layer._forward_post_hooks for layer in net.sublayers(include_self=True)) and not hasattr(net[0], "total_ops")
    assert "Linear-" in capsys.readouterr().out


def test_a_compiled_network_has_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    net = small()
    expected = paddle.summary(net, (1, 2, 3, 4)), capsys.readouterr().out, paddle.flops(net, [1, 2, 3, 4])
    capsys.readouterr()
    paddle.jit.to_static(net)
    net(paddle.ones([1, 2, 3, 4]))
    capsys.readouterr()
    assert (paddle.summary(net, (1, 2, 3, 4)), capsys.readouterr().out, paddle.flops(net, [1, 2, 3, 4])) == expected


def test_a_network_that_fails_keeps_no_hooks() -> None:
    net = small()
    with pytest.raises(ValueError):
        paddle.summary(net, (1, 2, 3, 5))
    with pytest.raises(ValueError):
        paddle.flops(net, [1, 2, 3, 5])
    assert net.training and not any(layer._forward_post_hooks for layer in net.sublayers(include_self=True))
    assert not hasattr(net[0], "total_ops")


def test_flops_says_that_it_wants_a_layer() -> None:
    with pytest.raises(TypeError, match="expected a Layer but got Program"):
        paddle.flops(paddle.static.Program(), [1])
