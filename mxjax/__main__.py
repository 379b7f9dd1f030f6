"""`python -m mxjax config [--json] [--changed] [NAME ...]` prints the settings in force."""

import argparse
import json
import sys

from . import settings
from .settings.explain import describe


def main(arguments: list[str]) -> int:
    """Runs one command; the result is the exit status."""
    parser = argparse.ArgumentParser("python -m mxjax")
    config = parser.add_subparsers(dest="command", required=True).add_parser(
        "config", help="the settings in force, or some of them at length")
    config.add_argument("name", nargs="*", help="any name of an option; without one, all options")
    config.add_argument("--json", action="store_true", help="everything, as JSON")
    config.add_argument("--changed", action="store_true", help="only options that somebody set")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        rows = [settings.explain(name) for name in given.name]
    except KeyError as error:
        print(error, file=sys.stderr)
        return 1
    names = [row.name for row in rows] or list(settings.options())
    if given.changed:
        changed = settings.changed()
        names = [name for name in names if name in changed]
    if given.json:
        print(json.dumps(settings.as_json(names), indent=2))
    elif rows:
        print("\n\n".join(settings.describe(name) for name in names))
    else:
        print(describe(settings._registry, names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
