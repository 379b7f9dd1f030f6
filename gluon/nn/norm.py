"""Normalization layers."""

from __future__ import annotations

from typing import Any

from mxjax import errors, npx
from mxjax.display.wording import worded
from mxjax.modes import generation

from ..graphs.shapes import infer
from ..layer import Layer
from ..parameter import Parameter


class _Affine(Layer):
    """A normalization with a scale ``gamma`` and a shift ``beta`` along one axis."""

    def _affine(self, scale: bool, center: bool, gamma: Any, beta: Any, n: int) -> None:
        self.gamma = Parameter(
            "gamma",
            grad_req="write" if scale else "null",
            shape=(n,),
            init=gamma,
            allow_deferred_init=True,
            differentiable=scale,
        )
        self.beta = Parameter(
            "beta",
            grad_req="write" if center else "null",
            shape=(n,),
            init=beta,
            allow_deferred_init=True,
            differentiable=center,
        )

    def _describe(self, **attrs: Any) -> str:
        attrs["center"] = self.beta.grad_req != "null"
        attrs["scale"] = self.gamma.grad_req != "null"
        if "num_groups" not in attrs or generation() == 2:
            attrs["in_channels"] = (self.gamma.shape or (-1,))[0]
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in attrs.items())})"


def _channels(layer: Any) -> int | None:
    """How many channels a layer's text says it has: None in MXNet 1 where that is not known yet."""
    n: int = (layer.gamma.shape or (-1,))[0]
    return n or None if generation() == 1 else n


@worded("norm")
class BatchNorm(_Affine):
    """Normalizes each channel over the batch in training, and by moving statistics in prediction.

    Ioffe and Szegedy 2015. ``axis`` is the channel axis; ``momentum`` is that of the moving statistics.
    """

    _operator_is_fwd = True
    _relu = False

    @property
    def fuse_relu(self) -> bool:
        """Whether ReLU follows."""
        return self._relu

    running_mean: Parameter
    running_var: Parameter

    def __init__(
        self,
        axis: int = 1,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        in_channels: int = 0,
    ):
        super().__init__()
        self._axis = axis
        self._kwargs: dict[str, Any] = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self._affine(scale, center, gamma_initializer, beta_initializer, in_channels)
        for name, init in (
            ("running_mean", running_mean_initializer),
            ("running_var", running_variance_initializer),
        ):
            p = Parameter(
                name,
                grad_req="null",
                shape=(in_channels,),
                init=init,
                allow_deferred_init=True,
                differentiable=False,
            )
            setattr(self, name, p)

    def infer_shape(self, x: Any, *args: Any) -> None:
        infer(self, "batch_norm", x.shape, **self._kwargs)

    def cast(self, dtype: Any) -> None:
        """Statistics and parameters stay in float32 where the data is narrower."""
        super().cast("float32" if str(dtype) in ("float16", "bfloat16") else dtype)

    def forward(self, x: Any) -> Any:
        d = x.device
        out = npx.batch_norm(
            x,
            self.gamma.data(d),
            self.beta.data(d),
            self.running_mean.data(d),
            self.running_var.data(d),
            **self._kwargs,
        )
        return npx.relu(out) if self._relu else out

    def _told(self) -> dict[str, Any]:
        """What its repr shows, but for the channels."""
        return self._kwargs

    def __repr__(self) -> str:
        text = ", ".join(
            f"{k}={v}" for k, v in {**self._told(), "in_channels": _channels(self)}.items()
        )
        return f"{type(self).__name__}({text})"


class BatchNormReLU(BatchNorm):
    """BatchNorm followed by ReLU; XLA fuses both.

    Args:
      axis: the axis of the channels.
      momentum: how much of the former direction, or statistic, is kept.
      epsilon: what is added to a denominator, against a division by zero.
      center: whether beta is added.
      scale: whether the result is multiplied by gamma.
      use_global_stats: whether the running statistics are used in training, too.
      beta_initializer: fills beta.
      gamma_initializer: fills gamma.
      running_mean_initializer: fills the running mean.
      running_variance_initializer: fills the running variance.
      in_channels: the number of input channels; found at the first call if it is 0.
    """

    _relu = True


@worded("norm")
class LayerNorm(_Affine):
    """Normalizes along one axis of each sample. Ba, Kiros and Hinton 2016.

    Args:
      axis: the axis that is normalised.
    """

    def __init__(
        self,
        axis: int = -1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
    ):
        super().__init__()
        self._axis, self._epsilon, self._center, self._scale = axis, epsilon, center, scale
        self._kwargs: dict[str, Any] = {
            "eps": epsilon,
            "axis": axis,
            "center": center,
            "scale": scale,
        }  # what MXNet's text shows
        self._affine(scale, center, gamma_initializer, beta_initializer, in_channels)

    def _set_epsilon(self, epsilon: float) -> None:
        self._epsilon = self._kwargs["eps"] = epsilon

    def infer_shape(self, x: Any, *args: Any) -> None:
        infer(self, "layer_norm", x.shape, axis=self._axis)

    def forward(self, x: Any) -> Any:
        d = x.device
        gamma, beta = self.gamma.data(d), self.beta.data(d)
        try:
            return npx.layer_norm(x, gamma, beta, axis=self._axis, eps=self._epsilon)
        except errors.MXNetTypeError:
            self.infer_shape(x)  # says which length was expected
            raise

    def __repr__(self) -> str:
        return self._describe(eps=self._epsilon, axis=self._axis)


@worded("norm")
class GroupNorm(_Affine):
    """Normalizes groups of channels of each sample: (N, C, ...). Wu and He 2018.

    As in MXNet 2, each channel has its own scale and shift; in programs of MXNet 1.9 each group has.

    Args:
      num_groups: the number of groups of channels.
    """

    def __init__(
        self,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
    ):
        super().__init__()
        self._num_groups, self._epsilon, self._center, self._scale = (
            num_groups,
            epsilon,
            center,
            scale,
        )
        self._kwargs = {"eps": epsilon, "num_groups": num_groups, "center": center, "scale": scale}
        n = num_groups if generation() == 1 else in_channels
        self._affine(scale, center, gamma_initializer, beta_initializer, n)

    def infer_shape(self, x: Any, *args: Any) -> None:
        infer(self, "group_norm", x.shape, num_groups=self._num_groups)

    def forward(self, x: Any) -> Any:
        d = x.device
        return npx.group_norm(
            x, self.gamma.data(d), self.beta.data(d), num_groups=self._num_groups, eps=self._epsilon
        )

    def __repr__(self) -> str:
        return self._describe(eps=self._epsilon, num_groups=self._num_groups)


@worded("norm")
class InstanceNorm(_Affine):
    """Normalizes each channel of each sample by itself. Ulyanov et al. 2016."""

    _operator_is_fwd = True

    def __init__(
        self,
        axis: int = 1,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        in_channels: int = 0,
    ):
        super().__init__()
        self._axis, self._epsilon = axis, epsilon
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._affine(scale, center, gamma_initializer, beta_initializer, in_channels)

    def infer_shape(self, x: Any, *args: Any) -> None:
        shape = list(x.shape)
        shape[1], shape[self._axis] = shape[self._axis], shape[1]  # as the array is turned below
        infer(self, "instance_norm", tuple(shape))

    def forward(self, x: Any) -> Any:
        d = x.device
        gamma, beta = self.gamma.data(d), self.beta.data(d)
        if self._axis == 1:
            return npx.instance_norm(x, gamma, beta, eps=self._epsilon)
        moved = x.swapaxes(1, self._axis)
        return npx.instance_norm(moved, gamma, beta, eps=self._epsilon).swapaxes(1, self._axis)

    def __repr__(self) -> str:
        return self._describe(eps=self._epsilon, axis=self._axis)
