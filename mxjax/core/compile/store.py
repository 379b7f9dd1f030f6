"""Programs end: all of them are in one store, bounded in bytes, from which those go that were not used for longest.

Time is counted in compilations: a program that runs notes how many there have been (`Store.now`), which costs the
hot path one assignment. A step that runs by `Step.solo` notes nothing; so every now and then (`_sweep`) those
functions are taken back, and who uses one goes once the longer way, which notes it.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..calls.segment import NO_PROGRAMS, Step
from ..calls.state import states
from ..graph.jaxprs import bound_traces
from ..hooks import forked_children
from ..stats import stats
from .compiler import platform_of
from .compiler_options import machine_memory

if TYPE_CHECKING:
    from .program import Program

Key = tuple[tuple[int, ...], tuple[int, ...]]

# Measured on CPUs, in resident memory a program: one of 1 element-wise operator 0.3 MB, of 40 products and tanh
# (81 computations) 4.4 MB, of 40 sums (82) 7.2 MB. XLA's CPU compiler makes a module of each computation, and says
# of no program how large its code is.
PROGRAM_BYTES = 256 << 10
COMPUTATION_BYTES = 64 << 10

#: The bound where none is asked for: a process that trains small networks one after the other stays below 700 MB.
USUAL = 128 << 20
#: The same once there are programs of GPUs or TPUs: BERT's training step takes 60 MB and 11 seconds of compiling.
USUAL_FAR = 1 << 30
GHOSTS = 10_000  # so many programs that had to go are remembered


def size_of(compiled: Any) -> int:
    """About how many bytes a compiled function takes, without its arrays."""
    try:
        executable = compiled.runtime_executable()
        count = sum(len(module.computations()) for module in executable.hlo_modules())
        code = max(0, int(executable.size_of_generated_code_in_bytes()))
    except Exception:  # another JAX, or a runtime that does not tell
        count = code = 0
    return PROGRAM_BYTES + COMPUTATION_BYTES * count + code


class Store:
    """What this process holds of programs: of all devices and threads."""

    def __init__(self) -> None:
        self.now = 0  # how many programs were made
        self.limit = USUAL
        self.most: int | None = None
        self._grows = True  # the limit is ours: it is raised where it proves too low
        self._held: dict[int, weakref.ref[Program]] = {}
        self._ghosts: set[int] = set()
        self._swept = 0
        self._lock = threading.Lock()

    def bound(self, limit: int | None, most: int | None) -> None:
        """From now on hold so many bytes (``None``: as many as prove useful), and at most so many programs."""
        self._grows = limit is None
        self.limit = USUAL if limit is None else limit
        self.most = most

    def programs(self) -> list[Program]:
        """Those held, the ones used longest ago first."""
        return sorted(self._alive(), key=self._used)

    def _alive(self) -> list[Program]:
        return [p for p in (ref() for ref in list(self._held.values())) if p is not None]

    def as_dict(self) -> dict[str, int]:
        """For ``mx.engine.stats()``."""
        held = self._alive()
        return {"held": len(held), "held_bytes": sum(p.bytes for p in held)}

    def keep(self, step: Step, key: Key, program: Program) -> None:
        """Enter a new program under the step that it ends with; others go where there are too many."""
        program.used = self.now
        self.now += 1  # whoever runs from here on was used later
        program.at = weakref.ref(step), key
        number, held = id(program), self._held
        held[number] = weakref.ref(
            program, lambda _: held.pop(number, None)
        )  # it may end at any time
        if step.programs is NO_PROGRAMS:
            step.programs = {}
        step.programs[key] = program
        if (
            self._grows
            and self.limit < USUAL_FAR
            and program.outs
            and platform_of(program.outs[0].device) != "cpu"
        ):
            self.limit = max(self.limit, min(USUAL_FAR, machine_memory() // 4))
        if self._grows and self._ghosts:
            self._raise_limit(_structure(step, key), program.bytes)
        bound_traces()
        if 8 * (self.now - self._swept) > len(held):
            self._sweep()
        self._make_room(program)

    def clear(self) -> None:
        """Let all programs go."""
        for program in self._alive():
            self._drop(program)
        self._ghosts.clear()

    def _used(self, program: Program) -> int:
        return max(program.used, self._swept) if _by_itself(program) else program.used

    def _raise_limit(self, structure: int, more: int) -> None:
        """A program that had to go is needed again: more are in use than the limit lets live."""
        if structure in self._ghosts:
            self._ghosts.discard(structure)
            self.limit = max(self.limit, min(self.limit + more, machine_memory() // 4))

    def _sweep(self) -> None:
        """Find out which steps that run by themselves are in use, from now on."""
        for program in self._alive():
            if _by_itself(program):
                program.used = self._used(program)
                _let_solo(program)
        self._swept = self.now

    def _make_room(self, newest: Program) -> None:
        """The oldest go until the rest is within the bounds; the one that is about to run stays."""
        with self._lock:
            held = self._alive()
            size, count = sum(p.bytes for p in held), len(held)
            most = math.inf if self.most is None else max(1, self.most)
            if size <= self.limit and count <= most:
                return
            stood: set[int] | None = None
            for program in sorted(held, key=self._used):
                if size <= self.limit and count <= most:
                    break
                if program is newest:
                    continue
                if stood is None:  # threads that record stand on steps which may lead nowhere yet
                    stood = {id(at.step) for st in list(states) for at in st.open()}
                    stood.update(id(st.known.step) for st in list(states))
                step = self._drop(program)
                if step is not None:
                    if len(self._ghosts) > GHOSTS:
                        self._ghosts.clear()
                    self._ghosts.add(_structure(step, program.at[1]))
                    step.prune(stood)
                size, count = size - program.bytes, count - 1
                stats.evicted += 1

    def _drop(self, program: Program) -> Step | None:
        self._held.pop(id(program), None)
        step: Step | None = program.at[0]()
        if step is not None:
            step.programs.pop(program.at[1], None)
            if _by_itself(program):
                _let_solo(program)
        return step


def _by_itself(program: Program) -> bool:
    """Whether it is the function by which its step runs."""
    step = program.at[0]()
    return step is not None and step.solo is not None and step.solo is program.call


def _let_solo(program: Program) -> None:
    """Take the function back, until the program runs again and gives it anew."""
    program.proven = False
    for step in (program.at[0], *program.names):
        found = step()
        if found is not None:
            found.solo = None
    program.names = []


def _structure(step: Step, key: Key) -> int:
    """Of a segment and what is wanted of it: hashes alone, so that nothing is kept alive."""
    return hash((tuple([(id(s.call), s.avals, s.args, s.new_ins) for s in step.path()]), key))


store = Store()
forked_children.append(store.clear)  # no program runs there
