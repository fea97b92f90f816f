"""Logs as other people keep them: nothing is named or written as the manual says. Each with the flags it needs."""

import numpy as np
import polars as pl


def clinic(patients=120, seed=0) -> str:
    """Semicolons, decimal commas, words, gaps, dates of visits, no propensities; "Died" is the end."""
    rng = np.random.default_rng(seed)
    lines = ["Patient;Visit date;Age;Sex;Lactate;Blood pressure;Pain;Ward;Smoker;Treatment;Score;Died;Comment"]
    for patient in range(patients):
        age, sex = int(rng.integers(30, 90)), "fm"[int(rng.integers(2))]
        ward, smoker = (
            ("North", "South", "ICU", "")[int(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1]))],
            rng.choice(["yes", "no"]),
        )
        sick, day = rng.normal(), np.datetime64("2023-11-20") + int(rng.integers(60))
        for _ in range(int(rng.integers(2, 7))):
            lactate = "" if rng.random() < 0.2 else _comma(2 + 0.8 * sick + 0.2 * rng.normal())
            pressure = "NA" if rng.random() < 0.1 else _comma(95 - 10 * sick + 3 * rng.normal())
            pain = ("low", "medium", "high")[int(np.clip(np.round(1 + sick + 0.5 * rng.normal()), 0, 2))]
            drug = ("none", "Drug A", "Drug B")[int(rng.choice(3, p=[0.3, 0.5, 0.2] if sick > 0 else [0.6, 0.2, 0.2]))]
            sick += {"none": 0.1, "Drug A": -0.4, "Drug B": 0.0}[drug] + 0.3 * rng.normal()
            died = rng.random() < 0.15 / (1 + np.exp(-2 * sick))
            score = _comma(-sick - 5 * died)
            cells = (f"P{patient:03}", _day(day), age, sex, lactate, pressure, pain, ward, smoker, drug, score)
            comment = f"seen by Dr {rng.integers(10**6)}"
            lines.append(";".join(map(str, (*cells, "yes" if died else "no", comment))))
            day += int(rng.integers(1, 15))
            if died:
                break
    return "\n".join(lines)


def email(customers=150, seed=0) -> str:
    """Categories and gaps; the offer's probability stands in a column of its own name, and nothing says who is done."""
    rng = np.random.default_rng(seed)
    rows = []
    for customer in range(customers):
        segment = str(rng.choice(["student", "family", "business", "retired"]))
        region = [None, "north", "south", f"village {rng.integers(50)}"][int(rng.choice(4, p=[0.1, 0.5, 0.35, 0.05]))]
        for mail in range(int(rng.integers(2, 6))):
            device = [None, "phone", "desktop"][int(rng.integers(3))]
            opened = None if mail == 0 else int(rng.integers(1, 30))
            chances = np.array([0.5, 0.3, 0.2]) if segment == "student" else np.array([0.2, 0.3, 0.5])
            offer = int(rng.choice(3, p=chances))
            bought = rng.random() < (0.3 if (segment == "student") == (offer == 1) else 0.1)
            rows.append(
                {
                    "customer_id": 10_000 + customer,
                    "sent_at": f"2024-0{1 + mail}-{int(rng.integers(10, 28))}T09:00:00",
                    "segment": segment,
                    "region": region,
                    "device": device,
                    "days_since_open": opened,
                    "subscribed": bool(rng.random() < 0.7),
                    "offer": ("none", "discount", "bundle")[offer],
                    "p_offer": chances[offer],
                    "revenue": round(float(bought * rng.gamma(2, 10)), 2),
                    "clicked": bool(bought or rng.random() < 0.1),
                }
            )
    return pl.DataFrame(rows).write_csv()


def inventory(products=100, weeks=6, seed=0) -> str:
    """An export of a warehouse: order quantities are the actions, nothing is said of probabilities or ends."""
    rng = np.random.default_rng(seed)
    rows = []
    for product in range(products):
        stock, supplier = float(rng.integers(0, 60)), str(rng.choice(["Acme", "Bolt & Co", "Cogs, Inc."]))
        for week in range(1, weeks + 1):
            order = int(rng.choice([0, 20, 40], p=[0.6, 0.3, 0.1] if stock > 30 else [0.2, 0.4, 0.4]))
            demand = float(rng.poisson(20))
            sold = min(stock + order, demand)
            rows.append(
                {
                    "SKU": f"{product:05}",
                    "Week": week,
                    "Stock": None if rng.random() < 0.05 else stock,
                    "Supplier": supplier,
                    "Promotion": bool(rng.random() < 0.2),
                    "Order": order,
                    "Profit": round(3 * sold - 0.1 * (stock + order) - 0.5 * order, 2),
                }
            )
            stock = stock + order - sold
    return pl.DataFrame(rows).write_csv()


# the flags that each needs, at most two
LOGS = {
    "clinic": (clinic, ["--propensity", "estimate"]),
    "email": (email, ["--ends", "truncated"]),
    "inventory": (inventory, ["--propensity", "estimate", "--ends", "truncated"]),
}


def _comma(number) -> str:
    return f"{number:.2f}".replace(".", ",")


def _day(day) -> str:
    year, month, date = str(day).split("-")
    return f"{date}.{month}.{year}"
