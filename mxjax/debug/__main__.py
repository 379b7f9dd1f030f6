"""`python -m mxjax.debug compare A B [--rtol R] [--atol A] [--all]`: the first operator that differs."""

import argparse
import sys

from ..errors import MXNetError
from .compare import compare


def main(arguments: list[str]) -> int:
    """Runs one command; 0: the dumps agree, 1: they differ, 2: they cannot be compared."""
    parser = argparse.ArgumentParser("python -m mxjax.debug")
    words = "the first operator in which two dumps differ"
    command = parser.add_subparsers(dest="command", required=True).add_parser("compare", help=words)
    command.add_argument("a", help="the folder of a dump")
    command.add_argument("b", help="the folder of the dump to compare it with")
    command.add_argument("--rtol", type=float, default=1e-5, help="relative error allowed (1e-5)")
    command.add_argument("--atol", type=float, default=1e-6, help="absolute error allowed (1e-6)")
    command.add_argument("--all", action="store_true", help="all differences, not the first alone")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        differences, common, alone = compare(given.a, given.b, rtol=given.rtol, atol=given.atol)
    except (MXNetError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if not common:
        print("the dumps have no operator in common", file=sys.stderr)
        return 2
    if alone:
        print(f"in one dump only: {', '.join(alone)}")
    if not differences:
        print(f"{common} arrays agree")
        return 0
    print(f"{len(differences)} of {common} arrays differ; the first:")
    for difference in differences if given.all else differences[:1]:
        print(difference)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
