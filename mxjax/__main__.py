"""`python -m mxjax config [NAME]` prints the settings in force, or one of them at length."""

import sys

from . import settings


def main(arguments: list[str]) -> int:
    """Runs one command; the result is the exit status."""
    if arguments[:1] != ["config"] or len(arguments) > 2:
        print("usage: python -m mxjax config [NAME]", file=sys.stderr)
        return 2
    try:
        print(settings.describe(*arguments[1:]))
    except KeyError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
