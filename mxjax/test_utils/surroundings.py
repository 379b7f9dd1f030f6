"""Devices, files and streams around a test."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import settings
from ..errors import MXNetTypeError, MXNetValueError
from ..io import DataIter


def default_device() -> Any:
    """The device that tests run on: the current one."""
    from ..device import current_device

    return current_device()


def set_default_device(device: Any) -> None:
    """Make `device` the current device of this thread, until it is set again."""
    device.__enter__()


default_context = default_device


def set_default_context(ctx: Any) -> None:
    """`set_default_device` under its name in 1.x."""
    set_default_device(ctx)


def list_gpus() -> range:
    """The numbers of the GPUs here."""
    from ..device import num_gpus

    return range(num_gpus())


def download(
    url: str,
    fname: str | None = None,
    dirname: str | None = None,
    overwrite: bool = False,
    retries: int = 5,
) -> str:
    """Fetch a URL into a folder; gives the file's path. See `gluon.utils.download`."""
    from ..files.downloading import download as fetch
    from ..files.downloading import name_in

    path = fname or name_in(url)
    if dirname is not None:
        os.makedirs(dirname, exist_ok=True)
        path = os.path.join(dirname, path)
    return fetch(url, path=path, overwrite=overwrite, retries=retries)


def get_mnist(path: str = "data") -> dict[str, np.ndarray]:
    """MNIST as four NumPy arrays: images (N, 1, 28, 28) of 0 ... 1 in float32, labels in int8.

    The files are looked for in `path`, see `gluon.data.vision.MNIST`.
    """
    from ..gluon.data.vision import MNIST

    found = {}
    for name, train in (("train", True), ("test", False)):
        dataset = MNIST(root=path, train=train)
        images = dataset._data.asnumpy().reshape(-1, 1, 28, 28)
        found[f"{name}_data"] = images.astype(np.float32) / 255
        found[f"{name}_label"] = np.asarray(dataset._label).astype(np.int8)
    return found


@contextlib.contextmanager
def discard_stderr() -> Iterator[None]:
    """Send what is written to the standard error stream, by compiled code too, nowhere."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


@contextlib.contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Set environment variables for a `with` block: `environment(name, value)` or `environment({name: value})`.

    None removes a variable. Settings that are read again at each use (`mx.config.describe()`) follow it.

    >>> from mxjax import util
    >>> with environment("SOMETHING", "1"):
    ...     util.getenv("SOMETHING")
    '1'
    """
    if len(args) == 1 and isinstance(args[0], dict):
        wanted = args[0]
    elif len(args) == 2:
        wanted = {args[0]: args[1]}
    else:
        raise MXNetTypeError(
            f"environment takes a dict, or a name and a value, got {len(args)} arguments"
        )
    before = {name: settings.variable(name) for name in wanted}
    try:
        for name, value in wanted.items():
            settings.set_variable(name, value)
        yield
    finally:
        for name, value in before.items():
            settings.set_variable(name, value)


def retry(n: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of tests of random numbers: up to `n` attempts, of which one must raise no AssertionError."""
    if n <= 0:
        raise MXNetValueError(f"n must be positive, got {n}")

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def attempt(*args: Any, **kwargs: Any) -> None:
            for left in reversed(range(n)):
                try:
                    return test(*args, **kwargs)
                except AssertionError:
                    if not left:
                        raise
            return None

        return attempt

    return decorate


def is_aarch64_run() -> bool:
    """Whether this is a 64-bit ARM processor under Linux."""
    return platform.machine() == "aarch64"


class DummyIter(DataIter):
    """An iterator that gives the first batch of another for ever, so that loading takes no time."""

    def __init__(self, real_iter: Any):
        super().__init__()
        self.real_iter = real_iter
        self.provide_data = real_iter.provide_data
        self.provide_label = real_iter.provide_label
        self.batch_size = real_iter.batch_size
        self.the_batch = next(real_iter)

    def next(self) -> Any:
        return self.the_batch


def is_cd_run() -> bool:
    """Whether MXNet's own release machinery runs the tests: never."""
    return False


def has_tvm_ops() -> bool:
    """Whether there are operators compiled by TVM: never."""
    return False


def is_op_runnable() -> bool:
    """Whether operators written for this machine's GPUs can run: always."""
    return True
