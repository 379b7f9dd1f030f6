"""The rules of precedence, refusals and subscriptions, on a registry of its own."""

import threading

import pytest

from mxjax.errors import MXNetError
from mxjax.settings.explain import changed, explain
from mxjax.settings.kinds import Boolean, Choice, Flags, Integer, Path, Text
from mxjax.settings.option import Legacy, Option
from mxjax.settings.registry import Registry, SettingError

ENGINE = Option(
    "engine.type",
    Choice(("NaiveEngine", "ThreadedEngine"), suffix="Async"),
    "ThreadedEngine",
    doc="d",
    effect="e",
    legacy=(Legacy("MXNET_ENGINE_TYPE"),),
)
NODES = Option(
    "engine.bulk_nodes",
    Integer(0),
    4096,
    doc="d",
    effect="e",
    legacy=(Legacy("MXNET_MAX"), Legacy("MXNET_MAX_FWD")),
    combine=min,
)
REMAT = Option(
    "memory.remat",
    Choice(("none", "mirror")),
    "none",
    doc="d",
    effect="e",
    applies="compile",
    legacy=(
        Legacy("MXNET_BACKWARD_DO_MIRROR", Boolean(), {True: "mirror", False: "none"}),
        Legacy("MXNET_MEMORY_OPT", Boolean(), {True: "mirror", False: "none"}),
        Legacy("do_mirror", Boolean(), {True: "mirror", False: "none"}),
    ),
    dynamic=True,
)
THREADS = Option(
    "engine.cpu_threads", Integer(1), None, doc="d", effect="e", applies="backend-init"
)
ROWS = (ENGINE, NODES, REMAT, THREADS)


def make(**environ: str) -> Registry:
    return Registry(ROWS, environ)


def test_default_then_legacy_then_own_variable_then_set_then_scope_then_argument():
    assert make().get("engine.type") == "ThreadedEngine"
    legacy = make(MXNET_ENGINE_TYPE="NaiveEngine")
    assert legacy.get("engine.type") == "NaiveEngine"
    own = make(MXNET_ENGINE_TYPE="NaiveEngine", MXJAX_ENGINE_TYPE="ThreadedEngine")
    assert own.get("engine.type") == "ThreadedEngine"
    own.set("engine.type", "NaiveEngine")
    assert own.get("engine.type") == "NaiveEngine"
    with own.scope("engine.type", "ThreadedEngine"):
        assert own.get("engine.type") == "ThreadedEngine"
        assert own.resolve("engine.type", "NaiveEngine") == "NaiveEngine"
        assert own.resolve("engine.type") == "ThreadedEngine"
        assert [found.source for found in own.sources("engine.type")] == [
            "mx.config.scope",
            "mx.config.set",
            "MXJAX_ENGINE_TYPE",
            "default",
        ]
    assert own.get("engine.type") == "NaiveEngine"
    own.reset("engine.type")
    assert own.get("engine.type") == "ThreadedEngine"


def test_every_name_of_an_option_reads_and_sets_it():
    registry = make()
    registry.set(do_mirror=True)
    for name in ("memory.remat", "memory_remat", "MXJAX_MEMORY_REMAT", "MXNET_MEMORY_OPT"):
        assert registry.get(name) == "mirror"
    registry.set({"MXNET_BACKWARD_DO_MIRROR": 0, "engine.bulk_nodes": "7"})
    assert registry.get("memory.remat") == "none"
    assert registry.get("engine.bulk_nodes") == 7


def test_bad_values_are_refused_together_with_variable_value_and_choices():
    with pytest.raises(ValueError) as caught:
        make(MXNET_ENGINE_TYPE="Foo", MXNET_MAX="-3", MXJAX_MEMORY_REMAT="maybe")
    assert isinstance(caught.value, MXNetError)
    assert str(caught.value).splitlines() == [
        "MXNET_ENGINE_TYPE='Foo': not one of NaiveEngine, ThreadedEngine (option engine.type)",
        "MXNET_MAX='-3': expected an integer >= 0 (option engine.bulk_nodes)",
        "MXJAX_MEMORY_REMAT='maybe': not one of none, mirror (option memory.remat)",
    ]


def test_legacy_names_that_contradict_each_other_are_an_error_naming_both():
    with pytest.raises(SettingError) as caught:
        make(MXNET_BACKWARD_DO_MIRROR="0", MXNET_MEMORY_OPT="1")
    assert "MXNET_BACKWARD_DO_MIRROR='0' and MXNET_MEMORY_OPT='1' contradict" in str(caught.value)
    assert "MXJAX_MEMORY_REMAT" in str(caught.value)
    assert make(MXNET_BACKWARD_DO_MIRROR="1", MXNET_MEMORY_OPT="1").get("memory.remat") == "mirror"
    decided = make(MXNET_BACKWARD_DO_MIRROR="0", MXNET_MEMORY_OPT="1", MXJAX_MEMORY_REMAT="none")
    assert decided.get("memory.remat") == "none"


def test_legacy_names_with_a_rule_are_combined():
    assert make(MXNET_MAX="20", MXNET_MAX_FWD="10").get("engine.bulk_nodes") == 10


def test_unknown_own_variable_is_an_error_with_the_nearest_name():
    with pytest.raises(SettingError, match="did you mean 'MXJAX_ENGINE_TYPE'"):
        make(MXJAX_ENGIN_TYPE="NaiveEngine")
    make(MXJAX_BENCH_MXNET="python", MXJAX_TEST_SEED="1")  # the project's tools


def test_unknown_legacy_variables_are_one_warning():
    with pytest.warns(UserWarning, match="MGB_FOO, MXNET_BAR") as caught:
        make(MXNET_BAR="1", MGB_FOO="2", OTHER="3")
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="MXNET_ENGIN_TYPE; did you mean 'MXNET_ENGINE_TYPE'"):
        make(MXNET_ENGIN_TYPE="NaiveEngine")
    with pytest.warns(UserWarning, match="MXNET_SUBGRAPH_VERBOSE: without effect"):
        make(MXNET_SUBGRAPH_VERBOSE="0")  # MXNet's own, and no other name misspelled


def test_an_empty_variable_says_nothing():
    assert make(MXNET_ENGINE_TYPE="").get("engine.type") == "ThreadedEngine"


def test_unknown_option_names_the_nearest():
    with pytest.raises(KeyError, match="did you mean 'engine.type'"):
        make().get("engine.typ")


@pytest.mark.parametrize("value", ["Foo", 3, None, True])
def test_set_and_scope_refuse_bad_values_and_change_nothing(value):
    registry = make()
    with pytest.raises(SettingError, match="not one of NaiveEngine"):
        registry.set({"engine.bulk_nodes": 3, "engine.type": value})
    with pytest.raises(SettingError, match="engine.type"):
        registry.scope("engine.type", value)
    assert registry.get("engine.bulk_nodes") == 4096


def test_scopes_nest_and_end_with_an_exception():
    registry = make()
    with registry.scope(engine_bulk_nodes=5):
        with pytest.raises(RuntimeError), registry.scope(engine_type="NaiveEngine"):
            assert registry.get("engine.bulk_nodes") == 5
            assert registry.get("engine.type") == "NaiveEngine"
            raise RuntimeError
        assert registry.get("engine.type") == "ThreadedEngine"
        registry.set(engine_type="NaiveEngine")  # a set under a scope of another option counts
        assert registry.get("engine.type") == "NaiveEngine"
    assert registry.get("engine.bulk_nodes") == 4096


def test_a_scope_belongs_to_its_thread():
    registry = make()
    seen = []
    with registry.scope(engine_bulk_nodes=5):
        thread = threading.Thread(target=lambda: seen.append(registry.get("engine.bulk_nodes")))
        thread.start()
        thread.join()
    assert seen == [4096]


def test_listeners_hear_changes_of_their_option_only():
    registry = make()
    heard = []
    end = registry.on_change("MXNET_ENGINE_TYPE", heard.append)
    registry.set(engine_bulk_nodes=3)
    registry.set(engine_type="ThreadedEngine")  # no change
    assert heard == []
    registry.set(engine_type="NaiveEngine")
    with registry.scope(engine_type="ThreadedEngine"):
        pass
    registry.reset()
    assert heard == ["NaiveEngine", "ThreadedEngine", "NaiveEngine", "ThreadedEngine"]
    end()
    registry.set(engine_type="NaiveEngine")
    assert len(heard) == 4


def test_the_version_counts_changes_and_the_values_are_replaced():
    registry = make()
    version, values = registry.state.version, registry.current()
    assert registry.current() is values
    registry.set(engine_bulk_nodes=3)
    assert registry.state.version > version
    assert values["engine.bulk_nodes"] == 4096
    assert registry.current()["engine.bulk_nodes"] == 3
    version = registry.state.version
    with registry.scope(engine_bulk_nodes=4):
        assert registry.state.version > version
        assert registry.current() is registry.current()


def test_dynamic_options_read_the_environment_again_and_others_do_not():
    environ: dict[str, str] = {}
    registry = Registry(ROWS, environ)
    heard = []
    registry.on_change("memory.remat", heard.append)
    environ["MXNET_BACKWARD_DO_MIRROR"] = "1"
    environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"
    assert registry.get("memory.remat") == "mirror"
    assert registry.get("engine.type") == "ThreadedEngine"
    assert registry.unread("engine.type") == ("MXNET_ENGINE_TYPE",)
    assert registry.unread("memory.remat") == ()
    assert "changed after the import" in str(explain(registry, "engine.type"))
    assert heard == ["mirror"]
    environ["MXNET_BACKWARD_DO_MIRROR"] = "2"
    with pytest.raises(SettingError, match="MXNET_BACKWARD_DO_MIRROR='2': expected 0 or 1"):
        registry.get("memory.remat")
    del environ["MXNET_BACKWARD_DO_MIRROR"]
    assert changed(registry) == []  # whoever asks first looks again
    assert registry.get("memory.remat") == "none"


def test_options_that_count_once_are_refused_late(monkeypatch):
    registry = make()
    registry.set("engine.cpu_threads", 2)
    with pytest.raises(SettingError, match="cannot be changed for a block"):
        registry.scope("engine.cpu_threads", 2)
    monkeypatch.setattr("mxjax.settings.registry.backend_is_up", lambda: True)
    registry.set("engine.cpu_threads", 2)  # unchanged
    with pytest.raises(SettingError, match="comes too late.*MXJAX_ENGINE_CPU_THREADS"):
        registry.set("engine.cpu_threads", 3)
    with pytest.raises(SettingError, match="mx.config.reset comes too late"):
        registry.reset()
    assert registry.get("engine.cpu_threads") == 2
    with pytest.raises(SettingError, match="MXJAX_ENGINE_CPU_THREADS='3' comes too late"):
        make(MXJAX_ENGINE_CPU_THREADS="3")


def test_two_options_of_one_name_are_refused():
    with pytest.raises(AssertionError, match="MXNET_ENGINE_TYPE"):
        Registry((ENGINE, NODES._replace(legacy=(Legacy("MXNET_ENGINE_TYPE"),))), {})


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Boolean(), "On", True),
        (Boolean(), "no", False),
        (Boolean(), 1, True),
        (Boolean(), False, False),
        (Integer(0, 15), " 13 ", 13),
        (Choice(("A", "B")), "a", "A"),
        (ENGINE.kind, "NaiveEngineAsync", "NaiveEngine"),
        (Text(), "x", "x"),
        (Path(), "/a/b", "/a/b"),
        (
            Flags("xla_"),
            "--xla_a=1 --xla_b=false --xla_c=x,y --xla_d --xla_e=0.5",
            {"xla_a": 1, "xla_b": False, "xla_c": "x,y", "xla_d": True, "xla_e": 0.5},
        ),
        (Flags("xla_"), '{"xla_a": true}', {"xla_a": True}),
        (Flags(), {}, {}),
    ],
)
def test_kinds_accept(kind, raw, value):
    assert kind.convert(raw) == value


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Boolean(), "2"),
        (Boolean(), "abc"),
        (Boolean(), 2),
        (Boolean(), None),
        (Boolean(), 1.0),
        (Integer(), "abc"),
        (Integer(), -1),
        (Integer(0, 15), 16),
        (Integer(), True),
        (Integer(), 1.0),
        (Choice(("A",)), "C"),
        (Choice(("A",)), 1),
        (Text(), 1),
        (Path(), 1),
        (Flags("xla_"), "--other=1"),
        (Flags("xla_"), {"xla_a": None}),
        (Flags("xla_"), "{"),
        (Flags("xla_"), 3),
    ],
)
def test_kinds_refuse(kind, raw):
    with pytest.raises(ValueError):
        kind.convert(raw)
