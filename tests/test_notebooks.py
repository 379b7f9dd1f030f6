"""Every notebook runs from top to bottom."""

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
