"""Writes docs/site/example.html, the example on the site's home page, from a run: its answer, and the path it tested.

make demo
python tools/home.py runs/demo/run-1
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

from statewise.learning.runs import RunFolder
from statewise.report.content import ReportContent
from statewise.report.folder import from_run
from statewise.report.panels import all_panels

EXAMPLE = Path(__file__).parents[1] / "docs" / "site" / "example.html"


def example(content: ReportContent) -> str:
    (path,) = all_panels(content)["path"]
    sentences = {f"{content.answer.capitalize()}.": content.because}
    if content.next_log is not None:
        sentences["Next."] = content.next_log.sentence
    text = "\n".join(f"<p><strong>{escape(lead)}</strong> {escape(rest)}</p>" for lead, rest in sentences.items())
    return f"""<figure class="example">
<div>
{text}
</div>
<div role="img" aria-label="{escape(path.alt)}">{path.svg.strip()}</div>
<figcaption>{escape(path.caption)}</figcaption>
</figure>
"""


if __name__ == "__main__":
    EXAMPLE.write_text(example(from_run(RunFolder(Path(sys.argv[1])))), encoding="utf-8")
