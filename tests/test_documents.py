"""What the README, the first steps and CONTRIBUTING show is run as it stands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax import settings

ROOT = Path(__file__).parents[1]


def blocks(document: str) -> list[str]:
    """The Python blocks of a document, in order."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.DOTALL | re.M)


def run(code: str, folder: Path) -> str:
    environment = settings.child_environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:mxjax", "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("document", ["README.md", "docs/first_steps.md"])
def test_the_first_programs_run_in_a_process_of_their_own(document, tmp_path):
    out = run("\n".join(blocks(document)), tmp_path)
    accuracy = re.search(r"accuracy (\d\.\d+)", out)
    assert accuracy and float(accuracy[1]) > 0.95
    if document != "README.md":
        assert out.startswith("66.0\n[2. 4. 6.]\n")
        assert (tmp_path / "net.params").exists()


OPERATORS = """
import jax.numpy as jnp
import numpy as np
from mxjax.ops.samples import case, f
from mxjax.ops.table import FRONT_ENDS, TABLE, op, unary
for rows in (TABLE, *FRONT_ENDS.values()):  # who tries the examples out has them already
    for name in [n for n, row in rows.items() if row.name.split("@")[0] in ("symlog", "pixel_scale")]:
        del rows[name]
{}
{}
import mxjax as mx
from mxjax import autograd, nd, npx
from mxjax.array.frontend import fill
fill(vars(npx), "npx", mx.np.ndarray)  # the front ends were made when mxjax was imported
fill(vars(nd), "nd", nd.NDArray)
"""


def test_the_operators_of_contributing_pass_the_suite(tmp_path):
    """As rows of the table they are tested by what tests all rows."""
    out = run(
        f"""{OPERATORS.format(*blocks("CONTRIBUTING.md")[:2])}
import importlib.util
import pytest
tests = {str(ROOT / "tests" / "ops" / "test_table.py")!r}
spec = importlib.util.spec_from_file_location("test_table", tests)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
rows = [pytest.param(TABLE[name]) for name in ("symlog", "pixel_scale", "exp")]
module.test_bulk_and_jit_agree_with_single_calls(rows)
options = ["-q", "-p", "no:cacheprovider", "-c", {str(ROOT / "pyproject.toml")!r}]
options += ["-k", "(symlog or pixel_scale) and not bulk"]  # which is of groups that begin with any row
assert pytest.main([*options, tests]) == 0
""",
        tmp_path,
    )
    # Each of them runs and has a right gradient.
    assert re.search(r"^2 passed", out, re.M), out


def test_the_operator_and_the_layer_of_contributing_work(tmp_path):
    unary, operator, _, _, layer = blocks("CONTRIBUTING.md")
    run(
        f"""{OPERATORS.format(unary, operator)}
from mxjax.gluon import HybridBlock, Parameter
{layer}
x = np.arange(24.0, dtype="float32").reshape(2, 3, 4)
assert np.allclose(mx.npx.symlog(mx.np.array(x)).asnumpy(), np.log1p(x), rtol=1e-6)
expected = x / np.sqrt((x * x).sum(1, keepdims=True) + 1e-5)
for hybridize in (False, True):
    net = PixelScale()
    net.initialize()
    if hybridize:
        net.hybridize()
    with autograd.record():
        out = net(mx.np.array(x))
    out.backward()
    assert np.allclose(out.asnumpy(), expected, rtol=1e-5)
    assert net.scale.shape == (3,)
    assert np.allclose(net.scale.grad().asnumpy(), expected.sum((0, 2)), rtol=1e-5)
""",
        tmp_path,
    )


def test_the_form_in_onnx_of_contributing_computes_the_same(tmp_path):
    unary, operator, form, *_ = blocks("CONTRIBUTING.md")
    run(
        f"""{OPERATORS.format(unary, operator)}
from mxjax.onnx.mx2onnx.elementwise import formula
{form}
import onnxruntime
from mxjax import gluon
net = gluon.nn.HybridLambda(lambda x: mx.npx.symlog(x))
net.hybridize()
x = np.arange(-3, 3, dtype="float32")
expected = np.sign(x) * np.log1p(np.abs(x))
net(mx.np.array(x))
mx.onnx.export_model(net, in_shapes=[(6,)], onnx_file_path="net.onnx")
found, = onnxruntime.InferenceSession("net.onnx").run(None, {{"data": x}})
assert np.allclose(found, expected, rtol=1e-6)
""",
        tmp_path,
    )


@pytest.mark.parametrize("variable", [None, "5"])
def test_the_setting_of_contributing_works(variable):
    from mxjax.settings.kinds import Boolean, Integer
    from mxjax.settings.option import Legacy, Option
    from mxjax.settings.registry import Registry

    row = eval(  # the example is an expression
        blocks("CONTRIBUTING.md")[3].rstrip().rstrip(","),
        {"Option": Option, "Legacy": Legacy, "Integer": Integer, "Boolean": Boolean},
    )
    registry = Registry([row], {"MXJAX_DATA_PREFETCH": variable} if variable else {})
    assert registry.get("data.prefetch") == int(variable or 2)
    with registry.scope(enable_data_pre_proc=False):
        assert registry.get("data.prefetch") == 0


def within(steps: int, start: str = "README.md") -> dict[Path, int]:
    """The files that links lead to from a page, with how many it takes."""
    found, edge = {ROOT / start: 0}, [ROOT / start]
    for step in range(1, steps + 1):
        pages, edge = edge, []
        for page in (p for p in pages if p.suffix == ".md" and p.is_file()):
            for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", page.read_text()):
                target = (page.parent / link).resolve()
                if target not in found:
                    found[target] = step
                    edge.append(target)
    return found


@pytest.mark.parametrize(
    ("question", "file", "what"),
    [
        ("where is the price of a program decided", "mxjax/core/run/price.py", "class Prices"),
        ("and when it is paid", "mxjax/core/run/choice.py", "def buys_segment"),
        ("which numbers decide it", "mxjax/core/run/constants.py", "PAID: Annotated["),
        ("where does an operator's ONNX form stand", "mxjax/ops/columns.py", "onnx: Form"),
        ("what breaks at the next JAX", "mxjax/_jax_private.py", "NAMES = {"),
        ("how is a primitive of JAX classified", "mxjax/core/graph/primitives.py", "POINTWISE ="),
        ("how is an operator added", "CONTRIBUTING.md", "## Add an operator"),
    ],
)
def test_a_newcomer_is_there_in_three_steps(question, file, what):
    assert within(3).get(ROOT / file, 9) <= 3, question
    assert what in (ROOT / file).read_text(), question
