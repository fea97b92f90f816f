"""HIV treatment by structured interruption: every five days, decide which of two drugs to give.

Adams, Banks, Kwon, Tran (2004), "Dynamic multidrug therapies for HIV"; as a decision problem: Ernst, Stan,
Gonçalves, Wehenkel (2006), "Clinical data based optimal STI strategies for HIV".
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.domains.behaviours import shipped, with_noise
from statewise.domains.simulate import Domain, in_float64
from statewise.domains.source import Simulator

# T₁, T₂, T₁*, T₂*, V, E: healthy cells of two kinds, infected cells of the same, free virus, immune cells.
UNHEALTHY = (163573.0, 5.0, 11945.0, 46.0, 63919.0, 24.0)
DAYS_PER_STEP = 5.0
REWARD_SCALE = 1e8

# Tsitouras (2011), "Runge–Kutta pairs of order 5(4)": stages 2 to 7, and the difference of the two solutions.
# The last row is the fifth-order solution itself, and the seventh stage the first of the next step.
STAGES = (
    (0.161,),
    (-0.008480655492356989, 0.335480655492357),
    (2.8971530571054935, -6.359448489975075, 4.3622954328695815),
    (5.325864828439257, -11.748883564062828, 7.4955393428898365, -0.09249506636175525),
    (5.86145544294642, -12.92096931784711, 8.159367898576159, -0.071584973281401, -0.028269050394068383),
    (0.09646076681806523, 0.01, 0.4798896504144996, 1.379008574103742, -3.290069515436081, 2.324710524099774),
)
ERROR = (
    -0.00178001105222577714,
    -0.0008164344596567469,
    0.007880878010261995,
    -0.1447110071732629,
    0.5823571654525552,
    -0.45808210592918697,
    0.015151515151515152,
)
RELATIVE_TOLERANCE = 1e-8
FIRST_STEP, SMALLEST_STEP = 0.05, 1e-12  # days


@in_float64
def efficacies(action: Int[Array, ""] | int) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """ε₁ of the reverse transcriptase inhibitor (RTI) and ε₂ of the protease inhibitor (PI)."""
    action = jnp.asarray(action)
    rti = jnp.where((action == 1) | (action == 3), jnp.float64(0.7), 0.0)
    pi = jnp.where((action == 2) | (action == 3), jnp.float64(0.3), 0.0)
    return rti, pi


def rates(state: Float[Array, "6"], rti: Float[Array, ""], pi: Float[Array, ""]) -> Float[Array, "6"]:
    """Change per day under drugs of efficacy ε₁ (`rti`) and ε₂ (`pi`), with S = T₁* + T₂*.

    T₁'  = 10⁴   − .01 T₁ − (1−ε₁) 8·10⁻⁷ V T₁
    T₂'  = 31.98 − .01 T₂ − (1−.34ε₁) 10⁻⁴ V T₂
    T₁*' = (1−ε₁) 8·10⁻⁷ V T₁  − .7 T₁* − 10⁻⁵ E T₁*
    T₂*' = (1−.34ε₁) 10⁻⁴ V T₂ − .7 T₂* − 10⁻⁵ E T₂*
    V'   = (1−ε₂) 70 S − 13 V − [(1−ε₁) 8·10⁻⁷ T₁ + (1−.34ε₁) 10⁻⁴ T₂] V
    E'   = 1 + .3 E S/(S+100) − .25 E S/(S+500) − .1 E
    """
    healthy1, healthy2, infected1, infected2, virus, immune = state
    infection1 = (1 - rti) * 8e-7 * virus * healthy1
    infection2 = (1 - 0.34 * rti) * 1e-4 * virus * healthy2
    infected = infected1 + infected2
    return jnp.stack(
        [
            1e4 - 0.01 * healthy1 - infection1,
            31.98 - 0.01 * healthy2 - infection2,
            infection1 - (0.7 + 1e-5 * immune) * infected1,
            infection2 - (0.7 + 1e-5 * immune) * infected2,
            (1 - pi) * 70.0 * infected - 13.0 * virus - infection1 - infection2,
            1.0 + (0.3 * infected / (infected + 100) - 0.25 * infected / (infected + 500) - 0.1) * immune,
        ]
    )


def integrate(state: Float[Array, "6"], rti: Float[Array, ""], pi: Float[Array, ""], days: float) -> Float[Array, "6"]:
    """The state after `days`, by an embedded Runge–Kutta pair that keeps the relative error of each component small.

    The fastest rate is 13 a day in calm times and 185 a day after an interruption, when a burst of virus infects T₂:
    no fixed step suits both. If the step would have to shrink to nothing, the result is NaN.
    """

    def unfinished(carry):
        elapsed, length, _, _ = carry
        return (elapsed < days) & (length > SMALLEST_STEP)

    def advance(carry):
        elapsed, length, state, slope = carry
        length = jnp.minimum(length, days - elapsed)
        slopes, trial = [slope], state
        for row in STAGES:
            trial = state + length * sum(a * k for a, k in zip(row, slopes, strict=True))
            slopes.append(rates(trial, rti, pi))
        error = length * sum(e * k for e, k in zip(ERROR, slopes, strict=True))
        scale = RELATIVE_TOLERANCE * jnp.maximum(jnp.abs(state), jnp.abs(trial))
        size = jnp.nan_to_num(jnp.max(jnp.abs(error) / scale), nan=jnp.inf)
        accepted = size <= 1.0
        factor = jnp.clip(0.9 * size**-0.2, 0.2, 5.0)
        return (
            jnp.where(accepted, elapsed + length, elapsed),
            factor * length,
            jnp.where(accepted, trial, state),
            jnp.where(accepted, slopes[-1], slope),
        )

    start = (jnp.zeros((), state.dtype), jnp.asarray(FIRST_STEP, state.dtype), state, rates(state, rti, pi))
    elapsed, _, state, _ = jax.lax.while_loop(unfinished, advance, start)
    return jnp.where(elapsed >= days, state, jnp.nan)


@in_float64
def reset(key: Key[Array, ""]) -> Float[Array, "6"]:
    """Every episode starts from the unhealthy fixed point."""
    del key
    return jnp.asarray(UNHEALTHY, jnp.float64)


@in_float64
def observe(state: Float[Array, "6"]) -> Float[Array, "6"]:
    """The decimal logarithm of the state, which spans eight orders of magnitude."""
    return jnp.log10(jnp.asarray(state, jnp.float64)).astype(jnp.float32)


@in_float64
def step(
    state: Float[Array, "6"], action: Int[Array, ""] | int
) -> tuple[Float[Array, "6"], Float[Array, ""], Bool[Array, ""]]:
    """Five days under one choice of drugs; the reward depends on the state at their end.

    r = (−.1 V − 2·10⁴ ε₁² − 2·10³ ε₂² + 10³ E) / 10⁸

    In float64, because float32 would be off by three parts in a thousand within an episode.
    """
    rti, pi = efficacies(action)
    next_state = integrate(jnp.asarray(state, jnp.float64), rti, pi, DAYS_PER_STEP)
    virus, immune = next_state[4], next_state[5]
    reward = -0.1 * virus - 2e4 * rti**2 - 2e3 * pi**2 + 1e3 * immune
    return next_state, reward / REWARD_SCALE, jnp.asarray(False)


HIV = Domain(
    name="hiv",
    observation_names=("log10_T1", "log10_T2", "log10_T1s", "log10_T2s", "log10_V", "log10_E"),
    action_names=("none", "rti", "pi", "both"),
    horizon=200,
    discount=0.98,
    reset=reset,
    observe=observe,
    step=step,
    reward_scale=REWARD_SCALE,
)
SOURCE = Simulator(HIV, lambda: with_noise(shipped("hiv")))
WEAK_SOURCE = Simulator(HIV, lambda: with_noise(shipped("hiv-weak")))
