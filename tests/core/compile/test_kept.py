"""Programs that serve the next process: what is loaded, what is not, and that nothing raises."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxjax as mx
from mxjax import settings
from mxjax.core.compile import kept
from mxjax.core.stats import stats

ROOT = Path(__file__).parents[3]
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of programs; what this module remembers of folders is as at the start."""
    monkeypatch.setattr(kept, "_said", set())
    monkeypatch.setattr(kept, "_closed", set())
    monkeypatch.setattr(kept, "_counted", {})
    mx.config.set(cache_dir=str(tmp_path))
    return tmp_path / "programs"


def triple(x):
    return x * 3 + 1


def build(fn=triple, *args, options=None, **jit):
    """The compiled function and whether it was loaded."""
    traced = trace(fn, *args, **jit)
    return kept.compile_or_load(traced.lower(), options or {}, traced.jaxpr)


def trace(fn, *args, **jit):
    def fresh(*args):  # JAX has nothing of it in memory
        return fn(*args)

    fresh.__name__ = fn.__name__
    return jax.jit(fresh, **jit).trace(*(args or (X,)))


def entries(folder):
    return sorted(folder.glob("*.program")) if folder.is_dir() else []


def test_the_second_time_it_is_loaded_and_is_the_same(folder, capfd):
    flags = dict(jax.config.values)
    before = stats.loaded
    first, loaded = build()
    assert not loaded and len(entries(folder)) == 1
    second, loaded = build()
    assert loaded and stats.loaded == before + 1 and len(entries(folder)) == 1
    assert np.array_equal(first(X), X * 3 + 1) and np.array_equal(second(X), X * 3 + 1)
    assert second.as_text() == first.as_text()
    assert second.memory_analysis().temp_size_in_bytes == first.memory_analysis().temp_size_in_bytes
    (module,) = second.runtime_executable().hlo_modules()
    assert module.name == "jit_triple"
    assert dict(jax.config.values) == flags
    out, err = capfd.readouterr()
    assert out == "" and err == ""  # XLA says nothing as it loads


def test_only_programs_of_ours_are_kept(folder):
    build()
    count = len(entries(folder))
    jax.jit(lambda x: x - 7)(X)
    jax.jit(lambda x: x - 8).lower(X).compile()
    assert len(entries(folder)) == count


def test_nobody_else_may_write_or_read_them(folder):
    before = os.umask(0)
    try:
        build()
    finally:
        os.umask(before)
    (entry,) = entries(folder)
    assert (
        stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(entry.stat().st_mode) == 0o600
    )
    assert [p.name for p in folder.iterdir()] == [entry.name]  # nothing of the writing is left


def truncated(size):
    return lambda data: data[:size]


def flipped(at):
    return lambda data: data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def repacked(change):
    """What says of itself that it is whole and for this key."""

    def damaged(data):
        made = change(zlib.decompress(data[kept._HEADER.size :]))
        packed = zlib.compress(made)
        head = kept._HEADER.pack(
            kept._MAGIC, data[16:48], len(packed), len(made), kept._digest(packed)
        )
        return head + packed

    return damaged


DAMAGES = {
    "empty": truncated(0),
    "part of the header": truncated(40),
    "the header alone": truncated(kept._HEADER.size),
    "cut off": truncated(-1),
    "longer": lambda data: data + b"\0",
    "another format": flipped(14),
    "another key": flipped(20),
    "another length": flipped(48),
    "another size": flipped(56),
    "another digest": flipped(70),
    "a changed byte": flipped(-9),
    "foreign": lambda data: b"\x78\x9c" + bytes(range(256)) * 8,
    "not what XLA wrote": repacked(lambda data: b"program" * 9),
    "less than XLA wrote": repacked(lambda data: data[: len(data) // 2]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_compiled_anew_and_written_whole(folder, damage):
    build()
    (entry,) = entries(folder)
    entry.write_bytes(damage(entry.read_bytes()))
    again, loaded = build()
    assert not loaded and np.array_equal(again(X), X * 3 + 1)
    assert build()[1] and entries(folder) == [entry]


def test_a_link_and_a_folder_in_a_programs_place_are_no_programs(folder, tmp_path):
    build()
    (entry,) = entries(folder)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert not build()[1]
    entry.unlink()
    entry.mkdir()
    again, loaded = build()
    assert not loaded and np.array_equal(again(X), X * 3 + 1)


def others_may_write(folder, entry, monkeypatch):
    folder.chmod(0o777)


def a_group_may_write(folder, entry, monkeypatch):
    folder.chmod(0o770)


def it_is_somebody_elses(folder, entry, monkeypatch):
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


def others_may_write_the_file(folder, entry, monkeypatch):
    entry.chmod(0o602)


@pytest.mark.parametrize(
    "change", [others_may_write, a_group_may_write, it_is_somebody_elses, others_may_write_the_file]
)
def test_code_of_others_is_not_loaded(folder, monkeypatch, caplog, change):
    build()
    (entry,) = entries(folder)
    data = entry.read_bytes()
    change(folder, entry, monkeypatch)
    again, loaded = build()
    assert not loaded and np.array_equal(again(X), X * 3 + 1)
    if change is others_may_write_the_file:
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600 and build()[1]  # it was written anew
        return
    build(lambda x: x - 5)
    assert (
        entries(folder) == [entry] and entry.read_bytes() == data
    )  # nor is anything written there
    assert [str(folder) in r.message and "chmod 700" in r.message for r in caplog.records] == [
        True
    ]  # said once


@pytest.mark.parametrize("code", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_written(folder, monkeypatch, caplog, code):
    tried = []

    def refuse(path, write, *args):
        tried.append(path)
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(kept, "write_whole", refuse)
    for number in range(3):
        made, loaded = build(lambda x, n=number: x + n)
        assert not loaded and np.array_equal(made(X), X + number)
    assert len(tried) == 1  # not for each program
    assert [os.strerror(code) in r.message for r in caplog.records] == [True]


def test_a_path_that_can_be_no_folder(tmp_path, folder, caplog):
    (tmp_path / "file").write_text("x")
    for place in (str(tmp_path / "file"), "gs://bucket/programs", "/proc/nowhere"):
        mx.config.set(cache_dir=place)
        made, loaded = build()
        assert not loaded and np.array_equal(made(X), X * 3 + 1)
    assert len(caplog.records) == 3


def test_the_usual_folder_says_nothing_where_it_cannot_be_written(
    tmp_path, folder, monkeypatch, caplog
):
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr(kept, "folder", lambda: str(tmp_path / "file" / "programs"))
    mx.config.set(cache_dir=None)
    monkeypatch.setattr(settings, "is_given", lambda name: name != "cache.dir")
    made, loaded = build()
    assert not loaded and np.array_equal(made(X), X * 3 + 1) and not caplog.records


# ---- what decides


def test_the_place_in_the_source_does_not_count(folder):
    def here(x):
        return x * 3 + 1

    here.__name__ = "triple"
    build()
    assert build(here)[1]


def scoped(name):
    def fn(x):
        with jax.named_scope(name):
            return jnp.where(x > 1, x, 0)  # a function of its own, inside

    return fn


def test_the_names_that_profiles_show_count(folder):
    build(scoped("a"))
    other, loaded = build(scoped("b"))
    assert not loaded and "/b/" in other.as_text() and "/a/" not in other.as_text()
    assert build(scoped("a"))[1] and build(scoped("b"))[1]


def test_options_and_flags_count(folder, monkeypatch):
    build()
    assert not build(options={"xla_cpu_prefer_vector_width": 128})[1]
    assert build(options={"xla_cpu_prefer_vector_width": 128})[1]
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ['XLA_FLAGS']} --xla_cpu_enable_fast_min_max=true")
    assert not build()[1]


@pytest.mark.parametrize("what", ["cores", "processor", "jaxlib"])
def test_the_machine_and_the_version_count(folder, monkeypatch, what):
    build()
    if what == "cores":  # XLA divides work among them
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(77)))
    elif what == "processor":
        kept.processor.cache_clear()
        monkeypatch.setattr(kept, "cpu_features", lambda: frozenset({"avx9"}))
    else:
        from jax._src import cache_key

        monkeypatch.setattr(cache_key, "jaxlib_version_str", "0.0.1")
    try:
        assert not build()[1] and build()[1] and len(entries(folder)) == 2
    finally:
        kept.processor.cache_clear()


def test_a_processor_about_which_xla_writes_lines_has_none(folder, monkeypatch):
    monkeypatch.setattr(kept, "cpu_features", lambda: frozenset({"avx512f"}))
    monkeypatch.setattr(kept.jaxlib, "__version__", "0.10.1")
    assert not build()[1] and not entries(folder)


# ---- what is not kept


def calls_back(x):
    return jax.pure_callback(
        lambda a: np.asarray(a) * 3 + 1, jax.ShapeDtypeStruct(x.shape, x.dtype), x
    )


def prints(x):
    jax.debug.callback(lambda a: None, x)
    return x * 3 + 1


def tells(x):
    from jax.experimental import io_callback

    io_callback(lambda a: None, None, x, ordered=True)
    return x * 3 + 1


@pytest.mark.parametrize("fn", [calls_back, prints, tells])
def test_what_calls_this_process_is_not_kept(folder, fn):
    for _ in range(2):
        made, loaded = build(fn)
        assert not loaded and np.array_equal(made(X), X * 3 + 1)
    assert not entries(folder)


def test_checks_of_numbers_work_in_programs_that_come_again(folder):
    """What refuses numbers as it runs calls Python; what lies beside it in the folder does not."""
    mx.config.set({"engine.cold": "compile"})
    for round_ in range(2):
        mx.core.drop_programs()
        mx.engine.reset()
        assert np.allclose(
            mx.np.linalg.inv(mx.np.array([[2.0, 0], [0, 4]])).asnumpy(), [[0.5, 0], [0, 0.25]]
        )
        with pytest.raises(mx.MXNetError, match="[Ss]ingular"):
            mx.np.linalg.inv(mx.np.array([[1.0, 1], [1, 1]])).asnumpy()
        refused = mx.engine.stats()
        assert (mx.np.array([1.0, 2.0, 5.0]) * 2 + 1).tolist() == [3, 5, 11]
        counts = mx.engine.stats()
        assert refused["compiled"] >= 1 and refused["loaded"] == 0
        assert counts["loaded"] == round_ and counts["compiled"] == refused["compiled"] + 1 - round_


def test_a_program_whose_files_are_wanted_is_compiled(folder, tmp_path):
    build()
    assert not build(options={"xla_dump_to": str(tmp_path / "dump")})[1]
    assert list((tmp_path / "dump").iterdir())


# ---- devices, donation, layouts


def test_donated_inputs_and_orders_of_axes_survive(folder):
    from jax.experimental.layout import Format, Layout

    device = jax.local_devices()[0]
    turned = Format(Layout((0, 1)), jax.sharding.SingleDeviceSharding(device))

    def update(w, g):
        return w - g, g.T

    for expected in (False, True):
        made, loaded = build(update, X, X, donate_argnums=0, out_shardings=(None, turned))
        assert loaded is expected
        w = jnp.asarray(X) + 0
        new, transposed = made(w, jnp.asarray(X))
        assert w.is_deleted() and np.array_equal(new, X - X) and np.array_equal(transposed, X.T)
        assert transposed.format.layout.major_to_minor == (0, 1)
        assert made.input_formats[0][0].layout.major_to_minor == (0, 1)
    assert not build(update, X, X, out_shardings=(None, turned))[1]


@pytest.mark.parametrize("number", [0, 3])
def test_a_program_runs_on_its_own_device(folder, number):
    device = jax.local_devices()[number]
    at = jax.sharding.SingleDeviceSharding(device)
    for expected in (False, True):
        made, loaded = build(triple, jax.ShapeDtypeStruct(X.shape, X.dtype, sharding=at))
        assert loaded is expected
        out = made(jax.device_put(X, device))
        assert out.devices() == {device} and np.array_equal(out, X * 3 + 1)


def test_a_program_over_several_devices(folder):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    data = np.arange(8, dtype=np.float32)
    for expected in (False, True):
        made, loaded = build(
            lambda x: (x.sum(), x * 2), jax.ShapeDtypeStruct((8,), data.dtype, sharding=rows)
        )
        assert loaded is expected
        total, twice = made(jax.device_put(data, rows))
        assert float(total) == 28 and np.array_equal(twice, data * 2) and len(twice.devices()) == 4


# ---- the bound


def test_those_used_longest_ago_go_first(folder):
    mx.config.set(cache_size="1GB")
    fns = [scoped(f"a{n}") for n in range(6)]
    made = []
    for number, fn in enumerate(fns):
        build(fn)
        (new,) = set(entries(folder)) - set(made)
        made.append(new)
        os.utime(new, (number, number))  # long ago, one after the other
    assert build(fns[0])[1]  # it was used just now
    sizes = [path.stat().st_size for path in made]
    mx.config.set(cache_size=sum(sizes))
    build(scoped("a6"))  # one more than there is room for
    left = [number for number, path in enumerate(made) if path.exists()]
    assert left[0] == 0 and left[1:] == list(range(left[1], 6)) and left[1] > 1
    assert sum(path.stat().st_size for path in entries(folder)) <= sum(sizes)


def test_the_folder_is_not_counted_for_each_program(folder, monkeypatch):
    counted = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: counted.append(path) or scan(path))
    for number in range(8):
        build(scoped(f"n{number}"))
    assert len(counted) == 1


def test_what_others_wrote_is_counted_after_a_sixteenth(folder):
    build(scoped("n0"))
    size = entries(folder)[0].stat().st_size
    mx.config.set(cache_size=20 * size)
    build(scoped("n1"))
    for other in range(30):  # another process
        (folder / f"{other}".ljust(64, "a")).with_suffix(".program").write_bytes(bytes(size))
    build(scoped("n2"))
    build(scoped("n3"))
    assert sum(path.stat().st_size for path in entries(folder)) <= 20 * size


def test_what_an_ended_process_left_goes_and_what_is_not_ours_stays(folder):
    folder.mkdir(mode=0o700)
    left = folder / ("a" * 64 + ".program.1.0.tmp")
    fresh = folder / ("b" * 64 + ".program.2.0.tmp")
    mine = folder / "notes.txt"
    for path in (left, fresh, mine):
        path.write_bytes(bytes(100))
    os.utime(left, (0, 0))
    os.utime(mine, (0, 0))
    mx.config.set(cache_size="1MB")
    build()
    assert not left.exists() and fresh.exists() and mine.exists()
    kept.empty(str(folder))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_a_program_larger_than_the_bound_is_not_kept(folder):
    mx.config.set(cache_size=500)
    assert not build()[1] and not entries(folder)


# ---- where


def test_nothing_is_kept_where_nothing_is_to_be(folder, monkeypatch):
    build()
    for off in ({"cache_dir": ""}, {"cache_mode": "off"}):
        with mx.config.scope(**off):
            assert kept.folder() is None and not build()[1]
    assert build()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have folders of their own")
def test_the_users_folder(monkeypatch):
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert kept.usual_folder() == "/home/someone/.cache/mxjax"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/tmp/c")
    assert kept.usual_folder() == "/var/tmp/c/mxjax"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored, says the standard
    assert kept.usual_folder() == "/home/someone/.cache/mxjax"


def test_an_empty_variable_is_a_value_of_this_option():
    for text, value in (("", ""), ("/somewhere", "/somewhere"), (None, None)):
        environ = {} if text is None else {"MXJAX_CACHE_DIR": text}
        registry = settings.Registry(settings.OPTIONS, environ, late=True)
        assert registry.get("cache.dir") == value
    assert (
        settings.Registry(settings.OPTIONS, {"MXJAX_CACHE_MODE": ""}, late=True).get("cache.mode")
        == "auto"
    )


# ---- asking, another JAX, threads, processes


def test_asking_compiles_nothing(folder):
    traced = trace(triple)
    assert kept.load(traced.lower(), {}, traced.jaxpr) is None
    build()
    found = kept.load(traced.lower(), {}, traced.jaxpr)
    assert np.array_equal(found(X), X * 3 + 1)
    mx.config.set(cache_dir="")
    assert kept.load(traced.lower(), {}, traced.jaxpr) is None


@pytest.mark.parametrize("off", [False, True])
def test_it_tells_before_xla_compiles_and_of_nothing_else(folder, off):
    if off:
        mx.config.set(cache_dir="")
    told = []
    for count in (1, 2 if off else 1):
        traced = trace(triple)
        made, loaded = kept.compile_or_load(
            traced.lower(), {}, traced.jaxpr, lambda: told.append(1)
        )
        assert np.array_equal(made(X), X * 3 + 1) and len(told) == count


def test_another_jax_simply_compiles(folder, monkeypatch):
    class Lowered:
        def compile(self, compiler_options=None):
            return compiler_options

    assert (
        kept.compile_or_load(Lowered(), {"a": 1}) == ({"a": 1}, False)
        and kept.load(Lowered(), {}) is None
    )
    from jax._src import cache_key

    get = cache_key.get
    monkeypatch.setattr(
        cache_key, "get", lambda *args: get(*args) if len(args) > 4 else get()
    )  # JAX itself asks, too
    monkeypatch.setattr(
        kept,
        "find",
        lambda name, find=kept.find: cache_key.get if name == "cache_key" else find(name),
    )
    made, loaded = build()
    assert not loaded and np.array_equal(made(X), X * 3 + 1) and not entries(folder)


def test_jaxs_own_cache_beside_ours(folder, tmp_path):
    from jax.experimental.compilation_cache import compilation_cache

    names = {
        "jax_compilation_cache_dir": str(tmp_path / "jax"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    before = {name: getattr(jax.config, name) for name in names}
    try:
        for name, value in names.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        for _ in range(2):
            assert np.array_equal(build()[0](X), X * 3 + 1)
        assert len(entries(folder)) == 1 and len(list((tmp_path / "jax").glob("*-cache"))) == 1
        entries(folder)[0].unlink()
        assert np.array_equal(build()[0](X), X * 3 + 1)
    finally:
        for name, value in before.items():
            jax.config.update(name, value)
        compilation_cache.reset_cache()


def test_threads(folder):
    fns = [scoped(f"t{n}") for n in range(3)]
    wrong = []

    def work():
        for fn in fns:
            if not np.array_equal(build(fn)[0](X), np.where(X > 1, X, 0)):
                wrong.append(fn)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(entries(folder)) == 3 and all(build(fn)[1] for fn in fns)


PROGRAM = """
import json, sys
import numpy as np
import mxjax as mx
mx.config.set({"engine.cold": "compile"})
for _ in range(2):
    w = mx.np.array(np.linspace(-1, 1, 35, dtype=np.float32).reshape(5, 7))
    w.attach_grad()
    with mx.autograd.record():
        loss = (mx.np.tanh(mx.np.dot(w, w.T)) ** 2).mean()
    loss.backward()
    w -= 0.1 * w.grad
    got = w.asnumpy().tobytes().hex()
from jax._src import compilation_cache
assert compilation_cache._cache is None
print(json.dumps([got, {k: mx.engine.stats()[k] for k in ("compiled", "loaded")}]))
"""


def test_two_processes_at_once_and_one_after_them(tmp_path):
    environment = settings.child_environment(
        MXJAX_CACHE_DIR=None, XDG_CACHE_HOME=str(tmp_path), PYTHONPATH=str(ROOT)
    )

    def begin():
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(process):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0 and err == "", err
        return json.loads(out)

    pair = [begin(), begin()]
    (one, _), (two, _) = map(end, pair)
    three, counts = end(begin())
    assert one == two == three
    assert counts["compiled"] == 0 and counts["loaded"] > 0
    assert len(entries(tmp_path / "mxjax" / "programs")) == counts["loaded"]
