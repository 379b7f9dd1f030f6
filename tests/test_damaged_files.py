"""Every reader of files, given files that were changed at random: a `FormatError` or other contents, never more.

Nothing else is raised, nothing hangs, and memory stays below three times the file and 64 MB.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import io
import json
import os
import random
import re
import signal
import struct
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mxjax as mx
from mxjax import memonger, recordio, safetensors
from mxjax.amp.loss_scaler import LossScaler
from mxjax.errors import (
    FormatError,
    MXNetAssertionError,
    MXNetError,
    MXNetMemoryError,
    MXNetNotImplementedError,
)
from mxjax.files import codec, idx
from mxjax.gluon.data import _position, vision
from mxjax.gluon.files import resuming
from mxjax.image import iterator
from mxjax.io import files
from mxjax.memonger.trials import plan
from mxjax.optimizer import saving
from mxjax.profiler import _chrome
from tests import damage

DATA = Path(__file__).parent / "data"
LIMIT = 64 << 20  # bytes, beside three times the file
PATIENCE = 10  # seconds of the processor for one file


class Reader(NamedTuple):
    """What reads a kind of files, and some whole files of it."""

    read: Callable[[Any], Any]
    samples: Callable[[], list[bytes]]
    also: tuple[type[Exception], ...] = ()  # errors of MXNet's own kind
    of_bytes: bool = True  # `read` takes the contents; otherwise the path
    #: Bytes that all files together may leave: steps of networks are remembered, 50,000 at most.
    remembered: int = 0


def on_disk(*names: str) -> Callable[[], list[bytes]]:
    return lambda: [(DATA / name).read_bytes() for name in names]


# ---- kinds of files


def records_of(path: Path) -> None:
    with recordio.MXRecordIO(str(path), "r") as reader:
        for record in iter(reader.read, None):
            with contextlib.suppress(FormatError):
                recordio.unpack(record)


def records() -> list[bytes]:
    return on_disk("recordio/magic.rec", "recordio/imgs.rec")()


def by_index(path: Path) -> None:
    reader = recordio.MXIndexedRecordIO(str(path), str(DATA / "recordio" / "imgs.rec"), "r")
    with reader:
        for key in reader.keys:
            reader.read_idx(key)


def rescued(path: Path) -> None:
    """Reading on behind what is damaged."""
    found = recordio.offsets(str(path), lambda error: None)
    with recordio.MXRecordIO(str(path), "r") as reader:
        for at in found:
            with contextlib.suppress(FormatError):
                recordio.unpack(reader.read_at(at))


def listed(path: Path) -> None:
    iterator.read_list(str(path))
    vision.ImageListDataset(str(path.parent), path.name)


def lists() -> list[bytes]:
    return [b"0\t1.5\ta.jpg\n1\t2\t3\tb c.jpg\n", b"7\t-1e3\tdeep/er/\xc3\xa4.png\n\n12\t0\tx\n"]


def pictures() -> list[bytes]:
    from PIL import Image

    pixels = np.arange(12 * 9 * 3, dtype=np.uint8).reshape(12, 9, 3)
    found = []
    for name, picture, more in (
        ("PNG", Image.fromarray(pixels), {}),
        ("PNG", Image.fromarray(pixels[..., 0]).convert("P"), {}),
        (
            "JPEG",
            Image.fromarray(pixels),
            {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"},
        ),
        ("JPEG", Image.fromarray(pixels[..., 0]), {"progressive": True}),
        ("GIF", Image.fromarray(pixels).convert("P"), {}),
        ("BMP", Image.fromarray(pixels), {}),
    ):
        buffer = io.BytesIO()
        picture.save(buffer, name, **more)
        found.append(buffer.getvalue())
    return found


def decoded(data: bytes) -> None:
    for flag in (1, 0, -1):
        with contextlib.suppress(FormatError):
            codec.decode(data, flag)


def comma_separated(path: Path) -> None:
    for dtype in ("float32", "int32"):
        with contextlib.suppress(FormatError):
            files._csv(str(path), (3,), np.dtype(dtype))


def libsvm(path: Path) -> None:
    _, rows = files._libsvm(str(path), 10)
    files._csr(rows, 1, 10)


@functools.cache
def symbols() -> list[bytes]:
    """Graphs with attributes, several results and graphs inside, and one of MXNet 1."""
    x, y = mx.sym.var("x"), mx.sym.var("y", shape=(2, 3))
    dense = mx.sym.FullyConnected(x, num_hidden=3, name="dense")
    split = mx.sym.split(dense + y, num_outputs=3, axis=1, name="split")
    looped = mx.sym.contrib.foreach(lambda d, s: (d + s, s * 2), x, y)[0]
    return [
        mx.sym.Group([split[0], split[2]]).tojson().encode(),
        looped.tojson().encode(),
        (DATA / "formats" / "mxnet191" / "module-symbol.json").read_bytes(),
    ]


def tables() -> list[bytes]:
    arrays = {
        "w": np.arange(6, dtype="float32").reshape(2, 3),
        "b": np.zeros(2, "int64"),
        "flag": np.array(True),
    }
    return [b"".join(safetensors.pack(arrays)), b"".join(safetensors.pack({}, {"by": "nobody"}))]


def states(data: bytes) -> None:
    saving.loads(data, mx.optimizer.create("sgd", momentum=0.9))


def own_states() -> list[bytes]:
    schedule = mx.lr_scheduler.FactorScheduler(3, base_lr=0.01)
    updater = mx.optimizer.get_updater(
        mx.optimizer.create("adam", learning_rate=0.01, lr_scheduler=schedule)
    )
    updater(0, mx.np.ones((2, 3)), mx.np.ones((2, 3)))
    return [updater.get_states(dump_optimizer=True), updater.get_states()]


def some_loader() -> tuple[Any, ...]:
    """What positions are of."""
    loader = mx.gluon.data.DataLoader(
        mx.gluon.data.ArrayDataset(np.arange(9)), 2, shuffle=True, last_batch="rollover"
    )
    rows = mx.io.NDArrayIter(
        np.arange(9), batch_size=2, shuffle=True, last_batch_handle="roll_over"
    )
    return loader, mx.io.ResizeIter(rows, 7)


@functools.cache
def positions() -> list[bytes]:
    loader, rows = some_loader()
    next(iter(loader)), list(rows)
    begun = iter(loader)
    next(begun)
    found = {
        "data": {"a": loader.state_dict(), "b": rows.state_dict()},
        "trainers": {"trainer": {"steps": 3, "scale": None}},
        "random": mx.random.get_state(), "numpy": _position.numpy_state(), "python": resuming._python_state(),
        "extra": {"epoch": 3, "best": 0.5},
    }  # fmt: skip
    return [b"".join(resuming._packed(found))]


@functools.cache
def taking() -> tuple[Any, ...]:
    return some_loader()


def position_in(data: bytes) -> None:
    """Where a training goes on: every part of it has to be of its kind."""
    found = resuming.read_position(data)
    loader, rows = taking()
    numpy, python, own = np.random.get_state(), random.getstate(), mx.random.get_state()
    try:
        for take in (
            lambda: loader.load_state_dict(found["data"]["a"]) or list(loader),
            lambda: rows.load_state_dict(found["data"]["b"]),
            lambda: mx.random.set_state(found["random"]),
            lambda: _position.numpy_restored(_position.checked(found["numpy"])),
            lambda: resuming._set_python_state(found["python"]),
        ):
            with contextlib.suppress(FormatError, KeyError):  # KeyError: a name that is another
                take()
    finally:
        np.random.set_state(numpy)
        random.setstate(python)
        mx.random.set_state(own)


def plans() -> list[bytes]:
    parts = [
        {"stop": 2, "keep": "all"},
        {"stop": 3, "keep": [0, 1], "parts": [{"stop": 3, "keep": "mirror"}]},
    ]
    report = {
        "of": "peak", "budget": 1000, "bytes": 900, "baseline_bytes": 2000, "flops": 5.0,
        "baseline_flops": 4.0, "recompute": 1.0, "bound": 0.5, "compilations": 2, "seconds": 1.5,
    }  # fmt: skip
    document = {
        "format": plan.FORMAT, "version": plan.VERSION,
        "operators": [["add", 1], ["dot", 1], ["tanh", 2]], "parts": parts, "rows": [["net", "kept", 3, 4.0]],
        "report": report,
    }  # fmt: skip
    return [json.dumps(document, indent=1).encode()]


def traces() -> list[bytes]:
    event = {
        "name": "dot",
        "ph": "X",
        "ts": 1.5,
        "dur": 2,
        "pid": 1,
        "tid": 2,
        "args": {"shape": [1, 2]},
    }
    return [
        json.dumps({"traceEvents": [event], "otherData": {"x": "1"}}).encode(),
        json.dumps([event]).encode(),
    ]


def digits() -> list[bytes]:
    import gzip

    plain = struct.pack(">4B3I", 0, 0, 8, 3, 2, 3, 4) + bytes(range(24))
    return [plain, gzip.compress(plain, mtime=0)]


def digits_of(path: Path) -> None:
    idx.read_idx(str(path), 3)


@functools.cache
def networks() -> list[bytes]:
    """ONNX models: of layers, of constants that are computed while reading, with loops and branches, recurrent."""
    onnx = pytest.importorskip("onnx")
    helper, dtypes, numbers = onnx.helper, onnx.TensorProto, np.random.RandomState(0)

    def node(kind: str, inputs: str, output: str, **attrs: Any) -> Any:
        return helper.make_node(kind, inputs.split(), output.split(), **attrs)

    def model(
        nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Any]
    ) -> bytes:
        graph = helper.make_graph(
            nodes, "g", [helper.make_tensor_value_info(n, dtypes.FLOAT, s) for n, s in inputs.items()],
            [helper.make_tensor_value_info(n, dtypes.FLOAT, None) for n in outputs],
            [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
        )  # fmt: skip
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)]
        ).SerializeToString()

    def weight(*shape: int) -> np.ndarray:
        return numbers.rand(*shape).astype("float32")

    def body(name: str, inputs: list[Any], nodes: list[Any], outputs: list[Any]) -> Any:
        info = [helper.make_tensor_value_info(n, t, s) for n, t, s in (*inputs, *outputs)]
        return helper.make_graph(nodes, name, info[: len(inputs)], info[len(inputs) :])

    step = body(
        "step", [("at", dtypes.INT64, []), ("on", dtypes.BOOL, []), ("h", dtypes.FLOAT, [2])],
        [node("Identity", "on", "on2"), node("Add", "h one", "h2"), node("Mul", "h2 h2", "out")],
        [("on2", dtypes.BOOL, []), ("h2", dtypes.FLOAT, [2]), ("out", dtypes.FLOAT, [2])],
    )  # fmt: skip
    branches = [
        body(name, [], [node(kind, "x one", f"y{name}")], [(f"y{name}", dtypes.FLOAT, [2])])
        for name, kind in (("then", "Add"), ("else", "Sub"))
    ]
    return [
        model(
            [
                node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
                node("BatchNormalization", "c s s0 m v", "n", epsilon=1e-3),
                node("Relu", "n", "r"), node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
                node("GlobalAveragePool", "p", "g"), node("Flatten", "g", "f", axis=1),
                node("Gemm", "f k kb", "y", transB=1, alpha=1.0),
            ],
            {"x": (1, 2, 8, 8)}, ["y"],
            {"w": weight(4, 2, 3, 3), "b": weight(4), "s": weight(4), "s0": weight(4), "m": weight(4), "v": weight(4),
             "k": weight(3, 4), "kb": weight(3)},
        ),
        model(
            [
                node("Shape", "x", "shape"), node("Gather", "shape zero", "rows", axis=0),
                node("Concat", "rows minus", "new", axis=0), node("Reshape", "x new", "flat"),
                node("ConstantOfShape", "two", "full"), node("Expand", "part two", "wide"),
                node("Add", "full wide", "sum"),
                node("Range", "start stop delta", "line"), node("Tile", "part reps", "tiled"),
                node("Slice", "flat starts ends axes", "cut"), node("MatMul", "cut tiled", "product"),
                node("ReduceSum", "product axes", "y", keepdims=0), node("Cast", "line", "z", to=1),
                node("Pad", "sum pads", "padded", mode="constant"),
            ],
            {"x": ("n", 2, 3)}, ["y", "z", "padded"],
            {"zero": np.array([0]), "minus": np.array([-1]), "two": np.array([2, 3]), "part": weight(3, 1)[:2],
             "start": np.array(0), "stop": np.array(5), "delta": np.array(1), "reps": np.array([2, 3]),
             "starts": np.array([0]), "ends": np.array([4]), "axes": np.array([1]), "pads": np.array([0, 1, 0, 1])},
        ),
        model(
            [
                node("Loop", "count flag x", "h outs", body=step),
                node("If", "flag", "b", then_branch=branches[0], else_branch=branches[1]), node("Add", "h b", "y"),
            ],
            {"x": (2,)}, ["y", "outs"], {"count": np.array(3), "flag": np.array(True), "one": weight(2)},
        ),
        model(
            [node("LSTM", "x w r b", "y h c", hidden_size=3), node("Softmax", "y", "s", axis=-1)],
            {"x": (4, 1, 2)}, ["s", "c"], {"w": weight(1, 12, 2), "r": weight(1, 12, 3), "b": weight(1, 24)},
        ),
    ]  # fmt: skip


def network(path: Path) -> None:
    mx.onnx.get_model_metadata(path)
    mx.onnx.import_model(path)


def network_as_block(path: Path) -> None:
    mx.onnx.import_to_gluon(path)


def graph_used(data: bytes) -> None:
    """What is read is asked for its shapes too: the answer, or an error of ours."""
    found = mx.sym.fromjson(data)
    with contextlib.suppress(MXNetError):
        found.infer_shape_partial(x=(2, 3))
    with contextlib.suppress(MXNetError):
        found.infer_shape(x=(2, 3), y=(2, 3), data=(4, 6))


def dense(data: bytes) -> None:
    """Arrays, sparse ones with their zeros too."""
    found = mx.nd.load_frombuffer(data)
    for each in found.values() if isinstance(found, dict) else found:
        if each is not None and each.stype != "default":
            each.asnumpy()


OF_BYTES = {
    "params": Reader(
        mx.nd.load_frombuffer,
        on_disk(
            "formats/mxnet191/nd_dict_dtypes.params", "formats/mxnet200/nd_sparse.params", "formats/old/v0.params",
            "formats/old/v1.params", "formats/mxnet191/nd_unicode.params",
        ),
        (MXNetMemoryError,),  # a sparse array that would be too large as a dense one
    ),
    "npz": Reader(
        mx.nd.load_frombuffer,
        on_disk(*(f"formats/mxnet200/{name}" for name in ("npx_savez.npz", "npz_sparse.npz", "npx_save_single.npy"))),
        (MXNetMemoryError,),
    ),
    "safetensors": Reader(mx.nd.load_frombuffer, tables),
    "symbols": Reader(mx.sym.fromjson, symbols),
    "states of MXNet": Reader(
        states,
        on_disk(*(f"trainer_{name}.states" for name in ("adam_mxnet1", "adam_mxnet2", "sgd_mxnet1", "sgd_mxnet2"))),
    ),
    "states": Reader(states, own_states),
    "positions": Reader(position_in, positions),
    "pictures": Reader(decoded, pictures),
}  # fmt: skip
OF_FILES = {
    "records": Reader(records_of, records),
    "records rescued": Reader(rescued, records),
    "index": Reader(by_index, on_disk("recordio/imgs.idx")),
    "lists": Reader(listed, lists),
    "csv": Reader(comma_separated, lambda: [b"1,2,3\n4.5,-6e7,nan\n", b"10,20,30\r\n\r\n4,5,6"]),
    "libsvm": Reader(libsvm, lambda: [b"1 0:2.5 3:4 # note\n-1.5 9:1\n", b"0\n2 1:1 2:2 3:3"]),
    "idx": Reader(digits_of, digits),
    "plans": Reader(memonger.load_plan, plans),
    "traces": Reader(_chrome.read, traces),
    "vectors": Reader(
        mx.contrib.text.embedding.CustomEmbedding,
        lambda: [b"a 1 2.5\nb 3 4\n", b"2 2\n<unk> 0 1\nx -1e5 7\n"],
        (MXNetAssertionError,),
    ),
}
OF_FILES["ONNX"] = Reader(network, networks, (MXNetMemoryError, MXNetNotImplementedError))
READERS = OF_BYTES | {name: reader._replace(of_bytes=False) for name, reader in OF_FILES.items()}


# ---- damage

_EXTREME = [
    struct.pack(code, value) for code in "<I >I <Q <H".split() for value in (0, 1, 0x7FFF, 0xFFFF)
]
_EXTREME += [
    bytes.fromhex(each)
    for each in ("ffffffff", "ffffff7f", "00000080", "7fffffff", "0000004000000000")
]
_TEXTS = [
    b"-1", b"0", b"1e999", b"nan", b"99999999999999999999", b"null", b"[]", b"{}", b'""', b"\t", b"\n", b"\0", b"\xff",
    b"true", b"[[[[", b'"a"', b"4294967296", b"1" * 5000,
]  # fmt: skip


def damaged(sample: bytes, dice: random.Random) -> bytes:
    """A file with up to four changes: bytes and numbers that are others, pieces that are cut, doubled or moved."""
    data = bytearray(sample)
    texts = _TEXTS[
        : None if sample.isascii() else -1
    ]  # in other files the longest would only make them large
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(data) + 1)
        kind = dice.randrange(8)
        if kind == 0 and at < len(data):
            data[at] = dice.randrange(256)
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << dice.randrange(8)
        elif kind == 2:
            extreme = dice.choice(_EXTREME)
            data[at : at + len(extreme)] = extreme
        elif kind == 3:
            del data[at:]
        elif kind == 4:
            del data[at : at + dice.randint(1, 16)]
        elif kind == 5:
            begin = dice.randrange(len(data) + 1)
            data[at:at] = data[begin : begin + dice.randint(1, 64)]
        elif kind == 6:
            numbers = list(re.finditer(rb"-?\d+|\"[^\"]*\"", data))
            if numbers:
                start, stop = dice.choice(numbers).span()
                data[start:stop] = dice.choice(texts)
        else:
            data[at:at] = dice.choice(texts)
    return bytes(data)


@contextlib.contextmanager
def patience() -> Iterator[Callable[[], None]]:
    """Ends what takes more than `PATIENCE` seconds of the processor; what it gives begins to count anew."""
    if not hasattr(signal, "SIGPROF"):
        yield lambda: None
        return

    def over(*_: Any) -> None:
        raise TimeoutError(f"more than {PATIENCE} s for one file")

    before = signal.signal(signal.SIGPROF, over)
    try:
        yield lambda: signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def memory(what: str) -> int | None:
    """`VmRSS`, what this process has now, or `VmHWM`, the most that it had, in bytes; Linux says so."""
    try:
        found = re.search(rf"^{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    except OSError:
        return None
    return int(found[1]) << 10 if found else None


def forget_most() -> bool:
    """Let `VmHWM` begin anew from now on."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def attempt(
    name: str, count: int, tmp_path: Path, reader: Reader, changed: damage.Damage
) -> tuple[int, int]:
    """How many of so many damaged files were refused and how many were read."""
    samples = reader.samples()
    path = tmp_path / "file"
    file = open(
        path, "wb", buffering=0
    )  # open all the time: to begin a file anew takes ten times as long

    def read(data: bytes) -> None:
        if not reader.of_bytes:
            file.seek(0)
            file.write(data)
            file.truncate()
        reader.read(data if reader.of_bytes else path)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in samples:
            read(sample)  # what is whole is read

    def once() -> tuple[int, int]:
        """How many files were refused, and the bytes taken beyond what was allowed."""
        dice = random.Random(f"{name} {count}")
        refused = 0
        before, measures = memory("VmRSS"), forget_most()
        largest = 0
        with patience() as begin, warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for number in range(count):
                if number % 5000 == 0:
                    gc.collect()  # cycles that wait for it, of refusals' tracebacks, are nothing a file asked for
                data = changed(samples[number % len(samples)], dice)
                largest = max(largest, len(data))
                begin()
                try:
                    read(data)
                except (FormatError, *reader.also):
                    refused += 1
                except BaseException as error:
                    error.add_note(f"damaged file {number}: {data[:2000]!r}")
                    raise
        most = memory("VmHWM")
        if not measures or before is None or most is None:
            return refused, 0
        return refused, most - before - (3 * largest + LIMIT + reader.remembered)

    refused, excess = once()
    if excess > 0:  # what another thread of a long process took meanwhile is not taken again
        refused, excess = once()
    file.close()
    assert excess <= 0, f"{excess >> 20} MB more than files of that size may take"
    return refused, count - refused


@pytest.mark.parametrize("name", READERS)
def test_some(name, tmp_path):
    refused, _ = attempt(name, 300 if name == "ONNX" else 2000, tmp_path, READERS[name], damaged)
    assert refused or name in (
        "pictures",
        "csv",
        "records rescued",
    )  # those try several ways at once


@pytest.mark.slow  # half a minute for each kind
@pytest.mark.parametrize("name", READERS)
def test_many(name, tmp_path):
    refused, read = attempt(name, 100_000, tmp_path, READERS[name], damaged)
    print(f"{name}: {refused} refused, {read} read")


def of_protobuf(data: bytes, dice: random.Random) -> bytes:
    return damage.protobuf(pytest.importorskip("onnx").ModelProto)(data, dice)


#: The same where their form has something to say.
STRUCTURED: dict[str, tuple[Reader, damage.Damage]] = {
    "params": (READERS["params"]._replace(read=dense), damage.words),
    "npz": (READERS["npz"]._replace(read=dense), damage.archive),
    "safetensors": (READERS["safetensors"], damage.table),
    "symbols": (READERS["symbols"]._replace(read=graph_used), damage.json_text),
    "states": (READERS["states"], damage.table),
    "states of MXNet": (READERS["states of MXNet"], damage.words),
    "positions": (READERS["positions"], damage.table),
    "records": (READERS["records"], damage.words),
    "plans": (READERS["plans"], damage.json_text),
    "traces": (READERS["traces"], damage.json_text),
    "ONNX": (READERS["ONNX"], of_protobuf),
    "ONNX as a block": (
        READERS["ONNX"]._replace(read=network_as_block, remembered=192 << 20),
        of_protobuf,
    ),
}


@pytest.mark.parametrize("name", STRUCTURED)
def test_some_with_other_fields(name, tmp_path):
    reader, changed = STRUCTURED[name]
    refused, read = attempt(name, 300, tmp_path, reader, changed)
    assert refused and read


@pytest.mark.slow  # minutes for ONNX
@pytest.mark.parametrize("name", STRUCTURED)
def test_many_with_other_fields(name, tmp_path):
    reader, changed = STRUCTURED[name]
    refused, read = attempt(name, 100_000, tmp_path, reader, changed)
    print(f"{name} with other fields: {refused} refused, {read} read")


def test_damage_is_the_same_each_time():
    one, other = ([damaged(b"abc 123", random.Random(n)) for n in range(50)] for _ in range(2))
    assert one == other and len(set(one)) > 40 and os.sep not in one[:0]


def test_changed_documents_share_nothing():
    """A list or dict that was put in once was written into by later changes, until one of them held itself."""
    document = {"a": [1, [2, "b"]], "c": {"d": None}}

    def changed(seed: int) -> list[str]:
        dice = random.Random(seed)
        return [json.dumps(damage.in_json(document, dice)) for _ in range(2000)]

    first = changed(3)
    changed(4)
    assert changed(3) == first and document == {"a": [1, [2, "b"]], "c": {"d": None}}


@pytest.mark.parametrize(
    "name", ["loader", "epoch", "rows", "random", "numpy", "python", "scale", "trainer"]
)
@pytest.mark.parametrize(
    "other", [np.arange(3), [1], "text", 2.5, None], ids=lambda v: type(v).__name__
)
def test_a_state_that_is_of_another_kind(name, other):
    """Arrays gave bare IndexErrors: they take a key of a dictionary for an index."""
    loader, rows = some_loader()
    begun = iter(loader)
    next(begun)
    take = {
        "loader": loader.load_state_dict,
        "epoch": lambda state: loader.load_state_dict(
            {**loader.state_dict(), "epoch": {"begin": state}}
        ),
        "rows": rows.load_state_dict,
        "random": mx.random.set_state,
        "numpy": _position.checked,
        "python": resuming._set_python_state,
        "scale": LossScaler().load_state_dict,
        "trainer": lambda state: resuming._take_beside_states(None, state),
    }[name]
    with pytest.raises(FormatError):
        take(other)


def test_a_loop_without_its_number_of_results():
    """Found among 100,000 symbols with other fields; asking for its shapes was a bare TypeError."""
    loop = next(each for each in symbols() if b'"_foreach"' in each)
    with pytest.raises(FormatError, match="do not fit its graphs"):
        mx.sym.fromjson(re.sub(rb'"num_out_data": "\d+",?', b"", loop))


def test_a_position_that_is_an_array():
    """Found among 20,000 positions with other fields; it was a bare IndexError."""
    arrays = {"a1": np.arange(3)}
    said = json.dumps({"format": resuming._FORMAT, "version": 1, "found": {"array": 1}})
    with pytest.raises(FormatError, match="it holds an array"):
        resuming.read_position(b"".join(safetensors.pack(arrays, {"mxjax": said})))
