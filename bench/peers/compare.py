"""Eadem and llama.cpp in turn on the same machine, threads and GGUF file; medians, spreads and ratios as JSON.

usage: compare.py --peer-python VENV/bin/python --model BF16.gguf --numerics fma32 [--rounds 5] [--threads 2]

The peer's Python needs llama-cpp-python built for this machine. Each round runs both once; who begins alternates. Exits
with 1 where a ratio lies below --least.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def eadem(options):
    command = [
        options.eadem,
        "bench",
        "-m",
        options.model,
        "--numerics",
        options.numerics,
        "--threads",
        options.threads,
    ]
    command += ["--batch", "1,16", "--prompt", options.prompt, "--new", options.new, "--repeats", 1, "--json"]
    report = json.loads(subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout)
    by_batch = {result["batch"]: result for result in report["results"]}
    return report, {
        "prefill": by_batch[1]["prefill_tokens_per_second"]["median"],
        "decode_1": by_batch[1]["decode_tokens_per_second"]["median"],
        "decode_16": by_batch[16]["decode_tokens_per_second"]["median"],
    }


def llama_cpp(options):
    command = [options.peer_python, HERE / "llama_cpp_bench.py", options.model, "--threads", options.threads]
    command += ["--prompt", options.prompt, "--new", options.new, "--repeats", 1]
    report = json.loads(subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout)
    return report, {key: report[key]["median"] for key in ("prefill", "decode_1", "decode_16")}


def summary(samples):
    median = statistics.median(samples)
    return {"median": round(median, 1), "spread": round((max(samples) - min(samples)) / median, 3), "samples": samples}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--eadem", default=str(ROOT / "build" / "eadem"))
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--numerics", default="fma32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=float, default=0.0)
    options = parser.parse_args()
    runs = {"eadem": [], "llama.cpp": []}
    for round_number in range(options.rounds):
        turn = [("eadem", eadem), ("llama.cpp", llama_cpp)]
        for name, measure in turn if round_number % 2 == 0 else turn[::-1]:
            report, figures = measure(options)
            runs[name].append(figures)
            print(f"round {round_number + 1} {name}: {figures}", file=sys.stderr)
            if name == "eadem":
                machine = {key: report[key] for key in ("version", "machine", "numerics", "isa", "threads")}
            else:
                peer_version = report["version"]
    result = {
        **machine,
        "model": pathlib.Path(options.model).name,
        "peer": f"llama-cpp-python {peer_version}",
        "ratios": {},
    }
    for key in ("prefill", "decode_1", "decode_16"):
        both = {name: summary([figures[key] for figures in samples]) for name, samples in runs.items()}
        result[key] = both
        result["ratios"][key] = round(both["eadem"]["median"] / both["llama.cpp"]["median"], 2)
    print(json.dumps(result, indent=1))
    sys.exit(0 if min(result["ratios"].values()) >= options.least else 1)


main()
