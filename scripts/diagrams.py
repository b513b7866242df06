"""Draw the diagrams of the documentation as SVG files: `python scripts/diagrams.py`.

Plain SVG needs no script in the browser, so pages render without internet. A test compares the
files with the output of this script.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
font-family="system-ui, sans-serif" font-size="14" text-anchor="middle">
<title>{title}</title>
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" \
orient="auto"><path d="M0 0 8 4 0 8z" fill="#37474f"/></marker></defs>
<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>
"""


@dataclass
class Diagram:
    """Boxes, groups and arrows on a white ground."""

    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list[str])

    def box(self, text: str, x: int, y: int, width: int = 120, height: int = 44) -> None:
        """A step or a thing, with its name in the middle."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="#e0f2f1"'
            f' stroke="#00796b"/>\n<text x="{x + width // 2}" y="{y + height // 2 + 5}">'
            f"{escape(text)}</text>"
        )

    def group(self, text: str, x: int, y: int, width: int, height: int) -> None:
        """A frame around several boxes, with a heading."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="none"'
            f' stroke="#90a4ae" stroke-dasharray="4 3"/>\n<text x="{x + width // 2}" y="{y + 24}"'
            f' font-weight="600">{escape(text)}</text>'
        )

    def arrow(self, path: str, text: str = "", x: int = 0, y: int = 0) -> None:
        """An arrow along an SVG path, and perhaps a label at a place."""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="#37474f" stroke-width="1.5"'
            ' marker-end="url(#arrow)"/>'
        )
        if text:
            self.parts.append(f'<text x="{x}" y="{y}" fill="#37474f">{escape(text)}</text>')

    def render(self) -> str:
        """The SVG document."""
        head = HEAD.format(title=escape(self.title), width=self.width, height=self.height)
        return head + "\n".join(self.parts) + "\n</svg>\n"


def overview() -> Diagram:
    """How tools get from their sources to the model, and how calls get back."""
    drawing = Diagram("How Toolscout works", 850, 290)
    drawing.group("Where tools come from", 10, 20, 190, 255)
    for place, name in enumerate(("Python functions", "Tool files", "MCP servers", "HTTP APIs")):
        drawing.box(name, 30, 58 + 52 * place, 150, 40)
    drawing.box("Catalog", 260, 56)
    drawing.box("Search", 430, 56)
    drawing.box("View", 600, 56)
    drawing.box("Model", 700, 132, 130, 60)
    drawing.box("Call path", 430, 216)
    drawing.arrow("M200 78H260")
    drawing.arrow("M380 78H430")
    drawing.arrow("M550 78H600")
    drawing.arrow("M720 78H765V132", "matching tools", 785, 68)
    drawing.arrow("M700 150H510V100", "describes a need", 605, 143)
    drawing.arrow("M510 216V174H700", "results", 605, 191)
    drawing.arrow("M765 192V238H550", "calls", 655, 255)
    drawing.arrow("M430 238H200", "runs the tool", 315, 255)
    return drawing


def gateway() -> Diagram:
    """How requests of clients reach servers through the gateway."""
    drawing = Diagram("The gateway", 900, 230)
    drawing.box("Client", 10, 48, 90)
    drawing.box("Client", 10, 132, 90)
    drawing.group("toolscout serve", 290, 10, 350, 210)
    drawing.box("Permissions", 310, 90)
    drawing.box("Search", 480, 48, 140)
    drawing.box("Call", 480, 150, 56)
    drawing.box("Pins", 564, 150, 56)
    for place, name in enumerate(("MCP server, a process", "MCP server over HTTP", "HTTP API")):
        drawing.box(name, 700, 20 + 70 * place, 180)
    drawing.arrow("M100 70H125V112H310", "search, describe, call", 206, 104)
    drawing.arrow("M100 154H125V112H310")
    drawing.arrow("M430 112H455V70H480")
    drawing.arrow("M430 112H455V172H480")
    drawing.arrow("M536 172H564")
    for y in (42, 112, 182):
        drawing.arrow(f"M620 172H670V{y}H700")
    return drawing


DIAGRAMS = {"overview.svg": overview, "gateway.svg": gateway}


def main() -> None:
    """Write every diagram."""
    for name, draw in DIAGRAMS.items():
        (FIGURES / name).write_text(draw().render(), encoding="utf-8")


if __name__ == "__main__":
    main()
