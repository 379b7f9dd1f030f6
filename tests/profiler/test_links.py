"""A GPU's trace tells when the host launched each kernel, not which run of which program it is."""

from mxjax.hlo import Instruction
from mxjax.hlo import Program as Hlo
from mxjax.profiler._attribution import Attribution, Site
from mxjax.profiler._links import Programs
from mxjax.profiler._recorder import Run
from mxjax.profiler._session import DeviceEvent, instruction_of, kernels_of


class Program:
    """As the engine has them."""

    steps: list[object] = []


def event(program: str, start: int, launched: int | None, run: int = 0) -> DeviceEvent:
    owner = Attribution(Site("", "exp"), "exact", ())
    return DeviceEvent(
        "gpu/0", "Stream", "fusion", program, run, start, start + 10, 10, owner, launched=launched
    )


def test_kernels_belong_to_the_run_that_launched_them():
    one, other = Program(), Program()
    stretches = ((one, 100, 200), (other, 300, 400), (one, 500, 600))
    runs = [Run("any", (), program, start, stop, "main") for program, start, stop in stretches]
    programs = Programs(runs)
    events = [
        event("jit_a(7001)", 900, 150), event("jit_a(7001)", 910, 190), event("jit_b(7002)", 930, 350),
        event("jit_a(7001)", 950, 550), event("jit_foreign(7003)", 990, 650),
    ]  # fmt: skip
    groups = programs.executions(events)
    assert [(g.program, len(g.events), g.run and g.run.start) for g in groups] == [
        ("jit_a(7001)", 2, 100),
        ("jit_b(7002)", 1, 300),
        ("jit_a(7001)", 1, 500),
        ("jit_foreign(7003)", 1, None),
    ]
    assert (
        programs.statements("jit_b(7002)", 350)
        is programs.statements("jit_b(7002)", 351)
        is not None
    )
    assert programs.statements("jit_foreign(7003)", 650) is None


def test_kernels_inside_of_cuda_graphs_are_those_of_their_instructions():
    names = ("loop_add_fusion.3", "copy-done.1", "command_buffer_4")
    made = {name: Instruction(name, "fusion", "", 1, []) for name in names}
    program = Hlo("jit_a", [], made)
    assert (
        instruction_of(program, kernels_of(program), "command_buffer_4", "loop_add_fusion_3")
        == "loop_add_fusion.3"
    )
    assert (
        instruction_of(program, kernels_of(program), "command_buffer_7", "copy_done_1")
        == "copy-done.1"
    )
    assert (
        instruction_of(program, kernels_of(program), "command_buffer_4", "cublas_gemm")
        == "command_buffer_4"
    )
    assert (
        instruction_of(program, kernels_of(program), "copy-done.1", "loop_add_fusion_3")
        == "copy-done.1"
    )
