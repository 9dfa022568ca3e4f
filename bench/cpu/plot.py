"""Line charts as SVG, by the standard library alone: panels side by side, one colour an engine, ceilings dashed."""

import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = {
    "eadem": "#0b62a4",
    "serve": "#2a9d5c",
    "llama.cpp": "#d1661b",
    "OpenVINO": "#7a3fa0",
    "mma16": "#5fb0e5",
    "ceiling": "#777777",
}
WIDTH, HEIGHT = 330, 280  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 60, 12, 34, 42
LEGEND = 26


@dataclass
class Line:
    """points: (x, y, low, high), the last two None where there is no spread."""

    name: str
    colour: str
    points: list
    dashed: bool = False


@dataclass
class Panel:
    title: str
    x_label: str
    y_label: str
    lines: list = field(default_factory=list)
    log_y: bool = False


def ticks(low, high, logarithmic):
    """Values at which an axis from low to high is labelled: 1, 2, 5 times powers of ten."""
    if logarithmic:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= m * 10.0**p <= high]
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def number(value):
    if value >= 1024 and value % 1024 == 0:
        return f"{value // 1024:.0f}k"
    return f"{value:g}" if value >= 1 else f"{value:.2g}"


class Axes:
    """Where values of a panel lie on the page. x is logarithmic with base 2."""

    def __init__(self, panel, left):
        points = [point for line in panel.lines for point in line.points]
        xs, ys = sorted({p[0] for p in points}), [y for p in points for y in p[1:] if y is not None]
        self.xs, self.log_y = xs, panel.log_y
        self.low, self.high = (min(ys) / 1.3, max(ys) * 1.3) if panel.log_y else (0.0, max(ys) * 1.08)
        self.left, self.right, self.top, self.bottom = left + LEFT, left + WIDTH - RIGHT, TOP, HEIGHT - BOTTOM

    def x(self, value):
        first, last = math.log2(self.xs[0]), math.log2(self.xs[-1])
        share = (math.log2(value) - first) / (last - first) if last > first else 0.5
        return self.left + 8 + share * (self.right - self.left - 16)

    def y(self, value):
        if self.log_y:
            share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.bottom - share * (self.bottom - self.top)


def text(x, y, words, anchor="middle", size=11, colour="#222222", turn=""):
    turned = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turn else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{turned}>'
        f"{escape(words)}</text>"
    )


def draw_frame(panel, axes):
    middle = (axes.left + axes.right) / 2
    yield text(middle, TOP - 14, panel.title, size=13)
    yield text(middle, HEIGHT - 6, panel.x_label)
    yield text(axes.left - 46, (axes.top + axes.bottom) / 2, panel.y_label, turn="y")
    for value in ticks(axes.low, axes.high, panel.log_y):
        y = axes.y(value)
        yield f'<path d="M{axes.left} {y:.1f}H{axes.right}" stroke="#e3e3e3"/>'
        yield text(axes.left - 5, y + 4, number(value), "end")
    for value in axes.xs:
        yield text(axes.x(value), axes.bottom + 16, number(value))
    yield f'<path d="M{axes.left} {axes.top}V{axes.bottom}H{axes.right}" fill="none" stroke="#444444"/>'


def draw_line(line, axes):
    points = sorted(line.points)
    where = [(axes.x(p[0]), axes.y(p[1])) for p in points]
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in where)
    title = f"<title>{escape(line.name)}</title>"
    yield f'<path d="M{path}" fill="none" stroke="{line.colour}" stroke-width="1.8"{dash}>{title}</path>'
    if line.dashed:
        return
    for (x, y), (_, value, low, high) in zip(where, points, strict=True):
        if low is not None and high is not None:
            yield f'<path d="M{x:.1f} {axes.y(low):.1f}V{axes.y(high):.1f}" stroke="{line.colour}"/>'
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"><title>{value:.1f}</title></circle>'


def draw_legend(panels, width):
    lines = {line.name: line for panel in panels for line in panel.lines}
    x = 12.0
    for line in lines.values():
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        y = HEIGHT + 12
        yield f'<path d="M{x:.1f} {y}h22" stroke="{line.colour}" stroke-width="2"{dash}/>'
        yield text(x + 27, y + 4, line.name, "start")
        x += 44 + 6.4 * len(line.name)
    assert x <= width + 60, "the legend does not fit"


def chart(panels):
    """The SVG of panels with at least one line each."""
    width = max(WIDTH * len(panels), 660)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT + LEGEND}" width="{width}" '
        f'height="{HEIGHT + LEGEND}" font-family="sans-serif"><rect width="100%" height="100%" fill="#ffffff"/>'
    )
    parts = [head]
    for index, panel in enumerate(panels):
        axes = Axes(panel, index * WIDTH)
        parts += draw_frame(panel, axes)
        for line in panel.lines:
            parts += draw_line(line, axes)
    parts += draw_legend(panels, width)
    return "\n".join([*parts, "</svg>", ""])
