"""Hand-written pages as the site has them: their places, their links, names that lead to the reference."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from mxjax.display import elsewhere

from . import reference

ROOT = Path(__file__).resolve().parents[2]

#: Pages that are not under docs/, and where the site has them.
PLACES = {
    "examples/README.md": "examples/index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "gluon/README.md": "project/gluon.md",
    "gluon/data/README.md": "project/data.md",
    "kvstore/PROCESSES.md": "project/processes.md",
    "kvstore/README.md": "project/kvstore.md",
    "kvstore/SCALING.md": "project/scaling.md",
    "memonger/README.md": "project/memonger.md",
    "memonger/arrangement/README.md": "project/memonger_arrangement.md",
    "memonger/dynamic/README.md": "project/memonger_dynamic.md",
    "memonger/model/README.md": "project/memonger_model.md",
    "memonger/trials/README.md": "project/memonger_trials.md",
    "mxjax/array/README.md": "project/arrays.md",
    "mxjax/core/README.md": "project/engine.md",
    "mxjax/core/compile/README.md": "project/engine_compile.md",
    "mxjax/core/graph/README.md": "project/engine_graph.md",
    "mxjax/core/interpret/README.md": "project/engine_interpret.md",
    "mxjax/core/placement/README.md": "project/engine_placement.md",
    "mxjax/core/calls/README.md": "project/engine_calls.md",
    "mxjax/core/run/README.md": "project/engine_run.md",
    "mxjax/effects/README.md": "project/effects.md",
    "mxjax/ops/README.md": "project/operator_table.md",
    "mxjax/ops/lowering/README.md": "project/lowering.md",
    "mxjax/settings/README.md": "project/settings.md",
    "profiler/README.md": "project/profiler.md",
    "shim/README.md": "project/shim.md",
}

#: Pages of one wide table, which take the room of the headings' list.
WIDE = ("docs/settings/ascend.md", "docs/settings/megengine.md", "docs/settings/mxnet.md")

LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```$)", re.M | re.S)
NAME = re.compile(r"(?<![\[`])`(mx(?:jax)?\.[\w.]+)((?:\([^`]*\))?)`(?!\])")


def place(path: str) -> str | None:
    """Where the site has a file of the repository; None where it has none."""
    if path in PLACES:
        return PLACES[path]
    if re.fullmatch(r"docs/.*\.md", path):
        return (
            "index.md"
            if path == "docs/README.md"
            else path.removeprefix("docs/").replace("README.md", "index.md")
        )
    if re.fullmatch(r"examples/\w+\.py", path):
        return path.replace(".py", ".md")
    if re.fullmatch(r"notebooks/\w+\.ipynb", path):
        return path.replace(".ipynb", ".md")
    return {"README.md": "index.md", "docs": "index.md", "examples": "examples/index.md",
            "notebooks": "notebooks/index.md", "docs/settings": "settings/index.md"}.get(path)  # fmt: skip


def sources() -> list[str]:
    """The hand-written pages of the site."""
    found = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))]
    return found + list(PLACES)


class DeadLink(Exception):
    """A page leads to a file that is not there."""


def outside_fences(text: str, change) -> str:  # type: ignore[no-untyped-def]
    """A page with what is not code changed."""
    return "".join(part if part.startswith("```") else change(part) for part in FENCE.split(text))


def relinked(text: str, source: str, copied: set[str]) -> str:
    """A page with its links turned to the site's places; files that are no pages are noted in ``copied``."""
    here = place(source)
    assert here is not None

    def turn(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        path, hash, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return match[0]
        file = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if file.startswith("docs/reference/"):  # made when the site is
            return match[0]
        if not (ROOT / file).exists():
            raise DeadLink(f"{source}: {target} is not there")
        goal = place(file)
        if goal is None:
            if (ROOT / file).is_dir():
                return label.lstrip("!")  # a folder of the sources is named, not led to
            goal = f"files/{file}"
            copied.add(file)
        return f"{label}({os.path.relpath(goal, os.path.dirname(here) or '.')}{hash}{anchor})"

    return outside_fences(text, lambda part: LINK.sub(turn, part))


def with_names(text: str, page: str) -> str:
    """A page whose `mx.np.stack` lead to the reference."""
    table = reference.addresses()

    def turn(match: re.Match[str]) -> str:
        at = table.get(match[1].replace("mxjax.", "mx.", 1))
        if at is None:
            return match[0]
        return f"[{match[0]}]({os.path.relpath('reference/' + at, os.path.dirname(page) or '.')})"

    def lines(part: str) -> str:
        return "\n".join(li if li.startswith("#") or "](" in li and "`](" in li else NAME.sub(turn, li)
                         for li in part.split("\n"))  # fmt: skip

    return outside_fences(text, lines)


def as_markdown(text: str) -> str:
    """A page as Python's Markdown reads it: lists and tables begin after a blank line, as GitHub does not need."""
    made: list[str] = []
    for line in text.split("\n"):
        before = made[-1] if made else ""
        begins = re.match(r"(- |\d+\. )", line) and not re.match(r"(- |\d+\. |\s)", before)
        if before.strip() and (begins or line.startswith("|") and not before.startswith("|")):
            made.append("")
        made.append(line)
    return "\n".join(made)


def elsewhere_tables() -> str:
    """The names of PyTorch and JAX, and what stands for them here, from `mxjax/display/elsewhere.py`."""
    parts = []
    for title, table in (
        ("On a network", {f"net.{name}": words for name, words in elsewhere.BLOCKS.items() if not name.endswith("_")
                          or name == "requires_grad_"}),
        ("On an array", {f"x.{name}": words for name, words in elsewhere.ARRAYS.items()}),
        ("Layers and losses", elsewhere.LAYERS),
        ("Functions of `mx.np`", elsewhere.NAMES["mxjax.np"]),
        ("Functions of `mx.autograd`", elsewhere.NAMES["mxjax.autograd"]),
        ("Options of optimizers", elsewhere.OPTIONS),
    ):  # fmt: skip
        rows = "\n".join(
            f"| `{name}` | {words.replace('|', chr(92) + '|')} |" for name, words in table.items()
        )
        parts.append(f"### {title}\n\n| elsewhere | here |\n|---|---|\n{rows}\n")
    return "\n".join(parts)


#: Marks in hand-written pages, and what the build puts in their place.
GENERATED = {"<!-- from mxjax/display/elsewhere.py -->": elsewhere_tables}


def page(source: str, copied: set[str]) -> str:
    """One hand-written page as the site has it."""
    text = (ROOT / source).read_text(encoding="utf-8")
    for mark, make in GENERATED.items():
        if mark in text:
            text = text.replace(mark, make())
    here = place(source)
    assert here is not None
    made = with_names(as_markdown(relinked(text, source, copied)), here)
    return f"---\nhide: [toc]\n---\n{made}" if source in WIDE else made


def program(path: Path) -> str:
    """A program of examples/ as a page."""
    return f"# {path.name}\n\n```python\n{path.read_text(encoding='utf-8').rstrip()}\n```\n"


def notebook(path: Path, pictures: Path, copied: set[str]) -> str:
    """A notebook as a page, with what it printed and drew; pictures are written into a folder."""
    made = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
        text = "".join(cell["source"]).rstrip()
        if cell["cell_type"] == "markdown":
            made.append(as_markdown(relinked(text, f"notebooks/{path.name}", copied)))
        elif cell["cell_type"] == "code" and text:
            made.append(f"```python\n{_shortened(text)}\n```")
            made += _outputs(cell.get("outputs", []), f"{path.stem}_{number}", pictures)
    return "\n\n".join(made) + "\n"


def _shortened(text: str) -> str:
    """A cell without lines that nobody reads: files packed into text."""
    return "\n".join(
        line if len(line) < 400 else f"{line[:60]}  # ... {len(line)} letters"
        for line in text.split("\n")
    )


def _outputs(outputs: list[dict], name: str, pictures: Path) -> list[str]:  # type: ignore[type-arg]
    import base64

    made = []
    for number, output in enumerate(outputs):
        if output.get("name") == "stderr":  # what the machine at hand had to say
            continue
        data = output.get("data", {})
        if "image/png" in data:
            (pictures / f"{name}_{number}.png").write_bytes(base64.b64decode(data["image/png"]))
            made.append(f"![What the cell above draws]({name}_{number}.png)")
            continue
        html = "".join(data.get("text/html", ""))
        if html and "<script" not in html:
            made.append(f'<div class="output" markdown="0">\n{html}\n</div>')
            continue
        text = "".join(output.get("text", "") or data.get("text/plain", "")).rstrip()
        if text:
            text = re.sub(r"\x1b\[[0-9;]*m", "", text)
            lines = text.split("\n")
            cut = lines[:40] + ([f"... {len(lines) - 40} lines more"] if len(lines) > 40 else [])
            made.append("```{ .text .output }\n" + "\n".join(line[:200] for line in cut) + "\n```")
    return made


def write(folder: Path, notebooks: Path, traced: bool = True) -> None:
    """Every page of the site into a folder; ``notebooks``: where those lie that have outputs."""
    shutil.rmtree(folder, ignore_errors=True)
    copied: set[str] = set()
    made = {str(place(s)): page(s, copied) for s in sources()}
    for path in sorted((ROOT / "examples").glob("*.py")):
        made[f"examples/{path.stem}.md"] = program(path)
    (folder / "notebooks").mkdir(parents=True)
    names = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in names:
        text = notebook(notebooks / path.name, folder / "notebooks", copied)
        made[f"notebooks/{path.stem}.md"] = text
    listed = "\n".join(f"- [{_title(made[f'notebooks/{p.stem}.md'])}]({p.stem}.md)" for p in names)
    made["notebooks/index.md"] = (
        f"# Notebooks\n\nEach runs beside an installed mxjax.\n\n{listed}\n"
    )
    made |= {f"reference/{name}": text for name, text in reference.pages(traced).items()}
    for name, text in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for file in sorted(copied):
        (folder / "files" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / "files" / file)
    for name in ("site.css", "iframe-worker.js"):
        shutil.copy(Path(__file__).with_name(name), folder / name)


def _title(text: str) -> str:
    return next(
        (line.lstrip("# ") for line in text.split("\n") if line.startswith("#")), "notebook"
    )
