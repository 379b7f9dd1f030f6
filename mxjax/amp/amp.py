"""Switching mixed precision on, and the scaled loss of a training step."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from mxjax import core, nd
from mxjax.errors import MXNetAssertionError, MXNetTypeError, no_name
from mxjax.optimizer import Optimizer

from . import operators
from .loss_scaler import LossScaler

__all__ = [
    "bfloat16",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "scale_loss",
    "unscale",
]

bfloat16 = jnp.dtype("bfloat16")  # the element type, under MXNet's name

_log = logging.getLogger("mxjax.amp")


class _State:
    """Whether mixed precision is on, and the scaler that the first trainer gets."""

    dtype: str | None = None
    scaler: LossScaler | None = None
    given_away = False
    functions: ClassVar[dict[str, Any]] = {}


def target(dtype: Any) -> str:
    """``'float16'`` or ``'bfloat16'``.

    Raises:
      AssertionError: it is another dtype.
    """
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    if name not in ("float16", "bfloat16"):
        raise MXNetAssertionError(
            f"AMP supports the target_dtype float16 or bfloat16, got {dtype!r}"
        )
    return name


def init(
    target_dtype: Any = "float16", target_precision_ops: Sequence[str] | None = None,
    conditional_fp32_ops: operators.Conditions | None = None, fp32_ops: Sequence[str] | None = None,
    layout_optimization: bool = False,
) -> None:  # fmt: skip
    """Let operators compute in mixed precision from now on, in the whole process.

    Products and convolutions take float32 arrays rounded and give rounded results; what needs the range or the
    digits (sums, powers, normalisations, losses) is computed in float32. Under bfloat16 softmax and normalisations give
    the dtype of their data, which halves what is kept for the backward pass.

    Args:
      target_dtype: ``'float16'`` or ``'bfloat16'``; bfloat16 has float32's range, so that it needs no scaled loss.
      target_precision_ops: registry names of the operators that compute in it, in place of `list_lp16_ops`.
      conditional_fp32_ops: (operator, attribute, values) that compute in float32, in place of
        `list_conditional_fp32_ops`.
      fp32_ops: those that always do, in place of `list_fp32_ops`.
      layout_optimization: accepted; images lie as is quickest in any case (the setting `compiler.layout`).

    Raises:
      AssertionError: another dtype.
      MXNetError: a list names an operator that there is not.
      ValueError: an operator is on two lists.

    A second call changes nothing, as in MXNet.
    """
    if _State.dtype is not None:
        return
    dtype = target(target_dtype)
    operators.apply(dtype, operators.lists(target_precision_ops, fp32_ops, conditional_fp32_ops))
    _State.dtype, _State.scaler, _State.given_away = dtype, LossScaler(), False
    for name in operators.losses():
        _State.functions[name] = getattr(nd, name)
        setattr(nd, name, _scaling(_State.functions[name], _State.scaler))
    _log.info("Using AMP: %s", dtype)


def end() -> None:
    """Compute in the arrays' own dtypes again, as if `init` had not been called."""
    operators.restore()
    for name, function in _State.functions.items():
        setattr(nd, name, function)
    _State.functions.clear()
    _State.dtype = _State.scaler = None


def _scaling(function: Callable[..., Any], scaler: LossScaler) -> Callable[..., Any]:
    """An output of mx.nd whose own gradient is a loss's, with the scale in it."""

    @functools.wraps(function)
    def output(data: Any, *args: Any, **kwargs: Any) -> Any:
        if core.is_recording():
            _log.warning(
                "%s does not support dynamic loss scaling in symbolic and hybridized execution.",
                function.__name__,
            )
            return function(data, *args, **kwargs)
        return function(scaler.scaling_gradient(data), *args, **kwargs)

    return output


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Let a `gluon.Trainer` scale its losses dynamically (`scale_loss`).

    Args:
      optimizer_or_trainer: the optimizer, or the trainer, whose gradients are scaled.

    Raises:
      AssertionError: `init` was not called, or the kvstore updates the weights, which cannot leave a step out.
      TypeError: it is no trainer.
    """
    if _State.dtype is None:
        raise MXNetAssertionError("AMP not initialized, did you forget to call amp.init()?")
    trainer = _trainer(optimizer_or_trainer)
    scaler = LossScaler() if _State.given_away or _State.scaler is None else _State.scaler
    _State.given_away = True
    trainer.scale_losses_by(scaler)


def _trainer(given: Any) -> Any:
    if isinstance(given, Optimizer):
        raise MXNetTypeError(
            "AMP is currently only compatible with Gluon Trainer: give it the trainer"
        )
    if not hasattr(given, "scale_losses_by"):
        raise MXNetTypeError(
            f"optimizer_or_trainer should be a Gluon Trainer, instead is {type(given).__name__}"
        )
    return given


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """The loss, or the losses, times the trainer's scale; its next step divides the gradients by it.

    A step whose gradients overflow changes no weight and halves the scale. That is decided in the program of the
    step, so that nothing is read; a schedule of learning rates counts such steps.

    Args:
      loss: the loss, or a list of losses.
      optimizer_or_trainer: the optimizer, or the trainer, whose gradients are scaled.

    Returns:
      context manager: gives the loss times the scale.

    Raises:
      AssertionError: `init_trainer` was not called with this trainer.

    >>> import mxjax as mx
    >>> net = mx.gluon.nn.Dense(1, in_units=2)
    >>> net.initialize()
    >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> trainer.scale_losses_by(mx.amp.LossScaler())
    >>> with mx.autograd.record():
    ...     loss = net(mx.np.ones((4, 2))).sum()
    ...     with mx.amp.scale_loss(loss, trainer) as scaled:
    ...         scaled.backward()
    >>> trainer.step(4)
    >>> trainer.amp_loss_scale
    65536.0
    """
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise MXNetAssertionError(
            "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
        )
    optimizer_or_trainer._amp_scaled = True
    several = isinstance(loss, (list, tuple))
    yield [scaler.scaled(one) for one in loss] if several else scaler.scaled(loss)


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the trainer's gradients by the scale now, to look at them or to clip them before the step.

    Args:
      optimizer_or_trainer: the optimizer, or the trainer, whose gradients are scaled.

    Raises:
      TypeError: it is no trainer.
    """
    trainer = _trainer(optimizer_or_trainer)
    scaler = trainer._amp_loss_scaler
    if scaler is None or not trainer._amp_scaled:
        return
    for param in trainer._params:
        for grad in param.list_grad() if param.grad_req != "null" else ():
            scaler.unscale(grad)
    trainer._amp_scaled = False


# -- the lists -------------------------------------------------------------------------------------------


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """The operators, by registry names, that compute in low precision.

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of str: the operators.

    >>> "Convolution" in list_lp16_ops("bfloat16")
    True
    """
    target(target_dtype)
    return operators.named("low")


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that compute in float32.

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of str: the operators.
    """
    target(target_dtype)
    return operators.named("full")


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that compute in what they are given.

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of str: the operators.
    """
    target(target_dtype)
    return operators.named(None)


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """The operators that compute in float32 on a condition: (operator, attribute, values of it).

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of (operator, attribute, values).
    """
    target(target_dtype)
    return operators.conditional()


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """The operators that take all their arrays in the widest of their dtypes.

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of str: the operators.
    """
    target(target_dtype)
    return operators.named("widest")


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """The outputs whose gradient is that of a loss: the scale goes into their `grad_scale`.

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      list of str: the operators.
    """
    target(target_dtype)
    return operators.losses()


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """The arrays that stay float32 beside rounded ones, by operator; None where MXNet has no such list (float16).

    Args:
      target_dtype: the narrow dtype, "float16" or "bfloat16".

    Returns:
      dict: by operator which parameters stay in float32.
    """
    from .lists.symbol_bf16 import BF16_USE_FP32_PARAMS

    return None if target(target_dtype) == "float16" else BF16_USE_FP32_PARAMS


#: The state under MXNet's names.
_OF_MXNET: dict[str, Callable[[], Any]] = {
    "_amp_initialized": lambda: _State.dtype is not None,
    "_amp_loss_scale_initialized": lambda: _State.given_away,
    "_loss_scaler": lambda: _State.scaler,
    "float_types_cpu": lambda: (bfloat16, np.float32),
    "float_types_gpu": lambda: (np.float16, np.float32),
}


def __getattr__(name: str) -> Any:
    if name in _OF_MXNET:
        return _OF_MXNET[name]()
    raise no_name(__name__, name)
