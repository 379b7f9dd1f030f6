"""MXNet's tools/rec2idx.py: writes the index of a record file (`mx.recordio.make_index`)."""

from __future__ import annotations

import argparse
import sys

from mxjax.recordio import make_index


def main(arguments: list[str]) -> int:
    """Writes the index."""
    asked = argparse.ArgumentParser("rec2idx.py", description="Writes the index of a record file")
    asked.add_argument("record", help="the record file")
    asked.add_argument("index", help="the index to write")
    given = asked.parse_args(arguments)
    make_index(given.record, given.index)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
