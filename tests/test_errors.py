"""Every error is an MXNetError and the builtin of its name."""

import builtins

import pytest

from mxjax import error, errors

MIXED = [
    (cls, getattr(builtins, name.removeprefix("MXNet")))
    for name, cls in vars(errors).items()
    if name.startswith("MXNet") and name != "MXNetError" and isinstance(cls, type)
]


@pytest.mark.parametrize(("cls", "builtin"), MIXED, ids=lambda cls: cls.__name__)
def test_mixed_classes_are_both_and_print_their_message(cls, builtin):
    raised = cls("the message")
    assert isinstance(raised, errors.MXNetError)
    assert isinstance(raised, builtin)
    assert isinstance(raised, RuntimeError)
    assert str(raised) == "the message"


def test_builtins_that_carry_more_keep_it():
    assert errors.MXNetImportError("m", name="package").name == "package"
    assert errors.MXNetAttributeError("m", name="x", obj=3).obj == 3
    assert errors.MXNetFileNotFoundError(2, "gone", "file").filename == "file"


def test_register_by_name_by_decorator_and_by_class():
    class First(errors.MXNetError):
        pass

    assert error.register("FirstName", First) is First
    assert error.register("SecondName")(First) is First
    assert error.register(First) is First
    for name in ("FirstName", "SecondName", "First"):
        assert errors.lookup(name) is First
    assert errors.lookup("ValueError") is errors.MXNetValueError
    assert errors.lookup("never heard of") is errors.MXNetError


def test_nearest_names():
    assert errors.nearest("Conv2d", ["Conv1D", "Conv2D", "Dense"]) == ["Conv2D"]
    assert errors.did_you_mean("zzz", ["exp", "log"]) == ""


def test_a_missing_package_says_which_extra_installs_it():
    with pytest.raises(ImportError, match=r"pip install 'mxjax\[demo\]'") as caught:
        errors.optional_import("no_such_package.part", "demo")
    assert caught.value.name == "no_such_package"
    assert errors.optional_import("json.decoder", "demo").__name__ == "json.decoder"


@pytest.mark.parametrize(
    "error", [KeyError("a"), TypeError("b"), RecursionError("c"), errors.MXNetTypeError("d")]
)
def test_what_damaged_contents_lead_to_names_the_file(error):
    with pytest.raises(
        errors.FormatError, match="^net.json is damaged.*" + type(error).__name__
    ) as caught:
        with errors.parsing("net.json"):
            raise error
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        errors.MXNetNotImplementedError("a"),
        errors.MXNetOSError(2, "b"),
        errors.MXNetMemoryError("c"),
        SystemExit(),
    ],
)
def test_what_says_something_else_than_damage_stays(error):
    with pytest.raises(type(error)) as caught, errors.parsing("net.json"):
        raise error
    assert caught.value is error


def test_damage_is_named_once():
    with pytest.raises(errors.FormatError, match=r"^a\.json: node 3$"):
        with errors.parsing("a.json"), errors.parsing(), errors.parsing("a.json"):
            raise errors.FormatError("node 3")
    with (
        pytest.raises(errors.MXNetMemoryError, match="a.json asks for more memory"),
        errors.parsing("a.json"),
    ):
        raise MemoryError("1 TiB")
