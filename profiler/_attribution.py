"""Which of the user's operators an XLA instruction belongs to.

Operators are traced under ``jax.named_scope("block path/Operator")``, and XLA carries that path
on its instructions as ``jit(program)/transpose(jvp(block))/Operator/primitive``.  Three things blur
it: a fusion holds the work of several operators and bears one name, XLA's own instructions (layout
copies, rewrites) bear none, and a gradient bears the path of its forward.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from mxjax.hlo import Instruction, Program

from ._statements import Statements

# Path components that JAX adds for its own structure.
_STRUCTURE = frozenset(
    """while body cond closed_call core_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr
    checkpoint remat remat2 rematted_computation pjit shard_map pallas_call""".split()
) | {""}
_BRANCH = re.compile(r"branch_\d+_fun$")
_WRAPPED = re.compile(r"([A-Za-z_]\w*)\((.*)\)$", re.DOTALL)
_FREE = frozenset("parameter constant bitcast tuple get-tuple-element".split())
_MOVES = frozenset("copy transpose bitcast reshape reverse parameter convert".split())
_HEAVY = ("convolution", "dot")
_UNREAD = object()


@dataclass(frozen=True, slots=True)
class Site:
    """An operator at its place in the model: `block` is the path of blocks around the call.

    `call` tells the calls of one operator in one block apart.
    """

    block: str
    operator: str
    call: int = 0

    @property
    def path(self) -> str:
        return f"{self.block}/{self.operator}" if self.block else self.operator


@dataclass(frozen=True, slots=True)
class Attribution:
    """The owner of an instruction, and its owners with their shares where there are several.

    `how` is ``exact``, ``sole`` (nameless, but it serves one operator alone), ``shared`` (a fusion of
    several operators), ``inherited`` (nameless, named after the nearest of those it serves) or
    ``none``.
    """

    site: Site
    how: str
    shares: tuple[tuple[Site, float], ...]


HOW = ("exact", "sole", "shared", "inherited", "none")


def parse(op_name: str, statements: Statements | None = None) -> Site | None:
    """The operator in XLA's `op_name`, or None where no operator encloses the instruction.

    It is the one whose statement the path names; in programs that the engine did not record, the
    innermost scope that is not of JAX's own making.

    >>> parse("jit(step)/transpose(jvp(net0))/conv0/Convolution/conv_general_dilated").path
    'net0/conv0/_backward_Convolution'
    """
    components: list[str] = []
    backward = _flatten(op_name, components)
    found = None if statements is None else statements.find(components[:-1], _STRUCTURE)
    scopes = _users_own(components)[:-1]  # the last one is the primitive
    if not scopes:
        return None
    if found is not None:
        block, operator, call = found.block, found.name, found.number
    else:
        *around, operator = (scope.partition("#")[0] for scope in scopes)
        block, call = "/".join(around), 0
    if backward and not operator.startswith("_backward_"):
        operator = "_backward_" + operator
    return Site(block, operator, call)


def _users_own(components: list[str]) -> list[str]:
    """The components that JAX did not add; a block may be called `body` where no loop is around."""
    out: list[str] = []
    for before, component, after in zip(
        ["", *components], components, [*components[1:], ""], strict=False
    ):
        if component == "body":
            structure = before == "while"
        elif component == "cond":
            structure = before == "while" or _BRANCH.match(after) is not None
        else:
            structure = component in _STRUCTURE or _BRANCH.match(component) is not None
        if not structure:
            out.append(component)
    return out


def _flatten(path: str, out: list[str]) -> bool:
    """Append the components of a path to `out`; True where it passes through a transpose."""
    backward = False
    for component in _split(path):
        wrapped = _WRAPPED.match(component)
        if wrapped is None:
            if component:
                out.append(component)
        elif wrapped[1] != "jit":  # jit(name) is a function of the library or the program itself
            inside: list[str] = []
            backward = _flatten(wrapped[2], inside) or wrapped[1] == "transpose" or backward
            if not inside or out[-len(inside) :] != inside:  # JAX names some scopes twice
                out += inside
    return backward


def _split(path: str) -> Iterable[str]:
    depth = start = 0
    for i, c in enumerate(path):
        if c == "(":
            depth += 1
        elif c == ")":
            depth -= 1
        elif c == "/" and depth == 0:
            yield path[start:i]
            start = i + 1
    yield path[start:]


def _work(instruction: Instruction) -> float:
    """A rough count of the operations of an instruction, to divide a fusion between its owners."""
    sizes = [float(o.elements) for o in instruction.operands]
    if instruction.opcode in ("dot", "convolution") and len(sizes) >= 2 and instruction.elements:
        contracted = (sizes[0] * sizes[1] / instruction.elements) ** 0.5
        return 2.0 * instruction.elements * max(contracted, 1.0)
    if instruction.opcode.startswith("reduce") and sizes:
        return max(sizes[0], float(instruction.elements))
    return float(max(instruction.elements, 1))


class Attributor:
    """Attributes the instructions of one program, each when it is first asked for."""

    def __init__(self, program: Program, statements: Statements | None = None):
        self.program = program
        self.statements = statements
        self._named: dict[int, Attribution | None] = {}
        self._final: dict[str, Attribution] = {}
        self._parsed: dict[str, Any] = {}

    def __call__(self, name: str) -> Attribution:
        """The attribution of the instruction of this name."""
        found = self._final.get(name)
        if found is None:
            instruction = self.program.instructions.get(name)
            found = self._final[name] = (
                _nobody(name) if instruction is None else self._attribute(instruction)
            )
        return found

    def _attribute(self, instruction: Instruction) -> Attribution:
        own = self._by_name(instruction)
        if own is not None:
            return own
        writer = self._makes_way(instruction)
        if writer is not None:
            return Attribution(writer, "sole", ((writer, 1.0),))
        # What a nameless instruction prepares belongs to who uses it; only what nobody named uses
        # is charged to who made it.  The other order charges work to operators that never asked.
        for neighbours in (_users, _operands):
            near, alone = self._nearest(instruction, neighbours)
            if near is not None:
                how = "sole" if alone else "inherited"
                return Attribution(near.site, how, ((near.site, 1.0),))
        return _nobody(instruction.opcode or instruction.name)

    def _makes_way(self, instruction: Instruction) -> Site | None:
        """The operator for which an input is saved: it writes its result over what others read.

        Such a copy has the input's own layout: one in another layout serves those that read it.
        """
        if instruction.opcode != "copy" or not instruction.operands:
            return None
        (source,) = instruction.operands
        writer = self.program.overwritten.get(source.name)
        if writer is None or source.layout != instruction.layout:
            return None
        found = self._by_name(writer)
        return found.site if found is not None and found.how in ("exact", "sole") else None

    def _nearest(
        self, start: Instruction, neighbours: Callable[[Instruction], list[Instruction]]
    ) -> tuple[Attribution | None, bool]:
        """The nearest named instruction in a direction, and whether all there are one operator's."""
        seen = {id(start)}
        level = neighbours(start)
        nearest: Attribution | None = None
        paths: set[str] = set()
        while level:
            named: list[tuple[Instruction, Attribution]] = []
            following: list[Instruction] = []
            for instruction in level:
                if id(instruction) in seen:
                    continue
                seen.add(id(instruction))
                found = self._by_name(instruction)
                if found is None:
                    following += neighbours(instruction)
                else:
                    named.append((instruction, found))
                    paths.update(site.path for site, _ in found.shares)
            if named and nearest is None:
                nearest = max(named, key=lambda pair: pair[0].elements)[1]
            if len(paths) > 1:
                break
            level = following
        return nearest, len(paths) == 1

    def _parse(self, op_name: str) -> Site | None:
        found = self._parsed.get(op_name, _UNREAD)
        if found is _UNREAD:
            found = self._parsed[op_name] = parse(op_name, self.statements)
        return found

    def _by_name(self, instruction: Instruction) -> Attribution | None:
        """What the names on the instruction, and inside it, say; or those of its kin."""
        key = id(instruction)
        if key not in self._named:
            found = self._read_names(instruction)
            self._named[key] = self._by_kin(instruction) if found is None else found
        return self._named[key]

    def _by_kin(self, instruction: Instruction) -> Attribution | None:
        """The owner of a nameless convolution or matrix product.

        XLA writes the gradient of a convolution's input anew, without the name.  It works on the
        same weights as the forward and on the same gradient as that of the weights: the kin that
        shares most with it names it, and where that place has a gradient it is its gradient.
        """
        opcode = _heavy(instruction)
        if opcode is None:
            return None
        own = self._sources(instruction)
        kin = self._kin[opcode]
        best, most, rivals = None, 0, False
        for site, sources in kin:
            common = len(own & sources)
            if common > most:
                best, most, rivals = site, common, False
            elif best is not None and common == most and _forward(site) != _forward(best):
                rivals = True
        if best is None:
            return None
        gradient = Site(best.block, "_backward_" + best.operator)
        if any(site == gradient for site, _ in kin):
            best = gradient
        return Attribution(best, "inherited" if rivals else "sole", ((best, 1.0),))

    @cached_property
    def _kin(self) -> dict[str, list[tuple[Site, frozenset[int]]]]:
        """The named convolutions and matrix products, with what they work on."""
        kin: dict[str, list[tuple[Site, frozenset[int]]]] = {opcode: [] for opcode in _HEAVY}
        for instruction in self.program.instructions.values():
            opcode = _heavy(instruction)
            found = None if opcode is None else self._read_names(instruction)
            if opcode is not None and found is not None:
                kin[opcode].append((found.shares[0][0], self._sources(instruction)))
        return kin

    def _sources(self, instruction: Instruction) -> frozenset[int]:
        """What an instruction works on, behind mere copies and transpositions."""
        found, todo = set(), list(instruction.operands)
        while todo:
            source = todo.pop()
            if source.operands and _moves(source):
                todo += source.operands
            else:
                found.add(id(source))
        return frozenset(found)

    def _read_names(self, instruction: Instruction) -> Attribution | None:
        if instruction.opcode in ("parameter", "constant"):
            return None
        own = self._parse(instruction.op_name)
        if instruction.opcode not in ("fusion", "call") or not instruction.called:
            return None if own is None else Attribution(own, "exact", ((own, 1.0),))
        work: dict[Site, float] = {}
        for computation in instruction.called:
            for inner in computation.instructions:
                if inner.opcode in _FREE:
                    continue
                if inner.called and inner.opcode in ("fusion", "call"):
                    nested = self._read_names(inner)
                    for site, share in nested.shares if nested else ():
                        work[site] = work.get(site, 0.0) + share * _work(inner)
                else:
                    site_or_none = self._parse(inner.op_name)
                    if site_or_none is not None:
                        work[site_or_none] = work.get(site_or_none, 0.0) + _work(inner)
        if not work:
            return None if own is None else Attribution(own, "exact", ((own, 1.0),))
        total = sum(work.values())
        shares = tuple(sorted(((s, w / total) for s, w in work.items()), key=lambda p: -p[1]))
        site = own if own in work else self._root_site(instruction) or shares[0][0]
        one = len({s.path for s in work}) == 1
        return Attribution(site, "exact" if one else "shared", shares)

    def _root_site(self, instruction: Instruction) -> Site | None:
        root = instruction.called[0].root
        return None if root is None else self._parse(root.op_name)


def _heavy(instruction: Instruction) -> str | None:
    """`convolution` or `dot` where the instruction is one, or a fusion around one."""
    if instruction.opcode in _HEAVY:
        return instruction.opcode
    if instruction.opcode == "fusion":
        for computation in instruction.called:
            for inner in computation.instructions:
                if inner.opcode in _HEAVY:
                    return inner.opcode
    return None


def _moves(instruction: Instruction) -> bool:
    """Whether the instruction only brings its operand into another order."""
    if instruction.opcode != "fusion":
        return instruction.opcode in _MOVES
    return all(i.opcode in _MOVES for c in instruction.called for i in c.instructions)


def _forward(site: Site) -> str:
    """The place whose operator or whose operator's gradient a site is."""
    return Site(site.block, site.operator.removeprefix("_backward_")).path


def _users(instruction: Instruction) -> list[Instruction]:
    return instruction.users


def _operands(instruction: Instruction) -> list[Instruction]:
    return instruction.operands


def _nobody(name: str) -> Attribution:
    site = Site("", name)
    return Attribution(site, "none", ((site, 1.0),))
