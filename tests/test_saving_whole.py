"""A file that is being written when its process is killed is the old one or the new one, whole."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from mxjax import serialization, symbol

#: Saves one version after the other, each from a process of its own that is killed at some moment; says after each kill
#: which versions the files have. The processes are forked before JAX runs anything, so that each costs little.
PROGRAM = """
    import os, signal, sys, time
    import numpy as np
    from mxjax import serialization, symbol

    folder, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    waits = np.random.default_rng(seed).uniform(0, 0.02, kills)
    params, npz, graph = (os.path.join(folder, name) for name in ("a.params", "b.npz", "c-symbol.json"))

    def save(version):
        data = {f"w{n}": np.full((50, 200), version, np.float32) for n in range(4)}
        serialization.nd_save(params, data)
        serialization.savez(npz, **data)
        out = symbol.var("x")
        for n in range(40):
            out = symbol.tanh(out, name=f"v{version}_{n}")
        out.save(graph)

    save(0)
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
        version = max(found)
        print(*found, flush=True)
"""


def killed(tmp_path, kills, seed):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), str(tmp_path), str(kills), str(seed)],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return [[int(version) for version in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])  # the many take half a minute
def test_a_killed_save_leaves_a_whole_file(tmp_path, kills):
    versions = killed(tmp_path, kills, seed=kills)
    assert len(versions) == kills
    for of_one_file in zip(*versions, strict=True):
        assert list(of_one_file) == sorted(of_one_file)  # never back to an older one
    assert max(versions[-1]) > 0  # saving went on in between


def test_what_killed_saves_leave_behind_is_not_read(tmp_path):
    path = str(tmp_path / "a.params")
    serialization.save(path, {"a": np.ones(3, np.float32)})
    (tmp_path / f"a.params.{random.Random(0).randrange(10**6)}.1.tmp").write_bytes(b"half of")
    assert serialization.read_arrays(path)["a"].tolist() == [1, 1, 1]
    symbol.var("x").save(str(tmp_path / "s.json"))
    assert symbol.load(str(tmp_path / "s.json")).list_outputs() == ["x"]
