"""Batch normalization by the statistics of a batch that several devices share."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from mxjax import autograd, core, errors, nd
from mxjax.display.wording import worded
from mxjax.modes import generation

from ..legacy.symbols import is_symbol
from .norm import BatchNorm


def _wide(x: Any) -> Any:
    return x if x.dtype == "float64" else x.astype("float32")


def _others(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _along(v: Any, like: Any) -> Any:
    return v.reshape(1, -1, *(1,) * (like.ndim - 2))


def _parts(x: Any) -> Any:
    """Of one device's part: the mean, the sum of squared deviations from it, and how many numbers there are."""
    x = _wide(x)
    mean = x.mean(_others(x))
    deviation = jnp.square(x - _along(mean, x)).sum(_others(x))
    return mean, deviation, jnp.full((), x.size // x.shape[1], x.dtype)


def _whole(*parts: Any) -> Any:
    """Mean, variance and count of the whole batch (Chan, Golub and LeVeque 1979)."""
    means, deviations, counts = (jnp.stack(parts[k::3]) for k in range(3))
    n = counts.sum()
    counts = counts[:, None]
    mean = (counts * means).sum(0) / n
    return mean, (deviations + counts * jnp.square(means - mean)).sum(0) / n, n


def _totals(*parts: Any) -> Any:
    return tuple(sum(parts[k::2][1:], parts[k]) for k in range(2))


def _centred(x: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    scale = lax.rsqrt(var + eps)
    x = _wide(x)
    return (x - _along(mean, x)) * _along(scale, x), scale


def _normalized(x: Any, gamma: Any, beta: Any, mean: Any, var: Any, *, eps: float) -> Any:
    unit, _ = _centred(x, mean, var, eps)
    return (unit * _along(_wide(gamma), x) + _along(_wide(beta), x)).astype(x.dtype)


def _gradient_sums(dy: Any, x: Any, mean: Any, var: Any, *, eps: float) -> Any:
    unit, _ = _centred(x, mean, var, eps)
    dy = _wide(dy)
    return dy.sum(_others(x)), (dy * unit).sum(_others(x))


def _gradient(
    dy: Any, x: Any, gamma: Any, mean: Any, var: Any, n: Any, shift: Any, scale: Any, *, eps: float
) -> Any:  # fmt: skip
    unit, deviation = _centred(x, mean, var, eps)
    rest = _wide(dy) - _along(shift / n, x) - unit * _along(scale / n, x)
    return (rest * _along(_wide(gamma) * deviation, x)).astype(x.dtype)


def _moved(old: Any, new: Any, *, momentum: float) -> Any:
    return (old * momentum + new * (1 - momentum)).astype(old.dtype)


_PARTS, _WHOLE, _TOTALS, _NORMALIZED, _GRADIENT_SUMS, _GRADIENT, _MOVED = (
    core.row(f"sync{fn.__name__}", fn)
    for fn in (_parts, _whole, _totals, _normalized, _gradient_sums, _gradient, _moved)
)


def _run(row: Any, arrays: Sequence[Any], **attrs: Any) -> Any:
    """The results of a row, as arrays of the first one's kind."""
    made = core.record(row.bind(tuple(attrs.items())), [a._value() for a in arrays])
    return [type(arrays[0])._wrap(v) for v in made]


class _Meeting:
    """Arrays that each of `n` devices gives, and what a row makes of all of them, on each device.

    The results are like what was given, can be computed with at once, and have numbers when all devices have given
    theirs (`core.hooks.Deferred`).
    """

    graph = False
    patient = True
    step = core.Step()

    def __init__(self, n: int, row: Any):
        self.n = n
        self._row = row
        self._given: list[Sequence[Any]] = []
        self._results: list[list[Any]] = []
        self._lock = threading.RLock()
        self._done = False
        self._back: _Meeting | None = None
        self.before: list[tuple[Any, Any]] = []  # moving statistics, and their values before

    @property
    def full(self) -> bool:
        return self._done or len(self._given) == self.n

    @property
    def devices(self) -> list[Any]:
        return [given[0].device for given in self._given]

    def back(self) -> _Meeting:
        """Where the gradients of this meeting's results meet; each backward pass has its own."""
        with self._lock:
            if self._back is None or self._back.full:
                self._back = _Meeting(self.n, _TOTALS)
            return self._back

    def give_up(self) -> None:
        """Moving statistics become what they were: these will never have numbers."""
        for moving, value in reversed(self.before):
            moving._set(value)

    def join(self, given: Sequence[Any]) -> list[Any]:
        """Give one device's arrays; the results on that device."""
        values = [core.pending(self, a._value().aval, shared=True) for a in given]
        with self._lock:
            self._given.append(given)
            self._results.append(values)
        core.local.st.put_aside(
            values[0].aval.device
        )  # what computed them need not run before all are here
        return [type(given[0])._wrap(v) for v in values]

    def run(self) -> None:
        with self._lock:
            if self._done:
                return
            if not self.full:
                came = ", ".join(map(str, self.devices))
                raise errors.MXNetError(
                    f"SyncBatchNorm over {self.n} devices: a number is asked for that needs the parts of all of them, "
                    f"and {len(self._given)} of {self.n} came ({came}). Run the network, and backward(), on all parts "
                    "of the batch before a result is read; num_devices= says how many parts there are"
                )
            self._done = True
            try:
                home = self._given[0][0].device
                with core.apart(), autograd.pause():
                    made = _run(
                        self._row, [a.to_device(home) for given in self._given for a in given]
                    )
                    for given, values in zip(self._given, self._results, strict=True):
                        for v, a in zip(values, made, strict=True):
                            v.arr, v.seg = core.read(a.to_device(given[0].device)._value()), None
            except BaseException as error:
                core.failed(
                    [v for values in self._results for v in values if v.seg is not None], error
                )
            finally:
                self._given, self._results, self.before = [], [], []


class _Normalize(autograd.Function):
    """One device's part of a batch, normalized by the statistics of the whole."""

    _title = "SyncBatchNorm over several devices"

    def __init__(self, meeting: _Meeting, eps: float):
        self._eps = eps
        self._meeting = meeting
        self.statistics: list[Any] = []

    def forward(self, x: Any, gamma: Any, beta: Any) -> Any:
        self.statistics = self._meeting.join(_run(_PARTS, [x]))
        x, gamma = (type(a)._wrap(a._value()) for a in (x, gamma))  # what they are now
        self.save_for_backward(x, gamma)
        return _run(_NORMALIZED, [x, gamma, beta, *self.statistics[:2]], eps=self._eps)[0]

    def backward(self, dy: Any) -> Any:
        x, gamma = self.saved_tensors
        shift, scale = _run(_GRADIENT_SUMS, [dy, x, *self.statistics[:2]], eps=self._eps)
        totals = self._meeting.back().join([shift, scale])
        dx = _run(_GRADIENT, [dy, x, gamma, *self.statistics, *totals], eps=self._eps)[0]
        return [dx, scale.astype(gamma.dtype), shift.astype(gamma.dtype)]


@worded("norm")
class SyncBatchNorm(BatchNorm):
    """BatchNorm by the statistics of a batch that several devices share: inputs (N, C, ...) on each of them.

    Zhang et al. 2018, "Context Encoding for Semantic Segmentation". In training the network is run on all parts of the
    batch (`gluon.utils.split_and_load`) before a result is read: mean, variance and gradients are those of the whole.
    A hybridized network runs imperatively where it has such a layer. On a mesh (`mx.mesh`) a batch is one already,
    and any BatchNorm takes all of it.

    Args:
      num_devices: how many parts a batch has; by default the devices that the parameters are on.

    Raises:
      MXNetError: a result is read that needs a part which has not come; a part on a device that has given one
        begins a new batch. Or a gradient is differentiated again.

    >>> import mxjax as mx
    >>> net, devices = mx.gluon.nn.SyncBatchNorm(num_devices=2), [mx.cpu(0), mx.cpu(1)]
    >>> net.initialize(device=devices)
    >>> parts = mx.gluon.utils.split_and_load(mx.np.array([[1.0], [2.0], [3.0], [6.0]]), devices)
    >>> with mx.autograd.record():
    ...     outs = [net(x) for x in parts]
    >>> net.running_mean.data(devices[0]).round(4)  # the mean is 3, momentum 0.9
    array([0.3])
    """

    def __init__(
        self,
        in_channels: int = 0,
        num_devices: int | None = None,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        center: bool = True,
        scale: bool = True,
        use_global_stats: bool = False,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        running_mean_initializer: Any = "zeros",
        running_variance_initializer: Any = "ones",
        **kwargs: Any,
    ):
        if num_devices is not None and (not isinstance(num_devices, int) or num_devices < 1):
            raise errors.MXNetValueError(
                f"num_devices is how many devices share a batch, got {num_devices!r}"
            )
        super().__init__(
            1, momentum, epsilon, center, scale, use_global_stats, beta_initializer, gamma_initializer,
            running_mean_initializer, running_variance_initializer, in_channels, **kwargs,
        )  # fmt: skip
        self._num_devices = num_devices
        self._key = uuid.uuid4()  # told by MXNet 2, whose operator finds the other devices by it
        self._meeting: _Meeting | None = None

    def _told(self) -> dict[str, Any]:
        told = {k: v for k, v in self._kwargs.items() if k != "axis"}
        key = repr(self.prefix) if generation() == 1 else repr(self._key)
        return {**told, "ndev": self._num_devices or 1, "key": key}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_meeting": None}

    def forward(self, x: Any) -> Any:
        if is_symbol(x):
            return self._of_symbol(x)
        device = x.device
        gamma, beta = self.gamma.data(device), self.beta.data(device)
        n = self._num_devices or len(self.gamma.list_device())
        whole = type(x._value().aval.device) is core.MeshDevice
        if n == 1 or whole or not autograd.is_training() or self._kwargs["use_global_stats"]:
            return super().forward(x)
        if core.is_recording():
            x.wait_to_read()  # no graph: in the midst of it others would have to come
        meeting = self._meets(device, n)
        rule = _Normalize(meeting, self._kwargs["eps"])
        out = rule(x, gamma, beta)
        with autograd.pause():
            for p, now in zip((self.running_mean, self.running_var), rule.statistics, strict=False):
                moving = p.data(device)
                meeting.before.append((moving, moving._value()))
                moving._set(
                    _run(_MOVED, [moving, now], momentum=self._kwargs["momentum"])[0]._value()
                )
        return out

    def _of_symbol(self, x: Any) -> Any:
        given = [p.data() for p in (self.gamma, self.beta, self.running_mean, self.running_var)]
        known = {k: v for k, v in self._kwargs.items() if k != "axis"}
        compose: Any = nd.contrib.SyncBatchNorm
        return compose(x, *given, ndev=self._num_devices or 1, key=self.prefix, **known)

    def _meets(self, device: Any, n: int) -> _Meeting:
        """The meeting that a device's part of the batch joins."""
        with _lock:
            meeting = self._meeting
            if (
                meeting is not None
                and not meeting.full
                and (device in meeting.devices or meeting.n != n)
            ):
                meeting.give_up()  # a batch that not all devices got: a new one begins
                meeting = None
            if meeting is None or meeting.full:
                meeting = self._meeting = _Meeting(n, _WHOLE)
            return meeting


_lock = threading.Lock()
