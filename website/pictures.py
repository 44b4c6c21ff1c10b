"""Draw what the README shows: a recorded terminal as SVG, and the report as PNG.

    .venv/bin/python -m website.pictures            the terminal
    .venv/bin/python -m website.pictures --report   the report too, which takes Chromium

`rlx demo` judges runs that come with rlx, and the drawing holds what it writes. Its font is the reader's: rich's own
form would fetch one from another server.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURES = REPOSITORY / "docs" / "pictures"
COLUMNS = 110
# Behind it stand paths of this machine, to look further.
_END = "Look at them yourself"
_FORM = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def typed_and_written(folder: Path) -> str:
    """What a terminal shows after `rlx demo`, with its colours. The runs and their pages are laid out in the folder."""
    plain = ("NO_COLOR", "RLX_HOME", "RLX_ROOT", "RLX_LEASES")
    own = {name: value for name, value in os.environ.items() if name not in plain}
    settings = {**own, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    program = [sys.executable, "-m", "rlx", "demo", "--to", str(folder)]
    written = subprocess.run(program, env=settings, cwd=folder.parent, capture_output=True, check=True).stdout.decode()
    return f"$ rlx demo\n{written.partition(_END)[0].rstrip()}"


def drawn(text: str) -> str:
    """Draw that as SVG, the same text as the same drawing."""
    import io

    from rich.console import Console
    from rich.terminal_theme import DIMMED_MONOKAI
    from rich.text import Text

    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(text))
    return console.export_svg(title="rlx", theme=DIMMED_MONOKAI, code_format=_FORM, unique_id="rlx")


def draw_report(page: Path, picture: Path) -> None:
    """Look at a page with Chromium, as wide as a desk's browser."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if not browser:
        sys.exit("website.pictures: no chromium on the PATH (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as profile:
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        looked = [f"--screenshot={picture}", "--window-size=1000,760", page.as_uri()]
        subprocess.run([browser, *quiet, *looked], check=True, capture_output=True, timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw what the README shows.")
    parser.add_argument("--report", action="store_true", help="the page of an invalid arm too, by Chromium")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "demo")
        (PICTURES / "terminal.svg").write_text(drawn(typed_and_written(folder)), encoding="utf-8")
        if asked.report:
            draw_report(folder / "no-noise.html", PICTURES / "report.png")


if __name__ == "__main__":
    main()
