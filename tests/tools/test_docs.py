"""The site's rules: every public name has a place, every link leads somewhere, the index leads to every page.

`make docs` builds the whole and looks at the HTML (tools/docs/check.py); here is what the text of pages is enough for.
"""

import base64
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mxjax.display import elsewhere
from mxjax.ops.table import FRONT_ENDS
from tools.docs import check, docstrings, facts, reference, sources
from tools.docs.names import MODULES, MORE, public

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    sources.write(folder, ROOT / "notebooks", traced=False)
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*.md")}, folder


def links(name, text):
    """Where a page leads to: files, and anchors in them."""
    plain = "".join(part for part in sources.FENCE.split(text) if not part.startswith("```"))
    for target in re.findall(r"\]\(([^)\s]+)\)", plain):
        if "://" not in target:
            path, _, anchor = target.partition("#")
            yield (
                os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name,
                anchor,
            )


def anchors(text):
    given = set(re.findall(r"^#+ .*\{ #(\S+) \}$", text, re.M))
    plain = "".join(part for part in sources.FENCE.split(text) if not part.startswith("```"))
    for heading in re.findall(r"^#+ (.*)$", plain, re.M):
        words = (
            re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
            .strip()
            .lower()
        )
        given.add(re.sub(r"[\s-]+", "-", words))
    return given


def test_every_link_leads_to_something(pages):
    texts, folder = pages
    there = {name: anchors(text) for name, text in texts.items()}
    dead = []
    for name, text in texts.items():
        for file, anchor in links(name, text):
            if not (folder / file).exists() or (anchor and anchor not in there.get(file, {anchor})):
                dead.append((name, file, anchor))
    assert dead == []


def test_every_page_is_reached_from_the_index_in_three_clicks(pages):
    texts, _ = pages
    found, edge = {"index.md": 0}, ["index.md"]
    while edge:
        name = edge.pop(0)
        for file, _ in links(name, texts[name]):
            if file in texts and file not in found:
                found[file] = found[name] + 1
                edge.append(file)
    assert set(texts) == set(found) and max(found.values()) <= 3


#: What people look for, where it is told, and words of the answer.
LOOKED_FOR = {
    "run an old script": ("coming_from_mxnet.md", "python -m mxjax train.py"),
    "load a 1.x checkpoint and fine-tune it": (
        "checkpoints.md",
        'mx.model.load_checkpoint("old", 8)',
    ),
    "fit a model into memory": ("memory.md", "mx.memonger.plan(net, x, budget="),
    "read a profile": ("profiling.md", "divides each step into *device*"),
    "why is my first step slow": ("first_step.md", "Because it is compiled, once."),
    "what an error means": ("errors.md", "has not been initialized"),
    "functional.call": (
        "from_jax.md",
        "functional.call(net, params, state, x, train=True, rng=key)",
    ),
    "functional.call's arguments": (
        "reference/gluon.functional.md",
        "{ #mx.gluon.functional.call }",
    ),
    "add an operator": ("custom_operators.md", '@mx.operator.register("cube")'),
    "add an operator to the library": ("project/contributing.md", "## Add an operator"),
    "the shapes of Convolution's arguments": (
        "reference/operators/nn.md",
        "(N, C, W), (N, C, H, W) or",
    ),
    "a setting": ("settings/options.md", "### engine.cold"),
}


@pytest.mark.parametrize("question", LOOKED_FOR)
def test_what_people_look_for_is_at_most_three_clicks_away(pages, question):
    texts, _ = pages
    page, words = LOOKED_FOR[question]
    assert words in texts[page]
    near = {"index.md"}
    for _ in range(3):
        near |= {file for name in near for file, _ in links(name, texts[name]) if file in texts}
    assert page in near


def test_every_public_name_has_a_place(pages):
    texts, _ = pages
    table = reference.addresses()
    names = {f"mx.{name}" for path in [*MODULES, *MORE] for name, _ in public(path, operators=True)}
    names |= {
        f"mx.{front}.{name}"
        for front, rows in FRONT_ENDS.items()
        for name in rows
        if not name.startswith("_")
    }
    assert len(names) > 2000 and names <= set(table)
    places = {table[name] for name in names}
    by_page = {name: anchors(text) for name, text in texts.items()}
    missing = [
        p for p in places if p.partition("#")[2] not in by_page["reference/" + p.partition("#")[0]]
    ]
    assert missing == []


def test_every_page_stands_in_the_menu():
    menu = set(re.findall(r"(?:: |- )(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    made = {f"notebooks/{p.stem}.md" for p in (ROOT / "notebooks").glob("*.ipynb")} | {
        "notebooks/index.md",
        "reference/index.md",
    }
    made |= {f"examples/{p.stem}.md" for p in (ROOT / "examples").glob("*.py")}
    assert menu == made | {sources.place(source) for source in sources.sources()}


def test_an_operators_facts(pages):
    texts, _ = pages
    entry = texts["reference/operators/nn.md"].partition("{ #op.convolution }")[2]
    entry = entry.partition("\n## ")[0]
    for said in (
        "(N, C, H, W)",
        "(num\\_filter, C / num\\_group, \\*kernel)",
        "`mx.nd.Convolution`",
        "`mx.npx.convolution`",
        "`mx.sym.Convolution`",
        "| derivative | yes",
        "In files of symbols it is `Convolution`",
    ):
        assert said in entry
    assert facts.dtypes(reference.row_of("np.stack"))["float16"] == "float16"
    assert "float32" not in facts.dtypes(reference.row_of("np.bitwise_and"))
    forms = list(facts.sparse(reference.row_of("nd.sqrt")))
    assert forms == ["row_sparse → row_sparse", "csr → csr"]
    assert facts.derivative(reference.row_of("np.exp")) == "yes, of every order"
    assert facts.derivative(reference.row_of("np.argmax")).startswith("what MXNet defines")


def test_names_of_other_libraries_come_from_their_table(pages):
    text = pages[0]["from_pytorch.md"]
    for table in (elsewhere.ARRAYS, elsewhere.LAYERS, elsewhere.OPTIONS):
        for name in table:
            assert f"`{name}`" in text or f"`x.{name}`" in text


def test_docstrings_become_markdown():
    text = """The sum of *all*.

    Args:
      x, y: arrays of shape (n, *rest);
        as many as there are.
      axis (int, default 0): where.

    Returns:
      ndarray: like ``x``.

    Notes:
      One.
      Two.

    >>> f(1)  # doctest: +SKIP
    2
    """
    made = docstrings.markdown(text, {"x": "x.md"}.get)
    assert "The sum of \\*all\\*." in made
    assert "- `x`, `y`: arrays of shape (n, \\*rest); as many as there are." in made
    assert "- `axis` (int, default 0): where." in made
    assert "ndarray: like [`x`](x.md)." in made
    assert "- One.\n- Two." in made
    assert "```pycon\n>>> f(1)\n2\n```" in made


def test_a_dead_link_of_a_page_is_an_error():
    with pytest.raises(sources.DeadLink, match="nowhere.md"):
        sources.relinked("[a](nowhere.md)", "docs/data.md", set())
    copied = set()
    assert (
        sources.relinked("[a](kubernetes.yaml)", "docs/devices.md", copied)
        == "[a](files/docs/kubernetes.yaml)"
    )
    assert (
        sources.relinked("[a](../docs/data.md#x)", "kvstore/README.md", copied)
        == "[a](../data.md#x)"
    )
    assert copied == {"docs/kubernetes.yaml"}


def test_faults_of_a_built_site_are_found(tmp_path):
    (tmp_path / "index.html").write_text(
        '<article><a href="a.html#there">a</a><a href="a.html#no">a</a><a href="gone.html">g</a></article>'
        '<script src="https://elsewhere.org/x.js"></script>'
    )
    (tmp_path / "a.html").write_text('<h1 id="there">a</h1>')
    (tmp_path / "alone.html").write_text("<p>nobody leads here</p>")
    faults = "\n".join(check.Site(tmp_path).faults())
    for said in ("fetches https://elsewhere.org/x.js", "a.html has no such anchor", "gone.html, which is not there",
                 "nothing leads from the index to alone.html"):  # fmt: skip
        assert said in faults
    assert len(faults.split("\n")) == 4


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site's folder, and what the build said."""
    pytest.importorskip("mkdocs", reason="comes with the extra: docs")
    pytest.importorskip("material", reason="comes with the extra: docs")
    folder = tmp_path_factory.mktemp("built")
    options = ["--notebooks", "plain", "--quick", "--folder", str(folder)]
    command = [sys.executable, "-m", "tools.docs", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site", done.stdout


@pytest.mark.slow
def test_the_site_is_built(site):
    folder, said = site
    assert ", 0 faults" in said and (folder / "index.html").exists()


@pytest.mark.slow
def test_a_page_that_is_opened_as_a_file_can_search(site, tmp_path):
    reason = "the site is opened in a real browser: "
    webdriver = pytest.importorskip("selenium.webdriver", reason=reason + "extra `browser`")
    found = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in found:
        pytest.skip(reason + "install chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
    for flag in (*flags.split(), "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(executable_path=found[1]))
    try:
        driver.get((site[0] / "reference" / "gluon.nn.html").as_uri())
        field = driver.find_element("css selector", "input.md-search__input")
        driver.execute_script("arguments[0].focus()", field)
        field.send_keys("convolution")
        wanted = ".md-search-result a[href*='operators/nn.html']"
        wait = importlib.import_module("selenium.webdriver.support.ui")
        wait.WebDriverWait(driver, 60).until(lambda d: d.find_elements("css selector", wanted))
        assert [e["message"] for e in driver.get_log("browser") if e["level"] == "SEVERE"] == []
    finally:
        driver.quit()


def test_a_notebook_becomes_a_page_with_its_outputs(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "see [that](../docs/data.md)"]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "text": ["\x1b[1m1\x1b[0m\n"]},
                {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"png").decode()}},
                {"output_type": "stream", "name": "stderr", "text": ["a warning"]},
                {"output_type": "execute_result", "data": {"text/html": ["<b>2</b>"], "text/plain": ["2"]}},
                {"output_type": "execute_result", "data": {"text/html": ["<script>x</script>"], "text/plain": ["3"]}},
            ],
        },
    ]  # fmt: skip
    (tmp_path / "01_a.ipynb").write_text(json.dumps({"cells": cells}))
    made = sources.notebook(tmp_path / "01_a.ipynb", tmp_path, set())
    assert "[that](../data.md)" in made and "```python\nprint(1)\n```" in made
    assert "```{ .text .output }\n1\n```" in made and "\n<b>2</b>\n" in made
    assert "```{ .text .output }\n3\n```" in made and "script" not in made
    assert "a warning" not in made
    assert "(01_a_1_1.png)" in made and (tmp_path / "01_a_1_1.png").read_bytes() == b"png"
