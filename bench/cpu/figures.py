"""What samples come to: medians, spreads, ceilings and shares of them, from the result of a run (run.py)."""

import math
import statistics

from plan import Point
from shapes import SHAPES


def summary(samples):
    """Median and spread, (largest - smallest) / median."""
    median = statistics.median(samples)
    return {"median": median, "spread": (max(samples) - min(samples)) / median if median else 0.0}


def best_variants(tried):
    """{contender: the variant with the largest product of rates} of what run.tune tried."""
    best = {}
    for entry in tried:
        score = math.prod(entry["rates"])
        if score > best.get(entry["contender"], (0.0,))[0]:
            best[entry["contender"]] = (score, entry["variant"])
    return {contender: variant for contender, (_, variant) in best.items()}


def point_of(cell):
    return Point(cell["rows"], cell["context"])


class Figures:
    """Looks up cells of a result by model, threads, contender and point."""

    def __init__(self, result):
        self.result = result
        self.cells = {}
        for lineup in result["lineups"]:
            for cell in lineup["cells"]:
                self.cells[lineup["model"], lineup["threads"], cell["contender"], point_of(cell)] = cell

    def median(self, contender, point, model="smollm2-135m", threads=2):
        """Tokens a second, or None where there is no figure."""
        cell = self.cells.get((model, threads, contender, point))
        return cell["median"] if cell and "median" in cell else None

    def best(self, contenders, point, **where):
        """(tokens a second, name) of the fastest of them; None where none has a figure."""
        found = [(self.median(c, point, **where), c) for c in contenders]
        found = [entry for entry in found if entry[0] is not None]
        return max(found) if found else None

    def lineups_of(self, model, threads):
        return [x for x in self.result["lineups"] if x["model"] == model and x["threads"] == threads]

    def description(self, contender, model="smollm2-135m", threads=2):
        for lineup in self.lineups_of(model, threads):
            if contender in lineup["loaded"]:
                return lineup["loaded"][contender]
        return {}

    def peak(self, name, model="smollm2-135m", threads=2):
        """Median of a kind of arithmetic, in GFLOP/s or GOP/s; None where the machine has none."""
        found = [(x["ceilings"].get("peaks") or {}).get(name) for x in self.lineups_of(model, threads)]
        found = [entry["median"] for entry in found if entry]
        return statistics.median(found) if found else None

    def read_rate(self, size, model="smollm2-135m", threads=2):
        """GB/s of reading memory of about that size over and over: of the measured size nearest to it."""
        reads = [read for x in self.lineups_of(model, threads) for read in x["ceilings"].get("read", [])]
        if not reads:
            return None
        nearest = min(reads, key=lambda read: abs(read["bytes"] - size))["bytes"]
        return statistics.median(read["median"] for read in reads if read["bytes"] == nearest)


def arithmetic_of(contender, figures, **where):
    """(name, GFLOP/s) of the fastest arithmetic of the machine that a contender's tree or format allows."""
    if "mma16" in contender:  # emulated: no instruction of a CPU does it
        return None, None
    integer = not contender.endswith("16")
    names = ("amx_int8", "vpdpbusd", "avx_vnni") if integer else ("amx_bf16", "vdpbf16ps", "fma_fp32")
    found = [(figures.peak(name, **where), name) for name in names]
    found = [entry for entry in found if entry[0]]
    return (max(found)[1], max(found)[0]) if found else (None, None)


def shares(contender, point, figures, model="smollm2-135m", threads=2):
    """{"read": share, "arithmetic": share, "by": name}: how much of the machine a cell of eadem uses. Bytes of a decode
    step are the packed weights and the keys and values; operations are multiplications and additions of linear layers
    and attention."""
    where = {"model": model, "threads": threads}
    rate = figures.median(contender, point, **where)
    weights = figures.description(contender, **where).get("weight_bytes")
    if rate is None or not weights:
        return {}
    shape = SHAPES[model]
    name, peak = arithmetic_of(contender, figures, **where)
    if point.prefill:
        operations = rate * shape.prefill_operations(point.context) / point.context
        return {"arithmetic": operations / peak / 1e9, "by": name} if peak else {}
    steps = rate / point.rows
    read = figures.read_rate(weights, **where)
    found = {"by": name} if name else {}
    if read:
        found["read"] = steps * (weights + point.rows * shape.kv_bytes(point.context)) / read / 1e9
    if peak:
        found["arithmetic"] = rate * shape.decode_operations(point.context) / peak / 1e9
    return found


def ceiling(contender, point, figures, model="smollm2-135m", threads=2):
    """Tokens a second where the machine's reads or arithmetic, whichever ends first, were all that a step costs."""
    where = {"model": model, "threads": threads}
    weights = figures.description(contender, **where).get("weight_bytes")
    _, peak = arithmetic_of(contender, figures, **where)
    shape = SHAPES[model]
    if point.prefill:
        return peak * 1e9 * point.context / shape.prefill_operations(point.context) if peak else None
    read = figures.read_rate(weights, **where) if weights else None
    limits = []
    if read:
        limits.append(read * 1e9 * point.rows / (weights + point.rows * shape.kv_bytes(point.context)))
    if peak:
        limits.append(peak * 1e9 / shape.decode_operations(point.context))
    return min(limits) if limits else None
