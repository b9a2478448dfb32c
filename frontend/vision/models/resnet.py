"""ResNet (He and others, 2015), ResNeXt (Xie and others, 2016) and wide ResNet (Zagoruyko and Komodakis, 2016), as Paddle has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polyreme.math.manipulation import flatten
from polyreme.nn import AdaptiveAvgPool2D, BatchNorm2D, Conv2D, Layer, Linear, MaxPool2D, ReLU, Sequential
from polyreme.tensor import Tensor
from polyreme.vision.models.blocks import refuse_pretrained

__all__ = [
    "ResNet", "resnet101", "resnet152", "resnet18", "resnet34", "resnet50", "resnext101_32x4d", "resnext101_64x4d", "resnext152_32x4d",
    "resnext152_64x4d",
    "resnext50_32x4d", "resnext50_64x4d", "wide_resnet101_2", "wide_resnet50_2",
]  # fmt: skip

# By depth: how many blocks each of the four stages has.
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class BasicBlock(Layer):
    """Two 3 x 3 convolutions, to which the input is added, through `downsample` where there is one: [N, inplanes, h, w] to [N, planes,
    ...].
    """

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: Any = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., Layer] | None = None,
    ):
        super().__init__()
        if dilation > 1:
            raise NotImplementedError(f"BasicBlock expected a dilation of 1 but got {dilation}; BottleneckBlock takes others")
        norm = BatchNorm2D if norm_layer is None else norm_layer
        self.conv1 = Conv2D(inplanes, planes, 3, padding=1, stride=stride, bias_attr=False)
        self.bn1 = norm(planes)
        self.relu = ReLU()
        self.conv2 = Conv2D(planes, planes, 3, padding=1, bias_attr=False)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        added: Tensor = self.relu(out + (x if self.downsample is None else self.downsample(x)))
        return added


class BottleneckBlock(Layer):
    """A 1 x 1, a 3 x 3 and a 1 x 1 convolution, to which the input is added: [N, inplanes, h, w] to [N, 4 * planes, ...]."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: Any = 1,
        downsample: Layer | None = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Callable[..., Layer] | None = None,
    ):
        super().__init__()
        norm = BatchNorm2D if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = Conv2D(inplanes, width, 1, bias_attr=False)
        self.bn1 = norm(width)
        self.conv2 = Conv2D(width, width, 3, padding=dilation, stride=stride, groups=groups, dilation=dilation, bias_attr=False)
        self.bn2 = norm(width)
        self.conv3 = Conv2D(width, planes * self.expansion, 1, bias_attr=False)
        self.bn3 = norm(planes * self.expansion)
        self.relu = ReLU()
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        added: Tensor = self.relu(out + (x if self.downsample is None else self.downsample(x)))
        return added


class ResNet(Layer):
    """Scores [N, num_classes] for images [N, 3, H, W]; with `num_classes` 0 or less the features, averaged over the image unless
    `with_pool` is False.

    `depth` is 18, 34, 50, 101 or 152; `width` and `groups` are those of the 3 x 3 convolutions of `BottleneckBlock`.
    """

    def __init__(
        self,
        block: type[BasicBlock] | type[BottleneckBlock],
        depth: int = 50,
        width: int = 64,
        num_classes: int = 1000,
        with_pool: bool = True,
        groups: int = 1,
    ):
        super().__init__()
        if depth not in STAGES:
            raise ValueError(f"ResNet expected a depth of {', '.join(map(str, STAGES))} but got {depth}")
        self.groups = groups
        self.base_width = width
        self.num_classes = num_classes
        self.with_pool = with_pool
        self.inplanes = 64
        self.conv1 = Conv2D(3, self.inplanes, kernel_size=7, stride=2, padding=3, bias_attr=False)
        self.bn1 = BatchNorm2D(self.inplanes)
        self.relu = ReLU()
        self.maxpool = MaxPool2D(kernel_size=3, stride=2, padding=1)
        first, second, third, fourth = STAGES[depth]
        self.layer1 = self._stage(block, 64, first, 1)
        self.layer2 = self._stage(block, 128, second, 2)
        self.layer3 = self._stage(block, 256, third, 2)
        self.layer4 = self._stage(block, 512, fourth, 2)
        if with_pool:
            self.avgpool = AdaptiveAvgPool2D((1, 1))
        if num_classes > 0:
            self.fc = Linear(512 * block.expansion, num_classes)

    def _stage(self, block: type[BasicBlock] | type[BottleneckBlock], planes: int, blocks: int, stride: int) -> Sequential:
        """`blocks` blocks, the first of which changes the size and the number of channels."""
        outputs = planes * block.expansion
        downsample = None
        if stride != 1 or self.inplanes != outputs:
            downsample = Sequential(Conv2D(self.inplanes, outputs, 1, stride=stride, bias_attr=False), BatchNorm2D(outputs))
        layers = [block(self.inplanes, planes, stride, downsample, self.groups, self.base_width)]
        self.inplanes = outputs
        layers += [block(outputs, planes, groups=self.groups, base_width=self.base_width) for _ in range(1, blocks)]
        return Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        if self.with_pool:
            x = self.avgpool(x)
        if self.num_classes > 0:
            x = self.fc(flatten(x, 1))
        return x


def _resnet(name: str, depth: int, pretrained: bool, options: dict[str, Any]) -> ResNet:
    refuse_pretrained(pretrained, name)
    return ResNet(BasicBlock if depth < 50 else BottleneckBlock, depth, **options)


def resnet18(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 18 layers; keyword arguments go to `ResNet`."""
    return _resnet("resnet18", 18, pretrained, kwargs)


def resnet34(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 34 layers; keyword arguments go to `ResNet`."""
    return _resnet("resnet34", 34, pretrained, kwargs)


def resnet50(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers; keyword arguments go to `ResNet`."""
    return _resnet("resnet50", 50, pretrained, kwargs)


def resnet101(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers; keyword arguments go to `ResNet`."""
    return _resnet("resnet101", 101, pretrained, kwargs)


def resnet152(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 152 layers; keyword arguments go to `ResNet`."""
    return _resnet("resnet152", 152, pretrained, kwargs)


def resnext50_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers with 32 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext50_32x4d", 50, pretrained, kwargs | {"groups": 32, "width": 4})


def resnext50_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 50 layers with 64 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext50_64x4d", 50, pretrained, kwargs | {"groups": 64, "width": 4})


def resnext101_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers with 32 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext101_32x4d", 101, pretrained, kwargs | {"groups": 32, "width": 4})


def resnext101_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 101 layers with 64 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext101_64x4d", 101, pretrained, kwargs | {"groups": 64, "width": 4})


def resnext152_32x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers with 32 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext152_32x4d", 152, pretrained, kwargs | {"groups": 32, "width": 4})


def resnext152_64x4d(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNeXt of 152 layers with 64 groups of 4 channels; keyword arguments go to `ResNet`."""
    return _resnet("resnext152_64x4d", 152, pretrained, kwargs | {"groups": 64, "width": 4})


def wide_resnet50_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 50 layers, its 3 x 3 convolutions twice as wide; keyword arguments go to `ResNet`."""
    return _resnet("wide_resnet50_2", 50, pretrained, kwargs | {"width": 128})


def wide_resnet101_2(pretrained: bool = False, **kwargs: Any) -> ResNet:
    """ResNet of 101 layers, its 3 x 3 convolutions twice as wide; keyword arguments go to `ResNet`."""
    return _resnet("wide_resnet101_2", 101, pretrained, kwargs | {"width": 128})
