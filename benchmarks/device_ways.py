"""Ways to run an update's loops on an accelerator, side by side: steps compiled at once, and XLA's command buffers.

    PYTHONPATH=src python benchmarks/device_ways.py [--seeds 10] [--repeats 5] [--ways NAME;…] [--problems PART]

Needs only JAX, equinox, optax, jaxtyping and NumPy. Every way has a process of its own, since XLA reads its flags once.
A few compile at the same time; then they are timed one after the other, and nothing else runs. The logs are those of
`device.py`; states are random numbers, since no time depends on them. Milliseconds per update of all seeds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

UPDATES = 50
SIDE_BY_SIDE = 4  # processes that compile at the same time
GRAPHS = "--xla_gpu_enable_command_buffer="
USUAL = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION"
LOOPS = f"{GRAPHS}{USUAL},WHILE,CONDITIONAL --xla_gpu_graph_min_graph_size=1"
# steps at once, and flags
PARTS = "1, parts"
WAYS: dict[str, tuple[int, str]] = {
    PARTS: (1, ""),
    "1": (1, ""),
    "2": (2, ""),
    "5": (5, ""),
    "10": (10, ""),
    "25": (25, ""),
    "1, no graphs": (1, GRAPHS),
    "1, small graphs": (1, f"{GRAPHS}{USUAL} --xla_gpu_graph_min_graph_size=1"),
    "5, small graphs": (5, f"{GRAPHS}{USUAL} --xla_gpu_graph_min_graph_size=1"),
    "1, loops in graphs": (1, LOOPS),
    "5, loops in graphs": (5, LOOPS),
    "1, loops in graphs, no Triton": (1, f"{LOOPS} --xla_gpu_enable_triton_gemm=false"),
    "5, loops in graphs, no Triton": (5, f"{LOOPS} --xla_gpu_enable_triton_gemm=false"),
    "10, loops in graphs": (10, LOOPS),
    "5, no Triton": (5, "--xla_gpu_enable_triton_gemm=false"),
    "5, cuBLAS from 0 on": (5, "--xla_gpu_gemm_rewrite_size_threshold=0"),
}


def work(at_once: int, seeds: int, repeats: int, parts: bool, only: str) -> None:
    """Compiles all problems, says so, waits for a line, and prints the times."""
    import jax
    from device import problems

    from statewise.ops import loops

    loops.AT_ONCE[jax.default_backend()] = at_once
    began = time.perf_counter()
    some = {name: problem for name, problem in problems().items() if only in name}
    runs = {name: run for one, (config, log) in some.items() for name, run in runs_of(one, config, log, seeds, parts)}
    for run in runs.values():
        jax.block_until_ready(run())
    print(json.dumps({"ready": time.perf_counter() - began}), flush=True)
    sys.stdin.readline()
    spent = {}
    for name, run in runs.items():
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            jax.block_until_ready(run())
            times.append((time.perf_counter() - began) * 1e3 / UPDATES)
        spent[name] = min(times)
    print(json.dumps(spent), flush=True)


def runs_of(name: str, config: Any, dataset: Any, seeds: int, parts: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Whole updates, or the ratio's and the critic's parts of them, each as often as `UPDATES` says."""
    import equinox as eqx
    import jax
    import jax.numpy as jnp
    import numpy as np
    from device import shortened

    from statewise.algorithms import opposd
    from statewise.learning.fit import keys_of, prepare
    from statewise.learning.program import program
    from statewise.parts import critic, ratio

    config = shortened(config)
    data, keys = prepare(config, dataset)[0], keys_of(range(seeds))
    shapes = eqx.filter_eval_shape(lambda: jax.vmap(lambda key: opposd.init(config, data, key))(keys))
    random = np.random.default_rng(0)
    states = jax.tree.map(lambda leaf: jnp.asarray(random.random(leaf.shape) * 0.1, leaf.dtype), shapes)
    if not parts:
        running = program(config, data, keys)
        yield name, lambda: running.advance(states, 0, UPDATES)
        return

    def ratio_alone(data: Any, state: Any, key: jax.Array) -> Any:
        w = ratio.fit(config.ratio, data.ground, state.ratio, state.actor.network, data.log, data.chain, key)
        return eqx.tree_at(lambda one: one.ratio, state, w)

    def critic_alone(data: Any, state: Any, key: jax.Array) -> Any:
        settings = config.critic
        value, _ = critic.fit(settings, state.critic, state.actor.network, data.log, settings.steps, key)
        return eqx.tree_at(lambda one: one.critic, state, value)

    def many(part: Callable[..., Any], data: Any, states: Any) -> Any:
        def step(state: Any, key: jax.Array) -> tuple[Any, None]:
            # the policy changes, as in training; for a fixed one the compiler would solve only once
            state = eqx.tree_at(lambda one: one.actor, state, jax.tree.map(lambda leaf: leaf * 2, state.actor))
            return part(data, state, key), None

        return jax.vmap(lambda state, key: jax.lax.scan(step, state, jax.random.split(key, UPDATES))[0])(states, keys)

    for label, part in (("ratio", ratio_alone), ("critic", critic_alone)):
        compiled = eqx.filter_jit(many)
        yield f"{name}: {label}", lambda part=part, compiled=compiled: compiled(part, data, states)


def started(name: str, seeds: int, repeats: int, only: str) -> subprocess.Popen:
    at_once, flags = WAYS[name]
    environment = os.environ | {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, __file__, "--worker", str(at_once), "--seeds", str(seeds), "--repeats", str(repeats)]
    command += ["--problems", only, *(["--parts"] if name == PARTS else [])]
    return subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def last_words(process: subprocess.Popen) -> str:
    process.wait()
    lines = (process.stderr.read() if process.stderr else "").strip().splitlines()
    return lines[-1][:100] if lines else f"exit code {process.returncode}"


def compare(ways: list[str], seeds: int, repeats: int, only: str) -> None:
    for first in range(0, len(ways), SIDE_BY_SIDE):
        processes = {name: started(name, seeds, repeats, only) for name in ways[first : first + SIDE_BY_SIDE]}
        ready = {name: said(process) for name, process in processes.items()}
        for name, process in processes.items():
            print(f"{name:22s} {timed(process, ready[name])}", flush=True)


def said(process: subprocess.Popen, asked: bool = False) -> str:
    """The next line that it prints, after a line to it where it is `asked`."""
    assert process.stdin is not None
    assert process.stdout is not None
    if asked:
        process.stdin.write("\n")
        process.stdin.flush()
    return process.stdout.readline()


def timed(process: subprocess.Popen, ready: str) -> str:
    """Has a process that is ready measure, and says what it measured, or why it did not."""
    line = said(process, asked=True) if ready else ""
    if not line:
        return last_words(process)
    process.wait()
    spent = "; ".join(f"{one} {ms:.2f}" for one, ms in json.loads(line).items())
    return f"{spent}; compiling {json.loads(ready)['ready']:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", default=";".join(WAYS))
    parser.add_argument("--problems", default="", help="only those with this in their names")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--parts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.seeds, options.repeats, options.parts, options.problems)
    else:
        compare(options.ways.split(";"), options.seeds, options.repeats, options.problems)


if __name__ == "__main__":
    main()
