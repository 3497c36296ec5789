#!/usr/bin/env python3
"""Trains every network on CPU and npu and compares: loss curves in float32, final losses under autocast, tokens, time per step.

Usage: python test/models/sweep.py [--steps 30] [--json FILE] [NETWORK ...]. The CPU fallback is forbidden. Exit code 1 on a failure.
"""

import os

os.environ["TORCH_NPU_FALLBACK_CPU_DISABLE"] = "1"

import argparse
import json
import math
import sys
from statistics import median

import torch

import torch_npu  # noqa: F401

import transformers_zoo  # isort: skip
import zoo  # isort: skip
from network import Training, train  # isort: skip

RELATIVE = 1e-4
PERTURBATION = 1e-6


def deviation(curve, reference):
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(curve, reference))


def check(network, steps):
    """One row of the table."""
    cpu, npu, half, brain = trainings = [Training(network, "cpu"), Training(network, "npu"),
                                         Training(network, "npu", amp=torch.float16), Training(network, "npu", amp=torch.bfloat16)]
    train(*trainings, steps=steps)
    row = {"network": network.name, "deviation": deviation(npu.losses, cpu.losses), "limit": RELATIVE,
           "first": cpu.losses[0], "final": cpu.losses[-1], "ratio": median(a / b for a, b in zip(npu.seconds, cpu.seconds)),
           "float16": half.losses[-1] / cpu.losses[-1], "bfloat16": brain.losses[-1] / cpu.losses[-1]}
    if row["deviation"] > RELATIVE:  # where rounding alone diverges, as far as a tiny change of the start does on the CPU
        shaken = Training(network, "cpu", perturbation=PERTURBATION)
        train(shaken, steps=steps)
        row["limit"] = max(RELATIVE, deviation(shaken.losses, cpu.losses))
    row["passed"] = row["deviation"] <= row["limit"] and max(row["float16"], row["bfloat16"]) <= 1.05
    if network.name == "gpt2":
        row["tokens"] = same_tokens(npu.model)
        row["passed"] = row["passed"] and row["tokens"]
    return row


def same_tokens(model):
    """Greedy generation on both devices."""
    prompt = torch.tensor([[5, 6, 7]])
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    model.eval()
    ours = model.generate(prompt.npu(), **options).cpu()
    return torch.equal(ours, model.cpu().generate(prompt, **options))


def line(row):
    text = (f"{row['network']:20} {'ok  ' if row['passed'] else 'FAIL'} deviation {row['deviation']:.1e} (limit {row['limit']:.1e})  "
            f"loss {row['first']:.4f} -> {row['final']:.4f}  float16 x{row['float16']:.3f}  bfloat16 x{row['bfloat16']:.3f}  "
            f"step npu:cpu {row['ratio']:.2f}")
    return text + (f"  same tokens {row['tokens']}" if "tokens" in row else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_args()
    networks = zoo.NETWORKS + transformers_zoo.NETWORKS
    if not transformers_zoo.NETWORKS:
        print("transformers is not installed: its networks are left out")
    rows = []
    for network in networks:
        if options.networks and network.name not in options.networks:
            continue
        try:
            row = check(network, options.steps)
            print(line(row), flush=True)
        except Exception as error:
            row = {"network": network.name, "passed": False, "error": str(error)}
            print(f"{network.name:20} FAIL {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        rows.append(row)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{sum(row['passed'] for row in rows)} of {len(rows)} networks passed; step time npu:cpu {mean:.2f} (geometric mean)")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0 if rows and all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
