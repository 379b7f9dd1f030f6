"""Every notebook runs from top to bottom."""

import base64
import io
import json
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda p: p.stem)
def test_it_runs(path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="comes with the extra: notebook")
    pytest.importorskip("ipykernel", reason="comes with the extra: notebook")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(path, as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()


def test_what_a_notebook_carries_is_what_mxnet_wrote():
    """The notebook of old code runs beside an installed wheel: its samples are in it, and are those of the tests."""
    cells = json.loads((ROOT / "notebooks" / "05_old_code.ipynb").read_text())["cells"]
    (source,) = ["".join(c["source"]) for c in cells if "archive = " in "".join(c["source"])]
    packed = zipfile.ZipFile(io.BytesIO(base64.b64decode(source.split('"""')[1])))
    assert sorted(packed.namelist()) == ["conv-0003.params", "conv-symbol.json", "conv.expected.npz"]
    for name in packed.namelist():
        assert packed.read(name) == (ROOT / "tests" / "data" / "formats" / "mxnet191" / name).read_bytes()
    assert not any("__file__" in "".join(c["source"]) for c in cells)
