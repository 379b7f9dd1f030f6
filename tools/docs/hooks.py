"""What mkdocs asks of us while it builds: the reference's pages in the menu."""

from __future__ import annotations

from typing import Any

from tools.docs.names import MODULES, MORE
from tools.docs.reference import title, topics


def on_config(config: Any) -> Any:
    """Adds the generated pages to the menu that mkdocs.yml begins."""
    (section,) = [entry["Reference"] for entry in config.nav if "Reference" in entry]
    section.append(
        {"Modules": [{f"mx.{path}": f"reference/{path}.md"} for path in [*MODULES, *MORE]]}
    )
    section.append(
        {"Operators": [{title(name): f"reference/operators/{name}.md"} for name in topics()]}
    )
    return config
