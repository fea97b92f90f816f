"""CartPole-v0: keep a pole upright on a cart, 200 steps at most."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from statewise.domains.behaviours import Noisy, Uniform
from statewise.domains.simulate import Domain, in_float64
from statewise.domains.source import Simulator
from statewise.ops.networks import Network

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.0 + POLE_MASS
HALF_LENGTH = 0.5  # of the pole
FORCE = 10.0
SECONDS_PER_STEP = 0.02
POSITION_LIMIT = 2.4
ANGLE_LIMIT = math.radians(12)


@in_float64
def reset(key: Key[Array, ""]) -> Float[Array, "4"]:
    """Cart position and velocity, pole angle and velocity: each uniform on ±0.05."""
    return jax.random.uniform(key, (4,), jnp.float64, minval=-0.05, maxval=0.05)


@in_float64
def observe(state: Float[Array, "4"]) -> Float[Array, "4"]:
    """The state itself, in float32."""
    return jnp.asarray(state, jnp.float32)


@in_float64
def step(
    state: Float[Array, "4"], action: Int[Array, ""] | int
) -> tuple[Float[Array, "4"], Float[Array, ""], Bool[Array, ""]]:
    """One Euler step of the cart and pole; action 1 pushes to the right, 0 to the left; the reward is 1.

    u  = (F + m l θ̇² sin θ) / M
    θ̈ = (g sin θ − u cos θ) / (l (4/3 − m cos² θ / M))
    ẍ  = u − m l θ̈ cos θ / M

    Barto, Sutton, Anderson (1983), as in Gymnasium's CartPole. In float64, as there: the upright pole is
    unstable, and an error of float32's size would grow past 1e-6 within an episode.
    """
    state = jnp.asarray(state, jnp.float64)
    _, velocity, angle, angular_velocity = state
    force = jnp.where(jnp.asarray(action) == 1, FORCE, -FORCE)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    push = (force + POLE_MASS * HALF_LENGTH * angular_velocity**2 * sine) / TOTAL_MASS
    angular_acceleration = (GRAVITY * sine - cosine * push) / (
        HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cosine**2 / TOTAL_MASS)
    )
    acceleration = push - POLE_MASS * HALF_LENGTH * angular_acceleration * cosine / TOTAL_MASS
    rates = jnp.stack([velocity, acceleration, angular_velocity, angular_acceleration])
    next_state = state + SECONDS_PER_STEP * rates
    fallen = (jnp.abs(next_state[0]) > POSITION_LIMIT) | (jnp.abs(next_state[2]) > ANGLE_LIMIT)
    return next_state, jnp.ones((), jnp.float64), fallen


CARTPOLE = Domain(
    name="cartpole",
    observation_names=("cart_position", "cart_velocity", "pole_angle", "pole_velocity"),
    action_names=("left", "right"),
    horizon=200,
    discount=1.0,
    reset=reset,
    observe=observe,
    step=step,
)
SOURCE = Simulator(CARTPOLE, lambda: Uniform(len(CARTPOLE.action_names)))

# The rule that pushes the cart to the side where the pole falls: right if θ + ½θ̇ > 0, nearly always
BALANCING = ((0.0, 0.0), (0.0, 0.0), (-50.0, 50.0), (-25.0, 25.0))


def leaning(share: float) -> Noisy:
    """Random actions that lean towards the balancing rule (`share` up to 1) or its opposite (down to −1)."""
    weight = jnp.asarray(BALANCING, jnp.float32) * (1.0 if share >= 0 else -1.0)
    network = Network((weight,), (jnp.zeros(2),))
    return Noisy(network, jnp.zeros(4), jnp.ones(4), jnp.asarray(abs(share), jnp.float32))
