"""Arrays for Pillow and for PyTorch's converters, and tensors of PyTorch as arrays."""

import subprocess
import sys
import warnings

import ml_dtypes
import numpy as onp
import pytest

import mxjax as mx
from mxjax import np


class Tensor:
    """What a tensor of PyTorch is to others: `__array__` knows no `copy`, and refuses tensors with a history."""

    def __init__(self, data, dtype=None, history=False):
        self._data, self.dtype, self._history = onp.asarray(data), dtype, history

    shape = property(lambda self: self._data.shape)

    def __len__(self):
        return len(self._data)

    def __array__(self, dtype=None):
        if self._history:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
            )
        return self._data

    numpy = __array__

    def detach(self):
        return Tensor(self._data, self.dtype)

    def cpu(self):
        return self

    def float(self):
        return Tensor(self._data.astype("float32"))


@pytest.mark.parametrize("make", [np.array, np.asarray, mx.nd.array])
@pytest.mark.parametrize("history", [False, True])
def test_tensors_become_arrays_without_a_warning(make, history):
    data = onp.arange(6, dtype="float32").reshape(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = make(Tensor(data, history=history))
    onp.testing.assert_array_equal(x.asnumpy(), data)
    data[:] = 0  # a copy
    assert x.sum().item() == 15


def test_tensors_among_arguments():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = np.zeros((2, 3))
        x[0] = Tensor([1.0, 2.0, 3.0])
        assert (x + Tensor(onp.ones((2, 3), "f"))).sum().item() == 12
        assert np.array([Tensor([1.0]), Tensor([2.0], history=True)]).tolist() == [[1.0], [2.0]]
        assert np.array(Tensor([7], None), dtype="int64").dtype == "int64"
    half = np.array(Tensor(onp.array([1.5]), "torch.bfloat16"), dtype=ml_dtypes.bfloat16)
    assert half.dtype == ml_dtypes.bfloat16 and half.astype("float32").item() == 1.5


def test_the_real_ones():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array(torch.ones(3, requires_grad=True)).sum().item() == 3
        assert np.array(torch.ones(3, dtype=torch.bfloat16)).sum().item() == 3


# PyTorch's function as it is: it names what it takes.
CONVERTS = """
import numpy as np

def make_np(x):
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")
"""
SUMMARY = """
from ._convert_np import make_np

class SummaryWriter:
    def add_scalar(self, tag, value):
        return float(make_np(value).squeeze())
"""


@pytest.mark.parametrize("first", ["mxjax", "torch.utils.tensorboard"])
def test_a_summary_writer_takes_arrays(first, tmp_path):
    folder = tmp_path / "torch" / "utils" / "tensorboard"
    folder.mkdir(parents=True)
    for at in (folder, folder.parent, folder.parent.parent):
        (at / "__init__.py").write_text(
            "from .summary import SummaryWriter\n" if at is folder else ""
        )
    (folder / "_convert_np.py").write_text(CONVERTS)
    (folder / "summary.py").write_text(SUMMARY)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {first}, mxjax as mx\n"
        "from torch.utils.tensorboard import SummaryWriter\n"
        "add = SummaryWriter().add_scalar\n"
        "print(add('a', mx.np.array(1.5)), add('a', mx.nd.array([2.5])), add('a', 3))\n"
        "try: add('a', object())\n"
        "except NotImplementedError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[0] == "1.5 2.5 3.0"
    assert "numpy array or torch tensor are expected" in run.stdout


@pytest.mark.parametrize("make", [np.array, mx.nd.array])
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (5, 4, 4)])
def test_pillow_makes_pictures_of_arrays(make, shape):
    image = pytest.importorskip("PIL.Image")
    pixels = onp.random.RandomState(0).randint(0, 256, shape).astype("uint8")
    x = make(pixels, dtype="uint8")
    picture = image.fromarray(x)
    onp.testing.assert_array_equal(onp.asarray(picture), pixels)
    onp.testing.assert_array_equal(onp.asarray(image.fromarray(x[1:, ::2])), pixels[1:, ::2])
    assert image.fromarray(make(onp.ones((2, 2), "float32"))).mode == "F"


def test_numpy_keeps_its_own_way_to_the_numbers():
    x = np.arange(3)
    assert not hasattr(x, "__array_interface__")
    host = onp.asarray(x)
    host[0] = 7  # a copy of one's own
    assert x[0].item() == 0
    assert not onp.asarray(x, copy=False).flags.writeable
    assert x.tobytes() == onp.arange(3, dtype="float32").tobytes()
