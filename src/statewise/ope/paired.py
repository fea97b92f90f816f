"""The gain over what is done today, with the noise that both estimates share taken out.

Today's value is known in two ways: by what the log earned, and by the judge's own method with today's probabilities in
the policy's place. The two differ by nothing but the method's noise, and a policy near today's has almost the same
noise. So that difference, whose mean is 0, is subtracted from the gain as often as makes the gain's variance least:

    V̂(π) − V̂(μ) − β (Ṽ(μ) − V̂(μ)),   V̂(μ) what the log earned, Ṽ(μ) by the judge.

What the log does not show of either, it does not show of both: only situations that the policy meets more often than
today's practice count against the gain, and only by how much farther its ratio misses the equations than today's does,
and by how much more unevenly episodes count.
With β = 1 the gain of a policy that does as today is exactly 0, with β = 0 it is the plain difference. It takes whole
probabilities that were logged: of estimated ones, or a model, the mean of the difference need not be 0.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from statewise.ope.clone import by_the_judge, whole_distributions
from statewise.ope.prepared import Prepared
from statewise.ope.quotient import Quotient, difference


def near_today(policy: Quotient, earned: Quotient, log: Prepared) -> Quotient:
    """The gain of a policy as the judge puts it, as a mean over episodes; plain where the log does not tell enough."""
    plain = difference(policy, earned)
    logged = whole_distributions(log.dataset)
    if logged is None or log.dataset.estimated is not None or log.objective != "return":
        return plain
    itself = by_the_judge(log, logged)
    noise = difference(itself, earned)
    share = _best_share(plain, noise, log)
    return replace(
        plain,
        numerator=plain.numerator - share * noise.numerator,
        allowance=plain.allowance.less(itself.allowance, share),
        unseen=max((plain.unseen or 0.0) - (itself.unseen or 0.0), 0.0),
        imbalance=_beyond(plain.imbalance, share * (itself.imbalance or 0.0)),
        base=itself.weight,
    )


def _beyond(missed: float | None, today: float) -> float | None:
    return None if missed is None else float(np.sqrt(max(missed**2 - today**2, 0.0)))


def _best_share(plain: Quotient, noise: Quotient, log: Prepared) -> float:
    """β = cov/var over groups, from 0 to 1."""
    groups = log.dataset.groups
    one, other = (np.bincount(groups, each.influence()) for each in (plain, noise))
    if not np.isfinite(one).all() or not np.isfinite(other).all():
        return 0.0
    variance = float(other @ other)
    return float(np.clip(one @ other / variance, 0.0, 1.0)) if variance > 0 else 0.0
