"""Every public name has a docstring that says what comes and what is given; the operators': tests/ops/test_help.py."""

import inspect
import re
import statistics
import typing

import pytest

import mxjax as mx
from tools.docs.names import MODULES, public

NAMES = {
    id(value): (name, value) for path in reversed(MODULES) for name, value in public(path)
}  # by their first name


def words(value):
    """A docstring; a class's has that of its constructor, too."""
    own = value.__doc__ or ""
    if inspect.isclass(value) and "__init__" in vars(value):
        own += "\n" + (value.__init__.__doc__ or "")
    return own


def parameters(value):
    """What has to be described: what can be given by name."""
    try:
        found = inspect.signature(value).parameters.values()
    except ValueError:
        return []
    return [
        p.name
        for p in found
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and not p.name.startswith("_")
    ]


def of_numpy(value):
    """Whether NumPy computes it, whose docstring it has."""
    return (
        bool(re.search(r"^\s*Parameters\n\s*-+$", words(value), re.M))
        and value.__module__ == "mxjax.np"
    )


def missing(value):
    text = words(value)
    return [
        p
        for p in parameters(value)
        if not re.search(rf"^\s*(?:[\w, `*]*\b){re.escape(p)}\b[^:\n]*:", text, re.M)
    ]


@pytest.mark.parametrize("path", MODULES)
def test_every_parameter_is_described(path):
    undescribed = {
        n: missing(v) for n, v in NAMES.values() if n.rpartition(".")[0] == path and not of_numpy(v)
    }
    assert {name: found for name, found in undescribed.items() if found} == {}


@pytest.mark.parametrize("path", MODULES)
def test_every_function_says_what_it_gives(path):
    silent = []
    for name, value in NAMES.values():
        if name.rpartition(".")[0] == path and inspect.isroutine(value) and not of_numpy(value):
            gives = inspect.signature(value).return_annotation
            if gives not in (None, "None") and not re.search(
                r"^\s*(Returns|Yields):", words(value), re.M
            ):
                silent.append(name)
    assert silent == []


def test_signatures_show_types_and_no_texts():
    quoted = {}
    for name, value in NAMES.values():
        if of_numpy(value):
            continue
        methods = (
            [v for n, v in vars(value).items() if not n.startswith("_")]
            if inspect.isclass(value)
            else []
        )
        for function in (value, *filter(inspect.isfunction, methods)):
            try:
                shown = inspect.signature(function)
            except ValueError:
                continue
            said = [p.annotation for p in shown.parameters.values()] + [shown.return_annotation]
            if any(repr(a).startswith(("'", '"')) for a in said):
                quoted[name] = str(shown)
    assert quoted == {}


def test_annotations_are_evaluated_as_before():
    hints = typing.get_type_hints(mx.nd.onehot_encode)
    assert hints == {"indices": mx.nd.NDArray, "out": mx.nd.NDArray, "return": mx.nd.NDArray}
    assert str(inspect.signature(mx.gluon.nn.Dense)).startswith(
        "(units: int, activation: str | None = None, "
    )


def test_docstrings_are_sentences_and_not_short():
    assert len(NAMES) > 700
    for name, value in NAMES.values():
        assert len(words(value).strip().partition("\n")[0]) > 5, name
    every = {id(value): value for path in MODULES for _, value in public(path, operators=True)}
    assert len(every) > 1500
    assert statistics.median(len(words(value)) for value in every.values()) > 500
