"""Arrays in files: MXNet's own files read back, ours read by everybody, hostile ones refused."""

import io
import os
import random
import struct
import zipfile
from pathlib import Path

import numpy as onp
import pytest

import mxjax as mx
from mxjax import serialization as ser

FILES = Path(__file__).parent / "data" / "formats"
VERSIONS = ["mxnet191", "mxnet200"]


def expected(version, name):
    with onp.load(FILES / version / f"{name}.expected.npz") as data:
        return {k: data[k] for k in data.files}


def agree(got, want):
    got = got.asnumpy() if hasattr(got, "asnumpy") else got
    assert got.dtype == want.dtype and got.shape == want.shape
    onp.testing.assert_array_equal(got, want)


# ---- files of MXNet ------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["nd_dict_dtypes", "nd_dict_dtypes_npshapeoff"])
def test_every_dtype(version, file):
    want = expected(version, "nd_dict_dtypes")
    got = mx.nd.load(str(FILES / version / f"{file}.params"))
    assert list(got) == list(want)
    for k in want:
        assert type(got[k]) is mx.nd.NDArray
        agree(got[k], want[k])


@pytest.mark.parametrize("version", VERSIONS)
def test_lists(version):
    want = expected(version, "nd_list")
    got = mx.nd.load(str(FILES / version / "nd_list.params"))
    assert isinstance(got, list)
    for g, k in zip(got, want, strict=True):
        agree(g, want[k])
    assert len(mx.nd.load(str(FILES / version / "nd_single.params"))) == 1
    assert all(isinstance(k, str) for k in mx.nd.load(str(FILES / version / "nd_unicode.params")))


@pytest.mark.parametrize("version", VERSIONS)
def test_sparse_arrays(version, tmp_path):
    want = expected(version, "nd_sparse")
    path = FILES / version / "nd_sparse.params"
    got = mx.nd.load(str(path))
    stypes = {
        "rs": "row_sparse",
        "csr": "csr",
        "dense": "default",
        "zero_rs": "row_sparse",
        "zero_csr": "csr",
    }
    assert {k: a.stype for k, a in got.items()} == stypes
    for k in got:
        agree(got[k], want[k])
    mx.nd.save(str(tmp_path / "again.params"), got)
    assert (tmp_path / "again.params").read_bytes() == path.read_bytes()
    dense = ser.read_arrays(path)  # what readers of parameters get
    assert all(type(a) is onp.ndarray for a in dense.values())
    onp.testing.assert_array_equal(dense["csr"], want["csr"])


def test_sparse_arrays_in_npz_files(tmp_path):
    scipy = pytest.importorskip("scipy.sparse")
    matrix = scipy.random(5, 4, 0.4, format="csr", random_state=0)
    scipy.save_npz(tmp_path / "scipy.npz", matrix)
    (found,) = mx.nd.load(str(tmp_path / "scipy.npz")).values()
    assert found.stype == "csr"
    assert (found.asscipy() != matrix).nnz == 0
    rows = mx.nd.sparse.row_sparse_array(([[1, 2]], [3]), shape=(5, 2))
    mx.npx.savez(str(tmp_path / "both.npz"), a=found, b=rows, c=mx.np.ones(2))
    again = mx.npx.load(str(tmp_path / "both.npz"))
    assert {k: v.stype for k, v in again.items()} == {"a": "csr", "b": "row_sparse", "c": "default"}
    onp.testing.assert_array_equal(again["b"].asnumpy(), rows.asnumpy())
    onp.testing.assert_array_equal(again["a"].asnumpy(), found.asnumpy())
    for wrong in (5, [5]):  # recorded: ValueError, and TypeError for what is in a dictionary
        with pytest.raises(ValueError, match="MXNet ndarray"):
            mx.npx.save(str(tmp_path / "wrong"), wrong)
    with pytest.raises(TypeError, match="MXNet ndarray"):
        mx.nd.save(str(tmp_path / "wrong"), {"a": 5})
    with pytest.raises(TypeError, match="savez"):
        mx.npx.save(str(tmp_path / "one.npy"), rows)


def test_numpy_files_of_mxnet():
    want = expected("mxnet200", "npx")
    for k, v in mx.npx.load(str(FILES / "mxnet200" / "npx_savez.npz")).items():
        assert type(v) is mx.np.ndarray
        agree(v, want[k])
    single = mx.npx.load(str(FILES / "mxnet200" / "npx_save_single.npy"))
    assert type(single) is mx.np.ndarray
    for k, v in mx.npx.load(str(FILES / "mxnet191" / "npx_save.params")).items():
        agree(v, expected("mxnet191", "npx")[k])
    sparse = mx.npx.load(str(FILES / "mxnet200" / "npz_sparse.npz"))
    assert sparse["csr"].stype == "csr"
    want = expected("mxnet200", "nd_sparse")
    assert {"rs", "csr"} <= set(sparse)
    for k in sparse:
        if k in want:
            agree(sparse[k], want[k])


@pytest.mark.parametrize("name", ["v0", "v1", "v2_gpu_ctx_list"])
def test_old_versions(name):
    want = onp.load(FILES / "old" / "expected.npz")["a"]
    found = mx.nd.load(str(FILES / "old" / f"{name}.params"))
    agree((found if isinstance(found, list) else list(found.values()))[0], want)


def test_bfloat16():
    (got,) = mx.nd.load(str(FILES / "old" / "v2_bf16_list.params"))
    assert onp.dtype(got.dtype).name == "bfloat16"


@pytest.mark.parametrize("version", VERSIONS)
def test_parameters_of_networks(version):
    plain = ser.load_parameters(FILES / version / "conv.params")
    assert plain and all(type(v) is mx.np.ndarray for v in plain.values())
    exported = ser.load_parameters(FILES / version / "conv-0003.params")
    assert exported and not any(k.startswith(("arg:", "aux:")) for k in exported)
    assert sorted(v.shape for v in plain.values()) == sorted(v.shape for v in exported.values())


# ---- and back ------------------------------------------------------------------------------------

DTYPES = [
    "float32",
    "float64",
    "float16",
    "uint8",
    "int32",
    "int8",
    "int64",
    "bool",
    "int16",
    "uint64",
]


def some(dtype, shape=(2, 3)):
    return mx.np.array(onp.random.RandomState(0).randint(0, 2, shape), dtype=dtype)


@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (1,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_round_trip(tmp_path, dtype, shape):
    x = some(dtype, shape)
    path = str(tmp_path / "x.bin")
    mx.npx.save(path, x)
    agree(mx.npx.load(path), x.asnumpy())
    agree(onp.load(path), x.asnumpy())
    mx.npx.savez(path, x, other=x)
    got = mx.npx.load(path)
    assert list(got) == ["arr_0", "other"]
    agree(got["other"], x.asnumpy())
    agree(onp.load(path)["arr_0"], x.asnumpy())
    mx.nd.save(path, {"a.b": x.as_nd_ndarray()})
    agree(mx.nd.load(path)["a.b"], x.asnumpy())
    mx.nd.save(path, [x.as_nd_ndarray()] * 2)
    agree(mx.nd.load(path)[1], x.asnumpy())
    agree(mx.nd.load_frombuffer(Path(path).read_bytes())[0], x.asnumpy())
    agree(ser.from_raw_bytes(ser.to_raw_bytes(x)), x.asnumpy())


@pytest.mark.parametrize("version", VERSIONS)
def test_the_container_is_the_one_mxnet_writes(tmp_path, version):
    for file, by_numpy in (
        ("nd_dict_dtypes", version == "mxnet200"),
        ("nd_dict_dtypes_npshapeoff", False),
    ):
        source = FILES / version / f"{file}.params"
        with mx.util.np_array(by_numpy), mx.util.np_shape(by_numpy):
            mx.nd.save(str(tmp_path / "again"), mx.nd.load(str(source)))
        assert (tmp_path / "again").read_bytes() == source.read_bytes()


def test_empty_arrays_of_numpy_shapes_load_there_alone(tmp_path):
    with mx.util.np_array(False), mx.util.np_shape(True):
        mx.nd.save(str(tmp_path / "x"), [mx.nd.ones((2, 1)), mx.nd.ones((2, 0))])
        assert mx.nd.load(str(tmp_path / "x"))[1].shape == (2, 0)
    with (
        mx.util.np_array(False),
        mx.util.np_shape(False),
        pytest.raises(mx.MXNetError, match=r"\(2, 0\).*np_shape\(True\)"),
    ):
        mx.nd.load(str(tmp_path / "x"))


def test_bfloat16_round_trip(tmp_path):
    x = mx.np.array([1.5, -2.0]).astype("bfloat16")
    for save in (mx.npx.save, mx.nd.save):
        save(str(tmp_path / "x"), x)
        got = mx.npx.load(str(tmp_path / "x"))
        got = got[0] if isinstance(got, list) else got
        assert got.dtype.name == "bfloat16"
        onp.testing.assert_array_equal(got.astype("float32").asnumpy(), [1.5, -2.0])


def test_fortran_order_and_big_endian(tmp_path):
    want = onp.arange(6, dtype=">f4").reshape(2, 3, order="F")
    onp.save(tmp_path / "x.npy", want)
    got = mx.npx.load(str(tmp_path / "x.npy")).asnumpy()
    onp.testing.assert_array_equal(got, want)
    onp.savez_compressed(tmp_path / "x.npz", a=want)
    onp.testing.assert_array_equal(mx.npx.load(str(tmp_path / "x.npz"))["a"].asnumpy(), want)


def test_lists_and_dictionaries_come_back_as_such(tmp_path):
    path = str(tmp_path / "x")
    mx.npx.save(path, [some("int32"), some("float32")])
    assert [a.dtype.name for a in mx.npx.load(path)] == ["int32", "float32"]
    mx.npx.save(path, {"a": some("int32")})
    assert list(mx.npx.load(path)) == ["a"]
    mx.nd.save(path, [])
    assert mx.nd.load(path) == []


def test_what_cannot_be_saved(tmp_path):
    path = str(tmp_path / "x")
    for wrong in (3, "text", [3], {"a": 3}, {1: some("int32")}):
        with pytest.raises((TypeError, ValueError)):
            mx.npx.save(path, wrong)
        with pytest.raises((TypeError, ValueError)):
            mx.nd.save(path, wrong)
    assert not os.listdir(tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x"
    mx.npx.savez(str(path), a=some("int32"))
    before = path.read_bytes()
    with pytest.raises(mx.MXNetError):
        mx.npx.savez(str(path), a=some("int32"), b=onp.ones(2, complex))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["x"]


def test_missing_files():
    for load in (mx.nd.load, mx.npx.load, ser.load_parameters):
        with pytest.raises(mx.MXNetError, match="No such file") as caught:
            load("/nowhere/at/all")
        assert isinstance(caught.value, FileNotFoundError)


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "net.params"
    path.write_bytes(b"no arrays")
    for load in (mx.nd.load, mx.npx.load, ser.load_parameters):
        with pytest.raises(mx.MXNetError, match="net.params: the file is damaged"):
            load(path)


def test_arrays_without_names_are_no_parameters(tmp_path):
    mx.nd.save(str(tmp_path / "x"), [mx.nd.array([1])])
    with pytest.raises(ValueError, match="without names"):
        ser.load_parameters(tmp_path / "x")


# ---- hostile files
# -----------------------------------------------------------------------------------


def refused(raw):
    with pytest.raises(mx.MXNetError):
        ser.arrays_of(raw)


def container(n, body=b"", k=0):
    return struct.pack("<QQQ", 0x112, 0, n) + body + struct.pack("<Q", k)


def dense(shape, code=0, data=b"", magic=0xF993FAC9):
    head = struct.pack("<Iii", magic, 0, len(shape)) + struct.pack(f"<{len(shape)}q", *shape)
    return head + struct.pack("<iii", 1, 0, code) + data


HOSTILE = {
    "empty": b"",
    "other": b"hello world",
    "many arrays": container(1 << 33),
    "all arrays": container((1 << 64) - 1),
    "many axes": container(1, struct.pack("<Iii", 0xF993FAC9, 0, 1 << 30)),
    "many axes of old": container(1, struct.pack("<I", 33)),
    "long axis": container(1, dense((1 << 40,))),
    "overflowing product": container(1, dense((1 << 32, 1 << 32, 1 << 32))),
    "negative axis": container(1, dense((-5,))),
    "unknown dtype": container(1, dense((1,), code=77, data=b"1234")),
    "unknown storage": container(1, struct.pack("<Ii", 0xF993FAC9, 9)),
    "short data": container(1, dense((4,), data=b"1234")),
    "trailing bytes": container(1, dense((1,), data=b"1234")) + b"x",
    "names without arrays": container(0, b"", 3) + struct.pack("<QQQ", 0, 0, 0),
    "long name": container(1, dense((1,), data=b"1234"), 1) + struct.pack("<Q", 1 << 50),
    "name that is no text": container(1, dense((1,), data=b"1234"), 1)
    + struct.pack("<Q", 1)
    + b"\xff",
    "npy without header": b"\x93NUMPY\x01\x00",
    "npy with a long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 31),
    "npy with code": b"\x93NUMPY\x01\x00\x20\x00" + b"__import__('os').getcwd()".ljust(32),
    "zip": b"PK\x03\x04" + b"\0" * 50,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name):
    refused(HOSTILE[name])


def test_index_out_of_its_array():
    refused((FILES / "hostile" / "csr_oob.params").read_bytes())


def npy(header, data=b""):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': '<c8', 'fortran_order': False, 'shape': (0,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': 'x'}",
        b"{'descr': '<f4', 'fortran_order': False}",
        b"[" * 3000,
    ],
)
def test_hostile_npy(header):
    refused(npy(header))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr("a.npy", npy(header))
    refused(out.getvalue())


def test_a_zip_that_claims_too_much():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr(
            "a.npy", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}", b"\0" * 16)
        )
    raw = bytearray(out.getvalue())
    at = raw.index(b"PK\x01\x02")
    raw[at + 24 : at + 28] = struct.pack("<I", 0xFFFFFFF0)
    refused(bytes(raw))


def test_a_sparse_array_with_rows_that_are_too_long():
    body = struct.pack("<Ii", 0xF993FAC9, 1) + struct.pack("<i2q", 2, 0, 1 << 28)
    body += struct.pack("<i2q", 2, 2, 1 << 28) + struct.pack("<iii", 1, 0, 0)
    refused(container(1, body + struct.pack("<ii1q", 6, 1, 0)))


def test_a_sparse_array_too_large_to_be_dense():
    body = struct.pack("<Ii", 0xF993FAC9, 1) + struct.pack("<i2q", 2, 0, 1 << 30)
    body += struct.pack("<i2q", 2, 1 << 30, 1 << 30) + struct.pack("<iii", 1, 0, 0)
    body += struct.pack("<ii1q", 6, 1, 0)
    refused(container(1, body))


def test_damage_anywhere_is_an_error_or_other_numbers():
    """Every file of the samples with bytes changed or cut: never another kind of exception."""
    rng = random.Random(7)
    for path in sorted(FILES.rglob("*")):
        if not path.is_file() or path.name.endswith("expected.npz"):
            continue
        raw = path.read_bytes()
        for _ in range(60):
            bad = bytearray(raw)
            for _ in range(rng.randint(1, 4)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
            if rng.random() < 0.3:
                del bad[rng.randrange(len(bad)) :]
            try:
                ser.arrays_of(bytes(bad))
            except mx.MXNetError:
                pass


def test_a_list_of_one_is_read_as_one_array(tmp_path):
    """As in MXNet 2.0.0b1, by np; by nd it is a list of one."""
    path = str(tmp_path / "one")
    for data in (mx.nd.ones((3,)), [mx.nd.ones((3,))]):
        mx.nd.save(path, data)
        one = mx.npx.load(path)
        assert type(one) is mx.np.ndarray and one.shape == (3,)
        many = mx.nd.load(path)
        assert type(many) is list and many[0].shape == (3,)
    mx.nd.save(path, {"a": mx.nd.ones((3,))})
    assert list(mx.npx.load(path)) == ["a"]
