"""What `./dev bench cpu` measures: points, contenders, line-ups of those that run in turn, and how long it takes."""

from dataclasses import dataclass

from shapes import SHAPES

SHORT = 64  # tokens of a prompt before short decoding
LONG = 4096  # from here on a prompt is read once, and each round goes on behind it
PREFILL = 512


@dataclass(frozen=True)
class Point:
    """A prompt of `context` tokens (rows = 0), or decoding by `rows` sequences, each behind `context` tokens."""

    rows: int
    context: int

    @property
    def prefill(self):
        return self.rows == 0

    @property
    def name(self):
        if self.prefill:
            return f"prefill {self.context}"
        where = "" if self.context == SHORT else f" at {self.context // 1024}k"
        return f"decode {self.rows}{where}"

    def steps(self, model):
        """Timed decode steps of a round: about a second each on the machines this was made for."""
        steps = {1: 48, 4: 32, 16: 24, 32: 16}.get(self.rows, 16)
        if SHAPES[model].hidden > 600:
            steps //= 2
        return steps if self.context < 16384 else steps // 2


@dataclass(frozen=True)
class Contender:
    """An engine with a file format: eadem (a numerics each), eadem's server, llama.cpp, OpenVINO."""

    engine: str  # eadem, serve, llama.cpp, OpenVINO
    numerics: str  # of eadem
    format: str

    @property
    def name(self):
        words = {"eadem": f"eadem {self.numerics}", "serve": f"eadem serve {self.numerics}"}
        return f"{words.get(self.engine, self.engine)} {self.format}"

    @property
    def group(self):
        """Formats of the same size of weights are drawn and, where memory is short, run together."""
        return "BF16" if self.format in ("F16", "BF16") else self.format

    @property
    def ours(self):
        return self.engine in ("eadem", "serve")

    def takes(self, point, model):
        if self.engine == "serve":
            return point.rows == 32
        if self.numerics == "mma16":  # exact emulation: a prompt of thousands would take minutes
            return model == "smollm2-135m" and point.context <= PREFILL and point.rows <= 16
        if point.context > LONG:  # minutes of reading for a handful of steps
            return self.group == "BF16"
        return SHAPES[model].hidden < 600 or self.group != "Q4_1"


CONTENDERS = [
    Contender("eadem", "fma32", "BF16"),
    Contender("eadem", "mma16", "BF16"),
    Contender("eadem", "int8", "Q8_0"),
    Contender("eadem", "int8", "Q4_1"),
    Contender("serve", "fma32", "BF16"),
    Contender("serve", "int8", "Q8_0"),
    Contender("serve", "int8", "Q4_1"),
    Contender("llama.cpp", "", "BF16"),
    Contender("llama.cpp", "", "Q8_0"),
    Contender("llama.cpp", "", "Q4_1"),
    Contender("OpenVINO", "", "F16"),
    Contender("OpenVINO", "", "Q8_0"),
    Contender("OpenVINO", "", "Q4_1"),
]


@dataclass(frozen=True)
class Lineup:
    """Contenders that are loaded at the same time and measured in turn."""

    model: str
    threads: int
    points: tuple
    contenders: tuple

    def cells(self):
        """(point, those that take it)."""
        for point in self.points:
            taking = tuple(c for c in self.contenders if c.takes(point, self.model))
            if taking:
                yield point, taking

    def positions(self, rounds):
        """KV positions that the largest point fills."""

        def filled(point):
            if point.prefill:
                return point.context
            often = rounds if point.context >= LONG else 1
            return point.rows * (point.context + often * (point.steps(self.model) + 2) + 64)

        return max(filled(point) for point in self.points)

    def rows(self):
        return max(1, *(p.rows for p in self.points))


def decode(*rows, context=SHORT):
    return tuple(Point(r, context) for r in rows)


SWEEP = (Point(0, PREFILL), *decode(1, 4, 16, 32))
CONTEXTS = (*decode(1, context=1024), *decode(1, context=4096), *decode(1, context=32768))
FULL = [
    ("smollm2-135m", 2, SWEEP),
    ("smollm2-135m", 2, CONTEXTS),
    ("smollm2-135m", 1, (Point(0, PREFILL), *decode(1, 16))),
    ("qwen3-0.6b", 2, (Point(0, PREFILL), *decode(1, 16), *decode(1, context=4096))),
    ("llama-3.2-1b", 2, (Point(0, PREFILL), *decode(1, 16))),
]
QUICK = [("smollm2-135m", 2, (Point(0, PREFILL), *decode(1, 16, 32)))]


def bytes_needed(contender, model, positions):
    """Memory of a contender, about: OpenVINO holds a second copy while it loads."""
    shape = SHAPES[model]
    each = {"BF16": 2.0, "Q8_0": 1.1, "Q4_1": 1.1 if contender.engine != "llama.cpp" else 0.7}[contender.group]
    weights = each * (shape.linear_weights() + shape.head_weights())
    return (2.5 if contender.engine == "OpenVINO" else 1.2) * weights + shape.kv_bytes(positions)


def lineups(wanted, contenders, rounds, memory):
    """One line-up for each (model, threads, points), or one a group of formats where all would not fit in `memory`."""
    made = []
    for model, threads, points in wanted:
        taking = tuple(c for c in contenders if any(c.takes(point, model) for point in points))
        whole = Lineup(model, threads, points, taking)
        positions = whole.positions(rounds)
        if sum(bytes_needed(c, model, positions) for c in taking) <= memory:
            made.append(whole)
            continue
        for group in dict.fromkeys(c.group for c in taking):
            made.append(Lineup(model, threads, points, tuple(c for c in taking if c.group == group)))
    return [lineup for lineup in made if lineup.contenders]


# Rates of a slow day (operations and bytes a second, two threads), for the estimate alone.
PREFILL_RATE = {"mma16": 2e10, "llama.cpp": 2.5e11}
OTHER_PREFILL_RATE, DECODE_RATE, READ_RATE = 6e11, 2e11, 1.5e10
START_SECONDS, TURN_SECONDS, CEILING_SECONDS = 8.0, 0.4, 15.0


def cell_seconds(contender, point, lineup, rounds):
    """Seconds that the rounds of one contender at one point take, about."""
    shape = SHAPES[lineup.model]
    slower = 2 / lineup.threads
    rate = PREFILL_RATE.get(contender.numerics or contender.engine, OTHER_PREFILL_RATE)
    if point.prefill:
        return rounds * (slower * shape.prefill_operations(point.context) / rate + TURN_SECONDS)
    read = bytes_needed(contender, lineup.model, 0) / 1.2 + point.rows * shape.kv_bytes(point.context)
    step = max(
        read / READ_RATE,
        point.rows * shape.decode_operations(point.context) / DECODE_RATE,
    )
    prompts = point.rows * slower * shape.prefill_operations(point.context) / rate
    often = 1 if point.context >= LONG else rounds
    return often * prompts + rounds * (slower * step * (point.steps(lineup.model) + 2) + TURN_SECONDS)


def seconds_of(lineup, rounds):
    total = CEILING_SECONDS + START_SECONDS * len(lineup.contenders)
    for point, taking in lineup.cells():
        total += sum(cell_seconds(c, point, lineup, rounds) for c in taking)
    return total
