"""`statewise certify`: how far towards a policy a log vouches, and the step that may be deployed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from rich.text import Text

from statewise.cli.backend import backend_options
from statewise.cli.certificate import certificate_as_json, show_certificate
from statewise.cli.decision import checks_table
from statewise.cli.options import json_option, log_options, propensity_model_option, seed_option, writable
from statewise.cli.progress import Watch
from statewise.cli.propensities import estimated, read_log
from statewise.cli.scanned import scan_options
from statewise.cli.terminal import answers, echo_json, messages
from statewise.cli.types import FilePath
from statewise.data.dataset import Dataset
from statewise.learning.runs import RunFolder
from statewise.ope.certify import certify
from statewise.policies.external import as_target


@click.command(epilog="Example: statewise certify policy.safetensors held-out.parquet --out deploy.safetensors")
@click.argument("policy", type=FilePath())
@click.argument("log", type=FilePath())
@click.option("--out", type=FilePath(), help="Where to write the policy that may be deployed.")
@click.option(
    "--learning",
    type=FilePath(),
    help="Log that the policy was learned from, to choose the order of steps [default: a third of LOG].",
)
@click.option("--today", type=FilePath(), help="Policy that wrote the log [default: modelled from the log].")
@click.option(
    "--discount", type=click.FloatRange(0, 1, min_open=True), help="γ [default: 1 or 0.98, depending on the log]."
)
@click.option("--level", type=click.FloatRange(0.5, 1, min_open=True, max_open=True), default=0.95, show_default=True)
@seed_option
@log_options
@scan_options
@propensity_model_option
@json_option
@backend_options
def command(
    policy: Path,
    log: Path,
    out: Path | None,
    learning: Path | None,
    today: Path | None,
    discount: float | None,
    level: float,
    seed: int,
    as_json: bool,
    **options,
) -> None:
    """Walk from what is done today towards POLICY, and find the best step that LOG vouches for.

    POLICY is a policy file (.safetensors), an ONNX file (.onnx), or a run folder: then its goal. LOG must not contain
    episodes that the policy was trained on. Steps are tested in an order that is fixed beforehand, up to the first
    that fails, so that at most one log in twenty certifies a policy that is no better than today.
    """
    console = messages(quiet=as_json)
    if out is not None:
        writable(out)
    target = RunFolder.open(policy).learned() if policy.is_dir() else as_target(policy)

    def read(path: Path) -> Dataset:
        dataset, estimate = read_log(path, dict(options), console, policy=target)
        return estimated(dataset, console, options["propensity_model"]) if estimate else dataset

    held_out, known = read(log), None if learning is None else read(learning)
    with Watch(console, "certifying") as watch:
        certificate = certify(
            target,
            held_out,
            learning=known,
            today=None if today is None else as_target(today),
            discount=discount,
            level=level,
            seed=seed,
            progress=lambda done, total: watch.show("certifying", done, total),
        )
    if out is not None and certificate.policy is not None:
        card = {**certificate.policy.card, "log": held_out.fingerprint, **certificate.as_card()}
        replace(certificate.policy, card=card).save(out)
    if as_json:
        written = str(out) if out is not None and certificate.policy is not None else None
        echo_json({**certificate_as_json(certificate), "policy": written})
        return
    console = answers()
    show_certificate(console, certificate)
    console.print()
    console.print(checks_table(certificate.decision))
    if certificate.policy is not None:
        console.print()
        console.print(Text(f"  deploy      {out}" if out else "  --out FILE writes the policy that may be deployed"))
