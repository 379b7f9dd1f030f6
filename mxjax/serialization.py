"""Arrays in files: MXNet's list container (.params), NumPy's .npy and .npz, read and written.

What a file holds is told from its first bytes, not from its name. Every length is checked against
the bytes that are there before anything is allocated, so a damaged or hostile file is an error and
nothing else; nothing in a file is ever executed. `mxjax/files/atomic.py` writes the files.
"""

from __future__ import annotations

import ast
import io
import math
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import errors, safetensors
from .array import creation
from .array.indexing import shapes_of_1x
from .array.ndarray import NDArray
from .array.sparse import BaseSparseNDArray
from .array.sparse.host import HostSparse, members
from .core import default_device
from .files.atomic import read_whole, write_whole

__all__ = [
    *("from_raw_bytes", "load", "load_frombuffer", "load_parameters", "nd_load", "nd_save"),
    *("read_arrays", "save", "save_parameters", "savez", "to_raw_bytes"),
]

_CONTAINER = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_AXES = 32
_MAX_HEADER = 1 << 16  # bytes of a .npy header
_MAX_RATIO = 1100  # deflate's own limit is 1032
CODES = (
    *("float32", "float64", "float16", "uint8", "int32", "int8", "int64"),
    *("bool", "int16", "uint16", "uint32", "uint64", "bfloat16"),
)
_TYPES = dict(enumerate(CODES))
_CODE_OF = {name: code for code, name in _TYPES.items()}


def dtype_of(name: str) -> np.dtype:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name).newbyteorder("<")


def _bad(what: str) -> errors.MXNetError:
    return errors.FormatError(f"the file is damaged or no file of arrays: {what}")


# ---- the list container


class _Bytes:
    """Bytes read from front to back; asking for more than there is, is an error before it costs anything."""

    def __init__(self, data: bytes | memoryview):
        self._data = memoryview(data)
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, n: int, what: str) -> memoryview:
        if not 0 <= n <= self.left:
            raise _bad(f"{what} needs {n} bytes at offset {self.at}, {self.left} are left")
        part = self._data[self.at : self.at + n]
        self.at += n
        return part

    def number(self, kind: str, what: str) -> int:
        code = "<" + kind
        return int(struct.unpack(code, self.take(struct.calcsize(code), what))[0])

    def count(self, what: str, least: int) -> int:
        """A number of things of which each takes at least so many bytes."""
        n = self.number("Q", what)
        if n * least > self.left:
            raise _bad(f"{n} {what} cannot be in the {self.left} bytes that are left")
        return n


def _shape(data: _Bytes, kind: str = "q") -> tuple[int, ...] | None:
    """A shape, or ``None`` if the file says that it is unknown."""
    ndim = data.number("i", "number of axes")
    if ndim == -1:
        return None
    if not 0 <= ndim <= _MAX_AXES:
        raise _bad(f"{ndim} axes")
    dims = tuple(data.number(kind, "length of an axis") for _ in range(ndim))
    if any(n == -1 for n in dims):
        return None
    return _sane(dims)


def _sane(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, unless no array could have it: NumPy counts the bytes of empty axes as well."""
    if any(n < 0 for n in dims) or math.prod(max(n, 1) for n in dims) >= 1 << 59:
        raise _bad(f"shape {dims}")
    return dims


def _contents(data: _Bytes, shape: tuple[int, ...], code: int) -> np.ndarray:
    if code not in _TYPES:
        raise _bad(f"unknown element type {code}")
    dtype = dtype_of(_TYPES[code])
    size = math.prod(shape)
    raw = data.take(size * dtype.itemsize, f"an array of shape {shape}")
    made = np.frombuffer(raw, np.uint8 if dtype.kind == "b" else dtype)
    if dtype.kind == "b":
        made = made != 0  # any other byte would be no bool to NumPy
    return made.reshape(shape).copy()


#: What is read and written: arrays of the host.
Host = np.ndarray | HostSparse


def _array(data: _Bytes) -> Host | None:
    """One array; ``None`` for a place that was never filled."""
    magic = data.number("I", "start of an array")
    if magic in (_V2, _V3):
        return _array_v2(data, scalars=magic == _V3)
    if magic == _V1:
        shape = _shape(data)
    elif magic <= _MAX_AXES:  # before 0.11 an array began with its number of axes
        shape = _sane(tuple(data.number("I", "length of an axis") for _ in range(magic)))
    else:
        raise _bad(f"no array begins with {magic:#x}")
    if not shape:
        return None
    data.take(8, "device")
    return _contents(data, shape, data.number("i", "element type"))


def _array_v2(data: _Bytes, scalars: bool) -> Host | None:
    kind = data.number("i", "storage type")
    if kind not in (-1, 0, 1, 2):
        raise _bad(f"unknown storage type {kind}")
    stored = _shape(data) if kind > 0 else None
    shape = _shape(data)
    if shape is None or (not shape and not scalars):
        return None
    data.take(8, "device")
    code = data.number("i", "element type")
    if kind <= 0:
        if scalars and 0 in shape and _of_1x():
            raise errors.MXNetError(
                f"an array of shape {shape} was saved where shapes are NumPy's; here a length of 0 means that it "
                "is not known: load it within `mx.util.np_shape(True)`"
            )
        return _contents(data, shape, code)
    if stored is None:
        raise _bad("a sparse array without stored values")
    aux = []
    for _ in range(kind):
        aux_code = data.number("i", "element type of indices")
        aux_shape = _shape(data)
        if aux_shape is None or len(aux_shape) != 1:
            raise _bad("indices without a length")
        aux.append((aux_shape, aux_code))
    if not math.prod(
        stored
    ):  # MXNet may write it before it is known; its reader goes by the indices
        stored = _sane((aux[-1][0][0], *shape[1:])) if kind == 1 else aux[-1][0]
    values = _contents(data, stored, code)
    parts = [_contents(data, s, c) for s, c in aux]
    if kind == 1:
        return _sound(HostSparse("row_sparse", shape, (values, parts[0])))
    return _sound(HostSparse("csr", shape, (values, parts[1], parts[0])))


def _sound(found: HostSparse) -> HostSparse:
    """The sparse array, unless its numbers make no sense."""
    fault = found.fault()
    if fault is not None:
        raise _bad(fault)
    return found


def _read_container(raw: bytes | memoryview) -> tuple[list[Host | None], list[str]]:
    data = _Bytes(raw)
    if data.number("Q", "start") != _CONTAINER:
        raise _bad("it does not begin as one")
    data.take(8, "reserved bytes")
    arrays = [_array(data) for _ in range(data.count("arrays", 8))]
    names = []
    for _ in range(data.count("names", 8)):
        name = data.take(data.number("Q", "length of a name"), "a name")
        try:
            names.append(str(name, "utf-8"))
        except UnicodeDecodeError:
            raise _bad("a name that is no text") from None
    if names and len(names) != len(arrays):
        raise _bad(f"{len(names)} names for {len(arrays)} arrays")
    if data.left:
        raise _bad(f"{data.left} bytes after the end")
    return arrays, names


def _by_numpy(arrays: Sequence[Host]) -> bool:
    """Whether a file's shapes are NumPy's; beside sparse arrays, which MXNet has in version 2 alone, they are not."""
    sparse = any(isinstance(a, HostSparse) for a in arrays)
    return not sparse and not _of_1x()


def _of_1x() -> bool:
    """Whether shapes mean what they mean in MXNet 1.x here."""
    return bool(shapes_of_1x) and shapes_of_1x[0]()


def _raw(array: Host, by_numpy: bool) -> Iterator[bytes]:
    """The bytes of one array: as MXNet, version 3 where shapes are NumPy's and 2 where they are those of 1.x.

    MXNet reads a file only where shapes mean the same as where it was written."""
    if isinstance(array, HostSparse):
        yield from _raw_sparse(array)
        return
    name = array.dtype.name
    if name not in _CODE_OF:
        raise errors.MXNetTypeError(f"arrays of {name} cannot be stored in MXNet's format")
    version = _V3 if by_numpy or not array.shape else _V2
    yield struct.pack("<Iii", version, 0, array.ndim)
    yield struct.pack(f"<{array.ndim}q", *array.shape)
    yield struct.pack("<iii", 1, 0, _CODE_OF[name])
    yield np.ascontiguousarray(array, dtype_of(name)).tobytes()


def _raw_sparse(array: HostSparse) -> Iterator[bytes]:
    name = array.dtype.name
    if name not in _CODE_OF:
        raise errors.MXNetTypeError(f"arrays of {name} cannot be stored in MXNet's format")
    data, indices, *indptr = array.parts
    yield struct.pack("<Ii", _V2, 1 + len(indptr))
    for shape in (data.shape, array.shape):
        yield struct.pack(f"<i{len(shape)}q", len(shape), *shape)
    yield struct.pack("<iii", 1, 0, _CODE_OF[name])
    for part in (*indptr, indices):  # in this order
        yield struct.pack("<iiq", _CODE_OF["int64"], 1, len(part))
    yield np.ascontiguousarray(data, dtype_of(name)).tobytes()
    for part in (*indptr, indices):
        yield np.ascontiguousarray(part, "<i8").tobytes()


def _write_container(out: BinaryIO, names: Sequence[str], arrays: Sequence[Host]) -> None:
    out.write(struct.pack("<QQQ", _CONTAINER, 0, len(arrays)))
    by_numpy = _by_numpy(arrays)
    for a in arrays:
        for part in _raw(a, by_numpy):
            out.write(part)
    out.write(struct.pack("<Q", len(names)))
    for name in names:
        encoded = name.encode()
        out.write(struct.pack("<Q", len(encoded)))
        out.write(encoded)


# ---- NumPy's formats


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _read_npy(stream: Any, size: int) -> np.ndarray:
    """An .npy array out of a stream of so many bytes."""
    header, begin = _read_header(stream)
    if header.nbytes != size - begin:
        raise _bad(
            f"an array of shape {header.shape} has {header.nbytes} bytes, the file has "
            f"{size - begin} for it"
        )
    raw = stream.read(header.nbytes)
    if len(raw) != header.nbytes:
        raise _bad(f"it ends {header.nbytes - len(raw)} bytes too early")
    made = np.frombuffer(raw, header.dtype)
    if header.dtype == bool:
        made = np.frombuffer(raw, np.uint8) != 0
    made = made.reshape(header.shape, order="F" if header.fortran else "C")
    return made.astype(header.dtype.newbyteorder("="), order="C")


def _read_header(stream: Any) -> tuple[_Header, int]:
    start = stream.read(10)
    if len(start) < 10 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise _bad("no .npy header")
    length, begin = int.from_bytes(start[8:10], "little"), 10
    if start[6] > 1:
        length, begin = int.from_bytes(start[8:10] + stream.read(2), "little"), 12
    if length > _MAX_HEADER:
        raise _bad(f"a header of {length} bytes")
    text = stream.read(length)
    try:
        fields = ast.literal_eval(text.decode("latin1").strip())
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
        # bfloat16 has no name in NumPy's files; MXNet writes it so.
        dtype = dtype_of("bfloat16") if descr == "<b2" else np.dtype(descr)
    except (ValueError, SyntaxError, KeyError, TypeError, MemoryError, RecursionError):
        raise _bad("its header is no .npy header") from None
    ok = isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape)
    if not ok or len(shape) > _MAX_AXES or dtype.name not in _CODE_OF:
        raise _bad(f"an array of {dtype} and shape {shape}")
    return _Header(_sane(shape), dtype, bool(fortran)), begin + length


def _npy_header(array: np.ndarray) -> bytes:
    name = array.dtype.name
    if name not in _CODE_OF and array.dtype.kind != "S":
        raise errors.MXNetTypeError(f"arrays of {name} cannot be stored")
    descr = "<b2" if name == "bfloat16" else array.dtype.newbyteorder("<").str
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {array.shape!r}, }}"
    room = -(10 + len(text) + 1) % 64
    encoded = (text + " " * room + "\n").encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded


def _write_npy(out: Any, array: np.ndarray) -> None:
    out.write(_npy_header(array))
    out.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())


def _read_npz(source: Any) -> dict[str, Host]:
    import zipfile
    import zlib

    made: dict[str, Host] = {}
    sparse: dict[str, dict[str, np.ndarray | bytes]] = {}
    try:
        with zipfile.ZipFile(source) as archive:
            members = archive.infolist()
            folders = {
                m.filename.rsplit("/", 1)[0] for m in members if m.filename.endswith("/format.npy")
            }
            folders |= {""} if {m.filename for m in members} == _SCIPY else set()
            for m in members:
                if m.file_size > _MAX_RATIO * m.compress_size + 1024:
                    raise _bad(f"{m.filename} claims {m.file_size} bytes in {m.compress_size}")
                key = m.filename.removesuffix(".npy")
                folder, _, part = key.rpartition("/")
                with archive.open(m) as stream:
                    if folder in folders and part == "format":
                        sparse.setdefault(folder, {})[part] = _format_of(stream, m.file_size)
                    elif folder in folders:
                        sparse.setdefault(folder, {})[part] = _read_npy(stream, m.file_size)
                    else:
                        made[key] = _read_npy(stream, m.file_size)
    except errors.MXNetError:
        raise
    except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, OSError) as error:
        raise _bad(str(error)) from error
    except (
        NotImplementedError,
        RuntimeError,
        OverflowError,
    ) as error:  # a method or flag nobody uses
        raise _bad(str(error)) from error
    for key, parts in sparse.items():
        kept = HostSparse.of_members(parts)
        if kept is None:
            raise _bad(f"the sparse array {key!r} is not complete")
        _sane(kept.shape)
        made[key] = _sound(kept)
    return made


def _format_of(stream: Any, size: int) -> bytes:
    """MXNet writes this member with a damaged header; what follows it is the name of the storage type."""
    start = stream.read(10)
    length = int.from_bytes(start[8:10], "little")
    if length > _MAX_HEADER or size - 10 - length > 64:
        raise _bad("no storage type")
    stream.read(length)
    return bytes(stream.read(64)).strip(b"\0")


#: The members of a matrix that SciPy's `save_npz` wrote.
_SCIPY = {f"{part}.npy" for part in ("data", "indices", "indptr", "shape", "format")}


def _write_npz(out: BinaryIO, arrays: Mapping[str, Host]) -> None:
    import zipfile

    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, a in members(arrays):
            info = zipfile.ZipInfo(name + ".npy")  # no time in it: equal arrays are equal files
            with archive.open(info, "w", force_zip64=a.nbytes > 1 << 31) as member:
                _write_npy(member, a)


# ---- files


def arrays_of(raw: bytes) -> Host | list[Host | None] | dict[str, Host | None]:
    """:func:`read_arrays` of a file's bytes."""
    with errors.parsing():
        return _arrays_of(raw)


def _arrays_of(raw: bytes) -> Host | list[Host | None] | dict[str, Host | None]:
    start = bytes(raw[:4])
    if start == b"\x93NUM":
        return _read_npy(io.BytesIO(raw), len(raw))
    if start[:2] == b"PK":
        return dict(_read_npz(io.BytesIO(raw)))
    if start == struct.pack("<I", _CONTAINER):
        arrays, names = _read_container(raw)
        return dict(zip(names, arrays, strict=True)) if names else arrays
    if safetensors.is_safetensors(raw):
        return dict(safetensors.unpack(raw))
    raise _bad(f"it begins with {start!r}; .params, .npz, .npy and .safetensors files are read")


def _read(path: Any) -> Any:
    """What a file holds, sparse arrays as such."""
    raw = read_whole(path)
    with errors.parsing(os.fspath(path)):  # many files are read in a row: which of them is it?
        return arrays_of(raw)


def read_arrays(path: Any) -> Any:
    """What a file holds, as NumPy arrays: one, a list, or a dictionary by name.

    MXNet's containers of all versions and NumPy's formats are told apart by their contents. Sparse
    arrays arrive dense, places that were never filled as ``None``. Raises ``ValueError`` for a
    damaged file, ``OSError`` for one that cannot be read.
    """
    return _wrapped(_read(path), lambda host, dtype: host)


def _wrapped(found: Any, make: Any, sparse: bool = False) -> Any:
    """What was read, as `make` makes arrays; sparse ones as such if wanted."""
    if isinstance(found, dict):
        return {k: _wrapped(v, make, sparse) for k, v in found.items()}
    if isinstance(found, list):
        return [_wrapped(v, make, sparse) for v in found]
    if isinstance(found, HostSparse):
        if sparse:
            return found.array(default_device())
        found = found.dense()
    return None if found is None else make(found, dtype=found.dtype)


def load(file: Any, legacy: bool = False) -> Any:
    """Read arrays: one, a list, or a dictionary by name, as they were written; a list of one is one array.

    Files of MXNet 1.x and 2.x (.params) and of NumPy (.npy, .npz) are understood.

    >>> import mxjax as mx, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
    >>> mx.npx.savez(path, a=mx.np.ones(2))
    >>> mx.npx.load(path)
    {'a': array([1., 1.])}
    """
    found = _wrapped(_read(file), creation.nd_array if legacy else creation.array, sparse=True)
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def nd_load(fname: Any) -> Any:
    """:func:`load` for nd: a list, or a dictionary by name; a single array is a list of one."""
    found = load(fname, legacy=True)
    return found if isinstance(found, (list, dict)) else [found]


def load_frombuffer(buf: bytes) -> Any:
    """:func:`nd_load` from the bytes of a file."""
    found = _wrapped(arrays_of(bytes(buf)), creation.nd_array, sparse=True)
    return found if isinstance(found, (list, dict)) else [found]


def _host(a: Any, name: str = "") -> Host:
    if isinstance(a, BaseSparseNDArray):
        return HostSparse.of(a)
    if isinstance(a, NDArray):
        return a.asnumpy()
    if isinstance(a, np.ndarray):
        return a
    kind = errors.MXNetTypeError if name else errors.MXNetValueError
    what = f" under {name!r}" if name else ""
    raise kind(
        "data needs to either be a MXNet ndarray, a list of them or a dict of str to them; got "
        f"{type(a)}{what}"
    )


def _named(data: Mapping[str, Any]) -> dict[str, Host]:
    for name in data:
        if not isinstance(name, str):
            raise errors.MXNetTypeError(f"save only accept dict str->NDArray; got the key {name!r}")
    return {name: _host(a, name) for name, a in data.items()}


def save(file: Any, arr: Any) -> None:
    """Write one array as .npy, a dictionary of arrays as .npz, a list as MXNet's container.

    The file gets the very name that is given.
    """
    if isinstance(arr, Mapping):
        write_whole(file, _write_npz, _named(arr))
    elif isinstance(arr, (list, tuple)):
        write_whole(file, _write_container, (), [_host(a) for a in arr])
    else:
        host = _host(arr)
        if isinstance(host, HostSparse):
            raise errors.MXNetTypeError(
                "a .npy file holds one dense array: savez and mx.nd.save write sparse ones"
            )
        write_whole(file, _write_npy, host)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Write arrays to an .npz file, by their keywords, or as ``arr_0``, ``arr_1``, ..."""
    named = {f"arr_{k}": a for k, a in enumerate(args)}
    both = named.keys() & kwds.keys()
    if both:
        raise errors.MXNetValueError(f"Cannot use un-named variables and keyword {', '.join(both)}")
    write_whole(file, _write_npz, _named({**named, **kwds}))


def nd_save(fname: Any, data: Any) -> None:
    """Write an array, a list of arrays or a dictionary of them in MXNet's container, which every MXNet reads."""
    if isinstance(data, NDArray):
        data = [data]
    if isinstance(data, Mapping):
        named = _named(data)
        write_whole(fname, _write_container, list(named), list(named.values()))
    elif isinstance(data, (list, tuple)):
        write_whole(fname, _write_container, (), [_host(a) for a in data])
    else:
        raise errors.MXNetValueError(
            "data needs to either be a NDArray, dict of str, NDArray pairs or a list of NDarrays; "
            f"got {type(data)}"
        )


def save_parameters(filename: Any, arrays: Mapping[str, Any]) -> None:
    """Write parameters by name in MXNet 2's format, an .npz file whatever its name; or as .safetensors."""
    named = _named(arrays)
    if safetensors.path_is(filename):
        write_whole(filename, lambda out: out.writelines(safetensors.pack(named)))
    else:
        write_whole(filename, _write_npz, named)


def load_parameters(filename: Any) -> dict[str, Any]:
    """Parameters by name from a file of any MXNet; ``arg:`` and ``aux:`` are taken off the names.

    Raises ``ValueError`` if the file holds arrays without names.
    """
    found = read_arrays(filename)
    if isinstance(found, list) and not found:
        found = {}
    if not isinstance(found, dict):
        raise errors.MXNetValueError(
            f"{os.fspath(filename)} holds arrays without names, so it is not a parameter file; "
            "mx.npx.load and mx.nd.load read it"
        )
    plain = {k.removeprefix("arg:").removeprefix("aux:"): v for k, v in found.items()}
    return {k: creation.array(v, dtype=v.dtype) for k, v in plain.items() if v is not None}


def to_raw_bytes(array: NDArray | np.ndarray) -> bytes:
    """One array as MXNet's pickles hold it: the container's form without the container."""
    found = _host(array)
    return b"".join(_raw(found, _by_numpy([found])))


def from_raw_bytes(raw: bytes, legacy: bool = True) -> Any:
    """The array in the bytes that :func:`to_raw_bytes` or a pickle of MXNet gives."""
    with errors.parsing():
        data = _Bytes(bytes(raw))
        found = _array(data)
        if data.left:
            raise _bad(f"{data.left} bytes after the end")
    return _wrapped(found, creation.nd_array if legacy else creation.array, sparse=True)
