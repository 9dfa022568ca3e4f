#!/usr/bin/env python3
"""Tables and plots from the result of `./dev bench cpu`.

usage: report.py RESULT.json [--docs docs/performance.md]

Prints Markdown. With --docs it replaces what stands between the markers of that page, and writes the plots to images/
beside it.
"""

import argparse
import json
import pathlib

import plot
from figures import Figures, best_variants, ceiling, point_of, shares
from plan import CONTENDERS, SHORT, Point
from targets import evaluate

BEGIN, END = "<!-- bench cpu: begin -->", "<!-- bench cpu: end -->"
LOADING = ("weight_bytes", "kv_bytes", "peak_resident_bytes")


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def digits(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def cell_text(cell):
    if cell is None:
        return ""
    if "median" not in cell:
        return f"no figure: {cell['error']}".replace("|", "/").replace("\n", " ")
    return f"{digits(cell['median'])} ({cell['spread'] * 100:.0f} %)"


def settings_of(result):
    machine, lineups = result["machine"], result["lineups"]
    rounds, others = lineups[0]["key"][-1], [x["others_share"] for x in lineups if "others_share" in x]
    usable = machine.get("usable", machine["cores"])
    pinned = f" (pinned to {usable})" if usable < machine["cores"] else ""
    lines = [
        f"{machine['cpu']} (family {machine['family']} model {machine['model']}), {machine['cores']} cores{pinned}, "
        f"{machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}; commit {result['commit']}, {result['date']}. "
        f"{rounds} rounds in turn; tokens a second, median and spread (largest less smallest, over the "
        f"median). Prompts of {SHORT} tokens before decoding, unless said."
    ]
    if others:
        whose = "the CPU time of these cores" if pinned else "the machine's CPU time"
        lines[0] += f" During the runs other work took at most {max(others) * 100:.0f} % of {whose}."
    if result["settings"].get("random_weights"):
        lines.append("SmolLM2-135M has random weights here too, in its own shape and with its own vocabulary.")
    versions = sorted(
        {(d["engine"], d["version"]) for x in result["lineups"] for d in x["loaded"].values() if "version" in d}
    )
    lines.append("Engines: " + "; ".join(f"{name} {version}" for name, version in versions) + ".")
    sets = sorted(
        {d["settings"]["isa"] for x in result["lineups"] for d in x["loaded"].values() if "isa" in d["settings"]}
    )
    best = best_variants(result.get("tuned", []))
    if best:
        settings = "; ".join(f"{contender} `{' '.join(variant)}`" for contender, variant in best.items())
        lines.append(f"Peers' settings, the best of those tried: {settings}.")
    lines.append("Kernel set of eadem: " + ", ".join(sets) + ".")
    return "\n\n".join(lines)


def ceilings_table(figures):
    rows, pairs = [], dict.fromkeys((x["model"], x["threads"]) for x in figures.result["lineups"])
    for threads in sorted({threads for _, threads in pairs}, reverse=True):
        model = next(m for m, t in pairs if t == threads)
        lineup = figures.lineups_of(model, threads)[0]
        for name, entry in (lineup["ceilings"].get("peaks") or {}).items():
            shown = (
                f"{digits(entry['median'])} {entry['unit']} ({entry['spread'] * 100:.0f} %)" if entry else "not here"
            )
            rows.append([str(threads), name, shown])
        for read in lineup["ceilings"].get("read", []):
            shown = f"{read['median']:.1f} GB/s ({read['spread'] * 100:.0f} %)"
            rows.append([str(threads), f"read, {read['bytes'] / 2**20:,.0f} MiB over and over", shown])
    return table(["threads", "ceiling", "measured"], rows)


def speeds_table(figures, model, threads):
    """One row a contender, one column a point; cells without a figure say why."""
    lineups = figures.lineups_of(model, threads)
    cells = {(c["contender"], point_of(c)): c for x in lineups for c in x["cells"]}
    points = list(dict.fromkeys(point for _, point in cells))
    names = [c.name for c in CONTENDERS if any(name == c.name for name, _ in cells)]
    rows = [[name, *(cell_text(cells.get((name, point))) for point in points)] for name in names]
    return table(
        [f"{model}, {threads} threads" if threads > 1 else f"{model}, 1 thread", *(p.name for p in points)], rows
    )


def shares_table(figures, model, threads):
    """What eadem's cells use of the machine; the larger share is what bounds a cell from above."""
    rows = []
    for contender in CONTENDERS:
        if contender.engine != "eadem":
            continue
        for lineup in figures.lineups_of(model, threads):
            for cell in lineup["cells"]:
                point = point_of(cell)
                found = shares(contender.name, point, figures, model=model, threads=threads)
                if cell["contender"] != contender.name or not found:
                    continue
                limit = ceiling(contender.name, point, figures, model=model, threads=threads)
                read = f"{found['read'] * 100:.0f} %" if "read" in found else ""
                work = f"{found['arithmetic'] * 100:.0f} % of {found['by']}" if "arithmetic" in found else ""
                rows.append([contender.name, point.name, read, work, digits(limit) if limit else ""])
    return table([model, "point", "of read bandwidth", "of arithmetic", "ceiling, tok/s"], rows) if rows else ""


def loading_table(figures):
    """Seconds to load and bytes resident at most, of the line-ups with the most threads."""
    rows, most = [], max(x["threads"] for x in figures.result["lineups"])
    for lineup in figures.result["lineups"]:
        for name, told in lineup["loaded"].items() if lineup["threads"] == most else []:
            if "load_seconds" in told:
                mebibytes = [f"{told[key] / 2**20:,.0f}" if told.get(key) else "" for key in LOADING]
                rows.append([lineup["model"], name, f"{told['load_seconds']:.1f}", *mebibytes])
    return table(["model", "", "load, s", "weights, MiB", "KV pool, MiB", "peak resident, MiB"], rows) if rows else ""


def targets_table(figures):
    def shown(value, unit):
        return f"{value * 100:.0f} %" if unit == "%" else f"{value:.2f}"

    rows = []
    for entry in evaluate(figures):
        verdict = {None: "not measured", True: "reached", False: "**missed**"}[entry["reached"]]
        value = "" if entry["value"] is None else shown(entry["value"], entry["unit"])
        rows.append([entry["what"], value, shown(entry["least"], entry["unit"]), verdict])
    return table(["target", "measured", "least", ""], rows)


# ---- plots ----


def line_of(figures, contender, points, xs, where):
    """The cells of a contender as a line over xs (one alone is a dot); None where none has a figure."""
    found = []
    for point, x in zip(points, xs, strict=True):
        cell = figures.cells.get((where["model"], where["threads"], contender.name, point))
        if cell and "median" in cell:
            found.append((x, cell["median"], min(cell["samples"]), max(cell["samples"])))
    if not found:
        return None
    kind = "mma16" if contender.numerics == "mma16" else contender.engine
    words = {"eadem": "eadem", "serve": "eadem serve", "mma16": "eadem mma16"}
    return plot.Line(words.get(kind, kind), plot.COLOURS[kind], found)


def ceiling_line(figures, group, points, xs, where):
    ours = [c for c in CONTENDERS if c.group == group and c.engine == "eadem" and c.numerics != "mma16"]
    limits = [ceiling(ours[0].name, point, figures, **where) for point in points]
    found = [(x, limit, None, None) for x, limit in zip(xs, limits, strict=True) if limit]
    return plot.Line("ceiling", plot.COLOURS["ceiling"], found, dashed=True) if len(found) > 1 else None


def panel_of(figures, group, points, xs, label, where):
    lines = [line_of(figures, c, points, xs, where) for c in CONTENDERS if c.group == group]
    lines = [line for line in lines if line]
    if not lines:
        return None
    limit = ceiling_line(figures, group, points, xs, where)
    title = {"BF16": "BF16 and F16"}.get(group, group)
    return plot.Panel(title, label, "tokens/s", lines + ([limit] if limit else []), log_y=True)


def threads_panel(figures, point):
    """One row or a prompt over threads; all contenders of a format of 16 bits."""
    lines, counts = [], sorted({x["threads"] for x in figures.result["lineups"] if x["model"] == "smollm2-135m"})
    for contender in CONTENDERS:
        found = []
        for threads in counts:
            cell = figures.cells.get(("smollm2-135m", threads, contender.name, point))
            if contender.group == "BF16" and cell and "median" in cell:
                found.append((threads, cell["median"], min(cell["samples"]), max(cell["samples"])))
        if len(found) > 1:
            kind = "mma16" if contender.numerics == "mma16" else contender.engine
            lines.append(plot.Line({"mma16": "eadem mma16"}.get(kind, kind), plot.COLOURS[kind], found))
    limits = [(t, ceiling("eadem fma32 BF16", point, figures, threads=t), None, None) for t in counts]
    limits = [entry for entry in limits if entry[1]]
    if lines and len(limits) > 1:
        lines.append(plot.Line("ceiling", plot.COLOURS["ceiling"], limits, dashed=True))
    return plot.Panel(point.name, "threads", "tokens/s", lines) if lines else None


def plots(figures):
    """{file name: SVG}: tokens a second against rows, context and threads."""
    made = {}
    for model, threads in dict.fromkeys((x["model"], x["threads"]) for x in figures.result["lineups"]):
        if threads != 2:
            continue
        where = {"model": model, "threads": threads}
        points = {point_of(c) for x in figures.lineups_of(model, threads) for c in x["cells"]}
        short = sorted((p for p in points if p.rows and p.context == SHORT), key=lambda p: p.rows)
        far = sorted((p for p in points if p.rows == 1), key=lambda p: p.context)
        groups = list(dict.fromkeys(c.group for c in CONTENDERS))
        for name, some, xs, label in (
            ("rows", short, [p.rows for p in short], "sequences"),
            ("context", far, [p.context for p in far], "context, tokens"),
        ):
            panels = [panel_of(figures, group, some, xs, label, where) for group in groups] if len(some) > 1 else []
            panels = [panel for panel in panels if panel]
            if panels:
                made[f"cpu-{name}-{model}.svg"] = plot.chart(panels)
    panels = [threads_panel(figures, point) for point in (Point(0, 512), Point(1, SHORT), Point(16, SHORT))]
    if any(panels):
        made["cpu-threads.svg"] = plot.chart([panel for panel in panels if panel])
    return made


def page(result, images="images/"):
    """(Markdown, {file name: SVG})."""
    figures = Figures(result)
    drawn = plots(figures)
    pairs = list(dict.fromkeys((x["model"], x["threads"]) for x in result["lineups"]))
    parts = [
        settings_of(result),
        "    " + result["command"],
        "Against what the engine is to reach:",
        targets_table(figures),
    ]
    for model, threads in pairs:
        parts.append(speeds_table(figures, model, threads))
    parts.append(
        "What eadem's cells use of the machine (bytes of packed weights, keys and values over the time of a step, "
        "operations of linear layers and attention over it), and the speed at which one of the two would be used up:"
    )
    parts += [text for text in (shares_table(figures, m, t) for m, t in pairs) if text]
    parts += ["The machine's own ceilings, measured beside:", ceilings_table(figures)]
    loading = loading_table(figures)
    if loading:
        note = "Loading (files in the page cache) and memory; pools are sized for the largest point:"
        parts += [note, loading]
    parts += [f"![{name[:-4]}]({images}{name})" for name in drawn]
    return "\n\n".join(parts) + "\n", drawn


def replace_section(text, section):
    """The page with what stands between its markers replaced."""
    head, found, rest = text.partition(BEGIN)
    _, ended, tail = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"the page has no section between {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{section}\n{END}{tail}"


def write_docs(result, docs):
    markdown, drawn = page(result)
    docs = pathlib.Path(docs)
    docs.write_text(replace_section(docs.read_text(), markdown))
    (docs.parent / "images").mkdir(exist_ok=True)
    for name, svg in drawn.items():
        (docs.parent / "images" / name).write_text(svg)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result")
    parser.add_argument("--docs")
    options = parser.parse_args()
    result = json.loads(pathlib.Path(options.result).read_text())
    if options.docs:
        write_docs(result, options.docs)
    print(page(result)[0])


if __name__ == "__main__":
    main()
