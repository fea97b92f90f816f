import sys, time
from dataclasses import replace
from pathlib import Path
from statewise.experiments.certified import jobs
from statewise.experiments.run import requested
jobs.accelerated = lambda: True
if __name__ == "__main__":
    cells, out, a, b, procs = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
    study = requested("certified", quick=False, preset=None, methods="", cells=cells)
    study = replace(study, cells=tuple(replace(c, datasets=tuple(range(a, b + 1))) for c in study.cells))
    if len(sys.argv) > 6:
        study = replace(study, most_updates=5, score_episodes=20, cells=tuple(replace(c, episodes=60) for c in study.cells))
    t = time.time()
    jobs.run(study, out, lambda m: print(f"[{time.time()-t:.0f} s] {m}", flush=True), procs)
