"""The exceptions of mxjax, and the small helpers that make them teach.

Every exception is an `MXNetError`, as in MXNet, and where Python has a word for the mistake it is
that builtin too: code written for either catches it.  A message says what was expected, what
arrived, and how to mend it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType, ModuleType
from typing import Any, TypeVar, overload

from .compat.modules import real

E = TypeVar("E", bound=type[BaseException])


class MXNetError(RuntimeError):
    """The root of every error that mxjax raises on purpose.

    >>> try:
    ...     raise MXNetValueError("num_hidden must be positive, got -1")
    ... except MXNetError as error:
    ...     print(error)
    num_hidden must be positive, got -1
    """

    # KeyError would print the repr of its message: every mixed class prints the message itself.
    __str__ = BaseException.__str__


class MXNetValueError(MXNetError, ValueError):
    """A value outside what is allowed."""


class MXNetTypeError(MXNetError, TypeError):
    """An argument of the wrong type, or a dtype that the operator does not take."""


class MXNetIndexError(MXNetError, IndexError):
    """An index outside its axis."""


class MXNetKeyError(MXNetError, KeyError):
    """A name that is not there."""


class MXNetNotImplementedError(MXNetError, NotImplementedError):
    """Something that MXNet has and mxjax does not, or not in this combination."""


class NotSupportedForSparseNDArray(MXNetError):
    """A function of dense arrays that sparse ones do not have."""

    def __init__(self, function: Callable[..., Any], alias: str | None = None, *args: Any):
        names = f" (namely operator {alias!r})" if alias else ""
        shown = f" with arguments ({', '.join(type(arg).__name__ for arg in args)})" if args else ""
        super().__init__(
            f"Function {function.__name__}{names}{shown} is not supported for SparseNDArray and only "
            "available in NDArray."
        )


class MXNetMemoryError(MXNetError, MemoryError):
    """The device (or the host) has no room left."""


class MXNetZeroDivisionError(MXNetError, ZeroDivisionError):
    """A division by zero that is an error."""


class MXNetFloatingPointError(MXNetError, FloatingPointError):
    """A NaN or an infinity where somebody asked to be told."""


class MXNetAssertionError(MXNetError, AssertionError):
    """A condition that the library promises and that does not hold."""


class MXNetTimeoutError(MXNetError, TimeoutError):
    """Something that took longer than its limit."""


# These builtins carry more than a message (name=, obj=, errno): their constructor comes first.
class MXNetAttributeError(AttributeError, MXNetError):
    """An attribute that is not there."""


class MXNetImportError(ImportError, MXNetError):
    """An optional package that is not installed."""


class MXNetOSError(OSError, MXNetError):
    """A file that cannot be read or written."""


class MXNetFileNotFoundError(FileNotFoundError, MXNetOSError):
    """A file that is not there."""


class FormatError(MXNetValueError):
    """A file that is not what it should be: damaged, or made to do harm."""


class DeferredInitializationError(MXNetError):
    """A parameter was read before its shape was known."""


class DeviceError(MXNetValueError):
    """Arrays on devices that do not fit together, or a device that is not there."""


class InternalError(MXNetError):
    """A state that the library holds to be impossible; please report it."""


_REGISTRY: dict[str, type[BaseException]] = {}


@overload
def register(func_name: str, cls: E) -> E: ...
@overload
def register(func_name: str, cls: None = None) -> Callable[[E], E]: ...
@overload
def register(func_name: E, cls: None = None) -> E: ...


def register(func_name: str | E, cls: E | None = None) -> E | Callable[[E], E]:
    """Register an exception class under a name, as `mxnet.error.register` does.

    Used as a decorator without a name, the class's own name is taken.

    >>> @register
    ... class ShapeError(MXNetError):
    ...     pass
    >>> lookup("ShapeError") is ShapeError
    True
    """
    if isinstance(func_name, str):
        if cls is not None:
            _REGISTRY[func_name] = cls
            return cls
        name = func_name

        def decorate(mycls: E) -> E:
            _REGISTRY[name] = mycls
            return mycls

        return decorate
    _REGISTRY[func_name.__name__] = func_name
    return func_name


def lookup(name: str) -> type[BaseException]:
    """The exception class registered under `name`; `MXNetError` where there is none."""
    return _REGISTRY.get(name, MXNetError)


for _name, _cls in {
    "MXNetError": MXNetError,
    "InternalError": InternalError,
    "ValueError": MXNetValueError,
    "TypeError": MXNetTypeError,
    "AttributeError": MXNetAttributeError,
    "IndexError": MXNetIndexError,
    "NotImplementedError": MXNetNotImplementedError,
    "IOError": MXNetOSError,
    "FloatingPointError": MXNetFloatingPointError,
    "RuntimeError": MXNetError,
    "KeyError": MXNetKeyError,
}.items():
    register(_name, _cls)


def nearest(name: str, names: Iterable[str], count: int = 1, cutoff: float = 0.6) -> list[str]:
    """Up to `count` of `names` that look like `name` (by a share of their letters), the best first.

    >>> nearest("exq", ["exp", "log"])
    ['exp']
    """
    import difflib  # only needed when something went wrong

    upper = name[:1].isupper()  # of Convolution and convolution the one that begins in the same way
    by_lower = {n.lower(): n for n in sorted(names, key=lambda n: n[:1].isupper() is upper)}
    found = difflib.get_close_matches(name.lower(), by_lower, n=count, cutoff=cutoff)
    return [by_lower[key] for key in found]


def keyword_meant(name: str, names: Iterable[str]) -> str:
    """What a keyword argument is called here that others call ``name``, else what looks like it.

    >>> keyword_meant("dim", ["data", "axis"])
    '; it is called axis'
    """
    from .display.elsewhere import KEYWORDS

    names = list(names)
    ours = next((k for k in KEYWORDS.get(name, ()) if k in names), None)
    return did_you_mean(name, names) if ours is None else f"; it is called {ours}"


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """Re-raise a custom operator's exception as an MXNetError that is of its own type, too."""
    try:
        yield
    except MXNetError:
        raise
    except Exception as error:
        kinds = [k for k in MXNetError.__subclasses__() if type(error) in k.__mro__]
        kind = kinds[0] if kinds else MXNetError
        raise kind(f"{type(error).__name__} in the custom operator {name}: {error}") from error


def did_you_mean(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: `"; did you mean 'exp'?"`, or nothing.

    >>> did_you_mean("exq", ["exp", "log"])
    "; did you mean 'exp'?"
    """
    found = nearest(name, names, cutoff=cutoff)
    return f"; did you mean {found[0]!r}?" if found else ""


class NoSuchName(MXNetAttributeError):
    """A name that a module does not have. What was meant is looked for when somebody reads the message: `hasattr`,
    which throws it away, stays quick."""

    def __init__(self, module: str, name: str):
        super().__init__(f"module {module!r} has no attribute {name!r}", name=name)
        self.module, self.missing = module, name

    def __reduce__(self) -> tuple[type[NoSuchName], tuple[str, str]]:
        return NoSuchName, (self.module, self.missing)

    def __str__(self) -> str:
        return f"{self.args[0]}{_meant(self.module, self.missing)}"


class NoSuchAttribute(MXNetAttributeError):
    """An attribute that an object does not have; what was meant is looked for when somebody reads the message."""

    def __init__(self, owner: Any, name: str, kind: str):
        super().__init__(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name)
        self._owner, self._kind = type(owner), kind

    def __reduce__(self) -> tuple[type[MXNetAttributeError], tuple[str]]:
        return MXNetAttributeError, (str(self),)

    def __str__(self) -> str:
        from .display import elsewhere

        name, known = str(self.name), getattr(elsewhere, self._kind)
        if name in known:
            return f"{self.args[0]}: {known[name]}"
        return f"{self.args[0]}{did_you_mean(name, [n for n in dir(self._owner) if not n.startswith('_')])}"


def no_attribute(owner: Any, name: str, kind: str) -> AttributeError:
    """What an object's `__getattr__` raises: names that Python and tools ask for get no help, others do.

    Args:
      owner: the object.
      name: the attribute that it does not have.
      kind: the table of `elsewhere` that knows what others call such objects' attributes.

    Returns:
      AttributeError: the error, which looks for what was meant when it is read.
    """
    if hasattr(type(owner), name):  # a property that failed: its own error
        object.__getattribute__(owner, name)
    if name.startswith("_"):
        return AttributeError(
            f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner
        )
    return NoSuchAttribute(owner, name, kind)


def _in_snake_case(name: str) -> str:
    """FullyConnected as fully_connected, as mx.npx has what mx.nd calls so."""
    return "".join(
        f"_{c.lower()}" if c.isupper() and at else c.lower() for at, c in enumerate(name)
    )


def _meant(module: str, name: str) -> str:
    from .display import elsewhere

    owner = sys.modules[module]
    known = elsewhere.NAMES.get(module, {}).get(name)
    if known:
        return f": {known}"
    for other in next((kin for kin in elsewhere.KIN if module in kin), ()):
        for same in (name, _in_snake_case(name)):
            if (other != module or same != name) and same in vars(sys.modules.get(other, owner)):
                path = (
                    other.removeprefix("mxjax.")
                    .replace("symbol.numpy", "sym.np")
                    .replace("symbol", "sym")
                )
                return f": it is mx.{path}.{same}"
    listed = None if "__dir__" in vars(owner) else getattr(owner, "__all__", None)
    return did_you_mean(name, [n for n in listed or dir(owner) if not n.startswith("_")])


def no_name(module: str, name: str) -> AttributeError | ImportError:
    """What a module's `__getattr__` raises for a name it does not have, with the name that was probably meant.

    >>> import mxjax
    >>> mxjax.autogrd
    Traceback (most recent call last):
    mxjax.errors.NoSuchName: module 'mxjax' has no attribute 'autogrd'; did you mean 'autograd'?
    """
    if name.startswith("_"):  # asked for by Python and by tools, not by people
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    if f"{module}.{name}" not in sys.modules and _imports(sys._getframe(2)):
        # Python would say "cannot import name" without more.
        return MXNetImportError(
            f"cannot import name {name!r} from {module!r}{_meant(module, name)}", name=module
        )
    return NoSuchName(module, name)


def left_out(module: str, name: str, why: str) -> AttributeError | ImportError:
    """What a module's `__getattr__` raises for a name of MXNet's that is left out on purpose: `why` says what serves
    instead."""
    message = f"{module}.{name} is not here, on purpose (docs/exclusions.md): {why}"
    if _imports(sys._getframe(2)):
        return MXNetImportError(message, name=module)
    return MXNetAttributeError(message, name=name)


def _imports(frame: FrameType) -> bool:
    """Whether a frame is at the `name` of `from module import name`; those of modules' `__getattr__` stand for the one
    that called them."""
    import opcode

    while frame.f_code.co_name == "__getattr__" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]


def explain_names(module: str, later: Mapping[str, str] | None = None) -> None:
    """Let a module say which of its names was probably meant by one that it does not have.

    ``later``: names that it takes from modules of its own, when they are first asked for.

    The modules of `_modules.NAMES` are attributes of their parents, as all modules are.
    To be called at the module's end; one with a `__getattr__` of its own raises `no_name`.
    """

    def __getattr__(name: str) -> object:  # noqa: N807
        if later and name in later:
            found: Any = getattr(importlib.import_module(f"{module}.{later[name]}"), name)
        else:
            other = real(f"{module}.{name}")
            if other is None:
                raise no_name(module, name)
            found = importlib.import_module(other)
        setattr(sys.modules[module], name, found)
        return found

    sys.modules[module].__getattr__ = __getattr__  # type: ignore[method-assign]  # hidden from type checkers


def optional_import(module: str, extra: str) -> ModuleType:
    """Import a package that only an extra of mxjax installs.

    Args:
      module: the dotted name of the module.
      extra: the extra that brings it.

    Raises:
      MXNetImportError: the package is absent; the message says which extra installs it.

    >>> optional_import("json", "demo").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing != module and not module.startswith(missing + "."):
            raise  # the package is there, but something that it needs is not: its own message helps
        raise MXNetImportError(
            f"{module!r} is not installed; it comes with: pip install 'mxjax[{extra}]'",
            name=missing,
        ) from None


#: What code raises that takes apart a document of another form: an array for a dictionary, a text for a number.
MALFORMED = (LookupError, TypeError, ValueError, OverflowError, AttributeError, RecursionError)


@contextlib.contextmanager
def parsing(what: Any = "") -> Iterator[None]:
    """Around what makes sense of the contents of a file: whatever they lead to is an error of `what` (a path, a kind).

    That is a `FormatError` with the cause, or an `MXNetMemoryError` where they ask for more room than there is. What
    says something else stays: a file that cannot be read, a package or an operator that is not there.

    >>> with parsing("a.json"):
    ...     {}["nodes"]
    Traceback (most recent call last):
    mxjax.errors.FormatError: a.json is damaged or of another kind: KeyError: 'nodes'
    """
    name = str(what)
    try:
        yield
    except FormatError as error:
        if not name or name in str(error):
            raise
        raise FormatError(f"{name}: {error}") from error
    except (MXNetMemoryError, MXNetNotImplementedError, MXNetOSError, MXNetImportError):
        raise
    except MemoryError as error:
        raise MXNetMemoryError(
            f"{name or 'a file'} asks for more memory than there is: {error}"
        ) from error
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise FormatError(
            f"{name or 'the contents'} is damaged or of another kind: {said}"
        ) from error


def like(error: BaseException, message: str) -> MXNetError:
    """A new `MXNetError` with this message that is also the builtin `error` is.

    >>> isinstance(like(TypeError("x"), "add takes arrays"), TypeError)
    True
    """
    for builtin, mixed in _MIXED.items():
        if isinstance(error, builtin):
            return mixed(message)
    return MXNetError(message)


_MIXED: dict[type[BaseException], type[MXNetError]] = {
    IndexError: MXNetIndexError,
    KeyError: MXNetKeyError,
    NotImplementedError: MXNetNotImplementedError,
    ZeroDivisionError: MXNetZeroDivisionError,
    FloatingPointError: MXNetFloatingPointError,
    MemoryError: MXNetMemoryError,
    TypeError: MXNetTypeError,
    ValueError: MXNetValueError,
    AssertionError: MXNetAssertionError,
}
