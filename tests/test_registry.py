"""Factories by name."""

import pytest

from mxjax import registry
from mxjax.errors import MXNetError


class Base:
    def __init__(self, size=1):
        self.size = size


register = registry.get_register_func(Base, "thing")
alias = registry.get_alias_func(Base, "thing")
create = registry.get_create_func(Base, "thing")


@register
@alias("little", "tiny")
class Small(Base):
    pass


def test_names_aliases_json_dicts_and_instances():
    assert set(registry.get_registry(Base)) == {"small", "little", "tiny"}
    made = create("Small", size=3)
    assert type(made) is Small and made.size == 3
    assert create("tiny", 4).size == 4
    assert create('["small", {"size": 5}]').size == 5
    assert create('{"thing": "small", "size": 6}').size == 6
    assert create({"thing": "small", "size": 7}).size == 7
    assert create(thing="small").size == 1
    assert create(made) is made


@pytest.mark.parametrize(
    ("args", "error", "text"),
    [
        (("smal",), AssertionError, "did you mean 'small'"),
        ((Small(), 3), AssertionError, "already an instance"),
        (('["small", {}]', 3), AssertionError, "JSON"),
        ((3,), AssertionError, "a name, a dict or an instance"),
    ],
)
def test_errors_say_what_is_known(args, error, text):
    with pytest.raises(error, match=text) as caught:
        create(*args)
    assert isinstance(caught.value, MXNetError)


def test_only_subclasses_and_a_warning_for_a_second_one():
    with pytest.raises(TypeError, match="subclasses of Base"):
        register(int)
    first = type("Twice", (Base,), {})
    register(first)
    with pytest.warns(UserWarning, match="overriding"):
        register(type("Twice", (Base,), {}))
