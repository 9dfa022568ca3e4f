"""A worker of `./dev bench cpu` that computes nothing: answers after the time that it was told.

usage: stub_worker.py SECONDS [--refuse TEXT] [--die] [--sleep SECONDS]     --die: ends at the first command
"""

import argparse
import json
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("seconds", type=float)
parser.add_argument("--refuse", default="")
parser.add_argument("--die", action="store_true")
parser.add_argument("--sleep", type=float, default=0.0)
options = parser.parse_args()
if options.refuse:
    print(json.dumps({"error": options.refuse}), flush=True)
    sys.exit(1)
print(json.dumps({"engine": "stub", "version": "1", "settings": {}, "weight_bytes": 1000}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    if options.die:
        sys.exit("the stub dies")
    time.sleep(options.sleep)
    print(json.dumps({"seconds": options.seconds, "told": command}), flush=True)
