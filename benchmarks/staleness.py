"""placeholder
"""
from __future__ import annotations

import argparse

from benchmarks import tables
from benchmarks.runs import Gathered

import json, sys
def one(preset, actors, settings, label, limit, episodes):
    with Gathered(preset, actors, label=label, settings=settings) as run:
        result = run.finish(limit)
    row = result.at_episodes(episodes) or result.rows[-1]
    s = result.summary
    marks = []
    for e in (250, 500, 750, 1000,1500,2000,3000,4000, 6000, 8000):
        r = result.at_episodes(e)
        if r: marks.append((e, round(r["mean_return"],1), round(r["seconds"],0), r["frames"], round(r["lag_mean"],1)))
    print(label, "start->all ready", round(result.seconds - row["seconds"],1), marks)
    print("   ", {k: row[k] for k in ("frames","episodes","seconds","mean_return","stale","gradients","version","learner_busy","lag_mean","lag_p95","actors")}, s["lag_mean"], s["lag_p95"], flush=True)
    return result
