"""Every notebook runs from top to bottom."""

import base64
import io
import json
import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Those that take longest run with the slow tests; the others use the same wings.
LONG = {"02_memory", "03_many_devices", "05_old_code", "06_text", "07_transfer", "08_records"}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in LONG else [])
        for path in NOTEBOOKS
    ],
    ids=lambda p: p.stem,
)
def test_it_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="comes with the extra: notebook")
    pytest.importorskip("ipykernel", reason="comes with the extra: notebook")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # With the code generator that users get: they compute for longer than they compile.
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_it_needs_an_installed_mxjax_alone_and_the_extras_that_it_names(path):
    """Nothing of a clone, and no package that the line with `pip install` does not bring."""
    cells = json.loads(path.read_text())["cells"]
    told = "".join("".join(c["source"]) + "\n" for c in cells if c["cell_type"] == "markdown")
    code = "".join("".join(c["source"]) + "\n" for c in cells if c["cell_type"] == "code")
    extras, others = re.search(r"^pip install 'mxjax\[([\w,]+)\]' ?(.*)$", told, re.M).groups()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = [*project["dependencies"], *others.split()]
    for extra in extras.split(","):
        brought += project["optional-dependencies"][extra]
    names = {re.match(r"[\w-]+", one)[0].lower() for one in brought}
    modules = {"scikit-learn": "sklearn", "pillow": "PIL"}
    there = (
        {modules.get(name, name) for name in names} | sys.stdlib_module_names | {"mxjax", "mxnet"}
    )
    there |= {
        Path(name).stem for name in re.findall(r'Path\("(\w+\.py)"\)\.write_text', code)
    }  # what it writes itself
    assert set(re.findall(r"^\s*(?:from|import) (\w+)", code, re.M)) <= there
    assert not re.search(r"\btests/|\bbenchmarks/|__file__|\.\./", code)


def test_what_a_notebook_carries_is_what_mxnet_wrote():
    """The notebook of old code runs beside an installed wheel: its samples are in it, and are those of the tests."""
    cells = json.loads((ROOT / "notebooks" / "05_old_code.ipynb").read_text())["cells"]
    (source,) = ["".join(c["source"]) for c in cells if "archive = " in "".join(c["source"])]
    packed = zipfile.ZipFile(io.BytesIO(base64.b64decode(source.split('"""')[1])))
    assert sorted(packed.namelist()) == [
        "conv-0003.params",
        "conv-symbol.json",
        "conv.expected.npz",
    ]
    for name in packed.namelist():
        assert (
            packed.read(name)
            == (ROOT / "tests" / "data" / "formats" / "mxnet191" / name).read_bytes()
        )
    assert not any("__file__" in "".join(c["source"]) for c in cells)
