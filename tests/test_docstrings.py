"""The examples in docstrings give what they say; those of operators: tests/ops/test_help.py."""

import doctest
import importlib.util
import inspect
import sys
from pathlib import Path

import pytest

from tools.docs.names import MODULES, public

#: What compiles much.
SLOW = ("gluon.model_zoo.transformers", "gluon.rnn", "memonger")


def _checker():
    """The checker of operators' examples: the last digits of floats differ between processors."""
    path = Path(__file__).parent / "ops" / "test_help.py"
    spec = importlib.util.spec_from_file_location("help_of_operators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Checker()


def examples(path):
    """The docstrings of a module's functions and classes, and of the classes' methods, that have examples."""
    for name, value in public(path):
        own = vars(value).items() if inspect.isclass(value) else ()
        methods = [
            (f"{name}.{n}", v) for n, v in own if inspect.isfunction(v) and not n.startswith("_")
        ]
        for title, thing in [(name, value), *methods]:
            text = thing.__doc__ or ""
            if ">>> " in text and "\nParameters\n" not in inspect.cleandoc(
                text
            ):  # NumPy's have NumPy's numbers
                yield title, text, dict(vars(sys.modules[thing.__module__]))


@pytest.mark.parametrize(
    "path", [pytest.param(p, marks=pytest.mark.slow) if p in SLOW else p for p in MODULES]
)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    checker, report, failed = _checker(), [], 0
    for title, text, names in examples(path):
        runner = doctest.DocTestRunner(checker=checker, verbose=False, optionflags=options)
        runner.run(
            doctest.DocTestParser().get_doctest(text, names, title, None, 0), out=report.append
        )
        failed += runner.failures
    assert not failed, "".join(report)


def test_there_are_hundreds():
    assert sum(1 for path in MODULES for _ in examples(path)) > 400
