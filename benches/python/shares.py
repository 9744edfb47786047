"""Where the time of each workload goes, by `perf record`: python3 shares.py PATH_OF_COMPARE [KEY ...] prints a table.

A worker of `compare` prepares, and then measures for some 600 ms; only the end of that is looked at. What is in a function tells what it does.
"""

import os
import re
import subprocess
import sys
import tempfile
import time

COLUMNS = ["loops over elements", "laying out, copying", "walks, bookkeeping", "the system"]
MOVING = re.compile(r"kernels::(lay_out|transpose|past_caches|matmul::pack|conv::strips)|^_*mem(move|cpy|set)|lay_out_all|copy_to")
LOOPS = re.compile(r"kernels::|matmul::|::math::")
OUTSIDE = re.compile(r"^benches::|SpecFromIter")


def column(space, name):
    if space == "k":
        return 3
    if MOVING.search(name):
        return 1
    return 0 if LOOPS.search(name) else 2


def shares(compare, key):
    command = [compare, "worker", "1", "false", "false", "0", key]
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = time.monotonic() - start
    behind = int(max(whole - 0.5, 0.6 * whole) * 1000)
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "perf.data")
        record = ["perf", "record", "-q", "-F", "3989", "-e", "cpu-clock", "-D", str(behind), "-o", data]
        subprocess.run(record + command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        report = ["perf", "report", "-i", data, "--no-children", "--sort", "symbol", "-F", "sample,symbol"]
        text = subprocess.run(report, check=True, capture_output=True, text=True).stdout
    counts = [0] * len(COLUMNS)
    for line in text.splitlines():
        found = re.match(r"\s*(\d+)\s+\[(.)\]\s+(.*?)(\s+-\s+-)?\s*$", line)
        if found and not OUTSIDE.search(found[3]):
            counts[column(found[2], found[3])] += int(found[1])
    whole = sum(counts)
    return [f"{100 * count / whole:.0f} %" if whole >= 100 else "too short" for count in counts]


def main():
    compare, keys = os.path.abspath(sys.argv[1]), sys.argv[2:]
    if not keys:
        listed = subprocess.run([compare, "--list"], check=True, capture_output=True, text=True).stdout
        keys = [line.split()[0] for line in listed.splitlines()]
    print("| workload | " + " | ".join(COLUMNS) + " |")
    print("|---|" + "--:|" * len(COLUMNS))
    for key in keys:
        print(f"| {key} | " + " | ".join(shares(compare, key)) + " |", flush=True)


main()
