"""Builds the site: ``python -m tools.docs [--notebooks plain|run] [--quick]``; `make docs` sets up what it needs."""

from __future__ import annotations

import argparse
import concurrent.futures
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

from . import check
from .sources import ROOT, write


def executed(folder: Path) -> Path:
    """The notebooks with their outputs, in a folder; what did not change since the last time is not run again."""
    import nbclient
    import nbformat

    folder.mkdir(parents=True, exist_ok=True)

    def run(path: Path) -> None:
        stamp = folder / f"{path.stem}.{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
        if not stamp.exists():
            book = nbformat.read(path, as_version=4)
            place = folder / f"{path.stem}-files"
            place.mkdir(exist_ok=True)
            nbclient.NotebookClient(book, timeout=600, kernel_name="python3",
                                    resources={"metadata": {"path": str(place)}}).execute()  # fmt: skip
            nbformat.write(book, folder / path.name)
            stamp.touch()

    os.environ["PYTHONPATH"] = str(ROOT)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(run, sorted((ROOT / "notebooks").glob("*.ipynb"))))
    return folder


def main(arguments: list[str]) -> int:
    """Writes the pages, builds them, and looks at what was built."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--notebooks",
        choices=("plain", "run"),
        default="run",
        help="whether notebooks have outputs",
    )
    parser.add_argument(
        "--quick", action="store_true", help="without what is found by tracing every operator"
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build", help="where pages and site are written"
    )
    given = parser.parse_args(arguments)
    build = given.folder / "docs"
    start = time.monotonic()
    notebooks = executed(build / "notebooks") if given.notebooks == "run" else ROOT / "notebooks"
    print(f"notebooks: {time.monotonic() - start:.0f} s")
    write(build / "pages", notebooks, traced=not given.quick)
    print(f"pages: {time.monotonic() - start:.0f} s")
    site = given.folder / "site"
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "-f",
        str(ROOT / "mkdocs.yml"),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1",
                   "DOCS_PAGES": str(build / "pages"), "DOCS_SITE": str(site)}  # fmt: skip
    if subprocess.run(command, cwd=ROOT, env=environment).returncode:
        return 1
    print(f"built: {time.monotonic() - start:.0f} s; {site / 'index.html'}")
    return check.main(site)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
