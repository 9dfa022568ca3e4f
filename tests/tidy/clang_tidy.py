#!/usr/bin/env python3
"""Runs the pinned clang-tidy of .venv over files, several at once: clang_tidy.py --jobs N FILES."""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(path):
    """(exit status, what it found) for one file."""
    program = ROOT / ".venv" / "bin" / "clang-tidy"
    # g++'s own flags mean nothing to clang; warnings are g++'s business.
    command = [str(program), "-p", "build", "--quiet", "--extra-arg=-Wno-everything", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    entries = json.loads((ROOT / "build" / "compile_commands.json").read_text())
    known = {str(pathlib.Path(entry["file"]).resolve()) for entry in entries}
    files = [path for path in options.files if str((ROOT / path).resolve()) in known]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=options.jobs) as pool:
        for path, (status, output) in zip(files, pool.map(run, files), strict=True):
            if status:
                failed += 1
                print(f"{path}\n{output}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
