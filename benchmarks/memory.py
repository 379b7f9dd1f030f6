"""`make bench-memory`: bytes, arithmetic and time of rematerialisation, each part in a process of its own.

    python benchmarks/memory.py [mirror] [sublinear] [plan] [dtr]

Figures and tables are left in bench_output/.
"""

import sys

from parts import main

if __name__ == "__main__":
    sys.exit(main("memory", ("mirror", "sublinear", "plan", "dtr"), sys.argv[1:]))
