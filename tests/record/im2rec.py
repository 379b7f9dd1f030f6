"""Records what MXNet's im2rec.py writes: `python im2rec.py ../data/recordio/im2rec.json`, with a Python that has mxnet.

The program imports cv2, which lists and records of files as they are do not need: an empty module stands in for it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Files, and what is in them; no byte of it is looked at.
FILES = {
    "b.jpg": "b", "a.png": "\n#\u00d7\u00ce" * 3, "c.jpeg": "", "d.txt": "no picture", "UPPER.JPG": "upper",
    "dogs/one.jpg": "one", "dogs/two.png": "two" * 5, "cats/three.jpg": "three", "cats/old/four.jpg": "four",
    "none/readme.txt": "nothing",
}  # fmt: skip
#: Arguments for lists, and for records of the lists that are there then.
RUNS = {
    "plain": (["--no-shuffle"], []),
    "shuffled": (["--recursive"], ["--num-thread", "3"]),
    "parts": (["--recursive", "--train-ratio", "0.5", "--test-ratio", "0.25"], []),
    "chunks": (["--recursive", "--chunks", "2", "--exts", ".jpg"], []),
    "halves": (["--recursive", "--train-ratio", "0.5"], []),
}
#: A list with several labels, spaces and lines that are no pictures.
LABELS = (
    "7\t1.5\t2.5\tb.jpg\n\n9\ta.png\nx\t1\ta.png\n 3 \t 0.25 \t dogs/one.jpg \n4\t1\tmissing.jpg\n"
)


def run(folder, name, arguments, runner):
    """The files with a prefix after a run of the program on a folder."""
    prefix = os.path.join(folder, "out", name)
    runner([prefix, os.path.join(folder, "root"), *arguments])
    return {
        path.name: path.read_bytes().hex() for path in sorted(Path(folder, "out").glob(f"{name}*"))
    }


def prepare(folder):
    for name, text in FILES.items():
        path = os.path.join(folder, "root", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(text.encode("latin-1"))
    os.makedirs(os.path.join(folder, "out"))


def record(runner):
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        for name, (lists, records) in RUNS.items():
            run(folder, name, ["--list", *lists], runner)
            found[name] = run(folder, name, ["--pass-through", *records], runner)
        for name, more in (("first", []), ("all", ["--pack-label"])):
            with open(os.path.join(folder, "out", f"{name}.lst"), "w") as file:
                file.write(LABELS)
            # With one process MXNet's program ends at a missing file; with more it is left out.
            found[name] = run(folder, name, ["--pass-through", "--num-thread", "2", *more], runner)
    return found


if __name__ == "__main__":
    from mxnet import tools  # the test that compares has no MXNet

    with tempfile.TemporaryDirectory() as stand_in:
        open(os.path.join(stand_in, "cv2.py"), "w").close()
        program = os.path.join(tools.__path__[0], "im2rec.py")
        environment = {**os.environ, "PYTHONPATH": stand_in}
        found = record(
            lambda a: subprocess.run([sys.executable, program, *a], env=environment, check=True)
        )
    with open(sys.argv[1], "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")
