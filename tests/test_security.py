"""What SECURITY.md promises, as far as the source and a fresh process can show it."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax.files import unpacking
from mxjax.gluon.model_zoo import by_name, hub, hugging_face
from tests.parsing import uncollected

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "SECURITY.md").read_text()


def dotted(node):
    """`a.b.c` as written; "" where it is something else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


@functools.cache
@uncollected()
def calls():
    """(file, name as written, call) of all calls of the product."""
    found = []
    folders = ("mxjax", "gluon", "kvstore", "memonger", "profiler")
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    for file in {file.resolve() for file in files}:
        name = str(file.relative_to(ROOT.resolve()))
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Call):
                found.append((name, dotted(node.func), node))
    assert len(files) > 500 and len(found) > 40_000
    return found


@functools.cache
def callers():
    """The files that call each name."""
    found = {}
    for file, name, _ in calls():
        found.setdefault(name, set()).add(file)
    return found


def places(pattern):
    return {
        file for name, files in callers().items() if re.fullmatch(pattern, name) for file in files
    }


@pytest.mark.parametrize(
    ("pattern", "files"),
    [
        (r"(os\.)?(system|popen)|os\.spawn\w+|subprocess\.(getoutput|getstatusoutput)", set()),
        (r"os\.exec\w+", {"profiler/__main__.py"}),  # this program again, with another environment
        (r"eval|exec", set()),
        (r"(\w+\.)?(extractall|unpack_archive|mktemp)", set()),
        (r"yaml\.\w+|marshal\.loads?|shelve\.open|dill\.loads?|torch\.load|joblib\.load", set()),
        # Own pipes and files (see there); the reader of MXNet's optimizer states, which calls nothing.
        (
            r"(cloud)?pickle\.(loads?|Unpickler)",
            {
                "gluon/data/_fork_server.py", "gluon/data/_parcel.py", "gluon/data/_pools.py", "gluon/data/_worker.py",
                "gluon/data/older.py",
            },
        ),
        (r"(urllib\.request\.)?(urlopen|urlretrieve|build_opener)", {"mxjax/files/downloading.py"}),
        (r"tarfile\.open|(gzip|bz2|lzma)\.open|tarfile\.TarFile", {"mxjax/files/unpacking.py"}),
        (r"(socket\.)?create_server", {"mxjax/launch/keeper.py", "mxjax/launch/coordinator.py"}),
        (r"(socket\.)?create_connection", {"mxjax/launch/wire.py"}),
        # One end of a pair, which its parent opened.
        (r"socket\.socket|\w*server\.\w*HTTPServer|socketserver\.\w+", {"gluon/data/_fork_server.py"}),
    ],
)  # fmt: skip
def test_dangerous_calls_are_made_where_they_are_looked_after(pattern, files):
    assert places(pattern) == files


def test_no_shell_no_pickles_in_arrays_no_unchecked_certificates():
    for file, name, call in calls():
        said = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert said.get("shell", "False") == "False", (file, name)
        assert said.get("allow_pickle", "False") == "False", (file, name)
        if name in ("np.load", "numpy.load", "onp.load"):
            assert "allow_pickle" in said, (file, name)  # whatever NumPy's default is
        if name.endswith("_create_unverified_context"):
            assert file == "mxjax/files/downloading.py"


SCRIPT = """
import sys
seen = []
watched = ("socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request", "subprocess.Popen", "os.system",
           "os.exec", "os.posix_spawn", "os.spawn")
sys.addaudithook(lambda event, args: seen.append((event, repr(args)[:200])) if event in watched else None)
import mxjax as mx
net = mx.gluon.nn.Dense(2, in_units=3)
net.initialize()
net.hybridize()
for _ in range(3):
    net(mx.np.ones((4, 3))).asnumpy()
print(seen)
"""


def test_importing_and_computing_open_no_connection_and_start_no_process():
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "[]"


def test_figures_and_names_are_those_of_the_source():
    assert hub._LARGEST_CONFIG == 1 << 20 and "at most 1 MiB" in TEXT
    assert hugging_face.LARGEST == 64 << 30 and "at most 64 GiB" in TEXT
    assert unpacking.LARGEST == 16 << 30 and "at most 16 GiB" in TEXT
    known = {option for rows in by_name._DESCRIBING.values() for option in rows}
    assert known == set(
        re.findall(r"`(\w+)`", TEXT.split("and the numbers ")[1].split(" within bounds")[0])
    )
    wanted = re.search(r'"onnx>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert f"onnx\n  {wanted} or newer" in TEXT


def test_what_it_names_exists_and_it_is_found():
    for path in re.findall(r"`(tests/[\w/.]+)`", TEXT) + re.findall(r"\]\(([\w/.]+)\)", TEXT):
        assert (ROOT / path).exists(), path
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text()
    assert "SECURITY.md" in (ROOT / "MANIFEST.in").read_text().split()
