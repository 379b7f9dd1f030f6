"""Attribute scopes. What `get` and `current` give is from MXNet 2.0.0b1."""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
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


def test_the_bodies_of_branches_are_counted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """As MXNet 2.0.0b1 counts them; a program puts a table of its own in the place of the first."""
    monkeypatch.setattr(mx.AttrScope, "_subgraph_names", defaultdict(int))

    class Net(mx.gluon.HybridBlock):
        def forward(self, x: Any) -> Any:
            return mx.npx.cond(lambda x: x > 0, lambda x: x * 2, lambda x: x, [x], name="c")

    with mx.AttrScope(__subgraph_name__="a"):
        for _ in range(2):
            net = Net()
            net.hybridize()
            net(mx.np.ones((1,)))
    assert mx.AttrScope._subgraph_names == dict.fromkeys(("a$c_pred", "a$c_then", "a$c_else"), 2)
    x = mx.sym.var("x")
    mx.sym.contrib.foreach(lambda a, s: (a + s, s), x, mx.sym.var("s"), name="f")
    mx.sym.contrib.while_loop(lambda a: a < 3, lambda a: (a, [a + 1]), [x], 3, name="w")
    assert list(mx.AttrScope._subgraph_names)[3:] == ["f", "w_cond", "w_func"]


def test_mxnet_1_keeps_the_scope_in_a_value():
    before = mx.AttrScope._current.value
    with mx.AttrScope(lr_mult="2"):
        assert mx.AttrScope._current.value._attr == {"lr_mult": "2"}
    assert mx.AttrScope._current.value is before
