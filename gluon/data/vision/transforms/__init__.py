"""Transforms of images, as blocks: for datasets, and for use inside networks."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxjax import np as mxnp
from mxjax.array.at_once import converted, happens
from mxjax.errors import MXNetTypeError, MXNetValueError
from mxjax.errors import explain_names as _explain_names

from ....block import Block
from ....hybrid_block import HybridBlock
from ....nn import HybridSequential, Sequential
from .image import (
    AtOnce,
    CenterCrop,
    CropResize,
    Normalize,
    OfImages,
    RandomBrightness,
    RandomColorJitter,
    RandomContrast,
    RandomCrop,
    RandomFlipLeftRight,
    RandomFlipTopBottom,
    RandomGray,
    RandomHue,
    RandomLighting,
    RandomResizedCrop,
    RandomSaturation,
    Resize,
    ToTensor,
    with_rest,
)

__all__ = [
    "Cast",
    "CenterCrop",
    "Compose",
    "CropResize",
    "HybridCompose",
    "HybridRandomApply",
    "Normalize",
    "RandomApply",
    "RandomBrightness",
    "RandomColorJitter",
    "RandomContrast",
    "RandomCrop",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomGray",
    "RandomHue",
    "RandomLighting",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSaturation",
    "Resize",
    "Rotate",
    "ToTensor",
]


class Compose(OfImages, Sequential):
    """Several transforms, one after the other; neighbours that are HybridBlocks run as one.

    Args:
      transforms: the transforms, one after the other.

    >>> import mxjax as mx
    >>> transform = Compose([Resize(8), ToTensor(), Normalize(0.5, 0.5)])
    >>> transform(mx.np.zeros((6, 5, 3), dtype='uint8')).shape
    (3, 8, 8)
    """

    whole_batches = "if all parts do"

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        neighbours: list[Block] = []
        for transform in [*transforms, None]:
            if isinstance(transform, HybridBlock):
                neighbours.append(transform)
                continue
            if len(neighbours) == 1:
                self.add(neighbours[0])
            elif neighbours:
                self.add(Neighbours(neighbours))
            neighbours = []
            if transform is not None:
                self.add(transform)


class HybridCompose(OfImages, HybridSequential):
    """`Compose` of HybridBlocks alone, which is one itself.

    Args:
      transforms: the transforms, one after the other.

    Raises:
      MXNetTypeError: a transform is no HybridBlock.
    """

    whole_batches = "if all parts do"

    def __init__(self, transforms: Sequence[Block]) -> None:
        super().__init__()
        for transform in transforms:
            if not isinstance(transform, HybridBlock):
                raise MXNetTypeError(
                    f"HybridCompose takes HybridBlocks, got {type(transform).__name__}; Compose "
                    "takes any Block"
                )
            self.add(transform)
        self.hybridize()


class Neighbours(HybridCompose):
    """The HybridBlocks that stand side by side in a `Compose`: a HybridSequential to whoever prints it, as in MXNet."""

    whole_batches = HybridCompose.whole_batches

    def __repr__(self) -> str:
        return "HybridSequential" + super().__repr__().removeprefix(type(self).__name__)


class Cast(AtOnce, HybridBlock):
    """Converts its inputs to a dtype.

    One input gives one array, as MXNet 1.x and the documentation have it (2.0 gives a tuple of it).

    Args:
      dtype: the dtype of the result.

    >>> import mxjax as mx
    >>> Cast('float16')(mx.np.ones((2,))).dtype
    dtype('float16')
    """

    whole_batches = True

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__()
        self._dtype = dtype

    def forward(self, *args: Any) -> Any:
        return with_rest(*(converted(x, self._dtype) for x in args))


class Rotate(Block):
    """Turns images (C, H, W) or (N, C, H, W) in float32 about their middles.

    Args:
      rotation_degrees: one angle, or one for each image.
      zoom_in: whether the image becomes larger so that no corner is empty.
      zoom_out: whether the image becomes smaller so that no corner is lost.

    Raises:
      TypeError: another dtype: `ToTensor` comes first.
    """

    def __init__(
        self, rotation_degrees: Any, zoom_in: bool = False, zoom_out: bool = False
    ) -> None:
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def forward(self, x: Any, *args: Any) -> Any:
        from mxjax.image import imrotate

        return with_rest(imrotate(_floats(x), *self._args), *args)


class RandomRotation(Block):
    """`Rotate` by angles between two limits, drawn by `numpy.random`, with a probability.

    Args:
      angle_limits: (lowest, highest), in degrees.
      zoom_in, zoom_out: as in `Rotate`.
      rotate_with_proba: how often an image is turned.
    """

    def __init__(
        self,
        angle_limits: tuple[float, float],
        zoom_in: bool = False,
        zoom_out: bool = False,
        rotate_with_proba: float = 1.0,
    ) -> None:
        super().__init__()
        lower, upper = angle_limits
        if lower >= upper:
            raise MXNetValueError(f"`angle_limits` must be an ordered tuple, got {angle_limits}")
        if not 0 <= rotate_with_proba <= 1:
            raise MXNetValueError(
                f"Probability of rotating the image should be between 0 and 1, got {rotate_with_proba}"
            )
        self._args = (angle_limits, zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def forward(self, x: Any, *args: Any) -> Any:
        from mxjax.image import random_rotate

        if np.random.random() > self._rotate_with_proba:
            return with_rest(x, *args)
        return with_rest(random_rotate(_floats(x), *self._args), *args)


def _floats(x: Any) -> Any:
    if np.dtype(x.dtype) != np.float32:
        raise MXNetTypeError(
            f"This transformation only supports float32. Consider calling it after ToTensor, given: {x.dtype}"
        )
    return x


class RandomApply(OfImages, Sequential):
    """Applies a transform with probability `p`, which Python's generator decides.

    Args:
      transforms: the transforms, one after the other.
      p: the probability that it happens.
    """

    def __init__(self, transforms: Block, p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        if self.p < random.random():
            return with_rest(x, *args)
        return with_rest(self.transforms(x), *args)


class HybridRandomApply(OfImages, HybridSequential):
    """Applies a HybridBlock that keeps shape and dtype with probability `p`, anew at each call.

    Args:
      transforms: the transforms, one after the other.
      p: the probability that it happens.
    """

    def __init__(self, transforms: HybridBlock, p: float = 0.5) -> None:
        super().__init__()
        if not isinstance(transforms, HybridBlock):
            raise MXNetTypeError(
                f"HybridRandomApply takes a HybridBlock, got {type(transforms).__name__}; "
                "RandomApply takes any Block"
            )
        self.transforms = transforms
        self.p = p

    def forward(self, x: Any, *args: Any) -> Any:
        happened = happens(x, self.p)
        if happened is not None:
            changed = self.transforms(
                x
            )  # in either case, as in a graph: what is drawn later stays the same
            return with_rest(changed if happened else x, *args)
        chosen = mxnp.random.uniform(0.0, 1.0, (1,)) < self.p
        return with_rest(mxnp.where(chosen, self.transforms(x), x), *args)


_explain_names(__name__)
