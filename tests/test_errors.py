"""Every error is an MXNetError and the builtin of its name."""

import builtins

import pytest

import mxjax as mx
from mxjax import error, errors
from mxjax.gluon import data, nn, rnn

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


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (nn.Conv2D, TypeError, r"^Conv2D\(channels, kernel_size, .*required argument: 'channels'"),
        (lambda: nn.Conv2D(3), TypeError, r"^Conv2D\(.*required argument: 'kernel_size'"),
        (nn.Conv1DTranspose, TypeError, r"^Conv1DTranspose\(channels, "),
        (nn.Dense, TypeError, r"^Dense\(units, .*required argument: 'units'"),
        (rnn.GRUCell, TypeError, r"^GRUCell\(hidden_size, "),
        (lambda: mx.cpu("a"), ValueError, r"device_id='a': the device's number.*mx.cpu\(0\)"),
        (lambda: mx.random.seed("a"), ValueError, r"must be int, got 'a' \(str\).*int\("),
        (lambda: mx.random.seed(1.5), ValueError, r"must be int, got 1.5 \(float\)"),
        (lambda: nn.Dense(1).cast("flaot16"), TypeError, "'flaot16'.*did you mean 'float16'"),
        (lambda: nn.Dense(1, dtype="int9"), TypeError, "'int9'.*did you mean 'int"),
        (lambda: mx.init.Xavier(magnitude="a"), ValueError, r"magnitude='a': a number"),
        (lambda: data.DataLoader(5), TypeError, r"dataset is expected.*got 5 \(int\)"),
        (lambda: data.DataLoader([1]), ValueError, r"batch_size must.*DataLoader\(dataset, batch"),
    ],
)
def test_what_was_expected_what_arrived_and_the_mend(wrong, kind, text):
    with pytest.raises(kind, match=text) as caught:
        wrong()
    assert isinstance(caught.value, errors.MXNetError)


def test_a_type_error_inside_of_a_layer_is_its_own():
    class Net(nn.Dense):
        def __init__(self):
            super().__init__(3, activation="relu")
            len(5)

    with pytest.raises(TypeError, match="has no len"):
        Net()
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        Net(3)
