"""Names of Python, NumPy and others that programs of MXNet's time use, and that are gone: one table.

The check tells of them, and `python -m mxjax --compat` gives back those that have something to give.
"""

from __future__ import annotations

import builtins
import collections.abc
import functools
import importlib
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple


class Older(NamedTuple):
    """A name that is gone.

    Attributes:
      module, name: `numpy`, `int`; the name is "" where the module itself is gone.
      gone: since when.
      instead: what to write now.
      give: makes what stands for it, or None where nothing can.
    """

    module: str
    name: str
    gone: str
    instead: str
    give: Callable[[], Any] | None = None


def _numpy(name: str) -> Callable[[], Any]:
    def give() -> Any:
        import numpy

        return getattr(numpy, name)

    return give


def _fullargspec() -> Any:
    import inspect
    from collections import namedtuple

    kind = namedtuple("kind", "args varargs keywords defaults")

    def getargspec(func: Any) -> Any:
        return kind(*inspect.getfullargspec(func)[:4])

    return getargspec


def _generator_coroutine() -> Any:
    import types

    return types.coroutine


def _asscalar() -> Any:
    return lambda a: a.item()


def _matplotlib_formats() -> Any:
    from matplotlib_inline.backend_inline import set_matplotlib_formats

    return set_matplotlib_formats


def _display(name: str) -> Callable[[], Any]:
    def give() -> Any:
        import IPython.display

        return getattr(IPython.display, name)

    return give


def _get_cmap() -> Any:
    import matplotlib

    return lambda name=None, lut=None: (
        matplotlib.colormaps[name or matplotlib.rcParams["image.cmap"]] if lut is None
        else matplotlib.colormaps[name or matplotlib.rcParams["image.cmap"]].resampled(lut)
    )  # fmt: skip


_DTYPES = {name: f"{name}, or np.{name}64 for a dtype" for name in ("int", "float")}
_PYTHON = {"int": "int", "float": "float", "bool": "bool", "object": "object", "str": "str", "complex": "complex",
           "long": "int", "unicode": "str"}  # fmt: skip
_RENAMED = {
    "float_": "float64", "complex_": "complex128", "string_": "bytes_", "unicode_": "str_", "Inf": "inf",
    "Infinity": "inf", "infty": "inf", "PINF": "inf", "NaN": "nan", "NAN": "nan", "product": "prod",
    "cumproduct": "cumprod", "sometrue": "any", "alltrue": "all", "round_": "round", "row_stack": "vstack",
    "in1d": "isin", "trapz": "trapezoid",
    "rank": "ndim", "singlecomplex": "complex64", "longfloat": "longdouble", "cfloat": "complex128",
}  # fmt: skip
_ABCS = (
    "Awaitable Callable Collection Container Coroutine Generator Hashable Iterable Iterator KeysView ItemsView Mapping "
    "MappingView MutableMapping MutableSequence MutableSet Reversible Sequence Set Sized ValuesView"
).split()
_MODULES = {
    "imp": ("3.12", "importlib: importlib.reload, importlib.util.spec_from_file_location"),
    "distutils": ("3.12", "setuptools, shutil, sysconfig, packaging.version"),
    "asyncore": ("3.12", "asyncio"), "asynchat": ("3.12", "asyncio"), "smtpd": ("3.12", "the package aiosmtpd"),
    "cgi": ("3.13", "urllib.parse, email.message"), "crypt": ("3.13", "hashlib"), "imghdr": ("3.13", "PIL.Image.open"),
    "sndhdr": ("3.13", "the package filetype"), "pipes": ("3.13", "subprocess, shlex.quote"),
    "audioop": ("3.13", "NumPy"),
    "telnetlib": ("3.13", "the package telnetlib3"), "xdrlib": ("3.13", "struct"), "uu": ("3.13", "base64"),
    "cPickle": ("3.0", "pickle"), "Queue": ("3.0", "queue"), "urllib2": ("3.0", "urllib.request"),
    "ConfigParser": ("3.0", "configparser"), "StringIO": ("3.0", "io"), "cStringIO": ("3.0", "io"),
    "SocketServer": ("3.0", "socketserver"), "HTMLParser": ("3.0", "html.parser"), "Tkinter": ("3.0", "tkinter"),
    "__builtin__": ("3.0", "builtins"), "urlparse": ("3.0", "urllib.parse"), "commands": ("3.0", "subprocess"),
    "sklearn.cross_validation": ("0.20", "sklearn.model_selection"),
    "sklearn.grid_search": ("0.20", "sklearn.model_selection"),
    "sklearn.externals.joblib": ("0.23", "the package joblib"),
    "scipy.misc": ("1.12", "imageio, PIL, scipy.special, scipy.datasets"),
    "matplotlib.mlab": ("3.8", "NumPy, scipy.signal"), "keras.utils.np_utils": ("2.13", "keras.utils"),
}  # fmt: skip

TABLE: tuple[Older, ...] = (
    *(
        Older(
            "numpy",
            name,
            "1.24",
            _DTYPES.get(name, python),
            functools.partial(getattr, builtins, python),
        )
        for name, python in _PYTHON.items()
    ),
    *(Older("numpy", name, "2.0", f"np.{new}", _numpy(new)) for name, new in _RENAMED.items()),
    Older("numpy", "NINF", "2.0", "-np.inf", lambda: -math.inf),
    Older("numpy", "NZERO", "2.0", "-0.0", lambda: -0.0),
    Older("numpy", "PZERO", "2.0", "0.0", lambda: 0.0),
    Older("numpy", "asscalar", "1.23", "a.item()", _asscalar),
    Older(
        "numpy",
        "asfarray",
        "2.0",
        "np.asarray(a, dtype=float)",
        lambda: lambda a, dtype=float: _numpy("asarray")()(a, dtype=dtype),
    ),
    Older(
        "numpy", "msort", "2.0", "np.sort(a, axis=0)", lambda: lambda a: _numpy("sort")()(a, axis=0)
    ),
    Older("numpy", "cast", "2.0", "np.asarray(x, dtype=dtype)"),
    Older("numpy", "find_common_type", "2.0", "np.result_type"),
    Older("numpy", "issubclass_", "2.0", "issubclass"),
    Older("numpy", "set_string_function", "2.0", "np.set_printoptions"),
    Older("numpy", "compat", "2.0", "Python 3's own types"),
    *(
        Older(
            "collections",
            name,
            "3.10",
            f"collections.abc.{name}",
            functools.partial(getattr, collections.abc, name),
        )
        for name in _ABCS
    ),
    Older(
        "inspect", "getargspec", "3.11", "inspect.getfullargspec or inspect.signature", _fullargspec
    ),
    Older("asyncio", "coroutine", "3.11", "async def", _generator_coroutine),
    Older("asyncio", "async", "3.7", "asyncio.ensure_future"),
    Older("time", "clock", "3.8", "time.perf_counter", lambda: time.perf_counter),
    Older("fractions", "gcd", "3.9", "math.gcd", lambda: math.gcd),
    Older("os", "getcwdu", "3.0", "os.getcwd"),
    Older("itertools", "izip", "3.0", "zip", lambda: zip),
    Older("itertools", "imap", "3.0", "map", lambda: map),
    Older("itertools", "ifilter", "3.0", "filter", lambda: filter),
    Older("itertools", "izip_longest", "3.0", "itertools.zip_longest"),
    Older("string", "maketrans", "3.0", "str.maketrans", lambda: str.maketrans),
    Older("sys", "maxint", "3.0", "sys.maxsize", lambda: __import__("sys").maxsize),
    Older("sys", "setdefaultencoding", "3.0", "nothing: texts are Unicode"),
    Older(
        "configparser",
        "SafeConfigParser",
        "3.12",
        "configparser.ConfigParser",
        lambda: __import__("configparser").ConfigParser,
    ),
    Older("locale", "format", "3.12", "locale.format_string"),
    Older("ssl", "wrap_socket", "3.12", "ssl.SSLContext.wrap_socket"),
    Older("unittest", "makeSuite", "3.13", "unittest.TestLoader().loadTestsFromTestCase"),
    Older(
        "matplotlib.cm", "get_cmap", "3.9", "matplotlib.colormaps[name], or plt.get_cmap", _get_cmap
    ),
    Older("matplotlib.pyplot", "hold", "3.0", "nothing: axes are kept"),
    Older(
        "IPython.display",
        "set_matplotlib_formats",
        "8.24",
        "matplotlib_inline.backend_inline.set_matplotlib_formats",
        _matplotlib_formats,
    ),
    *(
        Older("IPython.core.display", name, "9.0", f"IPython.display.{name}", _display(name))
        for name in ("display", "HTML", "Image", "clear_output", "SVG", "Javascript")
    ),
    Older(
        "PIL.Image",
        "ANTIALIAS",
        "10.0",
        "PIL.Image.LANCZOS",
        lambda: importlib.import_module("PIL.Image").LANCZOS,  # which its package may not hold yet
    ),
    Older("scipy", "inf", "1.12", "numpy.inf"),
    Older("sklearn.datasets", "load_boston", "1.2", "sklearn.datasets.fetch_california_housing"),
    Older("sklearn.datasets", "fetch_mldata", "0.22", "sklearn.datasets.fetch_openml"),
    Older("skimage.measure", "compare_ssim", "0.18", "skimage.metrics.structural_similarity"),
    Older("skimage.measure", "compare_psnr", "0.18", "skimage.metrics.peak_signal_noise_ratio"),
    *(Older(module, "", gone, instead) for module, (gone, instead) in _MODULES.items()),
)
BY_NAME = {(row.module, row.name): row for row in TABLE}

#: Calls that NumPy 2 refuses or reads otherwise: name, how the call looks, what is said.
CALLS = {
    "fromstring": "binary data: np.frombuffer(data, dtype).copy(); NumPy 2.3 refuses np.fromstring without sep=",
    "tostring": "x.tobytes(); NumPy 2.3 has no tostring()",
    "newbyteorder": "x.view(x.dtype.newbyteorder(order)); NumPy 2 has no ndarray.newbyteorder()",
    "itemset": "x[index] = value; NumPy 2 has no ndarray.itemset()",
}
ONE_ELEMENT = (
    "an array of one element is a number to Python where it has no axes alone, since NumPy 2.4: x.item(), or "
    "python -m mxjax --as 1.9 (or --compat), where results of asnumpy() still are"
)
RAGGED = "rows of unequal lengths: np.array(rows, dtype=object); NumPy has made no such array by itself since 1.24"
