"""Uses an installed mxjax from outside its tree, and holds the wheel against the tree.

python smoke.py ROOT
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import mxjax as mx
from mxjax.port import tables

WINGS = ("gluon", "memonger", "kvstore", "profiler")


def modules(folder: Path) -> set[str]:
    """The files of a package that an installation must have, as paths in the package."""
    return {
        path.relative_to(folder).as_posix()
        for pattern in ("*.py", "*.pyi", "py.typed")
        for path in folder.rglob(pattern)
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }


def same_files(root: Path, installed: Path) -> None:
    """The wheel holds every module of the tree and no other."""
    expected = {name for name in modules(root / "mxjax") if name.split("/")[0] not in WINGS}
    for wing in WINGS:
        expected |= {f"{wing}/{name}" for name in modules(root / wing)}
    found = modules(installed)
    assert found == expected, sorted(found ^ expected)


def only_one_name() -> None:
    """Nothing but `mxjax` became importable."""
    for name in (*WINGS, "tests", "tools", "benchmarks"):
        assert importlib.util.find_spec(name) is None, f"a top-level {name!r} is importable"


def the_other_name() -> None:
    """mxjax-as-mxnet: `import mxnet` in another process is mxjax."""
    code = "import mxnet.gluon, mxjax; assert mxnet is mxjax and mxnet.gluon is mxjax.gluon; print(mxnet.__version__)"
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert told == "2.0.0\n", told


def train() -> None:
    """A few steps of a small network: the loss falls."""
    from mxjax import autograd, gluon

    mx.random.seed(1)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    data = mx.np.random.normal(size=(64, 4))
    label = (data[:, 0] > 0).astype("int32")
    losses = []
    for _ in range(20):
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(64)
        losses.append(float(loss.mean()))
    assert losses[-1] < 0.5 * losses[0], losses


def main() -> None:
    root = Path(sys.argv[1])
    installed = Path(mx.__file__).parent
    assert root not in installed.parents, f"{installed} is the tree, not the wheel"
    same_files(root, installed)
    only_one_name()
    train()
    the_other_name()
    assert tables.exclusions() and tables.differences()  # the documents came along
    print(f"the wheel works: mxjax {mx.__version__} in {installed}")


if __name__ == "__main__":
    main()
