"""RunConfig: one value from arguments, files and the environment; snapshots; random environments."""

import copy
import json
import pickle
import random
import threading
import warnings

import pytest

import mxjax as mx
from mxjax import settings
from mxjax.__main__ import main
from mxjax.errors import MXNetFileNotFoundError, MXNetKeyError
from mxjax.settings import RunConfig, SettingError
from mxjax.settings.registry import Registry
from mxjax.settings.rows import OPTIONS


def test_arguments_of_all_families_make_one_config():
    run = RunConfig(
        {"MXNET_ENGINE_TYPE": "NaiveEngine", "compiler.passes": {"cse": False}},
        iterations_per_loop=4,
        precision_mode_v2="mixed_bfloat16",
        session_device_id=1,
    )
    assert dict(run) == {
        "engine.type": "NaiveEngine",
        "compiler.passes": {"cse": False},
        "engine.steps_per_call": 4,
        "precision.amp": "mixed_bfloat16",
        "engine.device": "xpu1",
    }
    assert run["iterations_per_loop"] == run.engine_steps_per_call == 4
    assert run.engine_bulk_nodes == 4096  # the default of what was not given
    assert len(run) == 5 and "engine_type='NaiveEngine'" in repr(run)
    with pytest.raises(AttributeError, match="did you mean 'engine_type'"):
        run.engine_typ  # noqa: B018


def test_a_config_does_not_change():
    run = RunConfig(engine_type="NaiveEngine")
    with pytest.raises(AttributeError, match=r"replace\(engine_type=...\)"):
        run.engine_type = "ThreadedEngine"
    with pytest.raises(AttributeError):
        del run.engine_type
    other = run.replace(MXNET_ENGINE_TYPE="ThreadedEngine")
    assert (run.engine_type, other.engine_type) == ("NaiveEngine", "ThreadedEngine")
    for same in (copy.deepcopy(run), pickle.loads(pickle.dumps(run)), RunConfig(run)):
        assert same == run and hash(same) == hash(run)


def test_it_counts_for_a_block_or_for_the_process():
    run = RunConfig(engine_bulk_nodes=7)
    with run, run.replace(engine_bulk_nodes=8):
        assert mx.config.get("engine.bulk_nodes") == 8
    assert mx.config.get("engine.bulk_nodes") == 4096
    assert run.apply() is run
    assert mx.config.get("engine.bulk_nodes") == 7


@pytest.mark.parametrize("kind", ["toml", "json"])
def test_files_have_a_table_per_group_or_old_names(tmp_path, kind):
    tables = {
        "iterations_per_loop": 3,
        "engine": {"type": "NaiveEngine"},
        "memory_config": {"memory_optimization_policy": "recompute"},
    }
    path = tmp_path / f"run.{kind}"
    path.write_text(
        json.dumps(tables)
        if kind == "json"
        else (
            "iterations_per_loop = 3\nmemory_config = {memory_optimization_policy = 'recompute'}\n"
            "[engine]\ntype = 'NaiveEngine'\n"
        )
    )
    run = RunConfig.from_file(path, engine_type="ThreadedEngine")
    assert dict(run) == {
        "engine.steps_per_call": 3,
        "engine.type": "ThreadedEngine",
        "memory.policy": {"memory_optimization_policy": "recompute"},
    }
    path.write_text("[")
    with pytest.raises(SettingError, match=str(path.name)):
        RunConfig.from_file(path)
    with pytest.raises(MXNetFileNotFoundError, match="no configuration file"):
        RunConfig.from_file(tmp_path / "none.toml")


def test_what_is_wrong_in_a_file_is_said_of_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'iteration_per_loop = 4\ncomm = 3\nprecision_mode = "force_fp16"\nprecision_mode_v2 = "origin"\n'
        "[engine]\nqueue_size = -3\n"
    )
    with pytest.raises(SettingError) as caught:
        RunConfig.from_file(file)
    text = str(caught.value)
    assert f"{file}: engine.queue_size=-3: expected an integer >= 1" in text
    assert (
        "precision_mode_v2='origin' contradict each other" in text
        and "decide with precision_amp" in text
    )
    assert "did you mean 'iterations_per_loop'" in text
    assert "'comm' is no option but a group of them: comm.bigarray_bound, " in text


def test_the_environment_is_read_as_at_the_import():
    run = RunConfig.from_environment(
        {"MXNET_ENGINE_TYPE": "NaiveEngine", "OTHER": "1", "MXJAX_ENGINE_BULK_NODES": "9"}
    )
    assert dict(run) == {"engine.type": "NaiveEngine", "engine.bulk_nodes": 9}
    with pytest.raises(SettingError, match="MXNET_ENGINE_TYPE='x'"):
        RunConfig.from_environment({"MXNET_ENGINE_TYPE": "x"})


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(SettingError) as caught:
        RunConfig(
            engine_type="Foo",
            bulk=3,
            iterations_per_loop=0,
            precision_mode="force_fp16",
            precision_mode_v2="origin",
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert "engine_type='Foo': not one of NaiveEngine" in lines[0]
    assert "iterations_per_loop=0: expected an integer >= 1" in lines[1]
    assert (
        "precision_mode='force_fp16' and RunConfig: precision_mode_v2='origin' contradict"
        in lines[2]
    )
    assert "there is no option 'bulk'" in lines[3]
    with pytest.raises(
        SettingError, match="engine.type='ThreadedEngine' and .*: engine_type='Naive.* contradict"
    ):
        RunConfig({"engine.type": "ThreadedEngine"}, engine_type="NaiveEngine")
    with pytest.raises(MXNetKeyError, match="did you mean 'iterations_per_loop'"):
        RunConfig(iteration_per_loop=1)


def test_weak_names_give_way_and_do_not_contradict():
    assert Registry(OPTIONS, {"MXNET_CPU_NNPACK_NTHREADS": "4"}).get("engine.cpu_threads") == 4
    both = {
        "MXNET_CPU_NNPACK_NTHREADS": "4",
        "MXNET_CPU_WORKER_NTHREADS": "2",
        "MXNET_USE_NUM_CORES_OPERATOR_TUNING": "8",
    }
    registry = Registry(OPTIONS, both)
    assert registry.get("engine.cpu_threads") == 2
    assert registry.sources("engine.cpu_threads")[0].source == "MXNET_CPU_WORKER_NTHREADS"


def test_snapshots_follow_every_change_and_every_scope():
    nodes = settings.snapshot("MXNET_EXEC_BULK_EXEC_MAX_NODE_TRAIN")
    assert nodes() == 4096
    mx.config.set(engine_bulk_nodes=5)
    assert nodes() == 5
    seen = []
    with mx.config.scope(engine_bulk_nodes=6):
        assert nodes() == 6
        thread = threading.Thread(target=lambda: seen.append(nodes()))
        thread.start()
        thread.join()
        assert nodes() == 6
    assert (nodes(), seen) == (5, [5])


def test_what_listeners_refuse_is_not_in_force():
    with pytest.raises(SettingError, match="there is no operator"):
        mx.config.set(precision_op_dtypes={"no_such_operator": "float16"})
    assert mx.config.get("precision.op_dtypes") == {}
    assert not mx.config.is_given("precision.op_dtypes")


def test_the_command_line_prints_tables_changes_and_json(capsys):
    def changed():
        assert main(["config", "--changed"]) == 0
        return [line.split()[0] for line in capsys.readouterr().out.splitlines()]

    before = changed()  # by variables of this process
    mx.config.set(MXNET_CUDNN_AUTOTUNE_DEFAULT=0, memory_fraction=0.5)
    given = set(before) - {"option", "cache.dir"}
    assert [name for name in changed() if name not in given] == [
        "option",
        "memory.fraction",
        "compiler.autotune",
        "cache.dir",
    ]
    assert main(["config", "--json", "compiler.autotune", "MXNET_GPU_MEM_POOL_RESERVE"]) == 0
    found = json.loads(capsys.readouterr().out)
    autotune = found["compiler.autotune"]
    assert autotune["value"] == "off" and autotune["source"] == "mx.config.set"
    assert autotune["platforms"] == ["gpu"] and autotune["becomes"] == ["xla_gpu_autotune_level=0"]
    assert autotune["served"]["MXNET_CUDNN_AUTOTUNE_DEFAULT"]["fidelity"] == "approximate"
    assert found["memory.fraction"]["becomes"] == ["XLA_CLIENT_MEM_FRACTION=0.5"]
    assert main(["config", "compiler.autotune", "engine.type"]) == 0
    assert "becomes:  xla_gpu_autotune_level=0" in capsys.readouterr().out
    assert main(["config", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {row.name for row in OPTIONS}


def test_approximate_names_say_what_is_different_and_none_does_nothing():
    for row in OPTIONS:
        for old in row.legacy:
            assert (old.fidelity == "real") == (not old.difference), old.name
        text = str(settings.explain(row.name))
        assert all(old.difference in text for old in row.legacy)
        assert row.compiler or row.environment or row.mechanism or row.effect


# ---------------------------------------------------------------------------- random environments

WORDS = [
    "",
    "0",
    "1",
    "2",
    "-1",
    "-3",
    "3.5",
    "1e999",
    "nan",
    "abc",
    "true",
    "Off",
    "NaiveEngine",
    "{",
    "{}",
    '{"a": 1}',
    "[1,2]",
    "2GB",
    "9" * 400,
    "cpu1",
    "a:b",
    "a,b",
    "0|3-5",
    "[3~5,-1]",
    "/",
    "\x7f",
    "é" * 50,
    "[" * 3000,
    "--xla_a=1",
    "float16",
    "MLIR",
    "PROFILE",
    "~/x",
    "b:5",
    "enable",
    "FILE",
]


def check_random_environments(count, seed):
    """Every environment is accepted, or refused with the name of every variable that is wrong."""
    draw = random.Random(seed)
    names = [variable for row in OPTIONS for variable in row.variables]
    accepted = refused = 0
    for _ in range(count):
        chosen = draw.sample(names, draw.choice((1, 1, 1, 2, 2, 6)))
        environ = {name: draw.choice(WORDS) for name in chosen}
        alone = {}
        for name, text in environ.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    Registry([r for r in OPTIONS if name in r.variables], {name: text}, late=True)
            except SettingError as error:
                alone[name] = str(error)
                assert name in alone[name] and len(alone[name]) < 1200
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                Registry(OPTIONS, environ, late=True)
        except SettingError as error:
            refused += 1
            assert all(name in str(error) for name in alone), (environ, str(error))
            assert alone or "contradict" in str(error)
        else:
            accepted += 1
            assert not alone, environ
    return accepted, refused


def test_random_environments_are_accepted_or_refused_by_name():
    accepted, refused = check_random_environments(300, seed=20)
    assert accepted > 20 and refused > 100


@pytest.mark.slow
def test_ten_thousand_random_environments():
    accepted, refused = check_random_environments(10_000, seed=21)
    assert accepted + refused == 10_000
