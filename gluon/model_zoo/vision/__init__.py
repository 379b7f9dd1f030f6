"""Networks for images: AlexNet, DenseNet, Inception, MobileNet, ResNet, SqueezeNet, VGG, ViT.

Images are (N, 3, H, W), normalized by means 0.485, 0.456, 0.406 and deviations 0.229, 0.224, 0.225.

>>> from mxjax.gluon.model_zoo import vision
>>> net = vision.get_model("mobilenet0.25", classes=10)
>>> len(net.collect_params())
137
"""

from __future__ import annotations

from typing import Any

from .. import names, transformers
from . import densenet, inception, mobilenet, resnet, squeezenet, vgg
from .alexnet import AlexNet, alexnet
from .densenet import DenseNet, densenet121, densenet161, densenet169, densenet201
from .inception import Inception3, inception_v3
from .mobilenet import (
    MobileNet,
    MobileNetV2,
    get_mobilenet,
    get_mobilenet_v2,
    mobilenet0_5,
    mobilenet0_25,
    mobilenet0_75,
    mobilenet1_0,
    mobilenet_v2_0_5,
    mobilenet_v2_0_25,
    mobilenet_v2_0_75,
    mobilenet_v2_1_0,
)
from .resnet import (
    BasicBlockV1,
    BasicBlockV2,
    BottleneckV1,
    BottleneckV1b,
    BottleneckV2,
    ResNetV1,
    ResNetV2,
    get_resnet,
    resnet18_v1,
    resnet18_v2,
    resnet34_v1,
    resnet34_v2,
    resnet50_v1,
    resnet50_v1b,
    resnet50_v2,
    resnet101_v1,
    resnet101_v1b,
    resnet101_v2,
    resnet152_v1,
    resnet152_v1b,
    resnet152_v2,
)
from .squeezenet import SqueezeNet, squeezenet1_0, squeezenet1_1
from .vgg import VGG, get_vgg, vgg11, vgg11_bn, vgg13, vgg13_bn, vgg16, vgg16_bn, vgg19, vgg19_bn

__all__ = [
    "AlexNet", "alexnet", "DenseNet", "densenet121", "densenet161", "densenet169", "densenet201", "Inception3",
    "inception_v3", "MobileNet", "MobileNetV2", "get_mobilenet", "get_mobilenet_v2", "mobilenet0_5", "mobilenet0_25",
    "mobilenet0_75", "mobilenet1_0", "mobilenet_v2_0_5", "mobilenet_v2_0_25", "mobilenet_v2_0_75", "mobilenet_v2_1_0",
    "BasicBlockV1", "BasicBlockV2", "BottleneckV1", "BottleneckV2", "ResNetV1", "ResNetV2", "get_resnet",
    "resnet18_v1", "resnet18_v2", "resnet34_v1", "resnet34_v2", "resnet50_v1", "resnet50_v2", "resnet101_v1",
    "resnet101_v2", "resnet152_v1", "resnet152_v2", "BottleneckV1b", "resnet50_v1b", "resnet101_v1b", "resnet152_v1b",
    "SqueezeNet", "squeezenet1_0", "squeezenet1_1", "VGG", "get_vgg",
    "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19", "vgg19_bn", "get_model", "densenet",
    "inception", "mobilenet", "resnet", "squeezenet", "vgg",
]  # fmt: skip

_MODELS = {
    **{
        f"resnet{n}_v{v}": globals()[f"resnet{n}_v{v}"]
        for n in (18, 34, 50, 101, 152)
        for v in (1, 2)
    },
    **{f"resnet{n}_v1b": globals()[f"resnet{n}_v1b"] for n in (50, 101, 152)},
    **{f"vgg{n}{bn}": globals()[f"vgg{n}{bn}"] for n in (11, 13, 16, 19) for bn in ("", "_bn")},
    **{f"densenet{n}": globals()[f"densenet{n}"] for n in (121, 161, 169, 201)},
    **{
        f"mobilenet{w}": globals()[f"mobilenet{w.replace('.', '_')}"]
        for w in ("1.0", "0.75", "0.5", "0.25")
    },
    **{
        f"mobilenetv2_{w}": globals()[f"mobilenet_v2_{w.replace('.', '_')}"]
        for w in ("1.0", "0.75", "0.5", "0.25")
    },
    "alexnet": alexnet,
    "inceptionv3": inception_v3,
    "squeezenet1.0": squeezenet1_0,
    "squeezenet1.1": squeezenet1_1,
    **{name: getattr(transformers, name) for name in ("vit_b_16", "vit_b_32", "vit_l_16")},
}


def get_model(name: str, **kwargs: Any) -> Any:
    """A network by its name, such as "resnet50_v1" or "mobilenetv2_1.0".

    Args:
      name: see the message for an unknown one.
      classes: of the output.
      pretrained: True: the published weights; a path, `hf://owner/name/file` or `owner/name` (its `model.safetensors`):
        those of a file, PyTorch's too where the networks agree layer by layer: torchvision's resnet18, VGG, DenseNet,
        resnet50 as `resnet50_v1b`, and ViT of torchvision, timm and Hugging Face.
      device: where the weights are.
      root: the folder of published files.

    Returns:
      HybridBlock: the network, with weights if they were asked for.

    Raises:
      ValueError: there is no such network.
    """
    return names.constructor(name, _MODELS)(**kwargs)
