"""Blocks of a user's own, with parameters and states: read by type checkers, not run."""

from typing import assert_type

from mxjax import gluon, np, npx
from mxjax.gluon import nn


class Attention(nn.HybridBlock):
    def __init__(self, units: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.keys = nn.Dense(units, flatten=False)
        self.values = nn.Dense(units, flatten=False)
        self.scale = gluon.Parameter("scale", shape=(1,), init="ones")

    def forward(self, x: np.ndarray) -> np.ndarray:
        keys, values = self.keys(x), self.values(x)
        assert_type(keys, np.ndarray)
        scores = npx.softmax(np.matmul(keys, np.swapaxes(keys, 1, 2)) * self.scale.data(), axis=-1)
        return np.matmul(scores, values)


class Two(nn.Block):
    def __init__(self) -> None:
        super().__init__()
        self.first = Attention(8)
        self.second = nn.LayerNorm()

    def forward(self, x: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        out = self.second(x * mask)
        assert_type(out, np.ndarray)
        return out, mask


def parameters(net: nn.Block) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, parameter in net.collect_params().items():
        assert_type(name, str)
        assert_type(parameter, gluon.Parameter)
        found[name] = parameter.data().shape
    net.save_parameters("net.params")
    net.load_parameters("net.params", allow_missing=True)
    return found
