"""Saved files are whole or not there, and stay the files that they were: handles, links and modes."""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import gc
import io
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import errors, im2rec, recordio, serialization, symbol
from mxjax.files import atomic
from mxjax.profiler import _chrome

OLD, NEW = b"old " * 40_000, b"new!" * 60_000


def put_down(data):
    return lambda file: file.write(data)


# ---- what a file keeps


def dense():
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize()
    return net


def trainer():
    net = dense()
    made = mx.gluon.Trainer(net.collect_params(), "adam", update_on_kvstore=False)
    made._init_kvstore()
    return made


def module():
    out = mx.sym.LinearRegressionOutput(
        mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax"
    )
    made = mx.mod.Module(out, label_names=["softmax_label"])
    made.bind([("data", (2, 3))], [("softmax_label", (2, 2))])
    made.init_params()
    made.init_optimizer(kvstore=None)
    return made


def store():
    made = mx.kv.create("local")
    made.set_optimizer(mx.optimizer.create("sgd", momentum=0.9))
    return made


def record_index(path):
    records = f"{path}.of"
    with recordio.MXRecordIO(records, "w") as writer:
        writer.write(b"one")
    recordio.make_index(records, path)
    os.remove(records)


WRITERS = {
    "nd.save": lambda path: mx.nd.save(path, [mx.nd.ones(3)]),
    "nd.save of names": lambda path: mx.nd.save(path, {"a": mx.nd.ones(3)}),
    "npx.save": lambda path: mx.npx.save(path, mx.np.ones(3)),
    "npx.savez": lambda path: mx.npx.savez(path, a=mx.np.ones(3)),
    "save_parameters": lambda path: dense().save_parameters(path),
    "safetensors": lambda path: serialization.save_parameters(Path(path), {"a": mx.np.ones(2)}),
    "symbol": lambda path: mx.sym.var("x").save(path),
    "trainer": lambda path: trainer().save_states(path),
    "module": lambda path: module().save_optimizer_states(path),
    "module's parameters": lambda path: module().save_params(path),
    "kvstore": lambda path: store().save_optimizer_states(path),
    "index": record_index,
    "list": lambda path: im2rec.write_list(path, [(0, "a.jpg", 1.0)]),
    "trace": lambda path: _chrome.save(path, [], {}),
    "any": lambda path: atomic.write_whole(path, put_down(b"some bytes")),
}


def kinds_of_target(folder):
    """Paths that exist, each with a check of what has to be the same afterwards."""
    (folder / "held").write_bytes(OLD)
    with open(folder / "held", "r+b") as held:
        yield "held", lambda path: held.seek(0) == 0 and held.read() == path.read_bytes()
    with tempfile.NamedTemporaryFile(dir=folder) as made:
        yield (
            os.path.basename(made.name),
            lambda path: made.seek(0) == 0 and made.read() == path.read_bytes(),
        )
    (folder / "target").write_bytes(OLD)
    (folder / "soft").symlink_to("target")
    yield (
        "soft",
        lambda path: path.is_symlink() and (folder / "target").read_bytes() == path.read_bytes(),
    )
    (folder / "dangling").symlink_to("absent")
    yield "dangling", lambda path: path.is_symlink() and (folder / "absent").is_file()
    (folder / "one").write_bytes(OLD)
    os.link(folder / "one", folder / "two")
    yield "two", lambda path: (folder / "one").samefile(path)
    for mode in (0o640, 0o600, 0o664, 0o666):
        path = folder / f"mode{mode:o}"
        path.write_bytes(OLD)
        path.chmod(mode)
        yield path.name, lambda path, mode=mode: stat.S_IMODE(path.stat().st_mode) == mode
    before = os.umask(0o027)
    os.umask(before)
    yield "new", lambda path: stat.S_IMODE(path.stat().st_mode) == 0o666 & ~before


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_keeps_its_handles_links_and_mode(name, tmp_path):
    whole = []
    for target, is_kept in kinds_of_target(tmp_path):
        path = tmp_path / target
        WRITERS[name](str(path))
        assert is_kept(path), target
        whole.append(path.read_bytes())
    assert (
        whole[0] != OLD and len({len(each) for each in whole}) == 1
    )  # the same things were saved everywhere
    assert not [each for each in os.listdir(tmp_path) if each.endswith((".saving", ".tmp"))]


def test_an_open_temporary_file_gets_the_bytes_of_mxnet(tmp_path):
    with tempfile.NamedTemporaryFile(dir=tmp_path) as file:
        mx.nd.save(file.name, [mx.nd.ones(1)])
        file.seek(0)
        assert len(file.read()) == 68  # MXNet 1.9.1 and 2.0.0b1


def test_a_new_file_has_the_mode_that_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        mx.nd.save(str(tmp_path / "a"), [mx.nd.ones(1)])
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_what_is_beside_a_private_file_is_as_private(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(OLD)
    path.chmod(0o600)
    seen = []

    def write(file):
        seen.extend(each.stat().st_mode for each in tmp_path.iterdir() if each != path)
        file.write(NEW)

    atomic.write_whole(path, write)
    assert [stat.S_IMODE(mode) for mode in seen] == [0o600]


def test_extended_attributes_are_kept(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    try:
        os.setxattr(path, "user.note", b"mine")
    except (OSError, AttributeError) as error:
        pytest.skip(f"the file system of the tests has no such attributes: {error}")
    mx.nd.save(str(path), [mx.nd.ones(1)])
    assert os.getxattr(path, "user.note") == b"mine"


def test_paths_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    long = "n" * 255  # no name beside it is longer
    for path in ("relative", Path("object"), os.fsencode(tmp_path / "bytes"), long):
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError), open(path, "rb"):
                pass
            atomic.write_whole(path, put_down(NEW))
            with open(path, "rb"):  # held: the second is copied into it
                atomic.write_whole(path, put_down(OLD))
            assert atomic.read_whole(path) == OLD
    assert sorted(os.listdir()) == sorted(["relative", "object", "bytes", long])


def test_what_is_no_path_is_said(tmp_path):
    for wrong, error, said in (
        (io.BytesIO(), errors.MXNetTypeError, "got BytesIO"),
        (3, errors.MXNetTypeError, "got int"),
        ("s3://bucket/a", errors.MXNetNotImplementedError, "this machine"),
        ("", errors.MXNetFileNotFoundError, "empty text"),
        (str(tmp_path), errors.MXNetOSError, "Is a directory"),
        (f"{tmp_path}/a/", errors.MXNetOSError, "Is a directory"),
        (tmp_path / "no" / "a", errors.MXNetFileNotFoundError, "No such file"),
    ):
        with pytest.raises(error, match=said):
            mx.nd.save(wrong, [mx.nd.ones(1)])
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(errors.MXNetOSError, match="symbolic links"):
        mx.nd.save(str(tmp_path / "loop"), [mx.nd.ones(1)])
    assert os.listdir(tmp_path) == ["loop"]


def test_pipes_and_devices_are_written_as_they_are(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    mx.npx.savez(str(pipe), a=mx.np.arange(3))
    reader.join()
    assert mx.nd.load_frombuffer(got[0])["a"].asnumpy().tolist() == [0, 1, 2] and stat.S_ISFIFO(
        pipe.stat().st_mode
    )
    mx.nd.save("/dev/null", [mx.nd.ones(1)])
    if os.path.exists("/dev/full"):
        with pytest.raises(errors.MXNetOSError, match="No space left"):
            mx.nd.save("/dev/full", [mx.nd.ones(100_000)])
        assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_an_open_file_without_a_name_is_written(tmp_path):
    with tempfile.TemporaryFile(dir=tmp_path) as file:
        file.write(OLD)
        file.flush()
        atomic.write_whole(f"/proc/self/fd/{file.fileno()}", put_down(NEW))
        file.seek(0)
        assert file.read() == NEW
    assert os.listdir(tmp_path) == []


@contextlib.contextmanager
def as_nobody(folder):
    """Root may write everywhere: for the while this process is somebody else."""
    if os.geteuid():
        yield
        return
    os.chown(folder, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that nobody can reach too, as pytest's own cannot be."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_file_without_the_right_to_write_stays(open_folder):
    path = open_folder / "a"
    with as_nobody(open_folder):
        path.write_bytes(OLD)
        path.chmod(0o444)
        with pytest.raises(errors.MXNetOSError, match="Permission denied"):
            mx.nd.save(str(path), [mx.nd.ones(1)])
        assert path.read_bytes() == OLD and os.listdir(open_folder) == ["a"]


def test_a_folder_without_the_right_to_write(open_folder, monkeypatch):
    path = open_folder / "a"
    with as_nobody(open_folder):
        path.write_bytes(OLD)
        open_folder.chmod(0o555)
        try:
            atomic.write_whole(path, put_down(NEW))
            assert path.read_bytes() == NEW  # MXNet writes it too
            with pytest.raises(ZeroDivisionError):
                atomic.write_whole(path, lambda file: file.write(OLD) and 1 / 0)
            assert path.read_bytes() == NEW
            with pytest.raises(errors.MXNetOSError, match="Permission denied"):
                atomic.write_whole(open_folder / "b", put_down(NEW))
            write, calls = atomic._write, []

            def fails_once(handle, data, at):
                calls.append(at)
                if len(calls) == 3:
                    raise OSError(errno.EIO, "broken")
                write(handle, data, at)

            monkeypatch.setattr(atomic, "_write", fails_once)
            monkeypatch.setattr(atomic, "_CHUNK", 1000)
            with pytest.raises(errors.MXNetOSError, match="broken"):
                atomic.write_whole(path, put_down(OLD))
            assert path.read_bytes() == NEW and os.listdir(open_folder) == ["a"]
        finally:
            open_folder.chmod(0o755)


# ---- what fails on the way


@pytest.fixture(params=["renamed", "copied"])
def target(request, tmp_path):
    """A path with contents: which are renamed over it, or are copied into it because somebody has it open."""
    path = tmp_path / "target"
    path.write_bytes(OLD)
    with contextlib.ExitStack() as stack:
        if request.param == "copied":
            stack.enter_context(open(path, "rb"))
        yield path


@pytest.mark.parametrize("error", [ZeroDivisionError, OSError, KeyboardInterrupt])
def test_a_writer_that_fails_leaves_what_was_there(error, target):
    def write(file):
        file.write(NEW)
        raise error("in the middle")

    with pytest.raises(error, match="in the middle"):
        atomic.write_whole(target, write)
    assert target.read_bytes() == OLD and os.listdir(target.parent) == ["target"]


@pytest.mark.parametrize("new", [b"", b"n", b"fifteen letters", NEW[:100], NEW])
@pytest.mark.parametrize("old", [b"", b"\0", b"sixteen letters.", OLD])
def test_sizes(old, new, tmp_path):
    path = tmp_path / "a"
    path.write_bytes(old)
    with open(path, "rb") as held:
        atomic.write_whole(path, put_down(new))
        assert held.read() == new == path.read_bytes() == atomic.read_whole(path)
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("before", [OLD, b"", b"short"])
def test_a_full_disk_leaves_what_was_there(before, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "posix_fallocate", full)
    path = tmp_path / "a"
    path.write_bytes(before)
    with open(path, "rb") as held:
        with pytest.raises(errors.MXNetOSError, match="No space left"):
            atomic.write_whole(path, put_down(NEW))
        assert held.read() == before
    assert os.listdir(tmp_path) == ["a"]


def test_a_limit_of_the_system_leaves_what_was_there(target):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(OLD) + 1000, before[1]))
    try:
        with pytest.raises(errors.MXNetOSError, match="File too large"):
            atomic.write_whole(target, put_down(NEW))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert target.read_bytes() == OLD and os.listdir(target.parent) == ["target"]


@pytest.mark.parametrize("call", range(1, 6))
def test_a_disk_that_breaks_leaves_the_new_contents_beside(call, tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    write, calls = atomic._write, []

    def breaks(handle, data, at):
        calls.append(at)
        if len(calls) >= call:
            raise OSError(errno.EIO, "Input/output error")
        write(handle, data, at)

    with open(path, "rb") as held:
        with monkeypatch.context() as patch:
            patch.setattr(
                atomic, "_CHUNK", 70_000
            )  # four pieces between the two writings of the start
            patch.setattr(atomic, "_write", breaks)
            with pytest.raises(errors.MXNetOSError, match=re.escape(f"is in {path}.saving")):
                atomic.write_whole(path, put_down(NEW))
        assert atomic.read_whole(path) == (OLD if call == 1 else NEW)
        atomic.write_whole(path, put_down(OLD))
        assert held.read() == OLD and os.listdir(tmp_path) == ["a"]


@pytest.fixture
def unsynced(monkeypatch):
    """Without waiting for the disk, which says nothing about exceptions."""
    monkeypatch.setattr(atomic.os, "fsync", lambda handle: None)


def raised_at_each_line(work, check):
    """`_raised_at_each_line` in a thread: one that raises at the end of a handler leaves it the exception in hand."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(_raised_at_each_line, work, check).result()


def _raised_at_each_line(work, check):
    """Run `work` again and again, and raise in the first, second, ... line of `atomic.py` that it runs."""
    number, raised = 0, True
    while raised:
        number += 1
        left, raised = number, False

        def lines(frame, event, arg):
            nonlocal left, raised
            if event == "line":
                left -= 1
                if not left:
                    raised = True
                    raise KeyboardInterrupt(f"line {frame.f_lineno}")
            return lines

        def calls(frame, event, arg):
            return lines if frame.f_code.co_filename == atomic.__file__ else None

        before = sys.gettrace()
        sys.settrace(calls)
        try:
            work()
        except (KeyboardInterrupt, errors.MXNetError) as error:
            said = f"{error}"
        else:
            said = "nothing raised"
        finally:
            sys.settrace(before)
        check(said)
    gc.collect()  # files that were opened in the line before stay open until then
    return number


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_an_exception_at_each_line_leaves_a_whole_file(target, unsynced):
    inode = target.stat().st_ino
    versions = iter(range(10**6))
    state = {}
    copied = "copied" in os.environ.get("PYTEST_CURRENT_TEST", "")

    def work():
        state["new"] = b"version %d " % next(versions) * 5000
        state["old"] = target.read_bytes()
        atomic.write_whole(target, put_down(state["new"]))

    def check(said):
        assert target.read_bytes() in (state["old"], state["new"]), said
        assert not copied or target.stat().st_ino == inode

    assert raised_at_each_line(work, check) > 30


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
@pytest.mark.parametrize("new", [b"n", NEW])
def test_an_exception_at_each_line_of_copying_leaves_what_can_be_read(
    new, tmp_path, monkeypatch, unsynced
):
    monkeypatch.setattr(atomic, "_CHUNK", 100_000)
    monkeypatch.setattr(atomic, "_undisturbed", lambda work, *args: work(*args))  # in this thread
    path = tmp_path / "a"
    path.write_bytes(OLD)

    def check(said):
        assert atomic.read_whole(path) in (OLD, new), said
        atomic.write_whole(path, put_down(OLD))
        assert path.read_bytes() == OLD, said

    with open(path, "rb"):
        assert raised_at_each_line(lambda: atomic.write_whole(path, put_down(new)), check) > 60
    assert "a.saving" not in os.listdir(tmp_path)


def test_a_handler_may_save_what_is_being_saved(target, monkeypatch):
    copy, handled = atomic._copy, []

    def slowly(new, handle):
        if not handled:
            os.kill(os.getpid(), signal.SIGUSR1)
            while not handled:  # the handler runs, and waits for this copy to end
                handled.append(False)
        copy(new, handle)

    def handler(*_):
        atomic.write_whole(target, put_down(b"last words"))
        handled.append(True)

    monkeypatch.setattr(atomic, "_copy", slowly)
    before = signal.signal(signal.SIGUSR1, handler)
    try:

        def write(file):
            file.write(NEW)
            os.kill(os.getpid(), signal.SIGUSR1)

        atomic.write_whole(target, write)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert True in handled and atomic.read_whole(target) in (NEW, b"last words")
    assert target.read_bytes() in (NEW, b"last words") and os.listdir(target.parent) == ["target"]


# ---- what a process leaves that is killed


def test_contents_beside_an_unfinished_file_are_read_and_the_next_save_ends_it(tmp_path):
    path = tmp_path / "a.params"
    serialization.save(tmp_path / "b", {"a": np.ones(3, np.float32)})
    path.write_bytes(atomic.UNFINISHED + OLD)
    (tmp_path / "b").rename(tmp_path / "a.params.saving")
    assert mx.npx.load(str(path))["a"].tolist() == [1, 1, 1]
    with open(path, "rb") as held:
        serialization.save(path, {"a": np.zeros(2, np.float32)})
        assert held.read() == path.read_bytes()
    assert mx.npx.load(str(path))["a"].tolist() == [0, 0] and os.listdir(tmp_path) == ["a.params"]


def test_an_unfinished_file_without_its_contents_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(atomic.UNFINISHED + OLD)
    with pytest.raises(errors.FormatError, match="unfinished.*a.saving, which held"):
        mx.nd.load(str(path))
    path.write_bytes(b"\0")  # begins as one, by chance
    with pytest.raises(errors.FormatError, match="begins with"):
        mx.nd.load(str(path))


def test_what_is_left_beside_a_whole_file_is_not_read_and_goes(tmp_path):
    path = str(tmp_path / "a.params")
    serialization.save(path, {"a": np.ones(3, np.float32)})
    (tmp_path / f"a.params.{random.Random(0).randrange(10**6)}.1.tmp").write_bytes(b"half of")
    (tmp_path / "a.params.saving").write_bytes(b"older")
    assert serialization.read_arrays(path)["a"].tolist() == [1, 1, 1]
    serialization.save(path, {"a": np.ones(3, np.float32)})
    assert not os.path.exists(f"{path}.saving")
    symbol.var("x").save(str(tmp_path / "s.json"))
    assert symbol.load(str(tmp_path / "s.json")).list_outputs() == ["x"]


#: Saves one version after the other, each from a process of its own that is killed at some moment; says after each kill
#: which versions the files have. The processes are forked before JAX runs anything, so that each costs little.
PROGRAM = """
    import os, signal, sys, time
    import numpy as np
    from mxjax import serialization, symbol
    from mxjax.files import atomic

    folder, kills, seed, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    waits = np.random.default_rng(seed).uniform(0, 0.02, kills)
    params, npz, graph = (os.path.join(folder, name) for name in ("a.params", "b.npz", "c-symbol.json"))
    atomic._CHUNK = 8192
    if way == "copied":
        os.fsync = lambda handle: None  # a killed process needs none, and they take most of the time

    def save(version):
        data = {f"w{n}": np.full((50, 200), version, np.float32) for n in range(4)}
        serialization.nd_save(params, data)
        serialization.savez(npz, **data)
        out = symbol.var("x")
        for n in range(40):
            out = symbol.tanh(out, name=f"v{version}_{n}")
        out.save(graph)

    save(0)
    held = [open(path, "rb") for path in (params, npz, graph)] if way == "copied" else []
    version = 0
    for wait in waits:
        child = os.fork()
        if not child:
            while True:
                version += 1
                save(version)
        time.sleep(wait)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = []
        for path in (params, npz):
            arrays = serialization.read_arrays(path)
            assert sorted(arrays) == ["w0", "w1", "w2", "w3"]
            values = {float(value) for each in arrays.values() for value in np.unique(each)}
            assert len(values) == 1 and all(each.shape == (50, 200) for each in arrays.values())
            found.append(int(values.pop()))
        names = [name for name in symbol.load(graph).get_internals().list_outputs() if name.startswith("v")]
        assert len(names) == 40 and len({name.split("_")[0] for name in names}) == 1
        found.append(int(names[0].split("_")[0][1:]))
        assert all(os.path.samestat(os.fstat(file.fileno()), os.stat(file.name)) for file in held)
        version = max(found)
        print(*found, sum(os.path.exists(path + ".saving") for path in (params, npz, graph)), flush=True)
"""


def killed(tmp_path, kills, seed, way):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), str(kills), str(seed), way],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return [[int(version) for version in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    "kills", [20, pytest.param(400, marks=pytest.mark.slow)]
)  # the many take half a minute
@pytest.mark.parametrize("way", ["renamed", "copied"])
def test_a_killed_save_leaves_a_whole_file(way, kills, tmp_path):
    found = killed(tmp_path, kills, kills, way)
    assert len(found) == kills
    *versions, unfinished = zip(*found, strict=True)
    for of_one_file in versions:
        assert list(of_one_file) == sorted(of_one_file)  # never back to an older one
    assert max(found[-1][:3]) > 0  # saving went on in between
    assert kills < 100 or any(unfinished) == (
        way == "copied"
    )  # some were killed in the middle of copying


#: Two processes save into one open file, and a third reads it.
AT_ONCE = """
    import os, sys
    from mxjax.files import atomic

    path = sys.argv[1]
    atomic._CHUNK = 5000
    os.fsync = lambda handle: None
    held = open(path, "rb")
    children = []
    for what in range(3):
        child = os.fork()
        if child:
            children.append(child)
            continue
        for number in range(100):
            if what == 2:
                found = atomic.read_whole(path)
                assert len(set(found)) == 1 and len(found) == 50_000 + 1000 * (found[0] % 7), (set(found), len(found))
            else:
                byte = 2 * number + what
                atomic.write_whole(path, lambda file: file.write(bytes([byte]) * (50_000 + 1000 * (byte % 7))))
        os._exit(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
"""


def test_savers_and_a_reader_at_once(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(bytes(50_000))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(AT_ONCE), path], stderr=subprocess.PIPE, timeout=120
    )
    assert not done.returncode, done.stderr
    found = path.read_bytes()
    assert (
        len(set(found)) == 1
        and len(found) == 50_000 + 1000 * (found[0] % 7)
        and os.listdir(tmp_path) == ["a"]
    )
