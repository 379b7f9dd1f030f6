"""`make bench-kvstore`: what sums between devices and processes cost, and whether faults end as they should.

    python benchmarks/kvstore.py [one] [dist] [async] [faults] [--long]
    MXJAX_BENCH_MXNET=<python with MXNet 2> make bench-kvstore       # beside MXNet's stores

`one`: one process with four virtual devices; `dist`: dist_sync; `async`: dist_async, with Ray (the extra `ray`);
`faults`: kills, restarts, mixed calls, with ``--long`` 50 of each of the first two. Times are the least of some
repeats.
Figures and tables are left in bench_output/.
"""

import sys

from parts import main

if __name__ == "__main__":
    sys.exit(main("kvstore", ("one", "dist", "async", "faults"), sys.argv[1:]))
