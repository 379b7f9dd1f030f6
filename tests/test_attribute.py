"""Attribute scopes. What `get` and `current` give is from MXNet 2.0.0b1."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import pytest

import mxjax as mx
from mxjax import core, errors
from mxjax.attribute import current


def test_an_attribute_that_is_given_is_stronger_than_the_scope() -> None:
    assert mx.AttrScope(a="1").get({"b": "2", "a": "3"}) == {"a": "3", "b": "2"}
    assert mx.AttrScope(a="1").get(None) == {"a": "1"}
    assert mx.AttrScope().get(None) == {}
    assert mx.AttrScope().get({"x": "y"}) == {"x": "y"}


def test_scopes_merge() -> None:
    with mx.AttrScope(a="1", b="1") as outer:
        assert outer.get({}) == {"a": "1", "b": "1"}
        with mx.AttrScope(b="2") as inner:
            assert current() is inner
            assert inner.get(None) == {"a": "1", "b": "2"}
        assert current() is outer
        assert current().get(None) == {"a": "1", "b": "1"}
    assert current().get({}) == {}


def test_a_scope_within_itself_and_again_elsewhere() -> None:
    scope = mx.AttrScope(a="1")
    with mx.AttrScope(b="2"), scope, scope:
        assert current().get({}) == {"a": "1", "b": "2"}
    assert current().get({}) == {}
    with scope:
        assert current().get({}) == {"a": "1"}


def test_a_scope_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), mx.AttrScope(force_mirroring="True"):
        1 / 0  # noqa: B018
    assert current().get({}) == {}
    assert core.mirroring.get() is None


def test_current_of_the_class_is_mxnet_1s_name() -> None:
    with mx.AttrScope(a="1") as scope:
        assert mx.AttrScope.current is scope


def test_other_threads_have_scopes_of_their_own() -> None:
    seen: list[Any] = []
    with mx.AttrScope(a="1", force_mirroring="True"):
        other = threading.Thread(
            target=lambda: seen.extend([current().get({}), core.mirroring.get()])
        )
        other.start()
        other.join()
    assert seen == [{}, None]


@pytest.mark.parametrize("name", ["force_mirroring", "__force_mirroring__"])
@pytest.mark.parametrize(
    ("word", "again"), [("True", True), ("true", True), ("1", True), ("FALSE", False)]
)
def test_what_a_scope_says_of_mirroring(name: str, word: str, again: bool) -> None:
    with mx.AttrScope(**{name: word}), mx.AttrScope(lr_mult="2"):
        mark = core.mirroring.get()
        assert mark is not None
        assert mark.again is again


def test_what_is_no_string_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"Attributes need to be string.*Write force_mirroring='True'"
    ):
        mx.AttrScope(force_mirroring=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["yes", "", " True", "2"])
def test_what_says_neither_true_nor_false_is_refused(word: str) -> None:
    with pytest.raises(
        errors.MXNetValueError, match=f"boolean but value='{word}'. Write force_mirroring='True'"
    ):
        mx.AttrScope(force_mirroring=word)


def test_a_misspelled_name_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="did you mean 'force_mirroring'") as seen:
        mx.AttrScope(force_mirror="True")
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mx.AttrScope(ctx_group="stage1", lr_mult="2", mirror_stage="0")


def test_a_scope_that_was_not_entered_is_not_left() -> None:
    with pytest.raises(errors.MXNetAssertionError, match="without being entered"):
        mx.AttrScope().__exit__(None, None, None)
