"""MXNet's tools/im2rec.py: `python -m mxjax.im2rec`, whose options are the same."""

import sys

from mxjax.im2rec import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
