#!/usr/bin/env python3
"""`./dev bench cpu`: eadem beside llama.cpp and OpenVINO GenAI on this machine's CPU, in turn, under its ceilings.

Makes the models it needs, loads the engines that share a model side by side, and measures each point in rounds: every
engine once a round, who begins rotates, those that wait are stopped. Prompts are fresh in each round; behind a prompt
of 4k tokens or more, which is read once, each round decodes further. Writes JSON (--out), prints tables, and with
--docs puts tables and plots into docs/performance.md. An engine or a cell that fails is told, not left out.

The file is written after each point. Where time is short, --points, --without and several runs with --resume into one
file put first what matters most, and --minutes ends in time.

bench/peers/setup.sh installs the peers.
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import time

import plan
import report
from figures import best_variants, summary
from models import has_weights, model_file
from shapes import SHAPES
from targets import evaluate
from workers import VARIANTS, Launcher, OutOfTime, WorkerError

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM_STEPS = 2
TUNE_SECONDS = 25  # of a variant, about
TUNED = (plan.Point(0, plan.PREFILL), *plan.decode(1, 16))
FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimddp", "bf16")


def say(*words):
    print(time.strftime("%H:%M:%S"), *words, file=sys.stderr, flush=True)


def machine():
    info = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        info.setdefault(name.strip(), value.strip())
    flags = (info.get("flags") or info.get("Features") or "").split()
    return {
        "cpu": info.get("model name", platform.machine()),
        "family": info.get("cpu family", ""),
        "model": info.get("model", ""),
        "cores": os.cpu_count(),
        "usable": len(os.sched_getaffinity(0)),  # fewer where taskset pinned this process
        "features": [flag for flag in FLAGS if flag in flags],
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def commit():
    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + (
        " with changes" if git("status", "--porcelain") else ""
    )


def memory_available():
    match = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return int(match.group(1)) * 1024


class CpuClock:
    """Share of the CPU time of the cores that this process may use that went to others than it and those it started,
    since it was made. To be read when what was started has ended and been waited for."""

    def __init__(self):
        self.start = self._ticks()

    @staticmethod
    def _ticks():
        """(all, busy, own)"""
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in pathlib.Path("/proc/stat").read_text().splitlines()]
        ticks = [sum(map(int, column)) for column in zip(*(words[1:9] for words in lines if words[0] in mine))]
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        return sum(ticks), sum(ticks) - ticks[3] - ticks[4], own * os.sysconf("SC_CLK_TCK")

    def others(self):
        total, busy, own = (now - then for now, then in zip(self._ticks(), self.start, strict=True))
        return max(0.0, (busy - own) / max(1, total))


def ceilings(options, lineup, quick):
    """bench_ceilings with the line-up's threads; reads of the sizes of its models' weights and of 2 GiB."""
    shape = SHAPES[lineup.model]
    weights = shape.linear_weights() + shape.head_weights()
    sizes = sorted({2 * weights, weights * 9 // 8, 1 << 31})
    command = [options.ceilings, "--threads", lineup.threads, "--read", ",".join(map(str, sizes))]
    command += ["--repeats", 3 if quick else 5, "--seconds", 0.1 if quick else 0.3]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise WorkerError(done.stderr.strip()[-300:] or f"bench_ceilings ended with {done.returncode}")
    return json.loads(done.stdout)


def measure(worker, contender, point, model, seed, fresh):
    """Tokens a second of one round."""
    steps = point.steps(model)
    if contender.engine == "serve":
        return worker.rate(point.rows, point.context, steps, seed)
    if point.prefill:
        return point.context / worker.ask("prefill", tokens=point.context, seed=seed)
    if fresh is not None:
        worker.ask("start", rows=point.rows, context=point.context, steps=fresh, seed=seed)
    worker.ask("advance", steps=WARM_STEPS)
    return point.rows * steps / worker.ask("advance", steps=steps)


def fresh_steps(point, model, round_number, rounds):
    """Steps that a round's prompt must leave room for; None where it goes on behind the one before."""
    each = point.steps(model) + WARM_STEPS
    if point.context < plan.LONG:
        return each
    return each * rounds if round_number == 0 else None


def run_point(workers, point, lineup, rounds, seed, end=math.inf):
    """Cells of a point: every worker once a round, the first one rotates. end: when the run's time is over; who would
    outlast it does not begin."""
    cells = {c: {"contender": c.name, "rows": point.rows, "context": point.context, "samples": []} for c in workers}
    for contender, cell in cells.items():
        needed, left = plan.cell_seconds(contender, point, lineup, rounds), end - time.monotonic()
        if needed > left:
            cell["error"] = f"left out: about {needed:.0f} s, and {max(0, left):.0f} were left"
    for number in range(rounds):
        order = list(workers)
        order = order[number % len(order) :] + order[: number % len(order)]
        for contender in order:
            cell, worker = cells[contender], workers[contender]
            if "error" in cell or time.monotonic() > end:
                continue
            worker.wake()
            try:
                fresh = fresh_steps(point, lineup.model, number, rounds)
                cell["samples"].append(measure(worker, contender, point, lineup.model, seed + number, fresh))
                if contender.engine != "serve" and (point.context < plan.LONG or number == rounds - 1):
                    worker.ask("stop")
            except OutOfTime:
                break  # the others' time is over as well
            except WorkerError as error:
                cell["error"] = str(error)
            finally:
                worker.sleep()
    for cell in cells.values():
        if "error" not in cell and len(cell["samples"]) < min(rounds, 2):
            cell["error"] = "left out: the run's time was over"
        if "error" not in cell:
            cell.update(summary(cell["samples"]))
        say(f"  {cell['contender']}, {point.name}: {report.cell_text(cell)}")
    return list(cells.values())


def tune(lineup, options, launcher, seed):
    """Tries the peers' variants on this machine. Returns [{"contender", "variant", "rates"}]; best_variants says which
    are to be used."""
    small = plan.Lineup(lineup.model, lineup.threads, TUNED, lineup.contenders)
    tried = []
    for contender in lineup.contenders:
        for variant in VARIANTS.get(contender.engine, []):
            try:
                path = model_file(options.models_folder, lineup.model, contender.format, options.smollm2)
                with contextlib.closing(launcher.start(contender, small, path, 1, variant)) as worker:
                    warm({contender: worker}, small)
                    cells = [run_point({contender: worker}, point, small, 2, seed)[0] for point in TUNED]
            except WorkerError as error:
                say(f"  {contender.name} {' '.join(variant)}: {error}")
                continue
            rates = [max(cell["samples"], default=0.0) for cell in cells]
            tried.append({"contender": contender.name, "variant": variant, "rates": rates})
    return tried


def load(lineup, options, launcher, rounds):
    """({contender: worker}, {name: description}, {contender: why it cannot run})."""
    workers, loaded, refused = {}, {}, {}
    for contender in lineup.contenders:
        try:
            path = model_file(options.models_folder, lineup.model, contender.format, options.smollm2)
            workers[contender] = launcher.start(contender, lineup, path, rounds)
            loaded[contender.name] = workers[contender].description
        except WorkerError as error:
            refused[contender] = str(error)
            say(f"  {contender.name} does not run: {error}")
    return workers, loaded, refused


def warm(workers, lineup):
    """Once through everything, so that nobody compiles, pages in or allocates while it is timed."""
    for contender, worker in workers.items():
        worker.wake()
        try:
            if contender.engine != "serve":
                worker.ask("prefill", tokens=plan.PREFILL if contender.numerics != "mma16" else 32, seed=1)
        except WorkerError as error:
            say(f"  {contender.name}, warming up: {error}")  # its cells will say so too
        finally:
            worker.sleep()


def left_out(cell):
    return cell.get("error", "").startswith("left out")


def run_lineup(lineup, options, launcher, rounds, seed, keep=lambda result: None, end=math.inf):
    """What a line-up comes to. keep: is given what there is after each point."""
    say(f"{lineup.model}, {lineup.threads} threads, {len(lineup.contenders)} contenders")
    clock = CpuClock()
    result = {"key": key_of(lineup, rounds), "model": lineup.model, "threads": lineup.threads}
    result |= {"unfinished": True, "ceilings": {}, "loaded": {}, "cells": []}
    try:
        result["ceilings"] = ceilings(options, lineup, options.quick)
    except WorkerError as error:
        result["ceilings"] = {"error": str(error)}
        say(f"  no ceilings: {error}")
    workers, result["loaded"], refused = load(lineup, options, launcher, rounds)
    try:
        warm(workers, lineup)
        for index, (point, taking) in enumerate(lineup.cells()):
            some = {c: workers[c] for c in taking if c in workers}
            result["cells"] += run_point(some, point, lineup, rounds, seed + 1000 * index, end) if some else []
            result["cells"] += [
                {"contender": c.name, "rows": point.rows, "context": point.context, "samples": [], "error": refused[c]}
                for c in taking
                if c in refused
            ]
            keep(result)
        for contender, worker in workers.items():
            result["loaded"][contender.name]["peak_resident_bytes"] = worker.resident()
    finally:
        for worker in workers.values():
            worker.close()
    result["others_share"] = clock.others()
    result["unfinished"] = any(left_out(cell) for cell in result["cells"])
    keep(result)
    return result


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="SmolLM2 at a few points, 2 rounds: a few minutes, to see that all works")
    add("--rounds", type=int, help="[5; quick 2]")
    add("--models", default="", help="only these, separated by commas: " + ", ".join(SHAPES))
    add("--engines", default="", help="only these: eadem, serve, llama.cpp, OpenVINO")
    add("--formats", default="", help="only these: BF16 (F16 of OpenVINO with it), Q8_0, Q4_1")
    add("--points", default="", help="only these, as tables name them: prefill 512, decode 1, decode 1 at 4k")
    add("--without", default="", help="not those whose names begin so: eadem mma16, eadem serve, llama.cpp Q4_1")
    add("--threads", type=int, help="only line-ups with that many threads")
    add("--minutes", type=float, help="end within so many: what would take longer than what is left is left out")
    add("--tuned", help="a result whose settings of the peers are used, instead of trying which are best")
    add("--isa", default="", help="kernel set of eadem [its own choice]")
    add("--busy", action="store_true", help="peers' waiting threads sleep: on a machine with other work")
    add("--estimate", action="store_true", help="print what would run and for how long, and end")
    add("--resume", action="store_true", help="keep the line-ups that --out holds of this commit, machine and settings")
    add("--seed", type=int, default=1, help="of the prompts")
    add("--out", default=str(ROOT / "build" / "bench-cpu.json"), help="[build/bench-cpu.json]")
    add("--docs", action="store_true", help="put tables and plots into docs/performance.md and docs/images/")
    add("--smollm2", default=os.environ.get("EADEM_SMOLLM2"), help="its Q4_1 or vocabulary [EADEM_SMOLLM2, or pulled]")
    add("--models-folder", default=os.environ.get("EADEM_BENCH_MODELS", str(ROOT / ".cache" / "bench-models")))
    add("--llama-python", default=os.environ.get("EADEM_LLAMA_PYTHON", str(ROOT / ".venv-llama" / "bin" / "python")))
    add(
        "--openvino-python",
        default=os.environ.get("EADEM_OPENVINO_PYTHON", str(ROOT / ".venv-openvino" / "bin" / "python")),
    )
    add("--worker", default=str(ROOT / "build" / "bench" / "bench_worker"))
    add("--ceilings", default=str(ROOT / "build" / "bench" / "bench_ceilings"))
    return parser.parse_args()


def chosen(options):
    """The line-ups that the options leave."""

    def listed(text):
        return [word.strip() for word in text.split(",") if word.strip()]

    models, engines, formats = listed(options.models), listed(options.engines), listed(options.formats)
    names, without = listed(options.points), tuple(listed(options.without))
    contenders = [
        c
        for c in plan.CONTENDERS
        if (not engines or c.engine in engines)
        and (not formats or c.group in formats)
        and not (without and c.name.startswith(without))
    ]
    wanted = [
        (model, threads, tuple(point for point in points if not names or point.name in names))
        for model, threads, points in (plan.QUICK if options.quick else plan.FULL)
        if (not models or model in models) and options.threads in (None, threads)
    ]
    wanted = [entry for entry in wanted if entry[2]]
    return plan.lineups(wanted, contenders, options.rounds, 0.7 * memory_available())


def key_of(lineup, rounds):
    """What makes two measurements of a line-up the same one."""
    points = [[point.rows, point.context] for point in lineup.points]
    return [lineup.model, lineup.threads, points, [c.name for c in lineup.contenders], rounds]


def earlier(out, new):
    """What a run that was interrupted, or had fewer line-ups, left in the file: of the same commit, machine and
    settings, or nothing."""
    if not out.exists():
        return new
    old = json.loads(out.read_text())

    def told(result):
        machine = {**result.get("machine", {}), "memory_bytes": 0}  # some virtual machines' grows while it is used
        return result.get("commit", "").split()[:1], machine, result.get("what"), result.get("settings")

    if told(old) != told(new):
        say(f"{out} is of another commit, machine or setting: begun anew")
        return new
    return {**old, "command": new["command"]}


def find_smollm2(options):
    if options.smollm2 is None:
        pulled = subprocess.run([ROOT / "build" / "eadem", "pull", "smollm2-135m"], capture_output=True, text=True)
        if pulled.returncode != 0:
            sys.exit(f"bench: SmolLM2 is not here and cannot be fetched; name its file with --smollm2: {pulled.stderr}")
        options.smollm2 = pulled.stdout.strip().splitlines()[-1]
    if not pathlib.Path(options.smollm2).is_file():
        sys.exit(f"bench: {options.smollm2} is no file")


def estimate(lineups, options):
    """Seconds, about, of everything."""
    total = sum(plan.seconds_of(lineup, options.rounds) for lineup in lineups)
    if not options.quick and not options.tuned and lineups:
        total += sum(TUNE_SECONDS * len(VARIANTS.get(c.engine, [])) for c in lineups[0].contenders)
    cells = sum(len(taking) for x in lineups for _, taking in x.cells())
    say(f"{cells} cells, {options.rounds} rounds: about {total / 60:.0f} minutes on a quiet machine")
    for lineup in lineups if options.estimate else []:
        minutes = plan.seconds_of(lineup, options.rounds) / 60
        names = ", ".join(point.name for point in lineup.points)
        say(f"  {lineup.model}, {lineup.threads} threads, {len(lineup.contenders)} contenders: {minutes:.1f} ({names})")


def run_all(lineups, options, result, out):
    started = time.monotonic()
    end = started + 60 * options.minutes if options.minutes else math.inf
    launcher = Launcher(options, end)
    if not options.quick:
        if options.tuned:
            result["tuned"] = json.loads(pathlib.Path(options.tuned).read_text())["tuned"]
        if not result.get("tuned"):
            say("the peers' best settings")
            result["tuned"] = tune(lineups[0], options, launcher, options.seed + 50_000)
        best = best_variants(result["tuned"])
        launcher.settings = {c: best[c.name] for c in plan.CONTENDERS if c.name in best}
    for number, lineup in enumerate(lineups):
        before = [x for x in result["lineups"] if x["key"] != key_of(lineup, options.rounds)]

        def keep(found, before=before):
            result["lineups"] = [*before, found]
            result["targets"] = evaluate(report.Figures(result))
            partial = out.with_suffix(".partial")  # whoever copies the file while this runs has a whole one
            partial.write_text(json.dumps(result, indent=1) + "\n")
            os.replace(partial, out)

        if time.monotonic() > end:
            say(f"no time for {lineup.model}, {lineup.threads} threads")
            continue
        run_lineup(lineup, options, launcher, options.rounds, options.seed + 100_000 * number, keep, end)
        left = sum(plan.seconds_of(x, options.rounds) for x in lineups[number + 1 :])
        say(f"{(time.monotonic() - started) / 60:.1f} minutes so far, about {left / 60:.0f} to go")


def main():
    options = parse()
    options.rounds = options.rounds or (2 if options.quick else 5)
    out = pathlib.Path(options.out)
    lineups = chosen(options)
    if not lineups:
        sys.exit("bench: the options leave nothing to measure")
    settings = {"seed": options.seed, "quick": options.quick, "busy": options.busy, "isa": options.isa}
    if not options.estimate:
        find_smollm2(options)
        settings |= {} if has_weights(options.smollm2) else {"random_weights": True}
    result = {
        "what": "bench cpu",
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "command": shlex.join(["./dev", "bench", "cpu", *sys.argv[1:]]),
        "machine": machine(),
        "settings": settings,
        "lineups": [],
    }
    if options.resume:
        result = earlier(out, result)
        done = [lineup["key"] for lineup in result["lineups"] if not lineup.get("unfinished")]
        lineups = [lineup for lineup in lineups if key_of(lineup, options.rounds) not in done]
    estimate(lineups, options)
    if options.estimate:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    if lineups:
        run_all(lineups, options, result, out)
    print(report.page(result)[0])
    if options.docs:
        report.write_docs(result, ROOT / "docs" / "performance.md")
    say(f"written: {out}")


if __name__ == "__main__":
    main()
