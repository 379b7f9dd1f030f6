"""The help of operators: every parameter has words, and every example gives what it says, in every front end."""

import doctest
import inspect
import pickle
import re

import numpy as onp
import pytest

import mxjax as mx
from mxjax.array.classes import NDArray, ndarray
from mxjax.ops import TABLE, help

FRONTS = {
    "np": "np np.random np.linalg",
    "npx": "npx npx.random npx.image",
    "nd": "nd nd.random nd.linalg nd.image nd.contrib",
    "sym": "sym sym.random sym.linalg sym.contrib sym.image",
    "sym.np": "sym.np sym.np.random sym.np.linalg sym.npx sym.npx.random sym.npx.image",
}
CLASSES = {"methods of np": [ndarray], "methods of nd": [NDArray]}


def found(path):
    module = mx
    for part in path.split("."):
        module = getattr(module, part)
    return module


def functions(where):
    """The generated functions of a front end, or the generated methods of arrays."""
    if where == "methods of sym":
        owners = [mx.sym.Symbol, mx.sym.np._Symbol]
    else:
        owners = CLASSES.get(where) or [found(path) for path in FRONTS[where].split()]
    for owner in owners:
        for name in getattr(owner, "__all__", None) or vars(owner):
            value = getattr(owner, name)
            if inspect.isfunction(value) and isinstance(
                getattr(value, "__signature__", None), help.Signature
            ):
                yield f"{owner.__name__}.{name}", value


class Checker(doctest.OutputChecker):
    """What is printed, but for the last digits of floats, which differ between processors."""

    NUMBER = re.compile(r"-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)")

    def check_output(self, want, got, flags):
        if want == got:
            return True
        shapes = [re.sub(r"\s+", "", self.NUMBER.sub("#", text)) for text in (want, got)]
        numbers = [onp.array(self.NUMBER.findall(text), "float64") for text in (want, got)]
        return shapes[0] == shapes[1] and onp.allclose(
            *numbers, rtol=1e-4, atol=1e-6, equal_nan=True
        )


@pytest.mark.parametrize("where", [*FRONTS, *CLASSES, "methods of sym"])
def test_examples_run(where):
    runner = doctest.DocTestRunner(checker=Checker(), verbose=False)
    done, report = set(), []
    for name, function in functions(where):
        assert ">>> " in function.__doc__, name
        example = function.__doc__[function.__doc__.index(">>> ") :]
        if example not in done:
            done.add(example)
            runner.run(
                doctest.DocTestParser().get_doctest(example, {}, name, None, 0), out=report.append
            )
    assert not runner.failures, "".join(report)
    assert len(done) > 60


def test_every_parameter_has_words_and_every_word_a_parameter():
    asked = {
        name
        for op in TABLE.values()
        if op.names.fronts
        for name in (*op.array_params, *op.attr_params)
    }
    own = {
        (op.name.partition("@")[0], name)
        for op in TABLE.values()
        for name in (*op.array_params, *op.attr_params)
    }
    words = {tuple(key.split(".")) if "." in key else key for key in help.words()}
    assert asked - words == set()
    assert {w for w in words if type(w) is str} - asked == {"device", "out", "name", "attr"}
    assert {w for w in words if type(w) is tuple} - own == set()
    assert {kind for kind, _ in help.words().values()} == set(help.TYPES)


def test_a_text_has_all_sections_under_the_names_of_its_front_end():
    text = mx.nd.topk.__doc__
    sections = ["Args:", "Returns:", "Raises:", "Notes:", ">>> "]
    assert sorted(sections, key=text.index) == sections
    assert "  is_ascend (bool, default False): " in text
    assert (
        "  lhs (NDArray): " in mx.nd.broadcast_add.__doc__
        and "  x1 (ndarray): " in mx.np.add.__doc__
    )
    assert "  data (Symbol): " in mx.sym.FullyConnected.__doc__
    assert "  a " not in mx.np.ndarray.sum.__doc__  # the array itself
    assert "In training" in mx.npx.dropout.__doc__ and "Differs from MXNet" in mx.np.std.__doc__


@pytest.mark.parametrize(
    "function, text",
    [
        (
            mx.np.stack,
            "(arrays: collections.abc.Sequence[mxjax.array.classes.ndarray], axis: int = 0, *, ",
        ),
        (mx.np.sum, "(a: mxjax.array.classes.ndarray, axis: int | tuple[int, ...] | None = None, "),
        (
            mx.nd.broadcast_add,
            "(lhs: mxjax.array.ndarray.NDArray, rhs: mxjax.array.ndarray.NDArray, *, ",
        ),
    ],
)
def test_signatures_show_types(function, text):
    signature = inspect.signature(function)
    assert str(signature).startswith(text)
    assert pickle.loads(pickle.dumps(signature)) == signature.replace() == signature


@pytest.mark.parametrize(
    "function", [mx.np.stack, mx.nd.stack, mx.sym.stack, mx.npx.softmax, mx.np.ndarray.mean]
)
def test_the_source_of_an_operator_is_its_row(function):
    """What `np.stack??` shows."""
    source = inspect.getsource(function)
    assert source.lstrip().startswith("@op(")
    assert "/ops/" in inspect.getsourcefile(inspect.unwrap(function))
    assert isinstance(inspect.signature(function), help.Signature)  # and not that of the row


def test_ipython_shows_the_row():
    oinspect = pytest.importorskip("IPython.core.oinspect", reason="IPython is optional")
    assert "def stack(*arrays" in oinspect.getsource(mx.np.stack)
    assert oinspect.find_file(mx.np.stack).endswith("ops/shape.py")


def test_a_signature_is_made_when_somebody_looks():
    made = []
    signature = help.Signature(lambda: made.append(1) or ([], int))
    assert not made
    assert signature.return_annotation is int and not signature.parameters and made == [1]
    with pytest.raises(AttributeError):
        signature.no_such_thing  # noqa: B018


@pytest.mark.parametrize("where", [*FRONTS, *CLASSES, "methods of sym"])
def test_every_text_says_what_comes_and_what_is_given(where):
    lengths = []
    for name, function in functions(where):
        text = function.__doc__
        assert "\nArgs:" in text and "\nReturns:\n  " in text and "\nRaises:\n  " in text, name
        for parameter in list(inspect.signature(function).parameters)[
            where.startswith("methods") :
        ]:
            if parameter not in ("kwargs", "out", "device"):
                assert f"\n  {parameter} (" in text, (name, parameter)
        lengths.append(len(text))
    assert onp.median(lengths) > 500
