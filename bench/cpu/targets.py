"""What the CPU engine is to reach, as checks of a result. A target without its figures is told as not measured."""

from dataclasses import dataclass

from figures import shares
from plan import PREFILL, SHORT, Point
from shapes import SHAPES

FMA, INT8, MMA16, Q4_1 = "eadem fma32 BF16", "eadem int8 Q8_0", "eadem mma16 BF16", "eadem int8 Q4_1"
WIDE_PEERS = ("llama.cpp BF16", "OpenVINO F16")
Q8_PEERS = ("llama.cpp Q8_0", "OpenVINO Q8_0")
ALL_PEERS = WIDE_PEERS + Q8_PEERS + ("llama.cpp Q4_1", "OpenVINO Q4_1")
READ, ONE, SIXTEEN, MANY = Point(0, PREFILL), Point(1, SHORT), Point(16, SHORT), Point(32, SHORT)


@dataclass(frozen=True)
class Target:
    """what: in words. value: a function of Figures, None where it was not measured. least: what it must reach."""

    what: str
    value: object
    least: float
    unit: str = "x"  # x: a ratio; %: a share, value and least between 0 and 1


def over_best(ours, peers, point):
    def value(figures):
        mine, best = figures.median(ours, point), figures.best(peers, point)
        return mine / best[0] if mine and best else None

    return value


def share(contender, point, what, model="smollm2-135m"):
    return lambda figures: shares(contender, point, figures, model=model).get(what)


def peak_share(contender, point, peak, model):
    """Share of one kind of arithmetic, whatever else the machine has."""

    def value(figures):
        rate, most = figures.median(contender, point, model=model), figures.peak(peak, model=model)
        if not rate or not most:
            return None
        return rate * SHAPES[model].prefill_operations(point.context) / point.context / most / 1e9

    return value


def long_context(figures):
    """Time that a step at 32k may take over the time it takes. It may take a short step's time and that of reading its
    keys and values, and a fifth more."""
    far = Point(1, 32768)
    long, short = figures.median(FMA, far), figures.median(FMA, ONE)
    kv = SHAPES["smollm2-135m"].kv_bytes(far.context)
    read = figures.read_rate(kv)
    if not long or not short or not read:
        return None
    return 1.2 * (1 / short + kv / read / 1e9) * long


def ratio(ours, theirs, point, inverse=1.0):
    def value(figures):
        a, b = figures.median(ours, point), figures.median(theirs, point)
        return inverse * a / b if a and b else None

    return value


EVERYWHERE = [
    *(
        Target(
            f"serve, 32 streams, {name[12:]}, over llama_decode with 32 sequences",
            ratio(name, "llama.cpp " + name.split()[-1], MANY),
            1.5,
        )
        for name in ("eadem serve fma32 BF16", "eadem serve int8 Q8_0", "eadem serve int8 Q4_1")
    ),
    Target("3 x mma16's decode of one row over fma32's (1: three times its time)", ratio(MMA16, FMA, ONE, 3.0), 1.0),
    Target("Q4_1 decode of one row over llama.cpp's Q4_1", ratio(Q4_1, "llama.cpp Q4_1", ONE), 1.3),
    Target("decode at 32k: 1.2 x (short step + its KV bytes) over its time, fma32", long_context, 1.0),
]
WITH_AMX = [
    Target("fma32 prefill of 512 over OpenVINO's F16", ratio(FMA, "OpenVINO F16", READ), 2.5),
    Target("fma32 prefill of 512 over llama.cpp's BF16", ratio(FMA, "llama.cpp BF16", READ), 8.0),
    Target("fma32 decode of one row over the best peer's BF16/F16", over_best(FMA, WIDE_PEERS, ONE), 1.5),
    Target("fma32 decode of one row, share of the read bandwidth", share(FMA, ONE, "read"), 0.8, "%"),
    Target("fma32 decode of 16 rows over the best peer of any format", over_best(FMA, ALL_PEERS, SIXTEEN), 1.5),
    Target("int8 on Q8_0, decode of one row, over the best peer's Q8_0", over_best(INT8, Q8_PEERS, ONE), 1.3),
    Target("int8 on Q8_0, prefill of 512, over the best peer's Q8_0", over_best(INT8, Q8_PEERS, READ), 1.5),
    Target(
        "fma32 prefill of 512 in the 0.6B shape, share of AMX's bf16 peak",
        peak_share(FMA, READ, "amx_bf16", "qwen3-0.6b"),
        0.4,
        "%",
    ),
]
WITHOUT_AMX = [
    Target("fma32 prefill of 512 over llama.cpp's BF16", ratio(FMA, "llama.cpp BF16", READ), 1.2),
    Target("fma32 decode of one row over llama.cpp's BF16", ratio(FMA, "llama.cpp BF16", ONE), 1.1),
    Target(
        "fma32 prefill of 512, share of vdpbf16ps' peak", peak_share(FMA, READ, "vdpbf16ps", "smollm2-135m"), 0.65, "%"
    ),
    Target("fma32 decode of one row, share of the read bandwidth", share(FMA, ONE, "read"), 0.8, "%"),
    Target("fma32 decode of 16 rows over llama.cpp's BF16", ratio(FMA, "llama.cpp BF16", SIXTEEN), 1.5),
    Target("int8 on Q8_0, decode of one row, over llama.cpp's Q8_0", ratio(INT8, "llama.cpp Q8_0", ONE), 1.2),
    Target("int8 on Q8_0, prefill of 512, over llama.cpp's Q8_0", ratio(INT8, "llama.cpp Q8_0", READ), 3.0),
]


def evaluate(figures):
    """[{"what", "least", "unit", "value", "reached"}]; value and reached are None where something was not measured."""
    amx = figures.peak("amx_bf16") is not None
    results = []
    for target in (WITH_AMX if amx else WITHOUT_AMX) + EVERYWHERE:
        value = target.value(figures)
        reached = None if value is None else value >= target.least
        results.append(
            {"what": target.what, "least": target.least, "unit": target.unit, "value": value, "reached": reached}
        )
    return results
